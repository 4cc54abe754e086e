"""Logs in: one file a format, one function to read any of them.

>>> from rubricnb.importers import FORMATS
>>> "tau-bench" in FORMATS
True
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from types import ModuleType

from ..errors import FormatError
from ..trajectory import Trajectory
from . import (
    agent_process_bench,
    agents_sdk,
    appworld,
    atif,
    claude_code,
    folders,
    inspect_ai,
    langsmith,
    mini_swe_agent,
    openai_chat,
    openhands,
    otel_genai,
    own,
    responses,
    swe_agent,
    tau2,
    tau_bench,
    verifiers,
    who_and_when,
)
from .redact import Redactor
from .report import Report
from .source import Source

FORMATS: dict[str, ModuleType] = {
    m.NAME: m
    for m in (
        openai_chat,
        responses,
        agents_sdk,
        claude_code,
        tau_bench,
        tau2,
        appworld,
        swe_agent,
        mini_swe_agent,
        inspect_ai,
        atif,
        verifiers,
        langsmith,
        openhands,
        who_and_when,
        agent_process_bench,
        otel_genai,
        own,
    )
}
SURE = 0.3

__all__ = ["FORMATS", "Reading", "Redactor", "Report", "detect", "read"]


class Reading(Iterator[Trajectory]):
    """An import under way: an iterator of trajectories with the ``report`` that it fills."""

    def __init__(self, source: Source, trajectories: Iterator[Trajectory]) -> None:
        self.report = source.report
        self._source = source
        self._trajectories = _shallow(source, trajectories)

    def __next__(self) -> Trajectory:
        for trajectory in self._trajectories:
            if trajectory.steps or trajectory.task.prompt or trajectory.task.system:
                self.report.trajectories += 1
                return trajectory
            place = f"line {trajectory.source.get('line', 1)}"
            self.report.damaged(place, "a record without a single message")
        self._finish()
        raise StopIteration

    def _finish(self) -> None:
        """Refuse a log of which nothing could be used, with the first reason."""
        report = self.report
        if report.trajectories:
            return
        reason, dropped = next(iter(report.dropped.items()), ("an empty file", None))
        where = dropped.places[0] if dropped and dropped.places else "line 1"
        raise FormatError(
            f"{self._source.path}, {where}: want at least one trajectory in format "
            f"{report.format}; got {reason}"
        )


def _shallow(source: Source, trajectories: Iterator[Trajectory]) -> Iterator[Trajectory]:
    try:
        yield from trajectories
    except RecursionError as e:
        raise FormatError(
            f"{source.path}, after {source.report.records} records: want values nested at most a "
            "few hundred levels deep; got a deeper one"
        ) from e


def detect(path: str | os.PathLike[str]) -> list[tuple[str, float, str]]:
    """Return (format, confidence in [0, 1], why), the most likely format first.

    Raises:
        FormatError: where nothing can be read at the path.
    """
    return _guess(Source(path))


def _guess(source: Source) -> list[tuple[str, float, str]]:
    found = {name: module.looks(source) for name, module in FORMATS.items()}
    if source.kind == "dir":
        inside = folders.looks(source, lambda s: _guess(s)[0])
        found = {name: max(f, inside.get(name, f)) for name, f in found.items()}
    return sorted(((n, c, why) for n, (c, why) in found.items()), key=lambda f: -f[1])


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    redact: bool = False,
    patterns: Iterable[str] = (),
) -> Reading:
    """Return an iterator of the trajectories of a log, with its ``report``.

    Args:
        path: a file, or a folder of files in one format, or the folder of an experiment.
        format: one of ``FORMATS``; None recognises it.
        redact: replace e-mail addresses, keys and phone numbers everywhere, and count them.
        patterns: regular expressions of what else to replace.

    Raises:
        FormatError: with file, line and reason, for an unknown format, a log of which nothing can
            be used (raised while iterating), or a file that is not there.
        ConfigError: for a pattern that is no regular expression.
    """
    source = Source(path)
    if format is None:
        name, confidence, why = _guess(source)[0]
        if confidence < SURE:
            raise FormatError(
                f"{path}, line 1: want one of the formats {', '.join(FORMATS)}; got {source.said()}"
                f", which looks like none of them (--format names one if it is)"
            )
    else:
        if format not in FORMATS:
            raise FormatError(f"want a format among {', '.join(FORMATS)}; got {format!r}")
        name, confidence, why = format, 1.0, "as told"
    report = source.report
    report.path, report.format, report.confidence, report.why = str(path), name, confidence, why
    module = FORMATS[name]
    whole = getattr(module, "holds_folder", None)
    by_file = source.kind == "dir" and not (whole is not None and whole(source))
    trajectories = folders.read(source, module) if by_file else module.read(source)
    patterns = list(patterns)
    if redact or patterns:
        redactor = Redactor(patterns, report.redacted, kinds=redact)
        trajectories = redactor.all(trajectories)
        report.scrub = Redactor(patterns, kinds=redact).text  # with counts of its own
    return Reading(source, trajectories)
