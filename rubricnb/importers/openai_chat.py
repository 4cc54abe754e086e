"""OpenAI chat messages: JSON lines (or one JSON file) of conversations with tool calls.

A record is ``{"messages": [...]}`` with whatever else, a bare list of messages, a logged request
with its response, or ``{"conversations": [{"from", "value"}]}``. Records that are single messages
form one conversation for each ``conversation_id`` (or one for the whole file).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..trajectory import Trajectory
from .dialects import is_message, messages
from .records import MODELS, TASK_IDS, carry, converse, find_outcome, finish, pick, rows_of, table
from .report import Report
from .source import Row, Source
from .turns import Turns

NAME = "openai-chat"
LISTS = ("messages", "conversations", "conversation", "dialog", "turns", "chat", "history",
         "contents")  # fmt: skip
SESSIONS = ("conversation_id", "session_id", "trajectory_id", "thread_id", "chat_id")


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that this is chat messages, and why."""
    rows = source.samples()
    if rows and all(messages_of(r)[1] for r in rows):
        key = messages_of(rows[0])[0] or "a list"
        return 0.6, f"every record holds chat messages ({key})"
    if rows and all(is_message(r) for r in rows):
        return 0.6, "every record is one chat message"
    share = sum(bool(messages_of(r)[1] or is_message(r)) for r in rows) / max(len(rows), 1)
    # Logs mix conversations with other records; these are then named one by one in the report.
    sure = 0.3 + 0.2 * share if share >= 0.1 else 0.0
    return sure, f"{share:.0%} of the records hold chat messages"


def messages_of(raw: Any) -> tuple[str, list[Any]]:
    """Return the key and the list of messages of a record; ("", []) if there is none."""
    if isinstance(raw, list):
        return "", raw if any(is_message(m) for m in raw) else []
    if not isinstance(raw, dict):
        return "", []
    for key in LISTS:
        found = raw.get(key)
        if isinstance(found, list) and any(is_message(m) for m in found):
            system = raw.get("system")
            lead = [{"role": "system", "content": system}] if system and key != "history" else []
            return key, [*lead, *found, *replies(raw)]
    for key in ("request", "body", "input", "inputs", "data"):
        inner = raw.get(key)
        if isinstance(inner, dict) and (found := messages_of(inner)[1]):
            return key, [*found, *replies(raw)]
    return "", []


def replies(raw: Mapping[str, Any]) -> list[Any]:
    """Return the message of a logged completion, if the record holds one."""
    for key in ("response", "output", "outputs", "completion"):
        inner = raw.get(key)
        inner = inner.get("body", inner) if isinstance(inner, dict) else None
        if not isinstance(inner, dict):
            continue
        choices = inner.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            return [choices[0].get("message")]
        if is_message(inner):
            return [inner]
    return []


def alternatives(raw: Mapping[str, Any]) -> int:
    """Return how many choices of a logged completion stand beside the first."""
    for key in ("response", "output", "outputs", "completion"):
        inner = table(raw, key, "body") or table(raw, key)
        if choices := rows_of(inner, "choices"):
            return len(choices) - 1
    return 0


def model_of(raw: Mapping[str, Any], report: Report) -> str:
    """Return the model that a record names, itself or in its request or response."""
    inner = (table(raw, *keys) for keys in (("response",), ("response", "body"), ("request",),
             ("body",)))  # fmt: skip
    return next((m for r in (raw, *inner) if (m := pick(r, MODELS, report))), "")


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a record; single messages are gathered by conversation."""
    report = source.report
    loose: dict[str, tuple[Row, Turns]] = {}
    for row in source.rows():
        if is_message(row.value):
            report.met()
            session = pick(row.value, SESSIONS, report)
            _, turns = loose.setdefault(session, (row, Turns(report)))
            for m in messages(row.value, row.place, report):
                turns.add(m)
            continue
        key, found = messages_of(row.value)
        if found:
            yield conversation(row, key, found, source)
        else:
            report.damaged(row.place, "a record without chat messages")
    for session, (row, turns) in loose.items():
        yield finish(source, row, turns, NAME, id=session)


def ending(raw: Mapping[str, Any]) -> str:
    """Return how a conversation ended, as far as its record says."""
    choices = rows_of(table(raw, "response"), "choices") or [raw]
    last = choices[0] if isinstance(choices[0], dict) else {}
    reason = str(last.get("finish_reason") or raw.get("finish_reason") or "")
    return {"length": "length", "max_tokens": "length", "stop": "finished"}.get(reason, "")


def conversation(row: Row, key: str, found: list[Any], source: Source) -> Trajectory:
    """Return one record as a trajectory."""
    report = source.report
    raw = row.value if isinstance(row.value, dict) else {}
    turns, _ = converse(found, row, key, report)
    if others := alternatives(raw):
        report.met(others)
        report.drop(row.place, "a further choice of the same completion; the first is read", others)
    return finish(
        source,
        row,
        turns,
        NAME,
        id=pick(raw, ("trajectory_id", "id", "uid", "uuid"), report),
        task_id=pick(raw, TASK_IDS, report),
        outcome=find_outcome(raw, turns, row.place),
        task_meta=carry({"tools": raw.get("tools")}, (), report),
        termination=pick(raw, ("termination",), report) or ending(raw),
        model=model_of(raw, report),
        labels=carry(raw.get("labels"), (), report),
        meta=carry(
            raw, {"system", *LISTS, *TASK_IDS, *MODELS, "labels", "id", "tools", key}, report
        ),
    )
