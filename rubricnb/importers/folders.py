"""A folder of logs: every file in it that looks like a log, one after the other.

Links are not followed, and files that look like no format are named in the report.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from ..errors import FormatError
from ..trajectory import Trajectory
from .source import Source

ENDINGS = (".json", ".jsonl", ".traj", ".eval", ".ndjson", ".gz", ".txt", ".log")
FILES = 100_000
DEPTH = 6
LOOKED_AT = 12
SURE_OF_FILE = 0.5

Guess = Callable[[Source], tuple[str, float, str]]


def logs(root: Path) -> Iterator[Path]:
    """Yield the files below a folder that may be logs, in natural order."""
    count = 0
    for folder, names, files in os.walk(root, followlinks=False):
        names.sort(key=_natural)
        if len(Path(folder).relative_to(root).parts) >= DEPTH:
            names.clear()
        for name in sorted(files, key=_natural):
            path = Path(folder, name)
            if name.endswith(ENDINGS) and not path.is_symlink() and path.is_file():
                count += 1
                if count > FILES:
                    raise FormatError(f"{root}: want at most {FILES} log files; got more")
                yield path


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = "".join(c if c.isascii() and c.isdigit() else f"\0{c}\0" for c in name).split("\0")
    return [(0, int(p[:18]), "") if p.isascii() and p.isdigit() else (1, 0, p) for p in parts if p]


def looks(source: Source, guess: Guess) -> dict[str, tuple[float, str]]:
    """How sure we are of each format, from the first files of a folder."""
    found: dict[str, list[float]] = {}
    looked = 0
    for path in logs(source.path):
        name, confidence, _ = guess(Source(path))
        if confidence > 0:
            found.setdefault(name, []).append(confidence)
        looked += 1
        if looked >= LOOKED_AT:
            break
    # Other files belong to many runs' folders (metadata, results): they lower it only a little.
    return {
        name: (max(c) * (0.8 + 0.2 * len(c) / looked), f"{len(c)} of the first {looked} files")
        for name, c in found.items()
    }


def read(source: Source, module: ModuleType) -> Iterator[Trajectory]:
    """Yield the trajectories of every file of a folder that is in the module's format."""
    report = source.report
    for path in logs(source.path):
        where = str(path.relative_to(source.path))
        report.inside = where
        try:
            one = Source(path, report, source.ids)
            if module.looks(one)[0] < SURE_OF_FILE:
                report.warn("", f"a file that is not in format {module.NAME} is left out")
            else:
                yield from module.read(one)
        except FormatError as e:
            report.damaged("", str(e))
        finally:
            report.inside = ""
