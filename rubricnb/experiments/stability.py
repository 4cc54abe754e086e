"""A judge against itself: how far it repeats its verdicts and citations, and its errors."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..errors import RunError
from ..judge import Call, Judge, Reply
from ..metrics import error_correlation, krippendorff_alpha, turnover, unanimity_rates
from ..rubric import GradedGroup
from .study import NAN, replay


@dataclass
class Repeated:
    """A judge whose every call is another sample of the same question: no cache answers it."""

    judge: Judge
    repeat: int

    @property
    def name(self) -> str:
        """The judge's own name."""
        return self.judge.name

    async def complete(self, call: Call) -> Reply:
        """Ask for sample ``call.sample + 1000 * repeat``."""
        return await self.judge.complete(
            dataclasses.replace(call, sample=call.sample + 1000 * self.repeat)
        )


@dataclass(frozen=True)
class Stability:
    """A judge against itself over R repeats of the same calls.

    Args:
        label_RN: what each repeat said.
        reference_N: what the archived judge said.
        alpha: Krippendorff's alpha over the repeats.
        unchanged: share of judgements with the same label in every repeat.
        citation_turnover: mean share of cited steps that differ between two repeats.
        false_pass: of one call against the reference.
        false_fail: likewise.
        pass_correlation: of false passes between repeats; NaN where there is none.
        fail_correlation: of false fails between repeats.
    """

    label_RN: np.ndarray
    reference_N: np.ndarray
    alpha: float
    unchanged: float
    citation_turnover: float
    false_pass: float
    false_fail: float
    pass_correlation: float
    fail_correlation: float

    def votes(self, most: int = 5) -> pd.DataFrame:
        """Error rates of k-of-k unanimity: measured over the repeats, modelled, and independent.

        Modelled: beta-binomial with the measured correlation. A gain that only the independent
        column shows is none.
        """
        rows = []
        for k in range(1, most + 1):
            row: dict[str, Any] = {"k": k}
            if k <= len(self.label_RN):
                passed = (self.label_RN[:k] == 1).all(axis=0)
                failed = (self.label_RN[:k] == -1).any(axis=0)
                row["measured_false_pass"] = _mean(passed[self.reference_N == -1])
                row["measured_false_fail"] = _mean(failed[self.reference_N == 1])
            measured = (self.pass_correlation, self.fail_correlation)
            for name, c in (("modelled", measured), ("independent", (0.0, 0.0))):
                row |= {f"{name}_{x}": y for x, y in self._unanimous(k, c).items()}
            rows.append(row)
        return pd.DataFrame(rows)

    def _unanimous(self, k: int, correlation: tuple[float, float]) -> dict[str, float]:
        """Modelled rates of k calls; NaN where one call's rates are unknown."""
        if np.isnan([self.false_pass, self.false_fail]).any():
            return {"false_pass": NAN, "false_fail": NAN}
        both, other = (_unit(c) for c in correlation)
        rates = unanimity_rates(self.false_pass, self.false_fail, k, both, other)
        return {"false_pass": rates.false_pass, "false_fail": rates.false_fail}


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else NAN


def _unit(c: float) -> float:
    """A correlation estimate as the model takes it; below 0 is sampling noise."""
    return 0.0 if np.isnan(c) else float(min(max(c, 0.0), 1.0))


def stability(
    groups: Sequence[GradedGroup], judge: Judge, repeats: int = 3, *, citations: bool = True
) -> Stability:
    """Return how far a judge repeats itself, and how its errors repeat from call to call.

    Args:
        groups: graded groups; the archived judge is the reference for errors.
        judge: asked ``repeats`` times.
        repeats: >= 2.
        citations: whether to compare cited steps, which costs attribution calls.
    """
    if repeats < 2:
        raise RunError(f"want at least 2 repeats; got {repeats}")
    several = [replay(groups, Repeated(judge, r), citations=citations) for r in range(repeats)]
    label = np.array([s.frame["test"].to_numpy(float) for s in several])
    ref = several[0].frame["reference"].to_numpy(float)
    moved = [
        turnover(a, b)
        for one, two in itertools.pairwise(several)
        for a, b in zip(one.frame["test_steps"], two.frame["test_steps"], strict=True)
        if a or b
    ]
    fails, passes = ref == -1, ref == 1
    wrong_pass = np.where(np.isnan(label), np.nan, label == 1)[:, fails].T
    wrong_fail = np.where(np.isnan(label), np.nan, label == -1)[:, passes].T
    return Stability(
        label_RN=label,
        reference_N=ref,
        alpha=krippendorff_alpha(label),
        unchanged=_mean((label == label[0]).all(axis=0)),
        citation_turnover=_mean(np.array(moved)) if citations else NAN,
        false_pass=_mean(label[:, fails] == 1),
        false_fail=_mean(label[:, passes] == -1),
        pass_correlation=error_correlation(wrong_pass) if fails.any() else NAN,
        fail_correlation=error_correlation(wrong_fail) if passes.any() else NAN,
    )
