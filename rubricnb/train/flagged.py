"""An option of any grader: rollouts whose claim of success looks false get no reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..credit import CreditBatch
from ..errors import ConfigError
from ..grading import arrays
from ..metrics.claims import closing_claim
from ..metrics.false_success import Detector, load_detector, rollout_text, triaged_reward
from ..rubric import GradedGroup
from ..trajectory import Group
from .credit_trainer import Grade, Grader

REASON = "claims success and looks like a false one"


@dataclass
class FlagFalseSuccess:
    """``grader(groups) -> grades`` without the rewards of rollouts that a text detector flags.

    A flagged rollout is ungraded: it leaves the mean of its group and gets no advantage; it is
    never turned into a number. The verdicts of the others stay; which criteria tell rollouts apart
    is decided among them alone. The detector reads what the agent wrote and no judge's words.

    Args:
        grader: any grader of ``CreditGRPOTrainer`` that answers with graded groups or rewards.
        detector: as ``rubricnb.metrics.false_success.fit_detector`` makes and ``load_detector``
            reads it.
        threshold: flag on strict >, in [0, 1].
        flagged: how many rollouts were flagged so far.
    Raises:
        ConfigError: for a threshold out of range, or a grade that is a CreditBatch.
    """

    grader: Grader
    detector: Detector
    threshold: float = 0.5
    flagged: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"want a threshold in [0, 1]; got {self.threshold}")

    def __call__(self, groups: Sequence[Group]) -> Sequence[Grade]:
        """Grade whole groups, then take the flagged rollouts out."""
        return [
            self._without(group, grade)
            for group, grade in zip(groups, self.grader(groups), strict=True)
        ]

    def bill(self) -> Any:
        """What the grader's own ``bill`` says; {} where it has none."""
        told = getattr(self.grader, "bill", None)
        return told() if told is not None else {}

    def _without(self, group: Group, grade: Grade) -> Grade:
        if isinstance(grade, CreditBatch):
            raise ConfigError("want graded groups or rewards to flag; got a CreditBatch")
        runs = group.trajectories
        risk = self.detector.score([rollout_text(t) for t in runs])
        claimed = [closing_claim(t).claimed for t in runs]
        graded = isinstance(grade, GradedGroup)
        reward = arrays(grade, len).reward_G if graded else np.asarray(grade, dtype=float)
        kept = triaged_reward(reward, risk, claimed, self.threshold)
        gone = np.isnan(kept) & ~np.isnan(reward)
        self.flagged += int(gone.sum())
        if not graded:
            return kept.tolist()
        if not gone.any():
            return grade
        failures = grade.failures or ("",) * len(group)
        return replace(
            grade,
            failures=tuple(REASON if g else f for g, f in zip(gone, failures, strict=True)),
        )


def flagging(grader: Grader, detector: str, above: float) -> Grader:
    """Return the grader with the detector of that file beside it; the grader itself for "".

    Raises:
        FormatError: for a file that is no detector.
    """
    return FlagFalseSuccess(grader, load_detector(detector), above) if detector else grader
