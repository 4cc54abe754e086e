"""Evaluate a policy on the splits of the bundled worlds, as rows of eval.jsonl."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..policy.decode import Decoder
from ..policy.rollout import roll
from ..policy.tokens import Words
from ..seeds import child_seed
from ..worlds.base import WorldTask
from ..worlds.desk import DESKS, LibraryDesk, OrdersDesk

SPLITS = {
    "test_normal": OrdersDesk,
    "test_challenge": OrdersDesk,
    "transfer": LibraryDesk,
    "dev": OrdersDesk,
    "dev_challenge": OrdersDesk,
    "long_dev": OrdersDesk,
    "long_test": OrdersDesk,
    "study_test": OrdersDesk,
    "study_long_test": OrdersDesk,
}
TESTS = ("test_normal", "test_challenge", "transfer")


def tasks_of(split: str, scenarios: int | None = None) -> list[WorldTask]:
    """The tasks of a split, or of as many of its scenarios, spread evenly over it.

    Spread, because a split lists its easy scenarios first.
    """
    tasks = SPLITS[split]().tasks(split)
    names = list(dict.fromkeys(t.scenario for t in tasks))
    if scenarios is None or scenarios >= len(names):
        return list(tasks)
    kept = {names[i * len(names) // scenarios] for i in range(scenarios)}
    return [t for t in tasks if t.scenario in kept]


def evaluate(
    policy: torch.nn.Module,
    words: Words,
    *,
    splits: Sequence[str] = TESTS,
    runs: int = 3,
    scenarios: int | None = None,
    temperature: float = 1.0,
) -> Iterator[dict[str, Any]]:
    """Yield one row per split, task and run.

    The luck of run r on a task is the same for every policy, so that arms are compared paired.

    Args:
        policy: the model; a peft model counts with its adapter.
        words: its vocabulary.
        splits: names of ``SPLITS``.
        runs: rollouts a task.
        scenarios: only so many scenarios of each split; None for all.
        temperature: of sampling.
    """
    decoder = Decoder(policy)
    for split in splits:
        tasks = [t for t in tasks_of(split, scenarios) for _ in range(runs)]
        seeds = [child_seed(0, "evaluation", t.id, i % runs) for i, t in enumerate(tasks)]
        world = DESKS[tasks[0].spec["desk"]]()
        made = roll(decoder, words, world, tasks, seeds, temperature=temperature)
        for i, (task, sampled) in enumerate(zip(tasks, made, strict=True)):
            t = sampled.trajectory
            yield {
                "split": split,
                "scenario": task.scenario,
                "task_id": task.id,
                "difficulty": task.difficulty,
                "run": i % runs,
                "success": bool(t.outcome),
                "turns": len(t),
                "termination": t.termination,
                "tokens": sum(s.tokens or 0 for s in t.steps),
                "checks": sampled.checks,
            }
