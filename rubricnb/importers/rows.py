"""A record of a log with its place, and small readers of lines and values."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import IO, Any

from .pull import BrokenJSON, Pull, decode
from .salvage import Document


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


def first_values(text: str, most: int, limit: int) -> list[Any]:
    """Return the values after the first in a text of several."""
    pull, out = Pull(io.StringIO(text), limit), []
    try:
        while pull.peek() and len(out) < most:
            out.append(pull.value())
    except BrokenJSON:
        pass  # the head ends in the middle of one
    return out[1:]


def part(doc: Document, error: BrokenJSON, line: int) -> Row:
    """Return what there is of an item that begins on a line and is cut."""
    lines = {k: v + line - 1 for k, v in doc.lines.items()}
    return Row(doc.value, line, f"line {line}, item 0", lines, error, doc.path)


def whole(line: str) -> dict[str, Any] | list[Any] | None:
    """The object or array that a line is, None for anything else."""
    try:
        value = decode(line) if line[0] in "{[" else None
    except BrokenJSON:
        return None
    return value if isinstance(value, (dict, list)) else None


def skip_line(f: IO[str], limit: int) -> None:
    """Read on to the end of the line."""
    while (rest := f.readline(limit)) and not rest.endswith("\n"):
        pass
