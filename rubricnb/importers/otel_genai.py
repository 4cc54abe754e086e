"""OpenTelemetry spans with ``gen_ai.*`` attributes, as JSON lines of spans or as OTLP JSON.

Content is optional there. Messages are read where spans hold them (``gen_ai.output.messages`` or
numbered ``gen_ai.completion.N`` attributes); else tool spans give calls and results without text;
a trace with neither is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..trajectory import Trajectory
from .agents_sdk import conversation
from .dialects import as_arguments, first, text_of
from .pull import BrokenJSON, decode
from .records import carry, finish, pick, rows_of, table
from .report import Report
from .source import Row, Source
from .spans import Span, assemble

NAME = "otel-genai"
NUMBERED = re.compile(r"(?:gen_ai|llm)\.(?P<side>prompt|completion|input_messages|output_messages)"
                      r"\.(?P<index>\d{1,4})\.(?:message\.)?(?P<field>.+)")  # fmt: skip
TOOLS = {"execute_tool", "tool"}
MODELS = {"chat", "text_completion", "generate_content", "llm"}


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that these are spans with gen_ai attributes, and why."""
    found = [s for r in source.samples() for s in spans_of(r)]
    if any(k.startswith("gen_ai.") for s in found for k in attributes(s)):
        return 0.95, "spans with gen_ai attributes"
    if any(k.startswith(("llm.", "openinference.")) for s in found for k in attributes(s)):
        return 0.8, "spans with llm attributes"
    return 0.0, "no spans with gen_ai attributes"


def spans_of(raw: Any) -> list[dict[str, Any]]:
    """Return the spans of a record: itself, or those of an OTLP batch."""
    if not isinstance(raw, dict):
        return []
    if any("attributes" in s for s in rows_of(raw, "spans") if isinstance(s, dict)):
        return [s for s in rows_of(raw, "spans") if isinstance(s, dict)]
    if "resourceSpans" not in raw and "resource_spans" not in raw:
        return [raw] if "attributes" in raw else []
    out = []
    for resource in first(raw, "resourceSpans", "resource_spans") or []:
        for scope in rows_of(resource, "scopeSpans") or rows_of(resource, "scope_spans"):
            out += [s for s in rows_of(scope, "spans") if isinstance(s, dict)]
    return out


