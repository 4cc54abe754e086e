"""The calls of a desk rollout and their answers, from the steps as a judge's messages show them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..judge.shown import ShownBlock, ShownStep
from .lexicon import ARGUMENTS, CHANGES, LEXICONS, Lexicon
from .schemas import kinds_of


@dataclass(frozen=True, slots=True)
class Event:
    """One call as shown: its step, role ("" where not understood), arguments by kind, answer."""

    step: int
    role: str
    args: Mapping[str, str]
    answer: str
    said: str = ""

    @property
    def quote(self) -> str:
        """A short quotation, word for word: the answer, or the call where that says little."""
        return self.said if self.answer in ("ok", "end", "") else self.answer

    @property
    def change(self) -> bool:
        """Whether the call would change a record."""
        return self.role in CHANGES

    @property
    def error(self) -> str:
        """The error's word, "" without one."""
        return self.answer[6:] if self.answer.startswith("error ") else ""

    @property
    def signature(self) -> tuple[str, ...]:
        """What makes two calls the same."""
        return (self.role, *self.args.values())


@lru_cache(maxsize=128)
def _names(desk: str, role: str) -> tuple[tuple[str, str], ...]:
    return tuple(kinds_of(LEXICONS[desk], role).items())


def _event(lex: Lexicon, step: ShownStep, call: ShownBlock, answer: str) -> Event:
    role, arguments = lex.roles.get(call.name, ""), call.text
    args: dict[str, str] = {}
    if role:
        try:
            given = json.loads(arguments)
            args = {kind: str(given[name]) for name, kind in _names(lex.name, role)}
        except (ValueError, KeyError, TypeError):
            words = arguments.split()
            kinds = ARGUMENTS[role]
            role = role if len(words) == len(kinds) else ""
            args = dict(zip(kinds, words, strict=False)) if role else {}
    return Event(step.number, role, args, answer, arguments)


def events(steps: Iterable[ShownStep], lex: Lexicon) -> Iterator[Event]:
    """Every call in order, with its answer."""
    for step in steps:
        observed = step.observations
        for i, call in enumerate(step.calls, start=1):
            mine = [b for b in observed if b.number == i] or observed[i - 1 : i]
            yield _event(lex, step, call, mine[0].text if mine else "")
