"""mini-swe-agent ``.traj.json`` files: chat messages of one run, with ``info`` or as a bare list.

There is no user after the task: every answer to a turn comes from the environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..trajectory import Trajectory
from .dialects import is_message, messages
from .records import carry, finish, outcome_of, pick, rows_of, table
from .responses import is_item
from .source import Row, Source
from .swe_agent import INSTANCE, termination
from .text import as_json
from .turns import Message, Turns

NAME = "mini-swe-agent"
MARKS = ("mswea_bash_command", "<returncode>", "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that this is a mini-swe-agent trajectory, and why."""
    head = source.head if source.kind == "json" else None
    if isinstance(head, dict):
        if str(head.get("trajectory_format", "")).startswith("mini-swe-agent"):
            return 0.97, "trajectory_format"
        if "mini_version" in table(head, "info") and rows_of(head, "messages"):
            return 0.95, "info with mini_version"
    found = head if isinstance(head, list) else rows_of(head, "messages")
    if any(is_message(m) for m in found):
        marks = [m for m in MARKS if any(m in as_json(one) for one in found)]
        named = source.path.name.endswith(".traj.json")
        if len(marks) > 1 or (marks and named):
            return 0.9, f"messages with {' and '.join(marks)}"
        if named:
            return 0.7, "messages in a .traj.json file"
    return 0.0, "no marks of mini-swe-agent"


def read(source: Source) -> Iterator[Trajectory]:
    """Yield the trajectory of a file."""
    row = source.document()
    raw = row.value
    key = "" if isinstance(raw, list) else "messages"
    found = raw if isinstance(raw, list) else rows_of(raw, "messages")
    yield run(row, key, found, raw if isinstance(raw, dict) else {}, source)


def run(row: Row, key: str, found: list[Any], raw: dict[str, Any], source: Source) -> Trajectory:
    """Return one run as a trajectory."""
    report = source.report
    turns = Turns(report)
    ending = ""
    for index, one in enumerate(found):
        place = row.at(index, key)
        report.met()
        if row.is_cut(key, index):
            report.drop(place, "the file is cut in this message")
            continue
        if isinstance(one, dict) and one.get("role") == "exit":
            ending = pick(table(one, "extra"), ("exit_status",), report)
            one = {**one, "role": "environment"}
        for m in unfold(one, place, source):
            m.role = "environment" if m.role == "user" and len(turns) else m.role
            turns.add(m)
    if row.cut is not None:
        turns.warn("", f"the file is cut at line {row.cut.line}")
    info = table(raw, "info")
    status = pick(info, ("exit_status",), report) or ending
    match = INSTANCE.search(source.path.name.split(".traj")[0])
    return finish(
        source,
        row,
        turns,
        NAME,
        id=source.path.name.split(".traj")[0],
        task_id=pick(raw, ("instance_id",), report) or (match[0] if match else ""),
        outcome=outcome_of(info.get("resolved")),
        termination=termination(status),
        model=pick(table(info, "config", "model"), ("model_name",), report),
        meta=carry({**info, **raw}, ("messages", "info", "config"), report),
    )


def unfold(raw: Any, place: str, source: Source) -> list[Message]:
    """Return the messages of one entry; a whole Responses object is one turn."""
    report = source.report
    output = rows_of(raw, "output")
    if isinstance(raw, dict) and raw.get("object") == "response" and output:
        from .responses import Items

        items = Items(report)
        quiet = type(report)()  # the entry is one message: its items are not counted apart
        items.report, items.turns = quiet, Turns(quiet)
        for item in output:
            items.add(item, place)
        step = items.turns.steps()
        text = "\n".join(s.text for s in step if s.text)
        thinking = "\n".join(s.thinking for s in step if s.thinking)
        return [Message("assistant", text, thinking, tuple(c for s in step for c in s.calls))]
    if is_item(raw) and raw["type"].endswith("_output"):
        call_id = pick(raw, ("call_id",), report)
        return [Message("tool", as_json(raw.get("output")), call_id=call_id, place=place)]
    return messages(raw, place, report)
