"""A tiny policy's rollouts in the same file and table as an endpoint's. Torch; imported late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..files import encode
from ..policy.decode import Decoder
from ..policy.rollout import ROWS, roll
from ..policy.warmup import open_policy, policy_folder
from ..worlds.base import World, WorldTask
from ..worlds.desk import Desk
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
) -> Outcome:
    """Run what the output has not yet of a policy's rollouts; same seeds as ``train.evaluate``.

    Raises:
        ConfigError: for another world than a bundled desk, whose language a tiny policy speaks.
    """
    if not isinstance(world, Desk):
        raise ConfigError(f"want the world orders or library for a tiny policy; got {world.name}")
    folder = policy_folder(path)
    policy, words = open_policy(folder)
    heat = 1.0 if temperature is None else temperature
    settings = {"weights": _weights(folder), "temperature": heat, **about}
    plan = Plan(world.name, split, tuple(tasks), runs, str(path), settings)
    done = {(t.task.id, t.meta["run"]) for t in read_part(output, plan)}
    todo = [w for w in plan.wanted() if (w[0].id, w[1]) not in done]
    outcome, tell, decoder = Outcome(found=len(done)), progress(plan), Decoder(policy)
    with open(output, "ab") as f:
        for start in range(0, len(todo), ROWS):
            part = todo[start : start + ROWS]
            seeds = [seed_of(task, run) for task, run in part]
            ids = [f"{task.id}/{plan.identity[:6]}-{run}" for task, run in part]
            made = roll(
                decoder, words, world, [t for t, _ in part], seeds, ids=ids, temperature=heat
            )
            for (_, run), sampled in zip(part, made, strict=True):
                t = sampled.trajectory
                meta = {**t.meta, "world": world.name, "checks": sampled.checks}
                whole = stamped(replace(t, meta=meta), plan, run)
                f.write(encode(whole).encode() + b"\n")
                outcome.made += 1
                tell(whole)
            f.flush()
    return outcome


def _weights(folder: Path) -> str:
    """Hash of the weights: a folder that was trained further is another model."""
    import hashlib

    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
