"""Anthropic messages as Claude Code writes them: stream-json output and session transcripts.

One line is one event. Content blocks of one API message come as lines of their own with the same
message id: together they are one step. Events of sub-agents are steps of the agent "sub-agent".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..trajectory import Trajectory
from .dialects import messages, text_of
from .records import carry, finish, pick, table
from .source import Row, Source
from .turns import Turns

NAME = "claude-code"
SESSIONS = ("session_id", "sessionId")
EVENTS = {"assistant", "user"}


@dataclass(slots=True)
class _Session:
    row: Row
    turns: Turns
    seen: set[str] = field(default_factory=set)
    model: str = ""
    termination: str = ""
    meta: dict[str, Any] = field(default_factory=dict)


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that these are Claude Code events, and why."""
    rows = [r for r in source.samples() if isinstance(r, dict)]
    events = [
        r for r in rows if str(r.get("type")) in EVENTS and isinstance(r.get("message"), dict)
    ]
    named = [r for r in rows if pick(r, SESSIONS, source.report)]
    if events and named:
        return 0.95, "events with a session id, type and Anthropic message"
    if events:
        return 0.75, "events with type and message"
    if any(r.get("type") == "system" and r.get("subtype") == "init" for r in rows):
        return 0.7, "a session's init event"
    return 0.0, "no events of a session"


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a session."""
    report = source.report
    sessions: dict[str, _Session] = {}
    for row in source.rows():
        report.met()
        if not isinstance(row.value, dict):
            report.drop(row.place, "no event: not an object")
            continue
        name = pick(row.value, SESSIONS, report)
        if not name and len(sessions) == 1:  # an event that lost its session id
            name = next(iter(sessions))
        if name not in sessions:
            sessions[name] = _Session(row, Turns(report))
        event(row, sessions[name], source)
    for name, s in sessions.items():
        if len(s.turns) or s.turns.prompt:
            if not s.turns.prompt:
                s.turns.warn(s.row.place, "the log holds no prompt; the task is known by session")
            yield finish(
                source,
                s.row,
                s.turns,
                NAME,
                id=name,
                termination=s.termination,
                model=s.model,
                meta=s.meta,
            )


def event(row: Row, session: _Session, source: Source) -> None:
    """Place one event in its session."""
    report = source.report
    raw = row.value
    kind = text_of(raw.get("type"), report)
    uuid = pick(raw, ("uuid",), report)
    if uuid and uuid in session.seen:
        report.drop(row.place, "the same event a second time")
        return
    session.seen.add(uuid)
    body = raw.get("message")
    if kind in EVENTS and isinstance(body, dict | str):
        body = {"role": kind, "content": body} if isinstance(body, str) else {"role": kind, **body}
        side = bool(raw.get("parent_tool_use_id") or raw.get("isSidechain"))
        turn = text_of(body.get("id") or raw.get("requestId"), report)
        session.model = session.model or text_of(body.get("model"), report)
        for m in messages(body, row.place, report):
            m.turn = turn if m.role == "assistant" else ""
            m.name = "sub-agent" if side and m.role == "assistant" else m.name
            session.turns.add(m)
        return
    subtype = f"/{raw['subtype']}" if isinstance(raw.get("subtype"), str) else ""
    if kind == "result":
        result(raw, session, row, source)
        return
    if kind == "system" and raw.get("subtype") == "init":
        settings(raw, session, row, source)
        return
    report.drop(row.place, f"event of type {kind!s:.40}{subtype:.40}")
    if table(raw, "message"):
        report.warn(row.place, "an event of unknown type holds a message that is left out")


def result(raw: dict[str, Any], session: _Session, row: Row, source: Source) -> None:
    """Keep how a session ended; it is the program's end, no verdict of a world."""
    report = source.report
    session.termination = "error" if raw.get("is_error") else ""
    if raw.get("subtype") == "success" and not raw.get("is_error"):
        session.termination = "finished"
    elif raw.get("subtype") == "error_max_turns":
        session.termination = "turn_limit"
    skip = ("type", "uuid", "session_id", "result", "modelUsage")
    session.meta["result"] = carry(raw, skip, report)
    report.drop(row.place, "event result: the session's end, kept in meta")


def settings(raw: dict[str, Any], session: _Session, row: Row, source: Source) -> None:
    """Keep a session's settings."""
    report = source.report
    session.model = session.model or text_of(raw.get("model"), report)
    kept = ("cwd", "tools", "permissionMode", "claude_code_version")
    session.meta["init"] = carry({k: raw.get(k) for k in kept}, (), report)
    report.drop(row.place, "event system/init: the session's settings, kept in meta")
