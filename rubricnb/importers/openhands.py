"""OpenHands: event streams (actions and observations), evaluation outputs and SDK events.

An action of the agent is a step; several calls of one model response are one step together. An
observation belongs to the step of the action that caused it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..trajectory import Trajectory
from .dialects import first
from .openhands_events import KINDS, Stream
from .records import carry, find_outcome, finish, outcome_of, pick, rows_of, table
from .source import Row, Source

NAME = "openhands"
LISTS = ("history", "events", "trajectory", "items")
EVENT_FILE = re.compile(r"event-\d{1,9}.*\.json")


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that these are OpenHands events, and why."""
    if source.kind == "dir":
        files = event_files(source)
        return (0.95, "a folder of event files") if files else (0.0, "no event files")
    rows = source.samples()
    if any(is_event(r) for r in rows):
        return 0.93, "events with source, and an action or observation"
    if any(is_event(e) for r in rows for e in events_of(r)[1]):
        return 0.93, "records with a history of events"
    return 0.0, "no events"


def is_event(raw: Any) -> bool:
    """Whether this is an event of either generation."""
    if not isinstance(raw, dict):
        return False
    if isinstance(raw.get("kind"), str) and raw["kind"] in KINDS:
        return True
    named = isinstance(raw.get("action"), str) or isinstance(raw.get("observation"), str)
    placed = "source" in raw or "cause" in raw
    return named and placed and any(k in raw for k in ("args", "content", "message"))


def events_of(raw: Any) -> tuple[str, list[Any]]:
    """Return the key and the events of a record that holds several."""
    if isinstance(raw, list):
        # Older outputs pair each action with its observation.
        pairs = [e for p in raw for e in (p if isinstance(p, list) else [p])]
        return "", pairs if any(is_event(e) for e in pairs) else []
    for key in LISTS if isinstance(raw, dict) else ():
        found = [e for p in rows_of(raw, key) for e in (p if isinstance(p, list) else [p])]
        if any(is_event(e) for e in found):
            return key, found
    return "", []


def holds_folder(source: Source) -> bool:
    """Whether the folder is read as a whole: where each event has a file of its own."""
    return bool(event_files(source))


def event_files(source: Source) -> list[Path]:
    """Return the files of a conversation that keeps each event in one of its own, in order."""
    for folder in (source.path, source.path / "events"):
        if folder.is_dir() and not folder.is_symlink():
            found = [p for p in folder.iterdir() if EVENT_FILE.fullmatch(p.name)]
            if found:
                return sorted(p for p in found if p.is_file() and not p.is_symlink())
    return []


def read_folder(source: Source) -> Iterator[Trajectory]:
    """Yield the conversation whose events are files of one folder."""
    stream = Stream(source)
    first: Row | None = None
    for path in event_files(source):
        for row in Source(path, source.report).rows():
            first = first or Row(row.value, 1, path.name)
            source.report.met()
            stream.add(row.value, f"{path.name}, {row.place}")
    if first is not None:
        yield run(first, {}, stream, source)


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory for each record with events, one for all loose events."""
    if source.kind == "dir":
        yield from read_folder(source)
        return
    report = source.report
    loose: tuple[Row, Stream] | None = None
    for row in source.rows():
        key, events = events_of(row.value)
        if not events:
            loose = loose or (row, Stream(source))
            report.met()
            loose[1].add(row.value, row.place)
            continue
        stream = Stream(source)
        for index, raw in enumerate(events):
            report.met()
            if row.is_cut(key, index):
                report.drop(row.at(index, key), "the file is cut in this event")
                continue
            stream.add(raw, row.at(index, key))
        yield run(row, row.value if isinstance(row.value, dict) else {}, stream, source)
    if loose is not None and (len(loose[1].turns) or loose[1].turns.prompt):
        yield run(loose[0], {}, loose[1], source)


def run(row: Row, raw: dict[str, Any], stream: Stream, source: Source) -> Trajectory:
    """Return a stream of events as a trajectory."""
    report = source.report
    outcome = find_outcome(raw, stream.turns, row.place)
    tested = table(raw, "test_result")
    if outcome is None:
        outcome = outcome_of(first(tested, "resolved", "result", "passed"))
    error = bool(raw.get("error"))
    return finish(
        source,
        row,
        stream.turns,
        NAME,
        id=pick(raw, ("id",), report),
        task_id=pick(raw, ("instance_id", "task_id"), report),
        prompt=pick(raw, ("instruction",), report),
        outcome=outcome,
        termination="error" if error else stream.termination,
        model=pick(table(raw, "metadata", "llm_config"), ("model",), report) or stream.model,
        meta=carry(raw, (*LISTS, "instruction", "instance", "instance_id"), report),
    )
