"""JSON read a piece at a time: array items one by one, with their lines, and what a cut left.

The standard decoder does the decoding, because logs written by Python hold NaN, lone surrogates
and long integers that stricter streaming parsers refuse, and because it says exactly where a value
ends, so that every item has its line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, TextIO

from ..errors import FormatError

CHUNK = 1 << 16
SPACE = " \t\n\r\ufeff"


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


# NaN and infinities become null: they are missing values, and our files hold none.
DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None, parse_float=_finite)


class BrokenJSON(FormatError):
    """JSON that cannot be read on, with the line where it stops and why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def decode(text: str) -> Any:
    """Return the value of one JSON text; NaN and infinities become None.

    Raises:
        BrokenJSON: with the line inside the text (1 for one line).
    """
    try:
        return DECODER.decode(text.lstrip(SPACE))
    except json.JSONDecodeError as e:
        raise BrokenJSON(e.lineno, f"broken or cut JSON ({e.msg} at column {e.colno})") from e
    except (ValueError, RecursionError) as e:
        raise BrokenJSON(1, f"JSON that cannot be held ({type(e).__name__})") from e


class Pull:
    """A reader over a text stream that decodes one value at a time and holds little more."""

    def __init__(self, stream: TextIO, limit: int) -> None:
        self.stream = stream
        self.limit = limit
        self.buffer = ""
        self.at = 0
        self._line = 1
        self._counted = 0
        self._ended = False

    def line(self) -> int:
        """The line of the current position, from 1."""
        self._line += self.buffer.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def more(self) -> bool:
        """Read on; False at the end of the stream."""
        self.line()
        if self._ended:
            return False
        rest = self.buffer[self.at :]
        chunk = self.stream.read(max(CHUNK, len(rest)))
        self.buffer, self.at, self._counted = rest + chunk, 0, 0
        self._ended = not chunk
        return not self._ended

    def peek(self) -> str:
        """Return the next character that is not space, without taking it; "" at the end."""
        while True:
            while self.at < len(self.buffer):
                if self.buffer[self.at] not in SPACE:
                    return self.buffer[self.at]
                self.at += 1
            if not self.more():
                return ""

    def take(self, wanted: str) -> str:
        """Take the next character that is not space; it must be one of those wanted."""
        c = self.peek()
        if not c:
            raise BrokenJSON(self.line(), "the file is cut in the middle of a JSON value")
        if c not in wanted:
            raise BrokenJSON(self.line(), f"broken JSON (want one of {wanted!r}; got {c!r})")
        self.at += 1
        return c

    def value(self) -> Any:
        """Return the next value, decoded whole."""
        if not self.peek():
            raise BrokenJSON(self.line(), "the file is cut where a JSON value is wanted")
        while True:
            try:
                value, end = DECODER.raw_decode(self.buffer, self.at)
            except json.JSONDecodeError as e:
                if not self._grow(e):
                    line = self.line() + self.buffer.count("\n", self.at, e.pos)
                    raise BrokenJSON(line, f"broken or cut JSON ({e.msg})") from e
            except (ValueError, RecursionError) as e:
                reason = f"JSON that cannot be held ({type(e).__name__})"
                raise BrokenJSON(self.line(), reason) from e
            else:
                length = end - self.at
                # A number that touches the end of the buffer may go on.
                if end == len(self.buffer) and not isinstance(value, (dict, list)) and self.more():
                    continue
                self.at += length
                return value

    def _grow(self, error: json.JSONDecodeError) -> bool:
        """Read on where that may mend the error."""
        certain = error.pos < len(self.buffer) - 100 and "nterminated" not in error.msg
        if len(self.buffer) - self.at > self.limit:
            raise BrokenJSON(self.line(), f"one JSON value of more than {self.limit} characters")
        return not certain and self.more()

    def items(self) -> Iterator[tuple[int, Any]]:
        """Yield (line, value) of each item of the array that comes next."""
        self.take("[")
        if self.peek() == "]":
            self.at += 1
            return
        while True:
            self.peek()
            yield self.line(), self.value()
            if self.take(",]") == "]":
                return

    def members(self) -> Iterator[str]:
        """Yield each key of the object that comes next; the caller takes its value."""
        self.take("{")
        if self.peek() == "}":
            self.at += 1
            return
        while True:
            key = self.value()
            if not isinstance(key, str):
                raise BrokenJSON(self.line(), "broken JSON (want a string as a key)")
            self.take(":")
            yield key
            if self.take(",}") == "}":
                return
