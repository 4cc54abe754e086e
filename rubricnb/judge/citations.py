"""Cited steps: from whatever a judge wrote to valid step numbers and a count of the rest."""

from __future__ import annotations

import re
from typing import Any

_BIG = 10**18
_STEP = r"(?:(?:steps?|s)\s*#?\s*)?"
_DASH = r"\s*(?:-|\u2010|\u2011|\u2012|\u2013|\u2014|\u2212|~|\.\.\.?|\u2026|to|through|until)\s*"
# [0-9] and not \d: full-width and other digits are refused, not guessed at.
_ONE = re.compile(rf"{_STEP}([0-9]+)(?:\.0*)?", re.IGNORECASE)
_RANGE = re.compile(rf"{_STEP}([0-9]+){_DASH}{_STEP}([0-9]+)", re.IGNORECASE)
_BETWEEN = re.compile(r"[,;|\n]+|\s+and\s+|\s*&\s*", re.IGNORECASE)
_DEPTH = 4


def read_steps(value: Any, n_steps: int) -> tuple[tuple[int, ...], int]:
    """Return the valid steps of a citation, sorted, and how many others were dropped.

    Takes a list, a number or text: ``[3, 5]``, ``"S3"``, ``"3-5"`` (any dash, either order),
    ``"3, 5"``, ``3.0``. Anything else is dropped and counted: numbers outside 1..n_steps,
    fractions, booleans, digits that are not ASCII, other words. Duplicates fold. Of a range that
    is partly outside the valid part is kept and the rest counted; no range is ever allocated
    beyond n_steps. Whether steps are numbered from 0 or from 1 is never guessed: it is 1.

    Args:
        value: what the reply holds; None and empty values cite nothing.
        n_steps: number of steps M of the rollout.
    Returns:
        (sorted step numbers in 1..n_steps, number of dropped citations).

    >>> read_steps(["S3\u2013S5", 4, 99], 6)
    ((3, 4, 5), 1)
    >>> read_steps("3, 5", 6), read_steps([True, "\uff13", 2.5], 6)
    (((3, 5), 0), ((), 3))
    """
    found: set[int] = set()
    dropped = _collect(value, max(int(n_steps), 0), found, 0)
    return tuple(sorted(found)), dropped


def _collect(value: Any, n: int, found: set[int], depth: int) -> int:
    """Add the valid steps of a value to ``found`` and return the number of invalid ones."""
    if value is None:
        return 0
    if isinstance(value, (list, tuple, set, frozenset)):
        if depth >= _DEPTH:
            return 1
        return sum(_collect(v, n, found, depth + 1) for v in value)
    if isinstance(value, bool):
        return 1
    if isinstance(value, int):
        return _span(value, value, n, found)
    if isinstance(value, float):
        whole = value == value and abs(value) < _BIG and value == int(value)
        return _span(int(value), int(value), n, found) if whole else 1
    if isinstance(value, str):
        # Spaces folded first: the patterns would take quadratic time on a long run of them.
        text = "\n".join(" ".join(line.split()) for line in value.splitlines())
        return sum(_word(part, n, found) for part in _BETWEEN.split(text.strip(" \n[](){}")))
    return 1


def _word(text: str, n: int, found: set[int]) -> int:
    text = text.strip(" \t\r\n\"'.[](){}")
    if not text:
        return 0
    for pattern in (_ONE, _RANGE):
        m = pattern.fullmatch(text)
        if m:
            low, high = _number(m[1]), _number(m[m.lastindex])
            return _span(min(low, high), max(low, high), n, found)
    parts = text.split()
    if 1 < len(parts) <= 1000 and all(_ONE.fullmatch(p) or _RANGE.fullmatch(p) for p in parts):
        return sum(_word(p, n, found) for p in parts)
    return 1


def _number(digits: str) -> int:
    return int(digits) if len(digits) <= 18 else _BIG


def _span(low: int, high: int, n: int, found: set[int]) -> int:
    """Keep low..high within 1..n and return how many lie outside."""
    first, last = max(low, 1), min(high, n)
    if first > last:
        return high - low + 1
    found.update(range(first, last + 1))
    return (high - low + 1) - (last - first + 1)
