"""The items of a reply: one mapping per answer, wherever in the final text they stand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .replies import Pairs, find_values, repair, whole_items

ID_KEYS = ("id", "criterion_id", "name", "title", "rubric_title", "criterion")
INDEX_KEYS = ("index", "rubric_index")
VERDICT_KEYS = ("verdict", "score")
_VERDICT_WORD = re.compile(r"\b(?:verdict|score)\b[\"']?\s*:", re.IGNORECASE)


_WORD = re.compile(r"[\w .'-]*")


def find_items(text: str, cut: bool, untrusted: str) -> tuple[list[Mapping[str, Any]], bool, bool]:
    """The items that the text answers with, whether repair guessed them, whether it ends early."""
    found = find_values(text, cut=cut)
    items: list[Mapping[str, Any]] = []
    for value, span in zip(found.values, found.spans, strict=True):
        if not (untrusted and span in untrusted):
            items += _of(value)
    if not found.rest:
        return items, False, found.cut
    whole = [i for i in whole_items(found.rest, "verdicts") if isinstance(i, dict)]
    if found.cut:
        return items + whole, False, True
    guess = _of(repair(found.rest))
    if len(_VERDICT_WORD.findall(found.rest)) > len(guess):
        guess = []  # more verdicts than items: repair may have picked the wrong one
    # A key that holds JSON marks has swallowed the end of its item and the head of the next one.
    guess = [i for i in guess if all(_WORD.fullmatch(str(k)) for k in i)]
    names = {first_of(i, ID_KEYS) for i in whole}
    guess = [i for i in guess if first_of(i, ID_KEYS) not in names]
    return items + whole + guess, bool(guess), False


def _of(value: Any) -> list[Mapping[str, Any]]:
    """The items of one JSON value: a list, an object with "verdicts", or a lone item."""
    if isinstance(value, dict):
        if "verdicts" in value:
            if isinstance(value, Pairs) and "verdicts" in value.twice:
                return []
            return _of_field(value["verdicts"])
        return [value] if _lone(value) else []
    if isinstance(value, list):
        return [i for v in value if isinstance(v, dict) for i in _of(v)]
    return []


def _of_field(value: Any) -> list[Mapping[str, Any]]:
    if isinstance(value, list):
        return [v for v in value if isinstance(v, dict)]
    if isinstance(value, dict):
        if _lone(value):
            return [value]
        twice = value.twice if isinstance(value, Pairs) else ()
        rows = {k: v if isinstance(v, dict) else {"verdict": v} for k, v in value.items()}
        return [{**v, "id": k} for k, v in rows.items() if k not in twice]
    return []


def _lone(value: Mapping[str, Any]) -> bool:
    return any(k in value for k in VERDICT_KEYS) and any(
        k in value for k in (*ID_KEYS, *INDEX_KEYS)
    )


def first_of(item: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """The value of the first key that is there and not null."""
    return next((item[k] for k in keys if item.get(k) is not None), None)
