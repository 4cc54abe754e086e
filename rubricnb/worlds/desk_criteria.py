"""Criteria between text and rule: writing them, and knowing them again.

The judge knows a criterion by its text alone: the catalogue of a task maps every wording that it
could have written to kind and index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from . import desk_findings as rules
from .desk_kinds import KINDS, ORDER
from .desk_static_set import STATIC
from .desk_task import THING_KINDS, Asked, Goal


@dataclass(frozen=True, slots=True)
class Key:
    """Which criterion: its kind, and the goal or person that it is about."""

    kind: str
    index: int = 0


def short(goal: Goal, asked: Asked) -> str:
    """A goal in a few words for titles."""
    verb = asked.lexicon.tools[goal.kind]
    return f"{verb} the {goal.ref} {asked.lexicon.thing}" if goal.ref else f"{verb} {goal.value}"


def _slots(asked: Asked, key: Key) -> dict[str, str]:
    scope = KINDS[key.kind].scope
    slots = {"thing": asked.lexicon.thing}
    if scope == "goal":
        g = asked.goals[key.index]
        slots |= {"n": str(key.index + 1), "words": g.words, "short": short(g, asked)}
        slots["who"] = " of ".join(g.who)
    elif scope == "person":
        slots["who"] = " of ".join(asked.people[key.index])
    return slots


@lru_cache(maxsize=65536)
def write(asked: Asked, key: Key, wording: int = 0) -> tuple[str, str, str]:
    """Title, description and instruction of a criterion."""
    kind = KINDS[key.kind]
    title, instruction = kind.wordings[wording]
    slots = _slots(asked, key)
    return title.format(**slots), kind.about, instruction.format(**slots)


def keys(asked: Asked, stage: str = "") -> list[Key]:
    """Every criterion that a task can have, the most important first."""
    out = []
    for name in ORDER:
        kind = KINDS[name]
        if stage in ("", kind.stage):
            if name == "right_thing":
                named = {g.who for g in asked.goals if g.kind in THING_KINDS}
                out += [Key(name, j) for j, who in enumerate(asked.people) if who in named]
            else:
                count = {"goal": len(asked.goals), "person": len(asked.people), "task": 1}
                out += [Key(name, i) for i in range(count[kind.scope])]
    return out


def normal(text: str) -> str:
    """Text without case, punctuation and extra spaces: what wordings are compared by."""
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


@lru_cache(maxsize=4096)
def catalogue(asked: Asked) -> Mapping[str, Key]:
    """Title or instruction -> the criterion that it is, for all wordings and the static set."""
    out: dict[str, Key] = {}
    for name, row in STATIC.items():
        out[normal(row.title)] = out[normal(row.instruction)] = Key(name, -1)
    for key in keys(asked):
        for wording in (0, 1):
            title, _, instruction = write(asked, key, wording)
            out[normal(title)] = out[normal(instruction)] = key
    return out


def rule_of(key: Key) -> rules.Rule:
    """How a reader decides a criterion."""
    return STATIC[key.kind].rule if key.index < 0 else KINDS[key.kind].rule
