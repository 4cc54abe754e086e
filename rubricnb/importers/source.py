"""A log on disk as records: JSON lines, the items of a JSON array, or one document, with places.

Reading is bounded: one record at a time, none larger than ``RECORD`` characters, documents that
must be read whole no larger than ``DOCUMENT``. Nothing is unpickled and no path found inside a log
is opened.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Any, AnyStr, BinaryIO

from ..errors import FormatError
from .ids import Ids
from .pull import CHUNK, DECODER, SPACE, BrokenJSON, Pull, decode
from .report import Report
from .rows import Row, first_values, part, skip_line, whole
from .salvage import Document, load

RECORD = 64 << 20
DOCUMENT = 512 << 20
HEAD = 1 << 20
HEAD_ROWS = 40
DAMAGE = (OSError, EOFError, zlib.error)  # what a cut or damaged gzip raises while it is read


class Source:
    """A file or folder that is imported, and the report that its reading fills."""

    def __init__(
        self, path: str | os.PathLike[str], report: Report | None = None, ids: Ids | None = None
    ) -> None:
        self.path = Path(path)
        self.report = Report() if report is None else report
        self.ids = ids or Ids()
        self.shared = ids is not None
        if not self.path.exists():
            raise FormatError(f"{self.path}: want a file or folder; got nothing there")

    @cached_property
    def kind(self) -> str:
        """ "dir", "zip", "jsonl" or "json"."""
        if self.path.is_dir():
            return "dir"
        if self.head_bytes[:4] == b"PK\x03\x04":
            return "zip"
        return "jsonl" if self._alone[1] else "json"

    @cached_property
    def head_bytes(self) -> bytes:
        """The first bytes, decompressed."""
        out = b""
        with self.binary() as f:
            try:
                while len(out) < HEAD and (chunk := f.read1(CHUNK)):  # type: ignore[attr-defined]
                    out += chunk
            except DAMAGE:
                pass  # reported by the pass that reads the records
        return out

    @cached_property
    def _alone(self) -> tuple[list[Any], bool]:
        """(values of the first lines that are whole alone, whether the file is JSON lines)."""
        values, first_whole, lines = [], False, 0
        with self.text() as f:
            read = 0
            while read < HEAD and lines < HEAD_ROWS:
                try:
                    line = f.readline(RECORD)
                except DAMAGE:
                    break
                if not line:
                    break
                read += len(line)
                stripped = line.strip(SPACE)
                if not stripped:
                    continue
                lines += 1
                value = whole(stripped)
                first_whole = first_whole or (lines == 1 and value is not None)
                if value:
                    values.append(value)
        return values, len(values) > 1 or (first_whole and lines > 1)

    @cached_property
    def head(self) -> Any:
        """What the first bytes hold as one JSON value, as far as it goes; None if nothing."""
        return load(self.head_bytes.decode("utf-8", "replace")).value

    def said(self) -> str:
        """Say in a few words what the file is, for an error."""
        if self.kind == "dir":
            return "a folder"
        start = self.head_bytes[:40].decode("utf-8", "backslashreplace").strip()
        return f"a file that begins {start!r}" if start else "an empty file"

    def samples(self) -> list[Any]:
        """The first records, for recognising the format."""
        if self.kind in ("dir", "zip"):
            return []
        if self.kind == "jsonl":
            return self._alone[0]
        head = self.head
        if self._several:
            return [
                head,
                *first_values(self.head_bytes.decode("utf-8", "replace"), HEAD_ROWS, RECORD),
            ]
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
        number = 0
        with self.text() as f:
            try:
                while line := f.readline(RECORD):
                    number += 1
                    if len(line) >= RECORD and not line.endswith("\n"):
                        skip_line(f, RECORD)
                        self.report.damaged(number, f"a line of more than {RECORD} characters")
                    elif line.strip(SPACE):
                        yield from self._line(line, number)
            except DAMAGE as e:
                self.report.damaged(number + 1, f"the file cannot be read on ({e})")

    def _line(self, line: str, number: int) -> Iterator[Row]:
        self.report.records += 1
        try:
            value = decode(line)
        except BrokenJSON as e:
            cut = "" if line.endswith("\n") else "; the last line is cut"
            self.report.damaged(number, e.reason.split(" at column")[0] + cut)
            return
        yield Row(value, number, f"line {number}")

    def items(self, *keys: str) -> Iterator[Row]:
        """Yield the items of the array at the top, or of the arrays under these top-level keys.

        Where the file is cut, the whole items before the cut are kept; of a file that is cut in
        its first item, what there is of that.
        """
        with self.text() as f:
            pull = Pull(f, RECORD)
            found = 0
            try:
                for row in self._items(pull, keys):
                    found += 1
                    self.report.records += 1
                    yield row
            except BrokenJSON as e:
                rest = load(pull.buffer[pull.at :]) if not found else Document()
                if isinstance(rest.value, dict) and len(rest.value) > 1:
                    self.report.records += 1
                    yield part(rest, e, pull.line())
                self.report.damaged(e.line, e.reason + "; what follows is lost")
            except DAMAGE as e:
                self.report.damaged(pull.line(), f"the file cannot be read on ({e})")

    def _items(self, pull: Pull, keys: tuple[str, ...]) -> Iterator[Row]:
        if pull.peek() == "[":
            for index, (line, value) in enumerate(pull.items()):
                yield Row(value, line, f"line {line}, item {index}")
            return
        for key in pull.members():
            if key in keys and pull.peek() == "[":
                for index, (line, value) in enumerate(pull.items()):
                    yield Row(value, line, f"line {line}, {key}[{index}]")
            else:
                pull.value()

    @cached_property
    def _several(self) -> bool:
        """Whether the first value, printed over several lines, is followed by another."""
        text = self.head_bytes.decode("utf-8", "replace").lstrip(SPACE)
        try:
            _, end = DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            return False
        return text[end:].lstrip(SPACE)[:1] in ("{", "[")

    def values(self) -> Iterator[Row]:
        """Yield the values of a file that holds one JSON value after the other."""
        with self.text() as f:
            pull = Pull(f, RECORD)
            try:
                while pull.peek():
                    line = pull.line()
                    value = pull.value()
                    self.report.records += 1
                    yield Row(value, line, f"line {line}")
            except BrokenJSON as e:
                self.report.damaged(e.line, e.reason + "; what follows is lost")
            except DAMAGE as e:
                self.report.damaged(pull.line(), f"the file cannot be read on ({e})")

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
        elif self._several:
            yield from self.values()
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


def _read(read: Callable[[], AnyStr], path: Path) -> AnyStr:
    """Read; damage of the container (gzip) is a FormatError."""
    try:
        return read()
    except DAMAGE as e:
        raise FormatError(f"{path}, line 1: want a file that can be read; got {e}") from e
