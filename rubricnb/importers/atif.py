"""ATIF, the Agent Trajectory Interchange Format (Harbor): one JSON object with ``steps``.

An agent step of ATIF is one step here; results of its tool calls are its observations. The outcome
lies beside the file in Harbor's folders (``result.json`` or ``reward.txt``) and is read from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..trajectory import Trajectory
from .dialects import tool_calls
from .pull import BrokenJSON, decode
from .records import carry, finish, outcome_of, pick, rows_of, table
from .source import Row, Source
from .text import flatten
from .turns import Message, Turns

NAME = "atif"
ROLES = {"agent": "assistant", "assistant": "assistant", "user": "user", "system": "system"}


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that this is an ATIF trajectory, and why."""
    for r in source.samples():
        if not isinstance(r, dict):
            continue
        if str(r.get("schema_version", "")).upper().startswith("ATIF"):
            return 0.99, "schema_version is ATIF's"
        steps = [s for s in rows_of(r, "steps") if isinstance(s, dict)]
        if any("source" in s and "message" in s for s in steps):
            return 0.85, "steps with source and message"
    return 0.0, "no steps with source and message"


def read(source: Source) -> Iterator[Trajectory]:
    """Yield the trajectory of a file (or one for each record)."""
    for row in source.rows():
        if not rows_of(row.value, "steps"):
            source.report.damaged(row.place, "a record without steps")
            continue
        yield trajectory(row, row.value, source)


def trajectory(row: Row, raw: dict[str, Any], source: Source) -> Trajectory:
    """Return one ATIF trajectory."""
    report = source.report
    turns = Turns(report)
    for index, step in enumerate(rows_of(raw, "steps")):
        place = row.at(index, "steps")
        report.met()
        if not isinstance(step, dict) or row.is_cut("steps", index):
            cut = isinstance(step, dict)
            report.drop(place, "the file is cut in this step" if cut else "no object")
            continue
        add(step, place, turns, source)
    if row.cut is not None:
        turns.warn("", f"the file is cut at line {row.cut.line}")
    agent = table(raw, "agent")
    outcome, name = beside(source)
    meta = carry(raw, ("steps", "schema_version", "agent"), report)
    meta["agent"] = carry(agent, ("tool_definitions",), report)
    return finish(
        source,
        row,
        turns,
        NAME,
        id=pick(raw, ("trajectory_id", "session_id"), report),
        task_id=pick(raw, ("task_id",), report) or name,
        outcome=outcome,
        model=pick(agent, ("model_name",), report),
        meta=meta,
    )


def add(step: dict[str, Any], place: str, turns: Turns, source: Source) -> None:
    """Place one ATIF step and its results."""
    report = source.report
    role = ROLES.get(str(step.get("source")).lower())
    results = rows_of(step, "observation", "results")
    if role is None:
        report.met(len(results))
        why = f"a step of unknown source {step.get('source')!s:.30}"
        report.drop(place, why, 1 + len(results))
        return
    text, thinking = flatten(step.get("message"), report)
    reasoned = flatten(step.get("reasoning_content"), report)
    ids = rows_of(step, "metrics", "completion_token_ids")
    turns.add(
        Message(
            role,
            text,
            "\n".join(t for t in (thinking, *reasoned) if t),
            tool_calls(step.get("tool_calls"), report) if role == "assistant" else (),
            tokens=len(ids) or None,
            place=place,
        )
    )
    for one in results:
        report.met()
        content = one.get("content") if isinstance(one, dict) else one
        said = flatten(content, report)[0]
        if not said and isinstance(one, dict) and one.get("subagent_trajectory_ref"):
            said = "[the trajectory of a sub-agent, kept in another file]"
        call_id = pick(one, ("source_call_id",), report)
        kind = "tool" if call_id else "environment"
        turns.add(Message(kind, said, call_id=call_id, place=place))


def beside(source: Source) -> tuple[float | None, str]:
    """Return (outcome, task name) from the files that Harbor keeps with a trajectory."""
    here = Source(source.path.parent)
    above = source.path.parent.parent if source.path.parent.name == "agent" else None
    for folder in [here, *([Source(above)] if above else [])]:
        outcome, name = None, ""
        if (path := folder.inner("result.json")) is not None:
            try:
                raw = decode(path.read_text("utf-8", "replace"))
            except (BrokenJSON, OSError):
                raw = {}
            rewards = table(raw, "verifier_result", "rewards")
            outcome = outcome_of(rewards.get("reward", next(iter(rewards.values()), None)))
            name = pick(raw, ("task_name",), source.report)
        for parts in (("reward.txt",), ("verifier", "reward.txt")):
            if outcome is None and (path := folder.inner(*parts)) is not None:
                outcome = outcome_of(path.read_text("utf-8", "replace")[:100].strip())
        if outcome is not None or name:
            source.report.warn("", "outcome and task name are from files beside the trajectory")
            return outcome, name
    return None, ""
