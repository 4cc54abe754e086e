"""What tasks ask for: the combinations of each split, and templates with their traps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import WorldError

# What RL trains on; anything else is a combination that test_challenge may ask for.
TRAIN_COMBINATIONS: tuple[tuple[str, ...], ...] = (
    ("cancel",),
    ("move",),
    ("refund",),
    ("address",),
    ("cancel", "move"),
    ("cancel", "address"),
    ("move", "move"),
    ("cancel", "refund"),
    ("refund", "refund"),
    ("cancel", "cancel", "move"),
    ("cancel", "move", "refund"),
    ("address", "cancel", "refund"),
    ("move", "move", "refund", "refund"),
)
# Held out from RL. "note" and "notes" are the tools of an app that RL never uses.
CHALLENGE_COMBINATIONS: tuple[tuple[str, ...], ...] = (
    ("note",),
    ("move", "refund"),
    ("address", "move"),
    ("address", "refund"),
    ("cancel", "cancel"),
    ("cancel", "note"),
    ("move", "note"),
    ("note", "refund"),
    ("address", "note"),
    ("move", "note", "refund"),
    ("cancel", "move", "note"),
    ("cancel", "note", "refund"),
    ("address", "move", "refund"),
    ("cancel", "cancel", "refund"),
    ("address", "cancel", "move", "note"),
    ("cancel", "move", "note", "refund"),
)
LIBRARY_COMBINATIONS: tuple[tuple[str, ...], ...] = (
    ("cancel",),
    ("move",),
    ("refund",),
    ("cancel", "move"),
    ("move", "refund"),
    ("cancel", "refund"),
    ("cancel", "move", "refund"),
)
ALL_COMBINATIONS = (*TRAIN_COMBINATIONS, *CHALLENGE_COMBINATIONS)


@dataclass(frozen=True)
class Pool:
    """How the tasks of one split are made.

    Args:
        name: the split's name; together with ``seed`` it names the random stream.
        tasks: how many tasks per difficulty, easy to hard.
        combinations: what may be asked for together.
        desk: "orders" or "library".
        blocked: share of the templates with a "cancel" in which that thing is stuck.
        two_people: share of the hard templates that concern two people.
        seed: another seed is a fresh pool.
    """

    name: str
    tasks: tuple[int, int, int]
    combinations: tuple[tuple[str, ...], ...] = TRAIN_COMBINATIONS
    desk: str = "orders"
    blocked: float = 0.25
    two_people: float = 0.5
    seed: int = 0


def difficulty_of(kinds: Sequence[str]) -> int:
    """1 for one goal, 2 for two, 3 for more."""
    return min(len(kinds), 3)


def make_template(rng: random.Random, pool: Pool, difficulty: int) -> list[list[dict[str, Any]]]:
    """What one scenario asks, person by person: kind, latest or by item, stuck or not."""
    choices = [c for c in pool.combinations if difficulty_of(c) == difficulty]
    if not choices:
        raise WorldError(f"want a combination of difficulty {difficulty} in pool {pool.name!r}")
    kinds = list(rng.choice(choices))
    rng.shuffle(kinds)
    split = len(kinds)
    if difficulty == 3 and rng.random() < pool.two_people:
        split = rng.randint(1, len(kinds) - 1)
    people = [part for part in (kinds[:split], kinds[split:]) if part]
    stuck = rng.random() < pool.blocked
    template = []
    for part in people:
        latest = rng.randrange(len(part)) if rng.random() < 0.5 else -1
        goals = []
        for i, kind in enumerate(part):
            by_thing = kind in ("cancel", "move", "refund")
            goals.append(
                {
                    "kind": kind,
                    "latest": by_thing and i == latest,
                    "stuck": kind == "cancel" and stuck,
                }
            )
            stuck = stuck and kind != "cancel"
        template.append(goals)
    return template
