"""Logs in: one file a format, one function to read any of them.

>>> from rubricnb.importers import FORMATS
>>> "tau-bench" in FORMATS
True
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import ModuleType

from ..errors import FormatError
from ..trajectory import Trajectory
from . import openai_chat, tau_bench
from .report import Report
from .source import Source

FORMATS: dict[str, ModuleType] = {m.NAME: m for m in (openai_chat, tau_bench)}
SURE = 0.3

__all__ = ["FORMATS", "Reading", "Report", "detect", "read"]


class Reading(Iterator[Trajectory]):
    """An import under way: an iterator of trajectories with the report that it fills."""

    def __init__(self, source: Source, trajectories: Iterator[Trajectory]) -> None:
        self.report = source.report
        self._source = source
        self._trajectories = trajectories

    def __next__(self) -> Trajectory:
        trajectory = next(self._trajectories, None)
        if trajectory is None:
            self._finish()
            raise StopIteration
        self.report.trajectories += 1
        return trajectory

    def _finish(self) -> None:
        report = self.report
        if report.trajectories:
            return
        reason, dropped = next(iter(report.dropped.items()), ("an empty file", None))
        where = f", {dropped.places[0]}" if dropped and dropped.places else ""
        raise FormatError(
            f"{self._source.path}{where}: want at least one trajectory in format "
            f"{report.format}; got {reason}"
        )


def detect(path: str | os.PathLike[str]) -> list[tuple[str, float, str]]:
    """Return (format, confidence in [0, 1], why), the most likely format first.

    Raises:
        FormatError: where nothing can be read at the path.
    """
    source = Source(path)
    found = [(name, *module.looks(source)) for name, module in FORMATS.items()]
    return sorted(found, key=lambda f: -f[1])


def read(path: str | os.PathLike[str], format: str | None = None) -> Reading:
    """Return an iterator of the trajectories of a log, with its ``report``.

    Args:
        path: a file, or the folder that a format keeps its runs in.
        format: one of ``FORMATS``; None recognises it.

    Raises:
        FormatError: with file, line and reason, for an unknown format, a log of which nothing can
            be used (raised while iterating), or a file that is not there.
    """
    source = Source(path)
    if format is None:
        name, confidence, why = detect(path)[0]
        if confidence < SURE:
            raise FormatError(
                f"{path}, line 1: want one of the formats {', '.join(FORMATS)}; got a file that "
                f"looks like none of them (name one with --format if it is)"
            )
    else:
        if format not in FORMATS:
            raise FormatError(f"want a format among {', '.join(FORMATS)}; got {format!r}")
        name, confidence, why = format, 1.0, "as told"
    report = source.report
    report.path, report.format, report.confidence, report.why = str(path), name, confidence, why
    return Reading(source, FORMATS[name].read(source))
