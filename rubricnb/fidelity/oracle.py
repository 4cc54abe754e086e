"""The true advantage of every step of a rollout, by roll-ins from the saved states.

    A*[j] = V(state after step j) - V(state before step j)

V is the mean success of the current policy from that state on, over fresh luck of the world and of
the policy. After the last step V is the episode's own outcome, without error. A step's A* holds the
luck of its own answer, too: a change that is acknowledged and lost has a low A*.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, RunError
from ..files import content_hash, to_json, trajectory_from_json
from ..policy.decode import Decoder
from ..policy.rollins import roll_in, states, step_gradients
from ..policy.rollout import Limits, Sampled, roll
from ..policy.warmup import open_policy
from ..seeds import child_seed
from ..trajectory import Trajectory
from ..worlds.base import World, WorldTask
from ..worlds.desk import OrdersDesk
from .sizes import Size

SKETCH = 2048  # buckets of a step's gradient: cosines to about 0.02


@dataclass(frozen=True, eq=False)
class Valued:
    """A rollout with what its states are worth.

    Args:
        trajectory: M steps.
        seed: the world's and the policy's seed of the rollout.
        success_JK: (M, K) success, 0 or 1, of K roll-ins from before each step.
        gradient_JD: (M, D) sketch of each step's policy gradient.
    """

    trajectory: Trajectory
    seed: int
    success_JK: NDArray[np.float64]
    gradient_JD: NDArray[np.float32]

    def values(self, half: int | None = None) -> NDArray[np.float64]:
        """(M + 1,) V before each step and at the end; from one half of the roll-ins if asked."""
        rows = self.success_JK if half is None else self.success_JK[:, half::2]
        return np.append(rows.mean(axis=1), float(self.trajectory.outcome or 0.0))

    def advantages(self, half: int | None = None) -> NDArray[np.float64]:
        """(M,) A* of each step."""
        return np.diff(self.values(half))

    def errors(self) -> NDArray[np.float64]:
        """(M,) standard error of A*, from the paired roll-ins; 1 / K where all agree is the least.

        Roll-in k has the same seed at every state, so the K differences are independent.
        """
        end = np.full((1, self.success_JK.shape[1]), float(self.trajectory.outcome or 0.0))
        gain = np.diff(np.concatenate([self.success_JK, end]), axis=0)
        K = gain.shape[1]
        return np.maximum(gain.std(axis=1, ddof=1) / np.sqrt(K), 1.0 / K)


def value(
    model: Any,
    words: Any,
    world: World,
    tasks: Sequence[WorldTask],
    seeds: Sequence[int],
    made: Sequence[Sampled],
    *,
    samples: int,
    seed: int = 0,
    limits: Limits | None = None,
    sketch: int = SKETCH,
) -> list[Valued]:
    """Return rollouts with the worth of each of their states, all roll-ins in one batched decode.

    Law: A* of a rollout sums to its outcome minus V of its start.

    Args:
        model: the policy that made the rollouts.
        words: its vocabulary.
        world: their world.
        tasks, seeds, made: B rollouts and what they were rolled with.
        samples: roll-ins a state (K).
        seed: of the roll-ins; rollout and number name each roll-in's luck.
        limits: as the rollouts had.
        sketch: buckets of a gradient; 0 for none.
    """
    decoder = Decoder(model)
    where, luck, counts = [], [], []
    for task, own, s in zip(tasks, seeds, made, strict=True):
        found = states(s, world, task, own)
        counts.append(len(found))
        names = [child_seed(seed, "roll-in", s.trajectory.id, k) for k in range(samples)]
        for state in found:
            where += [state] * samples
            luck += names
    success = roll_in(decoder, words, world, where, luck, limits=limits)
    rows = np.split(success.reshape(-1, samples), np.cumsum(counts)[:-1])
    return [
        Valued(
            s.trajectory,
            own,
            r,
            step_gradients(model, s, size=sketch) if sketch else np.zeros((len(r), 0), np.float32),
        )
        for s, own, r in zip(made, seeds, rows, strict=True)
    ]


def chosen(size: Size, pool: str) -> list[WorldTask]:
    """Return the size's tasks of a pool, spread evenly over it."""
    every = OrdersDesk().tasks(pool)
    if size.tasks > len(every):
        raise ConfigError(f"want at most {len(every)} tasks of {pool}; got {size.tasks}")
    return [every[i * len(every) // size.tasks] for i in range(size.tasks)]


def cells(size: Size) -> Iterator[tuple[str, int, int, list[WorldTask]]]:
    """Yield pool, seed, number and tasks of every part of the work, in order."""
    for seed in size.seeds:
        for pool in size.pools:
            tasks = chosen(size, pool)
            for number, start in enumerate(range(0, len(tasks), size.chunk)):
                yield pool, seed, number, tasks[start : start + size.chunk]


def make_oracle(
    size: Size,
    folder: str | os.PathLike[str],
    *,
    seeds: Sequence[int] | None = None,
    say: Callable[[str], None] = print,
) -> list[Valued]:
    """Return the valued rollouts of a size; parts that are in the folder are not made again.

    Every part is written whole or not at all, so a kill costs the part under way at most, and
    seeds can be given to several processes.

    Args:
        size: the size.
        folder: where the parts are kept, ``<pool>/seed<k>/<number>.json.gz``.
        seeds: some of the size's seeds; None for all.
        say: told about each part that is made.
    Raises:
        RunError: a part in the folder was made with other settings.
    """
    opened: list[Any] = []
    out: list[Valued] = []
    todo = [c for c in cells(size) if seeds is None or c[1] in seeds]
    for done, (pool, seed, number, tasks) in enumerate(todo, start=1):
        path = Path(folder) / pool / f"seed{seed}" / f"{number:03d}.json.gz"
        told = {
            "policy": size.policy,
            "tasks": [t.id for t in tasks],
            "group_size": size.group_size,
            "samples": size.samples,
            "seed": seed,
            "sketch": SKETCH,
        }
        if not path.exists():
            if not opened:
                opened += open_policy(size.policy)
            save(path, told, _part(size, seed, tasks, *opened))
            say(f"oracle: part {done} of {len(todo)} ({pool}, seed {seed})")
        out += load(path, told)
    return out


def _part(size: Size, seed: int, tasks: list[WorldTask], model: Any, words: Any) -> list[Valued]:
    world = OrdersDesk()
    each = [t for t in tasks for _ in range(size.group_size)]
    names = [f"{t.id}/{seed}.{i % size.group_size}" for i, t in enumerate(each)]
    seeds = [child_seed(seed, "fidelity", name) for name in names]
    made = roll(model, words, world, each, seeds, ids=names, model=size.policy)
    return value(model, words, world, each, seeds, made, samples=size.samples, seed=seed)


def save(path: Path, told: dict[str, Any], rows: Sequence[Valued]) -> None:
    """Write a part whole or not at all; equal parts are equal bytes."""
    value = {
        "told": told,
        "rows": [
            {
                "trajectory": to_json(v.trajectory),
                "seed": v.seed,
                "success": v.success_JK.astype(int).tolist(),
                "gradient": base64.b64encode(v.gradient_JD.astype("<f4").tobytes()).decode(),
            }
            for v in rows
        ],
    }
    value["hash"] = content_hash(value["rows"])
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as raw, gzip.GzipFile("", "wb", 1, fileobj=raw, mtime=0) as f:
        f.write(json.dumps(value).encode())
    os.replace(part, path)


def load(path: Path, told: dict[str, Any]) -> list[Valued]:
    """Return the rollouts of a part.

    Raises:
        RunError: made with other settings, or damaged.
    """
    try:
        value = json.loads(gzip.decompress(path.read_bytes()))
        rows, before, mark = value["rows"], value["told"], value["hash"]
    except (OSError, EOFError, ValueError, KeyError) as e:
        raise RunError(f"{path}: want a part of the oracle; got {e!r} (remove the file)") from e
    if before != told:
        differ = [k for k in told if before.get(k) != told[k]]
        raise RunError(
            f"{path}: want a part made with these settings; got another {', '.join(differ)} "
            "(choose another folder, or remove this one)"
        )
    if content_hash(rows) != mark:
        raise RunError(f"{path}: want the part as it was written; got another (remove the file)")
    return [
        Valued(
            trajectory_from_json(r["trajectory"]),
            r["seed"],
            np.array(r["success"], dtype=float),
            np.frombuffer(base64.b64decode(r["gradient"]), "<f4").reshape(len(r["success"]), -1),
        )
        for r in rows
    ]
