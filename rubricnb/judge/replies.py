"""From a reply to the JSON values in its final text: strict first, repaired only after.

What was thought is never read, what is valid JSON is never touched, what was cut off is never
completed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import json_repair

from .protocol import Reply
from .thinking import without_thinking

CUT = ("length", "max_tokens", "content_filter")
MAX_TEXT = 4_000_000  # characters of a reply that are looked at
MAX_REPAIR = 100_000  # characters that the repair library gets
MAX_TRIES = 300  # places at which a JSON value is looked for in prose

_BRACKET = re.compile(r"[\[{]")
_STRUCTURE = re.compile(r"\{\s*[\"'\w]+\s*:|\[\s*\{")  # looks like JSON rather than like prose
_PROSE = re.compile(r"\{[^\"'{}\[\]]{0,200}\}")  # {x: y} in a sentence
_BETWEEN = re.compile(r"[\s,]*")
_COLON = re.compile(r"\s*:\s*")
_FENCE_HEAD = re.compile(r"```[\w-]*")


class NotJSON(Exception):
    """Text that holds no value; its message says why, in words for a retry."""


class Pairs(dict):
    """A JSON object that remembers keys which were given twice with different values."""

    twice: frozenset[str] = frozenset()


class _Constant:
    """NaN or an infinity: valid for Python's reader, not in JSON, equal to nothing."""

    def __repr__(self) -> str:  # in reasons: without an address, so that a replay says the same
        return "NaN or an infinity"


def _pairs(items: list[tuple[str, Any]]) -> Pairs:
    out = Pairs()
    twice = set()
    for k, v in items:
        if k in out and out[k] != v:
            twice.add(k)
        out[k] = v
    out.twice = frozenset(twice)
    return out


_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=lambda _: _Constant())


@dataclass(frozen=True, slots=True)
class Found:
    """JSON values of a final text, in order.

    Args:
        values: the values, outermost only.
        spans: the text of each value.
        cut: whether the text ends before its last value does.
        rest: the text from the first value on that could not be read strictly.
    """

    values: tuple[Any, ...]
    spans: tuple[str, ...]
    cut: bool = False
    rest: str = ""


def was_cut(reply: Reply | str) -> bool:
    """Return whether the endpoint says that the reply ends before its time."""
    return isinstance(reply, Reply) and reply.finish_reason in CUT


def strict(text: str) -> Any:
    """Return the one JSON value that the text is. Raises NotJSON."""
    try:
        return _decoder.decode(text.strip().lstrip("\ufeff"))
    except (ValueError, RecursionError) as e:
        raise NotJSON("it is not JSON") from e


def final_text(reply: Reply | str) -> str:
    """Return what a reply says after its thinking.

    A closing tag without an opening one ends the thinking, too. An opening tag without a closing
    one means that the reply never got beyond thinking.

    Raises:
        NotJSON: for an empty reply and for thinking that never ends.
    """
    text = (reply.text if isinstance(reply, Reply) else reply) or ""
    if len(text) > MAX_TEXT:
        raise NotJSON(f"it has more than {MAX_TEXT} characters")
    try:
        strict(text)
        return text.strip()
    except NotJSON:
        pass
    inside = _in_fence(text.strip())
    if inside is not None:
        return inside
    text = without_thinking(text, _json_spans(text))
    if text is None:
        raise NotJSON("its thinking never ends")
    if not text.strip():
        raise NotJSON("it is empty")
    return text.strip()


def _in_fence(text: str) -> str | None:
    """The strict JSON that a text is but for one fence around it, else None."""
    if len(text) < 6 or not (text.startswith("```") and text.endswith("```")):
        return None
    inside = text[_FENCE_HEAD.match(text).end() : -3].strip()
    try:
        strict(inside)
    except NotJSON:
        return None
    return inside


def _json_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where strict JSON objects and arrays stand in a text, in order."""
    at = 0
    for _ in range(MAX_TRIES):
        m = _BRACKET.search(text, at)
        if m is None:
            return
        try:
            _, at = _decoder.raw_decode(text, m.start())
            yield m.start(), at
        except (ValueError, RecursionError):
            at = m.start() + 1


def find_values(text: str, *, cut: bool = False) -> Found:
    """Return the outermost JSON objects and arrays of a final text, read strictly.

    Looking stops at the first object that cannot be read to its end: what is inside of that one
    is not outermost, be it an item or a quotation. It is handed back as ``rest``.
    """
    try:
        return Found((strict(text),), (text,), cut=cut)
    except NotJSON:
        pass
    values, spans, at, rest = [], [], 0, ""
    for _ in range(MAX_TRIES):
        m = _BRACKET.search(text, at)
        if m is None:
            break
        try:
            value, end = _decoder.raw_decode(text, m.start())
        except (ValueError, RecursionError):
            prose = _PROSE.match(text, m.start())
            if prose is None and _STRUCTURE.match(text, m.start()):
                rest = text[m.start() :]
                break
            at = m.start() + 1
            continue
        values.append(value)
        spans.append(text[m.start() : end])
        at = end
    return Found(tuple(values), tuple(spans), cut or _ends_early(rest), rest)


def whole_items(rest: str, field: str) -> list[Any]:
    """Return the items, up to the first broken one, of the list that a broken text starts.

    The text is the list itself or an object that has it under ``field``, with only whole values
    before it.
    """
    at = 0
    if rest.startswith("{"):
        at = _seek(rest, field)
    if at < 0 or not rest.startswith("[", at):
        return []
    items: list[Any] = []
    at = _BETWEEN.match(rest, at + 1).end()
    while at < len(rest) and rest[at] != "]":
        try:
            value, at = _decoder.raw_decode(rest, at)
        except (ValueError, RecursionError):
            break
        items.append(value)
        at = _BETWEEN.match(rest, at).end()
    return items


def _seek(text: str, field: str) -> int:
    """Where the value of a field of a broken object starts, -1 where it cannot be reached."""
    at = 1
    for _ in range(100):
        at = _BETWEEN.match(text, at).end()
        try:
            key, at = _decoder.raw_decode(text, at)
            at = _COLON.match(text, at).end()
            if key == field:
                return at
            _, at = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError, AttributeError):
            return -1
    return -1


def repair(text: str) -> Any:
    """Return what the repair library makes of a text, None where it makes nothing of it."""
    if len(text) > MAX_REPAIR:
        return None
    try:
        return json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError, TypeError, IndexError, KeyError, AttributeError):
        return None


def _ends_early(text: str) -> bool:
    """Whether a broken object stops before its closing bracket, brackets in strings aside."""
    depth, quoted, escaped = 0, False, False
    for c in text:
        if escaped:
            escaped = False
        elif c == "\\":
            escaped = quoted
        elif c == '"':
            quoted = not quoted
        elif not quoted and c in "{[":
            depth += 1
        elif not quoted and c in "}]":
            depth -= 1
            if depth <= 0:
                return False
    return depth > 0
