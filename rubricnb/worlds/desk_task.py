"""What a desk's prompt asks for, parsed from its text in either language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from .lexicon import LEXICONS, Lexicon

_WHO = re.compile(r"(\w+) of (\w+) : (.*?) \.(?= \w+ of |$)")
_WHO_CHAT = re.compile(r"For (\w+) from (\w+): (.*?)\.(?= For |$)")
_GOAL = re.compile(r"(?P<verb>\w+)(?: the (?P<ref>\w+) (?P<thing>\w+))?(?: to (?P<value>\w+))?")
_GOAL_CHAT = re.compile(
    r"(?P<verb>\w+)(?: the \w+ of)? the (?P<ref>\w+) (?P<thing>\w+)"
    r"(?: to (?P<value>\w+))?(?: \(.*\))?"
    r"|change the (?P<address>address) to (?P<street>\w+)"
    r"|add the (?P<note>note) '(?P<word>\w+)'"
)
THING_KINDS = ("cancel", "move", "refund")


@dataclass(frozen=True, slots=True)
class Goal:
    """One thing asked for: kind, the thing's item or "latest", the new value, for whom."""

    kind: str
    ref: str
    value: str
    who: tuple[str, str]
    words: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A parsed task: the desk's words, its goals in order, its people in order."""

    lexicon: Lexicon
    goals: tuple[Goal, ...]
    people: tuple[tuple[str, str], ...]


@lru_cache(maxsize=4096)
def read_task(prompt: str) -> Asked | None:
    """The goals that a prompt states, in compact words or in sentences; None where foreign."""
    chat = prompt.startswith("For ")
    goals, people, desk = [], [], "orders"
    for name, city, rest in (_WHO_CHAT if chat else _WHO).findall(prompt):
        who = (name.lower(), city.lower())
        people.append(who)
        for part in re.split(r"\s*;\s*", rest):
            m = (_GOAL_CHAT if chat else _GOAL).fullmatch(part.strip())
            if m is None:
                return None
            g = m.groupdict()
            verb = g.get("address") or g.get("note") or g["verb"]
            value = g.get("street") or g.get("word") or g["value"] or ""
            desk = next((d for d, lex in LEXICONS.items() if verb in lex.roles), "")
            if not desk:
                return None
            kind, ref = LEXICONS[desk].roles[verb], g["ref"] or ""
            thing = f" the {ref} {LEXICONS[desk].thing}" if ref else ""
            words = f"{verb}{thing}" + (f" to {value}" if value else "")
            goals.append(Goal(kind, ref, value, who, words))
    return Asked(LEXICONS[desk], tuple(goals), tuple(people)) if goals else None


@lru_cache(maxsize=4096)
def task_name(asked: Asked) -> str:
    """One text per task, the same in both languages: what noise is a function of."""
    return repr((asked.lexicon.name, asked.people, asked.goals))
