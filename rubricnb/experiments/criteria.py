"""Criteria compared: overlap of two judges' rubrics, and what changes over training."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from importlib import resources
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined

from ..errors import JudgeError
from ..judge import Call, Judge, JudgeConfig, grade_iter
from ..judge.loop import run
from ..judge.replies import NotJSON, final_text, find_values
from ..metrics import Overlap, overlap, turnover
from ..rubric import Criterion, GradedGroup, Rubric

Pairs = list[tuple[str, str]]
Matcher = Callable[[Rubric, Rubric], Pairs]


def match_by(key: Callable[[Criterion], Hashable | None]) -> Matcher:
    """Return a matcher that pairs criteria with the same key; None matches nothing.

    >>> same_title = match_by(lambda c: c.title.lower())
    >>> a, b = Rubric((Criterion("C1", "No loops"),)), Rubric((Criterion("K9", "no LOOPS"),))
    >>> same_title(a, b)
    [('C1', 'K9')]
    """

    def match(test: Rubric, reference: Rubric) -> Pairs:
        free = {}
        for c in reference.criteria:
            free.setdefault(key(c), c.id)
        free.pop(None, None)
        return [(c.id, free.pop(k)) for c in test.criteria if (k := key(c)) in free]

    return match


def match_by_judge(judge: Judge) -> Matcher:
    """Return a matcher that asks a third judge for the pairs, one call for two rubrics.

    What the reply invents or pairs twice is left out. Raises JudgeError for a reply that holds
    no pairs at all.
    """
    text = resources.files(__package__).joinpath("prompts/matching.txt").read_text("utf-8")
    template = Environment(undefined=StrictUndefined, autoescape=False).from_string(text)

    def match(test: Rubric, reference: Rubric) -> Pairs:
        prompt = template.render(test=_list(test), reference=_list(reference))
        call = Call("union", ({"role": "user", "content": prompt},), key={"task_id": test.task_id})
        reply = run(judge.complete(call))
        return _one_to_one(_pairs(reply, judge.name), test, reference)

    return match


def _list(rubric: Rubric) -> str:
    return "\n".join(
        json.dumps({"id": c.id, "title": c.title, "instruction": c.instruction or c.description})
        for c in rubric.criteria
    )


def _pairs(reply: Any, name: str) -> list[Any]:
    try:
        values = find_values(final_text(reply)).values
    except NotJSON as e:
        raise JudgeError(f"judge {name!r}: want pairs of criteria; got {e}") from e
    for value in reversed(values):
        if isinstance(value, dict) and isinstance(value.get("pairs"), list):
            return value["pairs"]
    raise JudgeError(f'judge {name!r}: want "pairs" in the reply; got none')


def _one_to_one(pairs: Iterable[Any], test: Rubric, reference: Rubric) -> Pairs:
    left, right, out = set(test.ids()), set(reference.ids()), []
    for pair in pairs:
        a, b = (pair.get(k) for k in ("first", "second")) if isinstance(pair, dict) else (None,) * 2
        if a in left and b in right:
            left.remove(a)
            right.remove(b)
            out.append((a, b))
    return out


def rubric_overlap(
    groups: Iterable[GradedGroup], judge: Judge, match: Matcher, *, every: int = 1
) -> pd.DataFrame:
    """Return, per group, how far another judge's rubric overlaps the archived one.

    The judge writes its own rubric (task, rollout and union phases) for the same rollouts; then
    a third party matches the two sets one to one. With ``judge`` the judge of the archive, the
    figures are the ceiling: that judge against itself.

    Args:
        groups: graded groups with dynamic rubrics.
        judge: whose rubrics are under test.
        match: ``match_by_judge(third)``, or ``match_by(key)`` where wordings are known.
        every: only every so many-th group.
    Returns:
        Columns task, step, matched, test, reference, precision, recall; NaN where a set is empty.
    """
    rows = []
    for n, graded in enumerate(groups):
        if n % every or not len(graded.rubric):
            continue
        told = graded.record.get("config", {})
        config = JudgeConfig(
            attribution="none",
            nonce=graded.record.get("nonce", ""),
            caveats=told.get("caveats", ""),
        )
        own = next(iter(grade_iter([graded.group], judge, config))).rubric
        o = overlap(own.ids(), graded.rubric.ids(), match(own, graded.rubric))
        rows.append(_overlap_row(o, graded))
    columns = ["task", "step", "matched", "test", "reference", "precision", "recall"]
    return pd.DataFrame(rows, columns=columns)


def _overlap_row(o: Overlap, graded: GradedGroup) -> dict[str, Any]:
    return {
        "task": graded.group.task.id,
        "step": graded.record.get("step", 0),
        "matched": o.matched,
        "test": o.test,
        "reference": o.reference,
        "precision": o.precision,
        "recall": o.recall,
    }


def pooled(rows: pd.DataFrame) -> Overlap:
    """Return the overlap over all groups together (micro average)."""
    return Overlap(*(int(rows[c].sum()) for c in ("matched", "test", "reference")))


def rubric_turnover(
    groups: Iterable[GradedGroup], key: Callable[[Criterion], Hashable] = lambda c: c.instruction
) -> pd.DataFrame:
    """Return how much a task's rubric changes from one training step to the next that has it.

    Columns task, step, before, turnover (1 - Jaccard index of the criteria), criteria.
    """
    last: dict[str, tuple[int, set]] = {}
    rows = []
    for graded in groups:
        task, step = graded.group.task.id, graded.record.get("step", 0)
        now = {key(c) for c in graded.rubric.criteria}
        if task in last and now:
            before, then = last[task]
            rows.append(
                {
                    "task": task,
                    "step": step,
                    "before": before,
                    "turnover": turnover(then, now),
                    "criteria": len(now),
                }
            )
        if now:
            last[task] = (step, now)
    return pd.DataFrame(rows, columns=["task", "step", "before", "turnover", "criteria"])


def contents(
    groups: Sequence[GradedGroup], key: Callable[[Criterion], Hashable] = lambda c: c.title
) -> pd.DataFrame:
    """Return each distinct criterion with its use and its labels, the most used first.

    Columns criterion, groups, tasks, judgements, passed, failed, not_applicable, missing (counts).
    """
    rows: dict[Hashable, Counter] = {}
    tasks: dict[Hashable, set[str]] = {}
    for graded in groups:
        for k, c in enumerate(graded.rubric.criteria):
            row = rows.setdefault(key(c), Counter())
            row["groups"] += 1
            tasks.setdefault(key(c), set()).add(graded.group.task.id)
            for judgements in graded.judgements:
                j = judgements[k]
                row["judgements"] += 1
                row[j.label.value if hasattr(j, "label") else "missing"] += 1
    table = pd.DataFrame(
        [
            {
                "criterion": name,
                "groups": row["groups"],
                "tasks": len(tasks[name]),
                "judgements": row["judgements"],
                "passed": row["pass"],
                "failed": row["fail"],
                "not_applicable": row["not_applicable"],
                "missing": row["missing"],
            }
            for name, row in rows.items()
        ],
        columns=[
            "criterion", "groups", "tasks", "judgements",
            "passed", "failed", "not_applicable", "missing",
        ],
    )  # fmt: skip
    return table.sort_values(["groups", "criterion"], ascending=[False, True], ignore_index=True)
