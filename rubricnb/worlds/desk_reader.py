"""What a careful reader of a desk transcript can know: from the shown text, never from a state.

Input is the prompt's text and the steps as a judge's messages show them; nothing here can reach a
world, a task's spec or an episode.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

from ..judge.shown import ShownStep
from .desk_events import Event, events
from .desk_task import THING_KINDS, Asked, Goal, read_task, task_name


@dataclass(slots=True)
class Record:
    """What the transcript shows about one goal.

    ``status`` is "none", "acked", "confirmed", "lost", "other" (another value was written),
    "blocked" (the desk refused), "twice" (a note stands there twice).
    """

    target: str = ""
    known_at: int = 0
    status: str = "none"
    tried: list[int] = field(default_factory=list)
    acked: list[int] = field(default_factory=list)
    other: list[int] = field(default_factory=list)
    timeouts: list[int] = field(default_factory=list)
    since: list[int] = field(default_factory=list)  # looks after the last acknowledgement
    redone: list[tuple[int, int]] = field(default_factory=list)  # (seen missing, tried again or 0)
    confirmed: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    touched: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)


class Transcript:
    """A rollout read against its task: who is who, what was changed, what was read back."""

    def __init__(self, asked: Asked, steps: tuple[ShownStep, ...]) -> None:
        self.asked = asked
        self.lex = asked.lexicon
        self.last = steps[-1].number if steps else 0
        self.numbers = [s.number for s in steps]
        self.events = list(events(steps, self.lex))
        self.at = {e.step: e for e in reversed(self.events)}  # step -> its first call
        told = task_name(asked) + "\n".join(
            f"{e.step} {e.role} {e.said} {e.answer}" for e in self.events
        )
        self.digest = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
        self.names: dict[str, tuple[str, str]] = {}  # person id -> (name, city)
        self.owner: dict[str, str] = {}  # thing id -> person id
        self.rows: dict[str, list[tuple[str, str, str]]] = {}  # person id -> (item, day, id)
        self.bill_of: dict[str, str] = {}  # bill id -> thing id
        self.seen_at: dict[str, int] = {}  # identifier -> first step that shows it
        for e in self.events:
            self._learn(e)
        self.claim, self.claim_at = self._closing()
        self.records = [self._record(g) for g in asked.goals]
        self._blame()

    def _learn(self, e: Event) -> None:
        if e.error or e.answer in ("none", "ok", "end", ""):
            return
        rows = [r.split() for r in e.answer.split(" ; ")]
        if e.role in ("find", "person"):
            for r in rows:
                if len(r) >= 3:
                    self.names[r[2]] = (r[0], r[1])
                    self.seen_at.setdefault(r[2], e.step)
        elif e.role == "list":
            kept = [(r[0], r[1], r[2]) for r in rows if len(r) == 3]
            self.rows[e.args["person_id"]] = kept
            for _, _, key in kept:
                self.owner[key] = e.args["person_id"]
                self.seen_at.setdefault(key, e.step)
        elif e.role == "bill" and len(rows[0]) == 3:
            self.bill_of[rows[0][1]] = e.args["thing_id"]
            self.seen_at.setdefault(rows[0][1], e.step)

    def _closing(self) -> tuple[str, int]:
        for e in reversed(self.events):
            if e.role == "finish" and e.answer == "end":
                return e.args["outcome"], e.step
        return "", self.last

    def person_id(self, who: tuple[str, str]) -> str:
        """The identifier that the transcript shows for this person, "" where it shows none."""
        return next((k for k, v in self.names.items() if v == who), "")

    def _day(self, day: str) -> int:
        return int(day[1:]) if day[1:].isdigit() else -1

    def _target(self, goal: Goal) -> str:
        person = self.person_id(goal.who)
        if goal.kind not in THING_KINDS or not person:
            return person
        rows = self.rows.get(person, [])
        if goal.ref == "latest":
            return max(rows, key=lambda r: self._day(r[1]))[2] if rows else ""
        return next((key for item, _, key in rows if item == goal.ref), "")

    def record_of(self, e: Event) -> str:
        """The record that a call is about: a thing, for bills the thing they belong to, or a
        person."""
        if "bill_id" in e.args:
            return self.bill_of.get(e.args["bill_id"], "?")
        return e.args.get("thing_id") or e.args.get("person_id") or ""

    def holder(self, e: Event) -> str:
        """The person whose record a call is about, "" where the transcript does not show it."""
        record = self.record_of(e)
        return self.owner.get(record, record if record in self.names else "")

    @staticmethod
    def value_of(e: Event) -> str:
        """The new value that a change writes."""
        return e.args.get("to") or e.args.get("street") or e.args.get("word") or ""

    def _shows(self, goal: Goal, e: Event) -> bool | None:
        """Whether a read shows the goal's value; None where it does not show that cell."""
        words = e.answer.split()
        if goal.kind in ("cancel", "move") and e.role == "thing":
            want = self.lex.closed if goal.kind == "cancel" else goal.value
            at = 3 if goal.kind == "cancel" else 5
            return len(words) > at and words[at] == want
        if goal.kind == "refund" and e.role == "bill":
            return words[-1:] == [self.lex.refunded]
        if goal.kind == "address" and e.role == "person":
            return words[-1:] == [goal.value]
        if goal.kind == "note" and e.role == "notes":
            return goal.value in words
        return None

    def _record(self, goal: Goal) -> Record:
        r = Record(self._target(goal))
        r.known_at = self.seen_at.get(r.target, 0)
        if not r.target:
            return r
        for e in self.events:
            if e.role in ("", "find", "list", "finish") or self.record_of(e) != r.target:
                continue
            r.touched.append(e.step)
            if e.change and e.role == goal.kind:
                self._note_change(goal, r, e)
            elif not e.change and not e.error:
                self._note_read(goal, r, e)
        return r

    def _note_change(self, goal: Goal, r: Record, e: Event) -> None:
        r.tried.append(e.step)
        if r.redone and not r.redone[-1][1]:
            r.redone[-1] = (r.redone[-1][0], e.step)
        right = self.value_of(e) == goal.value
        if e.error == "timeout":
            r.timeouts.append(e.step)
        elif e.error == self.lex.stuck:
            r.refused.append(e.step)
            r.status = "blocked"
        elif e.answer == "ok" and right:
            r.acked.append(e.step)
            r.since = []
            r.status = "acked"
        elif e.answer == "ok":
            r.other.append(e.step)
            r.status = "other"

    def _note_read(self, goal: Goal, r: Record, e: Event) -> None:
        shows = self._shows(goal, e)
        if (
            goal.kind == "cancel"
            and e.role == "thing"
            and e.answer.split()[3:4] == [self.lex.stuck]
        ):
            r.refused.append(e.step)
            r.status = "blocked"
        if shows is None:
            return
        r.since.append(e.step)
        if not shows:
            if r.status in ("acked", "confirmed"):
                r.status = "lost"
                r.missing.append(e.step)
                r.redone.append((e.step, 0))
            return
        if r.acked:
            r.confirmed.append(e.step)
            twice = goal.kind == "note" and e.answer.split().count(goal.value) > 1
            r.status = "twice" if twice else "confirmed"

    def _blame(self) -> None:
        """Give every change on a record that nobody asked for to the goal that it stood in for."""
        rights = {(g.kind, r.target) for g, r in zip(self.asked.goals, self.records, strict=True)}
        for e in self.events:
            if not e.change or (e.role, self.record_of(e)) in rights:
                continue
            for g, r in zip(self.asked.goals, self.records, strict=True):
                value = self.value_of(e)
                if g.kind == e.role and value in ("", g.value) and not r.tried:
                    r.wrong.append(e.step)

    def after(self, step: int) -> int:
        """The step that follows, or the last one."""
        return next((n for n in self.numbers if n > step), self.last)


@lru_cache(maxsize=4096)
def read_transcript(prompt: str, steps: tuple[ShownStep, ...]) -> Transcript | None:
    """The transcript read against its task; None where the prompt is not one of a desk."""
    asked = read_task(prompt)
    return None if asked is None else Transcript(asked, steps)
