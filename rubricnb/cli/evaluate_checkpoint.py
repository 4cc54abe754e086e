"""A checkpoint's rollouts in the same file and table as an endpoint's. Torch; imported late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..files import encode
from ..policy.rollout import ROWS
from ..train.checkpoints import open_checkpoint
from ..worlds.base import World, WorldTask
from ..worlds.rollouts import Outcome, Plan, read_part, seed_of, stamped


def run_checkpoint(
    path: str,
    world: World,
    split: str,
    tasks: Sequence[WorldTask],
    runs: int,
    output: Path,
    temperature: float | None,
    about: Mapping[str, Any],
    progress: Callable[[Plan], Callable],
    rows: int = 8,
) -> Outcome:
    """Run what the output has not yet of a policy's rollouts; same seeds as ``train.evaluate``.

    Args:
        path: see ``train.checkpoints``.
        rows: rollouts side by side of a chat model; each part is kept as soon as it is done.
    Raises:
        ConfigError: for a checkpoint that cannot be opened, or not be run in this world.
    """
    policy = open_checkpoint(path, world)
    heat = 1.0 if temperature is None else temperature
    settings = {**policy.settings, "temperature": heat, **about}
    plan = Plan(world.name, split, tuple(tasks), runs, str(path), settings)
    done = {(t.task.id, t.meta["run"]) for t in read_part(output, plan)}
    todo = [w for w in plan.wanted() if (w[0].id, w[1]) not in done]
    outcome, tell = Outcome(found=len(done)), progress(plan)
    wide = ROWS if policy.tiny else rows
    with open(output, "ab") as f:
        for start in range(0, len(todo), wide):
            part = todo[start : start + wide]
            seeds = [seed_of(task, run) for task, run in part]
            ids = [f"{task.id}/{plan.identity[:6]}-{run}" for task, run in part]
            made = policy.play(world, split, [t for t, _ in part], seeds, ids, heat)
            for (task, run), sampled in zip(part, made, strict=True):
                t = sampled.trajectory
                if t.outcome is None:  # the engine failed: no result, and run anew next time
                    outcome.failed.append(f"{task.id}: {'; '.join(t.warnings) or 'no verdict'}")
                    continue
                meta = {**t.meta, "world": world.name, "checks": sampled.checks}
                whole = stamped(replace(t, meta=meta), plan, run)
                f.write(encode(whole).encode() + b"\n")
                outcome.made += 1
                tell(whole)
            f.flush()
    return outcome
