"""OpenAI chat messages: JSON lines (or one JSON file) of conversations with tool calls.

A record is ``{"messages": [...]}`` with whatever else, a bare list of messages, a logged request
with its response, or ``{"conversations": [{"from", "value"}]}``. Lines that are single messages
form one conversation for each ``conversation_id`` (or one for the whole file).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..trajectory import Trajectory
from .chat import MODELS, ROLES, TASK_IDS, carry, converse, find_outcome, first, text_of
from .ids import Ids
from .source import Row, Source

NAME = "openai-chat"
LISTS = ("messages", "conversations", "conversation", "dialog", "turns", "chat")
SESSIONS = ("conversation_id", "session_id", "trajectory_id", "thread_id", "chat_id")


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that this is chat messages, and why."""
    rows = source.samples()
    if rows and all(messages_of(r)[1] for r in rows):
        key = messages_of(rows[0])[0] or "a list"
        return 0.8, f"every record holds chat messages in {key}"
    if rows and all(is_message(r) for r in rows):
        return 0.7, "every record is one chat message"
    if any(messages_of(r)[1] for r in rows):
        return 0.5, "some records hold chat messages"
    return 0.0, "no chat messages"


def is_message(raw: Any) -> bool:
    """Whether this is one chat message: a known role and something said or called."""
    return (
        isinstance(raw, dict)
        and str(first(raw, "role", "from")).lower() in ROLES
        and any(k in raw for k in ("content", "value", "tool_calls", "function_call"))
    )


def messages_of(raw: Any) -> tuple[str, list[Any]]:
    """Return the key and the list of messages of a record; ("", []) if there is none."""
    if isinstance(raw, list):
        return "", raw if any(is_message(m) for m in raw) else []
    if not isinstance(raw, dict):
        return "", []
    for key in LISTS:
        found = raw.get(key)
        if isinstance(found, list) and any(is_message(m) for m in found):
            return key, found
    for key in ("request", "body", "input", "inputs"):
        inner = raw.get(key)
        if isinstance(inner, dict) and (found := messages_of(inner)[1]):
            return key, [*found, *replies(raw)]
    return "", []


def replies(raw: Mapping[str, Any]) -> list[Any]:
    """Return the message of a logged chat completion, if the record holds one."""
    for key in ("response", "output", "outputs", "completion"):
        inner = raw.get(key)
        inner = inner.get("body", inner) if isinstance(inner, dict) else inner
        choices = inner.get("choices") if isinstance(inner, dict) else None
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            return [choices[0].get("message")]
    return []


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a record."""
    ids = Ids()
    loose: dict[str, list[Row]] = {}
    for row in source.rows():
        if is_message(row.value):
            session = text_of(first(row.value, *SESSIONS), source.report)
            loose.setdefault(session, []).append(row)
            continue
        key, messages = messages_of(row.value)
        if not messages:
            source.report.damaged(row.place, "a record without chat messages")
            continue
        yield conversation(row, key, messages, source, ids)
    for session, rows in loose.items():
        turns, _ = converse([r.value for r in rows], _Lines(rows), "", source.report)
        task = turns.task()
        yield Trajectory(
            id=ids.new(session or source.path.stem, rows[0].line),
            task=task,
            steps=turns.agents(rows[0].place),
            source={"format": NAME, "file": source.path.name, "line": rows[0].line},
            warnings=tuple(turns.warnings),
        )


class _Lines(Row):
    """Single messages, each on a line of its own, as one record."""

    def __new__(cls, rows: list[Row]) -> Row:  # type: ignore[misc]
        lines = {("", i): r.line for i, r in enumerate(rows)}
        return Row(None, rows[0].line, rows[0].place, lines)


def conversation(row: Row, key: str, messages: list[Any], source: Source, ids: Ids) -> Trajectory:
    """Return one record as a trajectory."""
    report = source.report
    raw = row.value if isinstance(row.value, dict) else {}
    turns, _ = converse(messages, row, key, report)
    outcome = find_outcome(raw, turns, row.place)
    task_id = text_of(first(raw, *TASK_IDS), report) if raw else ""
    task = turns.task(task_id)
    labels = raw.get("labels")
    return Trajectory(
        id=ids.new(text_of(first(raw, "trajectory_id", "id", "uid", "uuid"), report), row.line),
        task=task,
        steps=turns.agents(row.place),
        outcome=outcome,
        termination=text_of(raw.get("termination"), report),
        model=text_of(first(raw, *MODELS), report),
        labels=carry(labels, (), report) if isinstance(labels, dict) else {},
        source={"format": NAME, "file": source.path.name, "line": row.line},
        warnings=tuple(turns.warnings),
        meta=carry(raw, {*LISTS, *TASK_IDS, *MODELS, "labels", "id", "tools", key}, report),
    )
