"""Phases 1 to 3: from a task and its rollouts to the one rubric that all of them are graded on."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..rubric import Criterion, Rubric
from .asking import Asker, together
from .criteria import CriteriaReading, read_criteria
from .messages import (
    LIMITS,
    PROMPT_VERSION,
    criteria_schema,
    criterion_row,
    json_lines,
    prefix,
    rubric_job,
)
from .protocol import Reply
from .views import Views


@dataclass
class TaskRubrics:
    """Task rubrics that are known: one call per (task id, prompt), kept for the whole run.

    ``known`` may be a mapping of the user's, so that the next call of ``grade`` finds it.
    """

    known: MutableMapping[Any, CriteriaReading] = field(default_factory=dict)
    locks: dict[Any, asyncio.Lock] = field(default_factory=dict)


@dataclass(frozen=True)
class Proposal:
    """The canonical rubric with where it came from; ``failure`` says why there is none."""

    rubric: Rubric
    failure: str = ""
    record: dict[str, Any] = field(default_factory=dict)


async def propose(asker: Asker, views: Views, task_id: str, memory: TaskRubrics) -> Proposal:
    """Return the union of what the task and the rollouts suggest.

    A task rubric or a union that cannot be read leaves the group without a rubric. A rollout
    rubric that cannot be read leaves the group without that rollout's suggestions.

    Raises:
        JudgeError: where the judge cannot be called further.
    """
    first = await _task_rubric(asker, views, task_id, memory)
    if first.problem:
        return Proposal(Rubric((), task_id), f"task rubric: {first.problem}")
    n = len(views.prepared)
    rest = await together(_rollout_rubric(asker, views, g, first.criteria) for g in range(n))
    record = _candidates(first, rest)
    candidates = [*first.criteria, *(c for r in rest for c in r.criteria)]
    merged = await _union(asker, views, candidates)
    if merged.problem:
        return Proposal(Rubric((), task_id), f"union: {merged.problem}", record)
    by_id = {c.id: c for c in candidates}
    merges = {cid: [m for m in named if m in by_id] for cid, named in (merged.merges or {}).items()}
    criteria = tuple(_origin(c, [by_id[m] for m in merges[c.id]]) for c in merged.criteria)
    record["merges"] = merges
    record["dropped_criteria"] += merged.dropped
    if merged.over:
        record["over_limit"]["union"] = merged.over
    return Proposal(Rubric(criteria, task_id), "", record)


def _candidates(first: CriteriaReading, rest: Sequence[CriteriaReading]) -> dict[str, Any]:
    """The record of what was suggested, by whom, and what was left out."""
    rows = [
        {**criterion_row(c, evidence=True), "source": c.source, **({"rollout": g} if g else {})}
        for g, r in enumerate([first, *rest])
        for c in r.criteria
    ]
    over = {"task_rubric": first.over, "rollout_rubric": sum(r.over for r in rest)}
    return {
        "candidates": rows,
        "dropped_criteria": first.dropped + sum(r.dropped for r in rest),
        "over_limit": {phase: n for phase, n in over.items() if n},
        "rollout_rubric_failures": [r.problem for r in rest]
        if any(r.problem for r in rest)
        else [],
    }


def _origin(c: Criterion, parts: list[Criterion]) -> Criterion:
    """A merged criterion with the source and the evidence of its parts."""
    sources = {p.source for p in parts}
    evidence = next((p.evidence for p in parts if p.evidence), "")
    return replace(c, source=sources.pop() if len(sources) == 1 else "union", evidence=evidence)


async def _task_rubric(
    asker: Asker, views: Views, task_id: str, memory: TaskRubrics
) -> CriteriaReading:
    text = f"{PROMPT_VERSION}\n{asker.head['content']}\n{views.prepared_task.identity}"
    key = (task_id, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
    async with memory.locks.setdefault(key, asyncio.Lock()):
        known = memory.known.get(key)
        if known is None:
            known = await asker.ask(
                "task_rubric",
                prefix(views.task),
                rubric_job("task_rubric"),
                lambda reply: _some(_read(reply, "task_rubric", "T", "task")),
                schema=criteria_schema("task_rubric"),
            )
            if not known.problem:
                memory.known[key] = known
        return known


async def _rollout_rubric(
    asker: Asker, views: Views, g: int, known: Sequence[Criterion]
) -> CriteriaReading:
    return await asker.ask(
        "rollout_rubric",
        views.shared(g),
        rubric_job("rollout_rubric", json_lines(criterion_row(c) for c in known)),
        lambda reply: _read(reply, "rollout_rubric", f"R{g + 1}.", "rollout"),
        schema=criteria_schema("rollout_rubric"),
        trajectory_id=views.ids[g],
    )


async def _union(asker: Asker, views: Views, candidates: Sequence[Criterion]) -> CriteriaReading:
    return await asker.ask(
        "union",
        prefix(views.task, views.union),
        rubric_job(
            "union",
            json_lines(criterion_row(c, evidence=True) for c in candidates),
            len(views.prepared),
        ),
        lambda reply: _some(_read(reply, "union", "C", "union")),
        schema=criteria_schema("union"),
    )


def _read(reply: Reply, phase: str, ids: str, source: str) -> CriteriaReading:
    return read_criteria(reply, limit=LIMITS[phase], prefix=ids, source=source)


def _some(reading: CriteriaReading) -> CriteriaReading:
    """The reading, with a problem where it has no criterion."""
    if reading.problem or reading.criteria:
        return reading
    return replace(reading, problem="want at least one criterion with title and instruction")
