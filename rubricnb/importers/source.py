"""A log on disk as records: JSON lines, the items of a JSON array, or one document, with places.

Reading is bounded: one record at a time, none larger than ``RECORD`` characters, documents that
must be read whole no larger than ``DOCUMENT``. Nothing is unpickled and no path found inside a log
is opened.
"""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, BinaryIO

from ..errors import FormatError
from .pull import BrokenJSON, Document, Pull, decode, load
from .report import Report

RECORD = 64 << 20
DOCUMENT = 512 << 20
HEAD = 1 << 18
HEAD_ROWS = 40


@dataclass(frozen=True, slots=True)
class Row:
    """One record and where it is: ``place`` names it in words, ``line`` is its first line."""

    value: Any
    line: int
    place: str
    lines: dict[tuple[str, int], int] = field(default_factory=dict)
    cut: BrokenJSON | None = None
    path: tuple[str | int, ...] = ()

    def at(self, index: int, key: str = "") -> str:
        """Name the place of one message of this record.

        >>> Row({}, 3, "line 3").at(4, "messages")
        'line 3, messages[4]'
        """
        own = self.lines.get((key, index))
        return f"{f'line {own}' if own else self.place}, {key or 'item'}[{index}]"

    def is_cut(self, key: str, index: int) -> bool:
        """Whether the file stops inside this message."""
        wanted: tuple[str | int, ...] = (key, index) if key else (index,)
        return self.cut is not None and self.path[: len(wanted)] == wanted


