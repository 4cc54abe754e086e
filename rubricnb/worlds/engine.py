"""One episode at a desk: its state, its tools, its noise and its evaluation.

State lives in three small tables; every change goes through ``_change``, which is where an
acknowledged change can be lost, where a timeout strikes, and where a touched bystander is written
down for good.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import WorldError
from ..seeds import child_seed
from .base import Evaluation, StepResult, WorldTask
from .evaluation import judge_state
from .lexicon import ARGUMENTS, LEXICONS, OUTCOMES, Lexicon
from .schemas import kinds_of

# Columns of the three tables.
NAME, CITY, STREET, NOTES = range(4)  # people
OWNER, ITEM, DAY, STATE, DUE, BILL = range(6)  # things
THING, PAID = range(2)  # bills


@dataclass(frozen=True, slots=True)
class Noise:
    """How unreliable changes are.

    Args:
        timeout: chance that a change fails with an error, in [0, 1].
        lost: chance that a change is acknowledged and not made, in [0, 1].
    """

    timeout: float = 0.08
    lost: float = 0.08


@dataclass(frozen=True, slots=True)
class Turn:
    """One action and its answer: ``tool`` and ``arguments`` as understood, "" where not."""

    action: str
    tool: str
    arguments: Mapping[str, str]
    answer: str


class DeskEpisode:
    """One attempt at one desk task, in either language.

    ``turns`` is the transcript so far, ``termination`` "finished", "turn_limit" or "".
    """

    def __init__(self, task: WorldTask, seed: int, noise: Noise, max_turns: int) -> None:
        spec = task.spec
        self.task = task
        self.lexicon: Lexicon = LEXICONS[spec["desk"]]
        self.max_turns = max_turns
        self.turns: list[Turn] = []
        self.done = False
        self.claim = ""
        self.termination = ""
        self.touched: list[str] = []
        self._people = {k: list(v) for k, v in spec["people"].items()}
        self._things = {k: list(v) for k, v in spec["things"].items()}
        self._bills = {k: list(v) for k, v in spec["bills"].items()}
        self._noise = noise
        # A change is the n-th of its episode, so restoring the counter restores the noise.
        self._draws = random.Random(child_seed(seed, "desk", task.id))
        self._luck = [self._draws.random() for _ in range(max_turns)]
        self._changes = 0

    # -- the two languages -------------------------------------------------------------------

    def act(self, action: str) -> StepResult:
        """Answer one compact call such as ``cancel chair d4 o11``."""
        words = action.split()
        role = self.lexicon.roles.get(words[0]) if words else None
        kinds = ARGUMENTS[role] if role else ()
        if role is None or len(words) != len(kinds) + 1:
            return self._answer(action, "", {}, "error syntax")
        arguments = dict(zip(kinds, words[1:], strict=True))
        return self._run(" ".join(words), role, arguments)

    def call(self, name: str, arguments: Mapping[str, Any]) -> StepResult:
        """Answer one function call such as ``cancel(item="chair", placed="d4", ...)``."""
        role = self.lexicon.roles.get(name)
        names = kinds_of(self.lexicon, role) if role else {}
        missing = [n for n in names if n not in arguments]
        if role is None or missing:
            action = f"{name} {json.dumps(dict(arguments), default=str)}"
            return self._answer(action, "", {}, "error syntax")
        values = {kind: str(arguments[n]).strip().lower() for n, kind in names.items()}
        action = " ".join([name, *values.values()])
        return self._run(action, role, values)

    def _run(self, action: str, role: str, arguments: dict[str, str]) -> StepResult:
        if self.done:
            raise WorldError(f"want no action after the end of {self.task.id}; got {action!r}")
        answer = getattr(self, f"_{role}")(*arguments.values())
        return self._answer(action, self.lexicon.tools[role], arguments, answer)

    def _answer(self, action: str, tool: str, arguments: Mapping[str, str], text: str):
        if self.done:
            raise WorldError(f"want no action after the end of {self.task.id}; got {action!r}")
        self.turns.append(Turn(action, tool, arguments, text))
        if text == "end":
            self.done, self.termination = True, "finished"
        elif len(self.turns) >= self.max_turns:
            self.done, self.termination = True, "turn_limit"
        return StepResult(text, self.done)

    # -- reads -------------------------------------------------------------------------------

    def _find(self, name):
        rows = [f"{p[NAME]} {p[CITY]} {i}" for i, p in self._people.items() if p[NAME] == name]
        return " ; ".join(rows) or "none"

    def _who(self, name, city, person_id):
        person = self._people.get(person_id)
        return (
            person if person is not None and person[NAME] == name and person[CITY] == city else None
        )

    def _which(self, item, day, thing_id):
        thing = self._things.get(thing_id)
        return thing if thing is not None and thing[ITEM] == item and thing[DAY] == day else None

    def _person(self, name, city, person_id):
        p = self._who(name, city, person_id)
        if p is None:
            return "error unknown"
        where = f" {self.lexicon.tools['address']} {p[STREET]}" if p[STREET] else ""
        return f"{name} {city} {person_id}{where}"

    def _list(self, name, city, person_id):
        if self._who(name, city, person_id) is None:
            return "error unknown"
        rows = [f"{t[ITEM]} {t[DAY]} {i}" for i, t in self._things.items() if t[OWNER] == person_id]
        return " ; ".join(rows) or "none"

    def _thing(self, item, day, thing_id):
        t = self._which(item, day, thing_id)
        if t is None:
            return "error unknown"
        return f"{item} {day} {thing_id} {t[STATE]} {self.lexicon.due} {t[DUE]}"

    def _bill(self, item, day, thing_id):
        t = self._which(item, day, thing_id)
        return "error unknown" if t is None else f"{item} {t[BILL]} {self._bills[t[BILL]][PAID]}"

    def _notes(self, name, city, person_id):
        p = self._who(name, city, person_id)
        return "error unknown" if p is None else " ; ".join(p[NOTES]) or "none"

    # -- changes -----------------------------------------------------------------------------

    def _change(self, entity: str, row: list, column: int, value: Any) -> str:
        luck = self._luck[self._changes]
        self._changes += 1
        if luck < self._noise.timeout:
            return "error timeout"
        if luck < self._noise.timeout + self._noise.lost:
            return "ok"
        row[column] = value
        if entity not in self.task.spec["targets"]:
            self.touched.append(entity)
        return "ok"

    def _cancel(self, item, day, thing_id):
        t = self._which(item, day, thing_id)
        if t is None:
            return "error unknown"
        if t[STATE] != self.lexicon.open:
            return f"error {t[STATE]}"
        return self._change(thing_id, t, STATE, self.lexicon.closed)

    def _move(self, item, day, thing_id, to):
        t = self._which(item, day, thing_id)
        if t is None or to not in self.lexicon.days:
            return "error unknown"
        if t[STATE] == self.lexicon.closed:
            return f"error {t[STATE]}"
        return self._change(thing_id, t, DUE, to)

    def _refund(self, item, bill_id):
        b = self._bills.get(bill_id)
        if b is None or self._things[b[THING]][ITEM] != item:
            return "error unknown"
        if b[PAID] == self.lexicon.refunded:
            return f"error {b[PAID]}"
        return self._change(bill_id, b, PAID, self.lexicon.refunded)

    def _address(self, name, city, person_id, street):
        p = self._who(name, city, person_id)
        if p is None or street not in self.lexicon.streets:
            return "error unknown"
        return self._change(person_id, p, STREET, street)

    def _note(self, name, city, person_id, word):
        p = self._who(name, city, person_id)
        if p is None or word not in self.lexicon.words:
            return "error unknown"
        return self._change(person_id, p, NOTES, [*p[NOTES], word])

    def _finish(self, outcome):
        if outcome not in OUTCOMES:
            return "error syntax"
        self.claim = outcome
        return "end"

    # -- state and evaluation ----------------------------------------------------------------

    def state(self) -> dict[str, dict[str, list]]:
        """A copy of the three tables."""
        return {
            "people": {k: [*v[:NOTES], list(v[NOTES])] for k, v in self._people.items()},
            "things": {k: list(v) for k, v in self._things.items()},
            "bills": {k: list(v) for k, v in self._bills.items()},
        }

    def snapshot(self) -> Any:
        """Everything that changes during an episode, copied."""
        return (
            self.state(),
            list(self.turns),
            list(self.touched),
            (self.done, self.claim, self.termination, self._changes),
        )

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot of this episode; the snapshot stays usable."""
        state, turns, touched, rest = snapshot
        self._people = {k: [*v[:NOTES], list(v[NOTES])] for k, v in state["people"].items()}
        self._things = {k: list(v) for k, v in state["things"].items()}
        self._bills = {k: list(v) for k, v in state["bills"].items()}
        self.turns, self.touched = list(turns), list(touched)
        self.done, self.claim, self.termination, self._changes = rest

    def evaluate(self) -> Evaluation:
        """The world's verdict: end state, bystanders, and an honest closing claim."""
        return judge_state(
            self.task.spec, self.state(), self.touched, self.claim, self.termination == "finished"
        )