def attributes(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a span's attributes as a plain object, from either form."""
    found = raw.get("attributes")
    if isinstance(found, dict):
        return {str(k): v for k, v in found.items()}
    out = {}
    for pair in found if isinstance(found, list) else []:
        value = pair.get("value") if isinstance(pair, dict) else None
        if isinstance(value, dict) and value:
            value = next(iter(value.values()))
        if isinstance(pair, dict) and isinstance(pair.get("key"), str):
            out[pair["key"]] = value
    return out


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a trace."""
    report = source.report
    traces: dict[str, tuple[Row, list[Span], dict[str, Any]]] = {}
    for row in source.rows():
        found = spans_of(row.value)
        if not found:
            report.damaged(row.place, "no span with attributes")
        for raw in found:
            report.met()
            name = pick(raw, ("traceId", "trace_id"), report) or pick(
                table(raw, "context"), ("trace_id",), report
            )
            _, spans, meta = traces.setdefault(name, (row, [], {}))
            own = attributes(raw)
            spans.append(span(raw, own, row.place, report))
            for key in ("gen_ai.request.model", "gen_ai.response.model", "gen_ai.conversation.id"):
                if key in own:
                    meta[key] = text_of(own[key], report)
    for name, (row, spans, meta) in traces.items():
        if (found := trace(name, row, spans, meta, source)) is not None:
            yield found


def trace(
    name: str, row: Row, spans: list[Span], meta: dict[str, Any], source: Source
) -> Trajectory | None:
    """Return one trace as a trajectory, None (and drops) where no span holds anything."""
    report = source.report
    if any(s.said for s in spans):
        turns = conversation(spans, report)
    elif any(s.role == "tool" for s in spans):
        turns = assemble(spans, report)
        turns.warn(row.place, "spans without message content: steps have calls and results only")
    else:
        why = "spans without message content or tool calls (content capture was off)"
        for s in spans:
            report.drop(s.place, why)
        return None
    model = meta.get("gen_ai.response.model") or meta.get("gen_ai.request.model", "")
    return finish(source, row, turns, NAME, id=name, model=model, meta=carry(meta, (), report))


def span(raw: dict[str, Any], own: dict[str, Any], place: str, report: Report) -> Span:
    """Return one raw span."""
    kind = text_of(first(own, "gen_ai.operation.name", "openinference.span.kind"), report).lower()
    role = "tool" if kind in TOOLS else "model" if kind in MODELS else "other"
    error = pick(table(raw, "status"), ("description", "message"), report) or None
    result = first(own, "gen_ai.tool.call.result", "gen_ai.tool.message", "output.value")
    named = first(own, "gen_ai.tool.name", "tool.name") if role == "tool" else None
    name = text_of(named if named is not None else raw.get("name"), report)
    sent, said = [], []
    if role != "tool":
        sent = [
            *system_of(own.get("gen_ai.system_instructions")),
            *listed(own.get("gen_ai.input.messages")),
            *numbered(own, ("prompt", "input_messages")),
        ]
        said = [
            *listed(own.get("gen_ai.output.messages")),
            *numbered(own, ("completion", "output_messages")),
        ]
        events_sent, events_said = events_of(raw)
        sent, said = sent or events_sent, said or events_said
    return Span(
        id=pick(raw, ("spanId", "span_id"), report)
        or pick(table(raw, "context"), ("span_id",), report),
        parent=pick(raw, ("parentSpanId", "parent_span_id", "parent_id"), report),
        start=pick(raw, ("startTimeUnixNano", "start_time", "startTime"), report),
        role=role,
        name=name,
        place=place,
        arguments=as_arguments(first(own, "gen_ai.tool.call.arguments", "input.value"), report),
        result=error if result is None else text_of(result, report),
        call_id=text_of(own.get("gen_ai.tool.call.id"), report),
        agent=text_of(own.get("gen_ai.agent.name"), report),
        why=f"span of operation {kind or 'unknown':.40}: it holds no message",
        sent=sent,
        said=said,
    )


def listed(value: Any) -> list[Any]:
    """Return messages that an attribute holds, as JSON text or as they are."""
    if isinstance(value, str):
        try:
            value = decode(value)
        except BrokenJSON:
            return [{"role": "assistant", "content": value}] if value.strip() else []
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def system_of(value: Any) -> list[Any]:
    """Return system instructions as a message, [] where there are none."""
    parts = listed(value)
    return [{"role": "system", "parts": parts}] if parts else []


def numbered(own: dict[str, Any], sides: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the messages of attributes such as ``gen_ai.prompt.0.content``."""
    out: dict[int, dict[str, Any]] = {}
    for key, value in own.items():
        if (m := NUMBERED.fullmatch(key)) is None or m["side"] not in sides:
            continue
        message = out.setdefault(int(m["index"]), {"role": "assistant", "content": None})
        field = m["field"].replace("tool_call.", "").replace("function.", "")
        if (call := re.fullmatch(r"tool_calls\.(\d{1,3})\.(\w+)", field)) is not None:
            calls = message.setdefault("calls by index", {})
            calls.setdefault(int(call[1]), {})[call[2]] = value
        else:
            message[field] = value
    for message in out.values():
        if calls := message.pop("calls by index", None):
            message["tool_calls"] = [calls[i] for i in sorted(calls)]
    return [out[i] for i in sorted(out)]


def events_of(raw: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return (sent, said) of a span's events such as ``gen_ai.user.message``, ``gen_ai.choice``."""
    sent, said = [], []
    for event in rows_of(raw, "events"):
        name = event.get("name") if isinstance(event, dict) else None
        m = re.fullmatch(r"gen_ai\.(system|user|assistant|tool)\.message|gen_ai\.choice", str(name))
        if m is None:
            continue
        own = attributes(event)
        body = {**own, **table(event, "body")}
        inner = listed(body.get("message"))
        body = {**body, **(inner[0] if inner and isinstance(inner[0], dict) else {})}
        for key in ("content", "tool_calls"):
            if isinstance(body.get(key), str) and body[key][:1] == "[":
                body[key] = listed(body[key])
        (sent if m[1] else said).append({"content": None, **body, "role": m[1] or "assistant"})
    return sent, said
