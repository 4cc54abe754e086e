"""Many rollouts of an agent in a world, side by side, into a file that can be gone on with.

The file is JSON lines of finished rollouts; several models may share one. A rollout is named by
what was run (``settings``), its task and its number; one that is in the file is not run again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import CallError, ConfigError, FormatError, WorldError
from ..files import content_hash, decode, encode
from ..seeds import child_seed
from ..trajectory import Trajectory
from .base import World, WorldTask

Run = Callable[[WorldTask, str, int], Trajectory]  # task, id, seed -> rollout


@dataclass(frozen=True, slots=True)
class Plan:
    """Which rollouts are wanted.

    Args:
        world: the world's name.
        split: the split's name.
        tasks: its tasks, all or some.
        runs: rollouts of each, >= 1.
        model: who acts, as tables name it.
        settings: everything that the rollouts depend on (JSON values); no key, no path.
    """

    world: str
    split: str
    tasks: tuple[WorldTask, ...]
    runs: int
    model: str
    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.runs < 1 or not self.tasks:
            raise ConfigError(f"want tasks and runs >= 1; got {len(self.tasks)} and {self.runs}")

    @property
    def identity(self) -> str:
        """A hash of model, world, split and settings; a server may move to another address."""
        settings = {k: v for k, v in self.settings.items() if k != "base_url"}
        return content_hash([self.world, self.split, self.model, settings])[:16]

    def wanted(self) -> Iterator[tuple[WorldTask, int]]:
        """Yield every task and run number, run by run: a file that is cut is spread evenly."""
        for run in range(self.runs):
            for task in self.tasks:
                yield task, run


@dataclass(slots=True)
class Outcome:
    """What an evaluation did: rollouts found in the file, run now, and failed by reason."""

    found: int = 0
    made: int = 0
    failed: list[str] = field(default_factory=list)


def seed_of(task: WorldTask, run: int) -> int:
    """Return the seed of a run: the same luck for every model, so that they compare paired."""
    return child_seed(0, "evaluation", task.id, run)


def roll_out(
    plan: Plan,
    run: Run,
    path: Path,
    *,
    concurrency: int = 8,
    most_failures: int = 20,
    stop: Callable[[], None] = lambda: None,
    progress: Callable[[Trajectory], None] = lambda t: None,
) -> Outcome:
    """Run what the file has not yet of a plan, and append each rollout as it ends.

    A rollout whose call or engine failed is not a result: it is counted, left out, and run
    anew next time.

    Args:
        run: makes one rollout; called from ``concurrency`` threads.
        path: the file; made where it is not there.
        most_failures: failures after which the evaluation gives up.
        stop: called once on the way out of an error or Ctrl-C; must make ``run`` return soon.

    Raises:
        ConfigError: where the file holds the same model in the same split under other settings.
        JudgeError: where the endpoint as a whole does not answer.
        WorldError: after too many failures.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {(t.task.id, t.meta["run"]) for t in read_part(path, plan)}
    todo = [w for w in plan.wanted() if (w[0].id, w[1]) not in done]
    outcome = Outcome(found=len(done))
    lock = threading.Lock()
    with open(path, "ab") as f, ThreadPoolExecutor(concurrency) as pool:

        def one(task: WorldTask, number: int) -> None:
            id = f"{task.id}/{plan.identity[:6]}-{number}"
            made = stamped(run(task, id, seed_of(task, number)), plan, number)
            with lock:
                f.write(encode(made).encode() + b"\n")
                f.flush()
                outcome.made += 1
                progress(made)

        try:
            _drive(pool, one, todo, concurrency, outcome, most_failures)
        except BaseException:
            stop()
            raise
    return outcome


def _drive(pool, one, todo, concurrency: int, outcome: Outcome, most_failures: int) -> None:
    """Keep the pool busy without queueing everything, so that an error ends it soon."""
    waiting, flying = iter(todo), set[Future]()
    while True:
        while len(flying) < concurrency and (work := next(waiting, None)) is not None:
            flying.add(pool.submit(one, *work))
        if not flying:
            return
        ended, flying = wait(flying, return_when=FIRST_COMPLETED)
        for future in ended:
            try:
                future.result()
            except (CallError, WorldError) as e:
                outcome.failed.append(str(e))
                if len(outcome.failed) >= most_failures:
                    raise WorldError(
                        f"want at most {most_failures - 1} failed rollouts; got one more, the "
                        f"last: {e}"
                    ) from e


def stamped(made: Trajectory, plan: Plan, run: int) -> Trajectory:
    """Return the rollout with what names it in a file of many."""
    own = {
        "run": run,
        "world": plan.world,
        "split": plan.split,
        "split_tasks": len(plan.tasks),
        "identity": plan.identity,
        "settings": dict(plan.settings),
    }
    return replace(made, model=plan.model, meta={**made.meta, **own})


def read_part(path: Path, plan: Plan) -> list[Trajectory]:
    """Return what a file has of a plan; an unfinished last line is cut off the file.

    Raises:
        ConfigError: naming the setting that differs, for the same model under other settings.
    """
    out = []
    for made in read_rollouts(path, mend=True):
        same = (made.model, made.meta["world"], made.meta["split"])
        if same != (plan.model, plan.world, plan.split):
            continue
        if made.meta["identity"] != plan.identity:
            old = made.meta["settings"]
            names = sorted({*old, *plan.settings} - {"base_url"})
            name = next(n for n in names if old.get(n) != plan.settings.get(n))
            raise ConfigError(
                f"{path}: want {name} = {old.get(name)!r}, as in its rollouts of {plan.model!r} on "
                f"{plan.split}; got {plan.settings.get(name)!r} (name another output file)"
            )
        out.append(made)
    return out


def read_rollouts(path: Path, *, mend: bool = False) -> list[Trajectory]:
    """Return the rollouts of a file that ``roll_out`` wrote.

    Args:
        mend: cut an unfinished last line off the file; without it the line is left alone.

    Raises:
        FormatError: with the line, for anything else that is no such rollout.
    """
    if not path.exists():
        return []
    raw = path.read_bytes()
    whole = raw.rfind(b"\n") + 1
    if mend and whole < len(raw):
        os.truncate(path, whole)
    out = []
    for number, line in enumerate(raw[:whole].splitlines(), start=1):
        made = decode(line.decode("utf-8"), f"{path}, line {number}")
        if not isinstance(made, Trajectory) or "identity" not in made.meta:
            raise FormatError(f"{path}, line {number}: want a rollout of `rubricnb evaluate`")
        out.append(made)
    return out


def tasks_of(world: World, split: str, limit: int | None = None) -> tuple[WorldTask, ...]:
    """Return a split's tasks, or those of its first scenarios up to ``limit`` tasks, spread evenly.

    Whole scenarios are kept: half a one says nothing about scenario goal completion.
    """
    tasks: Sequence[WorldTask] = world.tasks(split)
    if limit is None or limit >= len(tasks):
        return tuple(tasks)
    names = list(dict.fromkeys(t.scenario for t in tasks))
    count = max(1, round(limit * len(names) / len(tasks)))
    kept = {names[i * len(names) // count] for i in range(count)}
    return tuple(t for t in tasks if t.scenario in kept)
