"""A JSON document as far as it goes: whole, or what a cut or damaged file still holds of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from .pull import DECODER, SPACE, BrokenJSON

DEEPEST = 40


@dataclass(slots=True)
class Document:
    """A JSON document, or as much of it as a cut or damaged file holds.

    Args:
        value: the value; incomplete at ``path`` where ``cut`` is set.
        lines: (key or "", index) -> line, for items of an array at the top or one below.
        cut: what is wrong and where, or None for a whole document.
        path: keys and indexes of the innermost value that is kept but incomplete.
    """

    value: Any = None
    lines: dict[tuple[str, int], int] = field(default_factory=dict)
    cut: BrokenJSON | None = None
    path: tuple[str | int, ...] = ()


def load(text: str) -> Document:
    """Return the document that a text holds, keeping what is whole where it is cut.

    >>> load('[1, {"a": 2, "b": "x').value, load('[1, {"a": 2, "b": "x').path
    ([1, {'a': 2}], (1,))
    """
    return _Loader(text).document()


class _Cut(Exception):
    """Nothing of a value is there."""


class _Loader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.doc = Document()
        self.stop: tuple[int, str] | None = None
        self._counted = (0, 1)

    def document(self) -> Document:
        path: list[str | int] = []
        try:
            self.doc.value = self.load(path)
        except _Cut:
            path = []
        if self.stop is None and (c := self.peek()):
            self.stop = (self.at, f"want the end of the file; got {c!r}")
        if self.stop is not None:
            at, reason = self.stop
            line = self.text.count("\n", 0, at) + 1
            self.doc.cut = BrokenJSON(line, f"broken or cut JSON ({reason})")
            self.doc.path = tuple(path)
        return self.doc

    def peek(self) -> str:
        while self.at < len(self.text) and self.text[self.at] in SPACE:
            self.at += 1
        return self.text[self.at : self.at + 1]

    def line(self) -> int:
        at, line = self._counted
        self._counted = (self.at, line + self.text.count("\n", at, self.at))
        return self._counted[1]

    def load(self, path: list[str | int]) -> Any:
        """Return the next value, as far as it goes; ``path`` then leads to where it stops."""
        c = self.peek()
        # The top two levels go item by item, for their lines; below only where decoding fails.
        if not (c == "{" and not path) and not (c == "[" and len(path) < 2):
            try:
                value, self.at = DECODER.raw_decode(self.text, self.at)
                return value
            except json.JSONDecodeError as e:
                if c not in ("[", "{") or len(path) > DEEPEST:
                    self.stop = (e.pos, e.msg)
                    raise _Cut from e
            except (ValueError, RecursionError) as e:
                self.stop = (self.at, type(e).__name__)
                raise _Cut from e
        return self.array(path) if c == "[" else self.mapping(path)

    def array(self, path: list[str | int]) -> list[Any]:
        out: list[Any] = []
        key = path[0] if path else ""
        track = len(path) < 2 and isinstance(key, str)
        self.at += 1
        while self.peek() != "]":
            if track:
                self.doc.lines[str(key), len(out)] = self.line()
            if not self.enter(path, len(out), out.append) or not self.go_on("]"):
                return out
        self.at += 1
        return out

    def mapping(self, path: list[str | int]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        self.at += 1
        while self.peek() != "}":
            try:
                key, self.at = DECODER.raw_decode(self.text, self.at)
            except (ValueError, RecursionError) as e:
                self.stop = (getattr(e, "pos", self.at), getattr(e, "msg", "no key"))
                return out
            if not isinstance(key, str) or self.peek() != ":":
                self.stop = (self.at, "want a key and a colon")
                return out
            self.at += 1
            if not self.enter(path, key, lambda v, k=key: out.__setitem__(k, v)):
                return out
            if not self.go_on("}"):
                return out
        self.at += 1
        return out

    def enter(self, path: list[str | int], step: str | int, put: Any) -> bool:
        """Load one member and put it in; False where loading stops in it."""
        path.append(step)
        try:
            put(self.load(path))
        except _Cut:
            path.pop()
            return False
        if self.stop is None:
            path.pop()
        return self.stop is None

    def go_on(self, closing: str) -> bool:
        """Step over a comma; False, with the stop set, where neither it nor the end is there."""
        c = self.peek()
        if c == ",":
            self.at += 1
        elif c != closing:
            self.stop = (self.at, "want ',' or the end" + (f"; got {c!r}" if c else ""))
        return self.stop is None
