"""Traces of the OpenAI Agents SDK: one span a line, ``{"object": "trace.span", "span_data"}``.

The exporter leaves message text out unless spans are generations; then a step has its calls and
results but no text, and the trajectory says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..trajectory import Trajectory
from .dialects import as_arguments, text_of
from .records import carry, finish, outcome_of, pick, rows_of, table
from .report import Report
from .responses import Items
from .source import Row, Source
from .spans import Span, assemble
from .text import clean, flatten
from .turns import Turns

NAME = "openai-agents-trace"
FLEETING = {"id", "status", "finish_reason", "annotations", "logprobs", "provider_data", "index"}


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that this is a trace export of the Agents SDK, and why."""
    rows = [r for r in flat(source.samples()) if isinstance(r, dict)]
    if any(r.get("object") in ("trace.span", "trace") for r in rows):
        return 0.97, "trace and trace.span objects"
    if any(isinstance(r.get("span_data"), dict) for r in rows):
        return 0.8, "spans with span_data"
    return 0.0, "no spans with span_data"


def flat(rows: list[Any]) -> list[Any]:
    """Return spans that a batch ``{"data": [...]}`` holds beside those that stand alone."""
    return [s for r in rows for s in (rows_of(r, "data") or [r])]


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a trace."""
    report = source.report
    traces: dict[str, tuple[Row, dict[str, Any], list[tuple[str, dict[str, Any]]]]] = {}
    for row in source.rows():
        for raw in flat([row.value]):
            report.met()
            name = trace_of(raw, report)
            if name is None:
                report.drop(row.place, "no span of a trace")
                continue
            _, head, spans = traces.setdefault(name, (row, {}, []))
            if raw.get("object") == "trace":
                head.update(raw)
                report.drop(row.place, "the trace's own record, kept in meta")
            else:
                spans.append((row.place, raw))
    for name, (row, head, spans) in traces.items():
        if spans:
            yield trace(name, row, head, spans, source)


def trace_of(raw: Any, report: Report) -> str | None:
    """Return the id of the trace that a record belongs to, None for what is no record of one."""
    if not isinstance(raw, dict):
        return None
    if raw.get("object") == "trace":
        return pick(raw, ("id",), report)
    return pick(raw, ("trace_id",), report) if "span_data" in raw else None


def trace(
    name: str,
    row: Row,
    head: dict[str, Any],
    raws: list[tuple[str, dict[str, Any]]],
    source: Source,
) -> Trajectory:
    """Return one trace as a trajectory."""
    report = source.report
    spans = [span(raw, place, report) for place, raw in raws]
    if any(s.said for s in spans):
        turns = conversation(spans, report)
    else:
        turns = assemble(spans, report)
        turns.warn(row.place, "the trace holds no message text: steps have calls and results only")
    metadata = table(head, "metadata")
    return finish(
        source,
        row,
        turns,
        NAME,
        id=name,
        task_id=pick(metadata, ("task_id", "example_id"), report),
        outcome=outcome_of(metadata.get("reward", metadata.get("outcome"))),
        meta=carry(head, ("object", "id"), report),
    )


def conversation(spans: list[Span], report: Report) -> Turns:
    """Read the messages of the model calls, in order, each message once.

    A call repeats what earlier calls of its agent were sent and said, so of equal messages only as
    many are read as any one call holds.
    """
    items = Items(report)
    seen: Counter[str] = Counter()
    for talk in sorted((s for s in spans if s.said), key=lambda s: s.start):
        here: Counter[str] = Counter()
        for raw in [*talk.sent, *talk.said]:
            key = bare(raw)
            here[key] += 1
            if here[key] > seen[key]:
                seen[key] += 1
                report.met()
                items.add(raw, talk.place, talk.agent)
    for s in spans:
        repeats = s.role in ("model", "tool")
        why = "a span whose content is in the messages of the model calls"
        report.drop(s.place, why if repeats else s.why or f"span {s.name:.40}")
    return items.turns


def bare(raw: Any) -> str:
    """Return the text that equal messages share, whatever ids and states they came with."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {k: strip(v) for k, v in value.items() if k not in FLEETING}
            return {k: v for k, v in kept.items() if v not in (None, "", [], {})}
        return [strip(v) for v in value] if isinstance(value, list) else value

    return json.dumps(strip(raw), sort_keys=True, default=str)


def span(raw: dict[str, Any], place: str, report: Report) -> Span:
    """Return one raw span."""
    data = table(raw, "span_data")
    kind = text_of(data.get("type"), report)
    inner = table(data, "data")
    name = text_of(data.get("name"), report)
    role = {"function": "tool", "generation": "model", "response": "model"}.get(kind, "other")
    if kind == "custom" and inner.get("sdk_span_type") == "turn":
        role = "turn"
    elif kind == "handoff":
        role, name = "tool", "handoff"
    error = table(raw, "error")
    output = data.get("output")
    result = None
    if role == "tool":
        said = output if output is not None else data.get("to_agent")
        said = error.get("message") if said is None else said
        result = None if said is None else flatten(said, report)[0]
    arguments = data.get("input") if kind != "handoff" else {"to": data.get("to_agent")}
    return Span(
        id=pick(raw, ("id",), report),
        parent=pick(raw, ("parent_id",), report),
        start=pick(raw, ("started_at",), report),
        role=role,
        name=name,
        place=place,
        arguments=as_arguments(arguments, report) if role == "tool" else "{}",
        result=result,
        agent=text_of(inner.get("agent_name"), report),
        why=clean(f"span of type {kind}: it holds no message", report),
        sent=rows_of(data, "input") if role == "model" else [],
        said=rows_of(data, "output") if role == "model" else [],
    )
