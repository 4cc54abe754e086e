"""Trajectories that are in our own JSON lines already: to redact a file, or to check it."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import FormatError
from ..files import VERSION, decode
from ..trajectory import Trajectory
from .source import Source
from .text import as_json

NAME = "rubricnb"


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that these are our own lines, and why."""
    rows = [r for r in source.samples() if isinstance(r, dict)]
    if any(r.get("rubricnb") == VERSION and r.get("kind") == "trajectory" for r in rows):
        return 0.99, "our own trajectories"
    return 0.0, "no line of our own"


def read(source: Source) -> Iterator[Trajectory]:
    """Yield the trajectories as they are; lines of other kinds are dropped."""
    report = source.report
    for row in source.lines():
        try:
            value = decode(as_json(row.value), row.place)
        except FormatError as e:
            report.damaged(row.place, str(e).removeprefix(f"{row.place}: "))
            continue
        if not isinstance(value, Trajectory):
            report.damaged(row.place, "a line of our own that is no trajectory")
            continue
        observations = sum(len(s.observations) for s in value.steps)
        task = bool(value.task.system) + bool(value.task.prompt)
        for where, n in (("task", task), ("step", len(value)), ("observation", observations)):
            report.met(n)
            if n:
                report.place(where, n)
        yield value
