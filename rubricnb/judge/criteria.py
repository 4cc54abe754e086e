"""Criteria from the replies of the three phases that write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..rubric import Criterion
from .answers import as_text
from .items import first_of
from .protocol import Reply
from .reading import plain
from .replies import NotJSON, final_text, find_values, repair, was_cut, whole_items

_INSTRUCTION = ("instruction", "evaluator_instruction")
_EVIDENCE = ("evidence", "trajectory_evidence", "grounding_references", "grounding")
_FIELDS = ("criteria", "rubrics", "rubric")


@dataclass(frozen=True, slots=True)
class CriteriaReading:
    """What a reply proposes.

    Args:
        criteria: at most the phase's limit, in the reply's order.
        merges: criterion id -> the candidates that it stands for, as the reply says.
        dropped: items without a title or an instruction, and exact repetitions.
        over: items beyond the limit, left out.
        problem: why nothing could be read, else "".
        cut: whether the reply ends early.
    """

    criteria: tuple[Criterion, ...] = ()
    merges: Mapping[str, tuple[str, ...]] | None = None
    dropped: int = 0
    over: int = 0
    problem: str = ""
    cut: bool = False


def read_criteria(
    reply: Reply | str, *, limit: int, prefix: str = "C", source: str = "union"
) -> CriteriaReading:
    """Return the criteria of a reply ``{"criteria": [{"title", "description", "instruction"}]}``.

    Ids are ``prefix`` + 1, 2, ...: a reply does not choose them. An empty list is a valid answer
    here; whether the phase allows it is the caller's to say.

    >>> read_criteria('{"criteria": [{"title": "a", "instruction": "b"}]}', limit=5).criteria[0].id
    'C1'
    """
    cut = was_cut(reply)
    try:
        rows, cut = _rows(final_text(reply), cut)
    except NotJSON as e:
        return CriteriaReading(problem=str(e), cut=cut)
    if rows is None:
        return CriteriaReading(problem='want "criteria" in the reply; got none', cut=cut)
    criteria: list[Criterion] = []
    merges: dict[str, tuple[str, ...]] = {}
    seen: set[tuple[str, str]] = set()
    dropped = 0
    for row in rows:
        c = _criterion(row, f"{prefix}{len(criteria) + 1}", source)
        key = (plain(c.title), plain(c.instruction)) if c else ("", "")
        if c is None or key in seen:
            dropped += 1
            continue
        seen.add(key)
        criteria.append(c)
        named = row.get("merges")
        merges[c.id] = tuple(str(m) for m in named) if isinstance(named, list) else ()
    kept = tuple(criteria[:limit])
    return CriteriaReading(
        kept, {c.id: merges[c.id] for c in kept}, dropped, len(criteria) - len(kept), "", cut
    )


def _rows(text: str, cut: bool) -> tuple[list[Any] | None, bool]:
    """The proposed items, None where the reply lists none, and whether it ends early."""
    found = find_values(text, cut=cut)
    lists = [rows for v in found.values if (rows := _list(v)) is not None]
    if lists:
        return max(lists, key=len), found.cut
    if not found.rest:
        return None, found.cut
    if found.cut:
        return next((r for f in _FIELDS if (r := whole_items(found.rest, f))), None), True
    return _list(repair(found.rest)), False


def _list(value: Any) -> list[Any] | None:
    if isinstance(value, dict):
        value = first_of(value, _FIELDS)
        if isinstance(value, dict):
            value = value.get("criteria")
    if isinstance(value, list) and all(isinstance(v, dict) for v in value):
        return value
    return None


def _criterion(row: Any, cid: str, source: str) -> Criterion | None:
    if not isinstance(row, dict):
        return None
    title = as_text(first_of(row, ("title", "rubric_title", "name")))
    description = as_text(row.get("description"))
    instruction = as_text(first_of(row, _INSTRUCTION)) or description
    if not title or not instruction:
        return None
    if {title, instruction} & {"...", "…"}:
        return None  # the reply form, copied
    evidence = as_text(first_of(row, _EVIDENCE))
    return Criterion(cid, title, description, instruction, source, evidence)