class Source:
    """A file or folder that is imported, and the report that its reading fills."""

    def __init__(self, path: str | os.PathLike[str], report: Report | None = None) -> None:
        self.path = Path(path)
        self.report = Report() if report is None else report
        if not self.path.exists():
            raise FormatError(f"{self.path}: want a file or folder; got nothing there")

    @cached_property
    def kind(self) -> str:
        """ "dir", "zip", "jsonl" or "json"."""
        if self.path.is_dir():
            return "dir"
        if self.head_bytes[:4] == b"PK\x03\x04":
            return "zip"
        return "jsonl" if len(self.head_lines) > 1 else "json"

    @cached_property
    def head_bytes(self) -> bytes:
        """The first bytes, decompressed."""
        with self.binary() as f:
            return f.read(HEAD)

    @cached_property
    def head_lines(self) -> list[Any]:
        """The values of the first lines that are whole objects or arrays on their own."""
        text = self.head_bytes.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
        rows = []
        for line in text.splitlines()[:HEAD_ROWS] if text[:1] in ("{", "[") else []:
            try:
                value = decode(line) if line.strip()[:1] in ("{", "[") else None
            except BrokenJSON:
                continue
            if isinstance(value, (dict, list)) and value:
                rows.append(value)
        return rows

    @cached_property
    def head(self) -> Any:
        """What the first bytes hold as one JSON value, as far as it goes; None if nothing."""
        return load(self.head_bytes.decode("utf-8", "replace")).value

    def samples(self) -> list[Any]:
        """The first records, for recognising the format."""
        if self.kind in ("dir", "zip"):
            return []
        if self.kind == "jsonl":
            return self.head_lines
        head = self.head
        return head[:HEAD_ROWS] if isinstance(head, list) else [head]

    def binary(self) -> BinaryIO:
        """Open the bytes, through gzip where they begin as gzip does."""
        try:
            f = open(self.path, "rb")  # noqa: SIM115 (the caller closes it)
            magic = f.read(2)
            f.seek(0)
        except OSError as e:
            raise FormatError(f"{self.path}: want a readable file; got {e.strerror}") from e
        return gzip.GzipFile(fileobj=f) if magic == b"\x1f\x8b" else f  # type: ignore[return-value]

    def text(self) -> IO[str]:
        """Open the text; bytes that are not UTF-8 become lone surrogates, which cleaning counts."""
        return io.TextIOWrapper(self.binary(), "utf-8", "surrogateescape", newline="\n")

    def lines(self) -> Iterator[Row]:
        """Yield the value of each line; a line that cannot be read is reported and left out."""
        with self.text() as f:
            number = 0
            while line := _read(lambda: f.readline(RECORD), self.path):
                number += 1
                if len(line) >= RECORD and not line.endswith("\n"):
                    while len(rest := f.readline(RECORD)) >= RECORD and not rest.endswith("\n"):
                        pass
                    self.report.damaged(number, f"a line of more than {RECORD} characters")
                    continue
                if not line.strip(" \t\r\n\ufeff"):
                    continue
                self.report.records += 1
                try:
                    value = decode(line)
                except BrokenJSON as e:
                    cut = "" if line.endswith("\n") else "; the last line is cut"
                    self.report.damaged(number, e.reason.split(" at column")[0] + cut)
                    continue
                yield Row(value, number, f"line {number}")

    def items(self, *keys: str) -> Iterator[Row]:
        """Yield the items of the array at the top, or of the arrays under these top-level keys."""
        with self.text() as f:
            pull = Pull(f, RECORD)
            try:
                yield from self._items(pull, keys)
            except BrokenJSON as e:
                self.report.damaged(e.line, e.reason + "; what follows is lost")
            except (OSError, EOFError) as e:
                raise FormatError(f"{self.path}: want a whole file; got {e}") from e

    def _items(self, pull: Pull, keys: tuple[str, ...]) -> Iterator[Row]:
        if pull.peek() == "[":
            for index, (line, value) in enumerate(pull.items()):
                self.report.records += 1
                yield Row(value, line, f"line {line}, item {index}")
            return
        for key in pull.members():
            if key in keys and pull.peek() == "[":
                for index, (line, value) in enumerate(pull.items()):
                    self.report.records += 1
                    yield Row(value, line, f"line {line}, {key}[{index}]")
            else:
                pull.value()

    def header(self, *skip: str) -> dict[str, Any]:
        """Return the top-level object without these arrays, which are passed over item by item."""
        out: dict[str, Any] = {}
        with self.text() as f:
            pull = Pull(f, RECORD)
            try:
                if pull.peek() != "{":
                    return {}
                for key in pull.members():
                    if key in skip and pull.peek() == "[":
                        for _ in pull.items():
                            pass
                    else:
                        out[key] = pull.value()
            except BrokenJSON:
                pass  # reported by the pass that reads the items
        return out

    def document(self) -> Row:
        """Return the whole file as one record, kept as far as it goes where it is cut.

        Raises:
            FormatError: for a file that is too large to be one document, or holds nothing.
        """
        with self.text() as f:
            text = _read(lambda: f.read(DOCUMENT + 1), self.path)
        if len(text) > DOCUMENT:
            raise FormatError(
                f"{self.path}: want one JSON document of at most {DOCUMENT >> 20} MB; got more"
            )
        doc = load(text)
        return self.row(doc)

    def row(self, doc: Document) -> Row:
        """Count a document as a record; say where it is cut."""
        if doc.cut is not None and not doc.value:
            raise FormatError(f"{self.path}, line {doc.cut.line}: want JSON; got {doc.cut.reason}")
        self.report.records += 1
        if doc.cut is not None:
            self.report.warn(doc.cut.line, doc.cut.reason + "; what follows is lost")
        return Row(doc.value, 1, "line 1", doc.lines, doc.cut, doc.path)

    def rows(self) -> Iterator[Row]:
        """Yield records, however they are kept: JSON lines, an array, or one object."""
        if self.kind == "jsonl":
            yield from self.lines()
        elif self.head_start() == "[":
            yield from self.items()
        else:
            yield self.document()

    def head_start(self) -> str:
        """The first character that is not space."""
        return self.head_bytes.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")[:1]

    def inner(self, *parts: str) -> Path | None:
        """Return a file of this folder, unless it is missing or leads out of the folder."""
        path = self.path.joinpath(*parts)
        root = os.path.realpath(self.path)
        inside = os.path.realpath(path).startswith(root + os.sep)
        return path if inside and path.is_file() else None


def _read(read: Callable[[], str], path: Path) -> str:
    """Read text; damage of the container (gzip) is a FormatError."""
    try:
        return read()
    except (OSError, EOFError, zipfile.BadZipFile) as e:
        raise FormatError(f"{path}: want a whole file; got {type(e).__name__}: {e}") from e
