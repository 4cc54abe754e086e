"""Messages to a task and steps: one assistant turn is one step, numbered from 1.

What stands before the first assistant turn is the task (system prompt and prompt); what comes
after a turn is its observations. Tool results are matched to calls by id, those without an id by
order, with a warning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..trajectory import EMPTY, Observation, Step, Task, ToolCall
from .report import Report

RECENT = 16  # how far back a step may lie that goes on
SYSTEM = {"system", "developer"}


@dataclass(slots=True)
class Message:
    """One message of any format, its text already cleaned.

    Args:
        role: "assistant", "system", "user", "tool" or "environment".
        call_id: of the call that a tool result answers.
        turn: messages of the assistant with the same non-empty turn are one step.
        place: where it is in the source, in words.
    """

    role: str
    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    name: str = ""
    call_id: str = ""
    turn: str = ""
    tokens: int | None = None
    place: str = ""
    meta: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(slots=True)
class _Open:
    """A step that is still being read."""

    turn: str
    agent: str
    text: list[str]
    thinking: list[str]
    calls: list[ToolCall]
    tokens: int | None
    meta: dict[str, Any]
    observations: list[Observation] = field(default_factory=list)
    answered: set[int] = field(default_factory=set)

    def close(self) -> Step:
        return Step(
            text="\n".join(t for t in self.text if t),
            calls=tuple(self.calls),
            observations=tuple(self.observations),
            thinking="\n".join(t for t in self.thinking if t),
            agent=self.agent,
            tokens=self.tokens,
            meta=self.meta or EMPTY,
        )


class Turns:
    """Collects the messages of one trajectory in order; every one is placed in the report."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.system: list[str] = []
        self.prompt: list[str] = []
        self.warnings: list[str] = []
        self._steps: list[_Open] = []

    def __len__(self) -> int:
        return len(self._steps)

    def warn(self, place: str, text: str) -> None:
        """Remember a warning on the trajectory and in the report."""
        if len(self.warnings) < 50:
            self.warnings.append(f"{text} ({place})" if place else text)
        self.report.warn(place, text)

    def add(self, message: Message) -> int:
        """Place one message and return the number of the step it belongs to, 0 for the task."""
        if message.role == "assistant":
            self._turn(message)
        elif self._steps:
            self._observe(message)
        else:
            self._before(message)
        return len(self._steps)

    def is_open(self, turn: str) -> bool:
        """Whether a step of this turn is among the latest."""
        return any(s.turn == turn for s in self._steps[-RECENT:])

    def _turn(self, m: Message) -> None:
        # Agents that run side by side write in turn: a step may go on after another's began.
        near = reversed(self._steps[-RECENT:]) if m.turn else ()
        last = next((s for s in near if s.turn == m.turn), None)
        if last is not None:
            last.text.append(m.text)
            last.thinking.append(m.thinking)
            last.calls.extend(m.calls)
            last.meta.update(m.meta)
            last.tokens = m.tokens if m.tokens is not None else last.tokens
            self.report.place("joined")
            return
        self._steps.append(
            _Open(m.turn, m.name, [m.text], [m.thinking], list(m.calls), m.tokens, dict(m.meta))
        )
        self.report.place("step")

    def _before(self, m: Message) -> None:
        self.report.place("task")
        if m.role in SYSTEM:
            self.system.append(m.text)
            return
        if m.role == "tool":
            self.warn(m.place, "a tool result before the first assistant turn is in the prompt")
        self.prompt.append(m.text)

    def _observe(self, m: Message) -> None:
        self.report.place("observation")
        role = "system" if m.role in SYSTEM else m.role
        name, call_id = m.name, m.call_id
        if role == "tool":
            name, call_id = self._pair(m)
        elif role == "system":
            self.warn(m.place, "the system prompt changes midway; the change is an observation")
        self._steps[-1].observations.append(Observation(m.text, role, name, call_id))

    def _pair(self, m: Message) -> tuple[str, str]:
        """Return the name and call id of the call that a tool result answers."""
        step = self._steps[-1]
        calls = step.calls
        if m.call_id:
            for i, call in enumerate(calls):
                if call.id == m.call_id and i not in step.answered:
                    step.answered.add(i)
                    return m.name or call.name, call.id
            for earlier in self._steps:
                for call in earlier.calls:
                    if call.id == m.call_id:
                        if earlier is not step:
                            self.warn(m.place, "a tool result came after a later assistant turn")
                        return m.name or call.name, m.call_id
            self.warn(m.place, "a tool result names a call that was not made")
            return m.name, m.call_id
        free = [i for i in range(len(calls)) if i not in step.answered]
        same = [i for i in free if m.name and calls[i].name == m.name]
        if same or (free and not (m.name and any(c.name for c in calls))):
            i = (same or free)[0]
            step.answered.add(i)
            self.warn(m.place, "a tool result without an id is paired by order")
            return m.name or calls[i].name, calls[i].id
        self.warn(m.place, "a tool result without an id answers no open call; it is kept")
        return m.name, ""

    def steps(self) -> tuple[Step, ...]:
        """The steps so far."""
        return tuple(s.close() for s in self._steps)

    def steps_checked(self, place: str = "") -> tuple[Step, ...]:
        """The steps, with a warning where there is none."""
        if not self._steps:
            self.warn(place, "no assistant turn: a trajectory without steps")
        return self.steps()

    def task(
        self,
        task_id: str = "",
        *,
        fallback: str = "",
        prompt: str = "",
        meta: Mapping[str, Any] = EMPTY,
    ) -> Task:
        """Return the task; without an id it is a hash of what the task says.

        ``prompt`` stands in where no message came before the first turn, ``fallback`` is the id of
        a task that says nothing (such tasks are not one group).
        """
        system = "\n\n".join(t for t in self.system if t)
        prompt = "\n\n".join(t for t in self.prompt if t) or prompt
        own = prompt_id(system, prompt) if system or prompt or not fallback else fallback
        return Task(task_id or own, prompt, system, meta)


def prompt_id(system: str, prompt: str) -> str:
    """Return a task id for tasks that have none: equal prompts, equal ids.

    >>> prompt_id("", "a") == prompt_id("", "a") != prompt_id("a", "")
    True
    """
    text = system + "\x1f" + prompt
    return "prompt-" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
