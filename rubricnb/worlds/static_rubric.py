"""The static rubric arm: one task-agnostic set, selected on base rollouts.

The candidates are fixed. Which of them survive is measured: a criterion that hardly any base
rollout touches, or that hardly any (or nearly every) one fails, tells rollouts apart too seldom.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import FormatError, WorldError
from ..judge.config import JudgeConfig
from ..judge.protocol import Judge
from ..judge.run import grade
from ..rubric import Criterion, GradedGroup, Rubric, Verdict
from ..seeds import child_seed
from ..trajectory import Group
from .demonstrator import NOISY, Faults, demonstrate
from .desk import Desk, OrdersDesk
from .desk_static_set import STATIC
from .transcript import as_task, as_trajectory

KIND = "static_rubric"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a candidate must reach on base rollouts.

    The defaults leave room for the published set, whose criteria fail in 2.8 % to 81.8 % of the
    base rollouts and apply to 29.9 % or more; a lower floor would keep what only judge noise fails.

    Args:
        applicable: least share of rollouts that it applies to.
        least_failed: least share of failures where it applies.
        most_failed: most of them.
    """

    applicable: float = 0.25
    least_failed: float = 0.028
    most_failed: float = 0.98


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate and what base rollouts did with it.

    Args:
        criterion: the candidate.
        applicable: share of judged rollouts with pass or fail.
        failed: share of failures among these; None where it never applied.
        judged: rollouts with a verdict (failed judgements are left out).
    """

    criterion: Criterion
    applicable: float
    failed: float | None
    judged: int

    def kept(self, limits: Limits) -> bool:
        """Whether the candidate survives."""
        return (
            self.failed is not None
            and self.applicable >= limits.applicable
            and limits.least_failed <= self.failed <= limits.most_failed
        )


def candidates() -> Rubric:
    """All task-agnostic candidates, the most important first.

    >>> len(candidates())
    24
    """
    return Rubric(
        tuple(
            Criterion(f"S{i}", row.title, "", row.instruction, "static")
            for i, row in enumerate(STATIC.values(), start=1)
        )
    )


def base_rollouts(
    world: Desk | None = None,
    split: str = "train",
    per_task: int = 8,
    seed: int = 0,
    faults: Faults = NOISY,
) -> Iterable[Group]:
    """Groups of noisy-demonstrator rollouts: base rollouts where no policy is at hand."""
    world = OrdersDesk() if world is None else world
    for task in world.tasks(split):
        rollouts = []
        for g in range(per_task):
            episode = world.reset(task, child_seed(seed, "base", task.id, g))
            demonstrate(episode, child_seed(seed, "faults", task.id, g), faults)
            rollouts.append(as_trajectory(episode, f"{task.id}/{g}"))
        yield Group(as_task(task), tuple(rollouts))


def measure(graded: Iterable[GradedGroup]) -> tuple[Measured, ...]:
    """Failure and applicability rates of every criterion of a rubric shared by all groups.

    Raises:
        WorldError: without any group, or where the groups' rubrics differ.
    """
    rubric: Rubric | None = None
    values: list[list[int]] = []
    for group in graded:
        if rubric is None:
            rubric, values = group.rubric, [[] for _ in group.rubric.criteria]
        if group.rubric.criteria != rubric.criteria:
            raise WorldError(
                f"want groups graded on one rubric; got another for {group.group.task.id!r}"
            )
        for row in group.judgements:
            for k, j in enumerate(row):
                if isinstance(j, Verdict):
                    values[k].append(j.value)
    if rubric is None:
        raise WorldError("want base rollouts to measure rates on; got none")
    return tuple(_measured(c, v) for c, v in zip(rubric.criteria, values, strict=True))


def _measured(criterion: Criterion, values: Sequence[int]) -> Measured:
    applied = [v for v in values if v]
    failed = applied.count(-1) / len(applied) if applied else None
    share = len(applied) / len(values) if values else 0.0
    return Measured(criterion, share, failed, len(values))


def select_static(
    groups: Iterable[Group],
    judge: Judge,
    config: JudgeConfig | None = None,
    limits: Limits | None = None,
) -> tuple[Rubric, tuple[Measured, ...]]:
    """Grade base rollouts on all candidates and return the survivors, and every candidate's rates.

    Args:
        groups: base rollouts of desk tasks.
        judge: the judge that the arm will use.
        config: its settings; rubric and attribution are set here.
        limits: what a candidate must reach.
    Raises:
        WorldError: where no candidate survives.
    """
    limits = limits or Limits()
    base = config or JudgeConfig()
    settings = {k: getattr(base, k) for k in ("votes", "caveats", "nonce", "retries")}
    asked = JudgeConfig(rubric=candidates(), attribution="none", **settings)
    rows = measure(grade(groups, judge, asked))
    kept = tuple(r.criterion for r in rows if r.kept(limits))
    if not kept:
        raise WorldError(f"want a candidate within {limits}; got none of {len(rows)}")
    return Rubric(kept), rows


def save_static(
    path: str | Path, rows: Sequence[Measured], limits: Limits, source: str, judge: str
) -> None:
    """Write every candidate with its rates and whether it was kept."""
    listed: list[dict[str, Any]] = [
        {
            "id": r.criterion.id,
            "title": r.criterion.title,
            "instruction": r.criterion.instruction,
            "applicable": round(r.applicable, 4),
            "failed": None if r.failed is None else round(r.failed, 4),
            "judged": r.judged,
            "kept": r.kept(limits),
        }
        for r in rows
    ]
    record = {
        "rubricnb": 1,
        "kind": KIND,
        "source": source,
        "judge": judge,
        "limits": asdict(limits),
        "candidates": listed,
    }
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    Path(path).write_text(text, encoding="utf-8")


def load_static(path: str | Path) -> Rubric:
    """The kept criteria of a file that ``save_static`` wrote.

    Raises:
        FormatError: for anything else.
    """
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        rows = [r for r in record["candidates"] if record["kind"] == KIND and r["kept"]]
        return Rubric(
            tuple(Criterion(r["id"], r["title"], "", r["instruction"], "static") for r in rows)
        )
    except (ValueError, KeyError, TypeError) as e:
        raise FormatError(
            f"{path}: want a static rubric as JSON; got {type(e).__name__}: {e}"
        ) from e
