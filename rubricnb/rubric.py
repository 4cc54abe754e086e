"""Criterion, Rubric, Verdict, FailedJudgement and GradedGroup: what a judge says.

There are three outcomes of asking a judge, never two: a verdict (pass or fail), the judge's own
"not applicable", and a failed judgement. The last is a value of its own that has no number, so
that no sum can take it for a 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .trajectory import EMPTY, Group


class Label(str, Enum):
    """The three things that a verdict can say of a criterion."""

    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"

    @property
    def score(self) -> int:
        """+1, -1 or 0: the v of the papers."""
        return {"pass": 1, "fail": -1, "not_applicable": 0}[self.value]


@dataclass(frozen=True, slots=True)
class Criterion:
    """One binary question about a rollout.

    Args:
        id: unique within its rubric; what replies are matched by.
        title: three to eight words.
        description: one to three sentences.
        instruction: the operative text that the judge follows when it grades.
        source: "task", "rollout", "union", "static" or "hand".
        evidence: what in the task or rollout grounded it.
        weight: used by weighted rubrics (RaR) only; DRACO ignores it.
    """

    id: str
    title: str
    description: str = ""
    instruction: str = ""
    source: str = "hand"
    evidence: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Rubric:
    """The criteria that one group is graded on, in order of importance."""

    criteria: tuple[Criterion, ...]
    task_id: str = ""

    def __post_init__(self) -> None:
        ids = [c.id for c in self.criteria]
        twice = sorted({i for i in ids if ids.count(i) > 1})
        if twice:
            raise ValueError(f"want criterion ids that differ; got {twice[0]!r} twice")

    def __len__(self) -> int:
        return len(self.criteria)

    def ids(self) -> tuple[str, ...]:
        """The criterion ids, in order."""
        return tuple(c.id for c in self.criteria)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's answer to one criterion, with the steps that decided it.

    Args:
        criterion_id: which criterion.
        label: pass, fail or not applicable.
        reason: the judge's words.
        steps: cited step numbers, 1-based, sorted, without duplicates, all in range.
        dropped: how many citations were invalid and left out.
        flags: "contradiction", "no_evidence", "insufficient", "quote_after_step", ...; where
            attribution disagreed with scoring, "override:" and its label ("override:pass").
    """

    criterion_id: str
    label: Label
    reason: str = ""
    steps: tuple[int, ...] = ()
    dropped: int = 0
    flags: tuple[str, ...] = ()

    @property
    def value(self) -> int:
        """+1, -1 or 0."""
        return self.label.score


@dataclass(frozen=True, slots=True)
class FailedJudgement:
    """The judge gave no usable answer to one criterion. It has a reason and no number."""

    criterion_id: str
    reason: str = ""
    flags: tuple[str, ...] = ()


Judgement = Verdict | FailedJudgement


@dataclass(frozen=True, slots=True)
class GradedGroup:
    """A group, the rubric it was graded on, and a judgement per rollout and criterion.

    Args:
        group: the G rollouts.
        rubric: K criteria before dropout. Empty where the rubric itself failed.
        judgements: G rows of K judgements, in the rubric's order.
        failures: per rollout, why the whole rollout could not be graded, else "".
        record: judge, model, prompt version, fraction seen, calls and tokens by phase,
            candidate criteria and whatever else explains the verdicts (JSON values only).
    """

    group: Group
    rubric: Rubric
    judgements: tuple[tuple[Judgement, ...], ...]
    failures: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def __post_init__(self) -> None:
        if len(self.judgements) != len(self.group):
            raise ValueError(
                f"want one row of judgements per rollout, {len(self.group)}; "
                f"got {len(self.judgements)}"
            )
        ids = self.rubric.ids()
        for g, row in enumerate(self.judgements):
            if tuple(j.criterion_id for j in row) != ids:
                raise ValueError(
                    f"want judgements of {ids} in that order; got, in row {g}, "
                    f"{tuple(j.criterion_id for j in row)}"
                )
        if self.failures and len(self.failures) != len(self.group):
            raise ValueError(
                f"want no failures or one entry per rollout, {len(self.group)}; "
                f"got {len(self.failures)}"
            )
