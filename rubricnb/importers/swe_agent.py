"""SWE-agent ``.traj`` files: ``history`` (the messages) and ``trajectory`` (the same turns again).

The messages are read where they are there; a file that keeps ``trajectory`` alone gives steps from
its responses and observations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..trajectory import ToolCall, Trajectory
from .dialects import messages, text_of
from .records import carry, finish, outcome_of, pick, rows_of, table
from .source import Row, Source
from .text import flatten
from .turns import Message, Turns

NAME = "swe-agent"
INSTANCE = re.compile(r"[A-Za-z0-9.-]+__[\w.-]+-\d+")


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that this is a SWE-agent trajectory, and why."""
    rows = [r for r in source.samples() if isinstance(r, dict)]
    named = source.path.suffix == ".traj"
    for r in rows:
        turns = rows_of(r, "trajectory")
        if any(isinstance(t, dict) and "action" in t and "observation" in t for t in turns):
            return 0.95, "a trajectory of actions and observations"
        entries = rows_of(r, "history")
        if any(isinstance(h, dict) and ("message_type" in h or "agent" in h) for h in entries):
            return 0.8, "a history of typed messages"
        if named and (turns or entries):
            return 0.7, "a .traj file with a trajectory or history"
    return 0.0, "no trajectory of actions"


def read(source: Source) -> Iterator[Trajectory]:
    """Yield the trajectory of a file (or one for each record)."""
    for row in source.rows():
        raw = row.value
        if not rows_of(raw, "history") and not rows_of(raw, "trajectory"):
            source.report.damaged(row.place, "a record without history or trajectory")
            continue
        yield run(row, raw, source)


def run(row: Row, raw: dict[str, Any], source: Source) -> Trajectory:
    """Return one run as a trajectory."""
    report = source.report
    turns = talk(row, raw, source)
    if row.cut is not None:
        turns.warn("", f"the file is cut at line {row.cut.line}")
    info = table(raw, "info")
    status = pick(info, ("exit_status",), report)
    return finish(
        source,
        row,
        turns,
        NAME,
        id=source.path.name.split(".traj")[0],
        task_id=instance(raw, source),
        outcome=outcome_of(info.get("resolved", raw.get("resolved"))),
        termination=termination(status),
        model=pick(table(raw, "replay_config", "agent", "model"), ("name",), report),
        meta=carry({**info, **raw}, ("history", "trajectory", "info", "replay_config"), report),
    )


def talk(row: Row, raw: dict[str, Any], source: Source) -> Turns:
    """Read the history; where it lacks turns, the trajectory beside it."""
    report = source.report
    turns = Turns(report)
    entries = rows_of(raw, "history")
    acted = [t for t in rows_of(raw, "trajectory") if isinstance(t, dict)]
    turns_at = [
        i
        for i, h in enumerate(entries)
        if isinstance(h, dict) and h.get("role") == "assistant" and not h.get("is_demo")
    ]
    # A history that was cut or windowed holds fewer turns than the trajectory beside it.
    from_history = len(turns_at) >= len(acted)
    before = turns_at[0] if turns_at else len(entries)
    for index, entry in enumerate(entries):
        report.met()
        place = row.at(index, "history")
        demo = isinstance(entry, dict) and entry.get("is_demo")
        if row.is_cut("history", index):
            report.drop(place, "the file is cut in this message")
        elif demo and entry.get("role") != "user":
            report.drop(place, "a demonstration, not a turn of this run")
        elif from_history or index < before:
            history(entry, place, turns, source)
        else:
            report.drop(place, "the trajectory beside it holds this turn")
    if not from_history:
        for index, entry in enumerate(acted):
            action(entry, row.at(index, "trajectory"), turns, source)
    elif acted:
        report.fields["trajectory (the same turns as history)"] += 1
    return turns


def history(entry: Any, place: str, turns: Turns, source: Source) -> None:
    """Place one message of the history."""
    for m in messages(entry, place, source.report):
        ids = rows_of(entry, "tool_call_ids")
        if m.role == "tool" and not m.call_id and ids:
            m.call_id = text_of(ids[0], source.report)
        agent = pick(entry, ("agent",), source.report)
        if m.role == "assistant" and agent not in ("", "main", "primary"):
            m.name = agent
        turns.add(m)


def action(entry: dict[str, Any], place: str, turns: Turns, source: Source) -> None:
    """Place one turn of the trajectory: the response, the action and what it gave."""
    report = source.report
    report.met()
    response, thinking = flatten(entry.get("response") or entry.get("thought"), report)
    command = text_of(entry.get("action"), report)
    calls = (ToolCall("command", command),) if command and command not in response else ()
    turns.add(Message("assistant", response, thinking, calls, place=place))
    if entry.get("observation") is not None:
        report.met()
        text = flatten(entry["observation"], report)[0]
        turns.add(Message("environment", text, place=place))


def instance(raw: dict[str, Any], source: Source) -> str:
    """Return the instance that a run works on, "" where the file does not say."""
    named = pick(raw, ("instance_id",), source.report)
    problem = table(raw, "replay_config", "problem_statement")
    named = named or pick(problem, ("instance_id",), source.report)
    match = INSTANCE.search(source.path.name.split(".traj")[0])
    return named or (match[0] if match else "")


def termination(status: str) -> str:
    """Return our word for an exit status, the status itself where there is none."""
    low = status.lower()
    if "error" in low or "exception" in low or "timeout" in low:
        return "error"
    if "context" in low:
        return "length"
    if "cost" in low or "limit" in low:
        return "turn_limit"
    return "finished" if low in ("submitted", "early_exit", "skipped") else status
