"""Trace spans as steps: what the Agents SDK export and OpenTelemetry have in common.

A span that stands for a model call or a turn begins a step; tool spans under it, or after it in
time, are its calls with their results. (Where model spans hold the messages themselves, these are
read instead.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..trajectory import ToolCall
from .report import Report
from .turns import Message, Turns


@dataclass(slots=True)
class Span:
    """One span: ``role`` is "turn", "model", "tool" or what else it is, as "other".

    ``sent`` and ``said`` are the raw messages of a model call, [] where it holds none.
    """

    id: str
    parent: str
    start: str
    role: str
    name: str
    place: str
    arguments: str = "{}"
    call_id: str = ""
    result: str | None = None
    agent: str = ""
    why: str = ""
    sent: list[Any] = field(default_factory=list)
    said: list[Any] = field(default_factory=list)


def assemble(spans: Iterable[Span], report: Report) -> Turns:
    """Return the turns of one trace whose spans hold tool calls but no messages.

    Turn spans carry the steps where there are any; else model spans; else each tool span is a
    step of its own. Every span has been met.
    """
    turns = Turns(report)
    ordered = sorted(spans, key=lambda s: s.start)
    kinds = {s.role for s in ordered}
    opener = "turn" if "turn" in kinds else "model" if "model" in kinds else "tool"
    steps: list[tuple[Span, list[Span]]] = []
    own: dict[str, int] = {}
    for s in ordered:
        if s.role == opener:
            own[s.id] = len(steps)
            steps.append((s, [s] if opener == "tool" else []))
    for s in ordered:
        if s.role == "tool" and opener != "tool":
            index = own.get(s.parent)
            if index is None:
                before = [i for i, (o, _) in enumerate(steps) if o.start <= s.start]
                index = before[-1] if before else 0
            steps[index][1].append(s)
        elif s.role != opener:
            report.drop(s.place, s.why or f"span {s.name:.40}: it holds no message")
    for opening, tools in steps:
        _step(turns, opening, tools, report)
    return turns


def _step(turns: Turns, opening: Span, tools: list[Span], report: Report) -> None:
    calls = tuple(ToolCall(t.name, t.arguments, t.call_id or t.id) for t in tools)
    turns.add(Message("assistant", calls=calls, name=opening.agent, place=opening.place))
    for t in tools:
        if t is opening:
            report.met()  # a tool span that is a step of its own is a turn and a result
        if t.result is None:
            turns.warn(t.place, "a tool span without a result")
        turns.add(Message("tool", t.result or "", call_id=t.call_id or t.id, place=t.place))
