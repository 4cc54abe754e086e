"""What a correction of the advantage does: variance of the gradient, conflict cells, lengths.

Axes: G rollouts, S steps, N samples, D parameters. Tokens 0 is padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..errors import CreditError


@dataclass(frozen=True, slots=True)
class GradientVariance:
    """How noisy a gradient estimate is.

    Args:
        variance: trace of the covariance of one sample's gradient.
        signal: squared length of the mean gradient, freed of the noise's own share; may be < 0
            where the noise drowns it.
        n: samples.
    """

    variance: float
    signal: float
    n: int

    @property
    def ratio(self) -> float:
        """Signal over the variance of the mean of the n samples; NaN where that is 0."""
        return self.signal * self.n / self.variance if self.variance > 0 else float("nan")


def gradient_variance(gradient_ND: ArrayLike) -> GradientVariance:
    """Return the variance of a policy gradient over its samples.

        variance = sum_n |g_n - mean|^2 / (N - 1);   signal = |mean|^2 - variance / N

    Laws: alike samples have variance 0; a gradient scaled by c has both scaled by c^2; the ratio
    has no scale, so that rules of different scale can be compared by it.

    Args:
        gradient_ND: (N, D) one gradient a rollout (or a group), N >= 2, finite.
    Raises:
        CreditError: fewer than two samples, or an entry that is not finite.
    Reference: TRIAGE (arXiv 2606.32017) reports a variance; how it is estimated is ours.

    >>> gradient_variance([[1.0, 0.0], [3.0, 0.0]])
    GradientVariance(variance=2.0, signal=3.0, n=2)
    """
    g = np.asarray(gradient_ND, dtype=float)
    if g.ndim != 2 or len(g) < 2 or not np.isfinite(g).all():
        raise CreditError(f"want finite gradients (N, D) with N >= 2; got shape {g.shape}")
    mean = g.mean(axis=0)
    variance = float(((g - mean) ** 2).sum() / (len(g) - 1))
    return GradientVariance(variance, float(mean @ mean) - variance / len(g), len(g))


def push_second_moment(credit_GS: ArrayLike, tokens_GS: ArrayLike) -> float:
    """Return the mean squared push a token: the gradient's variance where no gradient is at hand.

        sum n a^2 / sum n

    It is the variance, up to one factor, when the tokens' score functions are uncorrelated and of
    one length: a bound on what credit alone adds. Law: of all credits with one total push it is
    least where every token gets the same.

    Args:
        credit_GS: (G, S) credit per token, finite where there are tokens.
        tokens_GS: (G, S) tokens a step.
    Returns:
        a number >= 0; NaN without tokens.
    Raises:
        CreditError: shapes that differ, or credit that is not finite.

    >>> push_second_moment([[1.0, -2.0]], [[3, 1]])
    1.75
    """
    a, n = np.asarray(credit_GS, dtype=float), np.asarray(tokens_GS, dtype=float)
    if a.shape != n.shape or not np.isfinite(a[n > 0]).all():
        raise CreditError(
            f"want finite credit and tokens of one shape; got {a.shape} and {n.shape}"
        )
    total = n.sum()
    return float((n * np.where(n > 0, a, 0.0) ** 2).sum() / total) if total > 0 else float("nan")


@dataclass(frozen=True, slots=True)
class ConflictShares:
    """The two cells in which a rollout's one advantage has the wrong sign for a step.

    Args:
        harmful_in_success: share of the steps of successes that are regressions.
        useful_in_failure: share of the steps of failures that are decisive or explore.
        unlabelled: share of all steps without a role: they are in no other share.
        success, failure: labelled steps of successes and of failures.
    """

    harmful_in_success: float
    useful_in_failure: float
    unlabelled: float
    success: int
    failure: int


def conflict_shares(
    role_GS: ArrayLike, outcome_G: ArrayLike, tokens_GS: ArrayLike, *, threshold: float = 0.5
) -> ConflictShares:
    """Return how often role and outcome are at odds; ``conflict_cells`` has the whole table.

    Args:
        role_GS: (G, S) role names; "invalid" or "" is no role.
        outcome_G: (G,) the world's verdict; rollouts of an unknown one (NaN) are left out.
        tokens_GS: (G, S) tokens, 0 for padding.
        threshold: an outcome at or above it is a success.
    Raises:
        CreditError: shapes that do not fit.

    >>> s = conflict_shares([["decisive", "regression"], ["exploration", ""]], [1, 0],
    ...     [[1, 1], [1, 1]])
    >>> s.harmful_in_success, s.useful_in_failure, s.unlabelled
    (0.5, 1.0, 0.25)
    """
    role, n = np.asarray(role_GS, dtype=str), np.asarray(tokens_GS, dtype=float)
    outcome = np.asarray(outcome_G, dtype=float)
    if role.shape != n.shape or outcome.shape != role.shape[:1]:
        raise CreditError(
            f"want roles and tokens (G, S) and outcomes (G,); got {role.shape}, {n.shape}, "
            f"{outcome.shape}"
        )
    live = (n > 0) & ~np.isnan(outcome)[:, None]
    said = live & ~np.isin(role, ["", "invalid"])
    won, lost = said & (outcome >= threshold)[:, None], said & (outcome < threshold)[:, None]

    def share(part: np.ndarray, whole: np.ndarray) -> float:
        return float(part.sum() / whole.sum()) if whole.any() else float("nan")

    return ConflictShares(
        share(won & (role == "regression"), won),
        share(lost & np.isin(role, ["decisive", "exploration"]), lost),
        share(live & ~said, live),
        int(won.sum()),
        int(lost.sum()),
    )


def completed_length(length_N: ArrayLike, success_N: ArrayLike) -> float:
    """Return the mean length of the rollouts that succeeded; NaN where none did.

    Args:
        length_N: (N,) turns or tokens, >= 0.
        success_N: (N,) bool.
    Raises:
        CreditError: shapes that differ.
    Reference: TRIAGE, length of completed rollouts.

    >>> completed_length([4, 6, 20], [True, True, False])
    5.0
    """
    n, ok = np.asarray(length_N, dtype=float), np.asarray(success_N, dtype=bool)
    if n.shape != ok.shape or n.ndim != 1:
        raise CreditError(f"want two rows of one length; got {n.shape} and {ok.shape}")
    return float(n[ok].mean()) if ok.any() else float("nan")
