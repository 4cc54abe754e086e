"""Alarms while a rollout runs: a likelihood ratio per step, and thresholds with a guarantee.

The null hypothesis is that the rollout will *succeed*; an alarm rejects it. Two thresholds:

    anytime   1 / alpha. P(a success is ever alarmed) <= alpha where the ratio is the true one
              (Ville); an estimated ratio carries no exact guarantee.
    PAC       an order statistic of held-out successes. With probability 1 - delta over them, at
              most alpha of new successes are alarmed, whatever the ratio is.

Both need new successes to be exchangeable with the held-out ones: calibrate again when the policy
changes, so after every update in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from ..errors import CreditError
from .exact import clopper_pearson
from .intervals import Interval

LEAST = 5  # examples of each class that a step's ratio is estimated from
Scores = Sequence[ArrayLike]


def _share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise CreditError(f"want {name} in (0, 1); got {value}")


def anytime_threshold(alpha: float) -> float:
    """Return 1 / alpha.

    >>> anytime_threshold(0.05)
    20.0
    """
    _share("alpha", alpha)
    return 1 / alpha


def pac_minimum(alpha: float, delta: float) -> int:
    """Return the fewest held-out successes that can give a finite PAC threshold.

        ceil(ln delta / ln(1 - alpha))

    >>> pac_minimum(0.045, 0.005)
    116
    """
    _share("alpha", alpha)
    _share("delta", delta)
    return ceil(log(delta) / log(1 - alpha))


def pac_threshold(peak_N: ArrayLike, alpha: float, delta: float) -> float:
    """Return the PAC threshold from the peaks max_t M_t of held-out successes.

        X_(k), k the smallest with P(Bin(n, 1 - alpha) >= k) <= delta

    Law: P(at most alpha of new successes lie strictly above it) >= 1 - delta, whatever the
    distribution of peaks. +inf where n is too small (``pac_minimum``), so also for n = 0: then
    nothing is ever alarmed.

    Args:
        peak_N: (n,), >= 0; +inf is allowed.
        alpha, delta: in (0, 1).
    Returns:
        The threshold; alarm on strict >.
    Raises:
        CreditError: for a peak that is negative or NaN.
    Reference: E-valuator (arXiv 2512.03109); its code gives 0 for n = 0, which alarms always.

    >>> pac_threshold([], 0.1, 0.1), pac_threshold(range(1, 23), 0.1, 0.1)
    (inf, 22.0)
    """
    _share("alpha", alpha)
    _share("delta", delta)
    x = np.sort(np.asarray(peak_N, dtype=float))
    if x.ndim != 1 or not (x >= 0).all():
        raise CreditError("want peaks >= 0 in one row; got a negative one, NaN or another shape")
    n = x.size
    k = np.arange(1, n + 1)
    good = stats.binom.sf(k - 1, n, 1 - alpha) <= delta
    return float(x[np.argmax(good)]) if good.any() else float("inf")


@dataclass(frozen=True, eq=False)
class RatioModel:
    """An estimated ratio M_t = P(S_1..t | fails) / P(S_1..t | succeeds).

    Args:
        weights: per step t, t weights on standardised scores and an intercept; an empty array
            where step t had too few examples and carries the ratio of the step before.
        means, scales: per step, of the t scores.
        prior: share of successes.
    """

    weights: tuple[NDArray[np.float64], ...]
    means: tuple[NDArray[np.float64], ...]
    scales: tuple[NDArray[np.float64], ...]
    prior: float

    def ratios(self, scores: Scores) -> list[NDArray[np.float64]]:
        """Return M_t at every step of each rollout: an array as long as the rollout.

        Beyond the steps that were fitted, and at a step without enough examples, the ratio stays
        what it was; before any fitted step it is 1. A missing score (NaN) counts as the mean.
        """
        rows = [np.asarray(s, dtype=float) for s in scores]
        out = [np.ones(r.size) for r in rows]
        longest = max((r.size for r in rows), default=0)
        for t in range(1, longest + 1):
            on = [i for i, r in enumerate(rows) if r.size >= t]
            if t > len(self.weights) or self.weights[t - 1].size == 0:
                for i in on:
                    out[i][t - 1] = out[i][t - 2] if t > 1 else 1.0
                continue
            now = self._step(t, np.array([rows[i][:t] for i in on]))
            for i, m in zip(on, now, strict=True):
                out[i][t - 1] = m
        return out

    def _step(self, t: int, score_Nt: NDArray[np.float64]) -> NDArray[np.float64]:
        z = np.where(np.isnan(score_Nt), self.means[t - 1], score_Nt) - self.means[t - 1]
        z = z / self.scales[t - 1]
        w = self.weights[t - 1]
        g = 1 / (1 + np.exp(-np.clip(z @ w[:-1] + w[-1], -50, 50)))
        g = np.clip(g, 1e-6, 1 - 1e-6)
        return (1 - g) / g * (self.prior / (1 - self.prior))


def fit_ratio(scores: Scores, success_N: ArrayLike) -> RatioModel:
    """Return the ratio model of rollouts with known ends.

        M_t = (1 - g_t) / g_t * pi_1 / pi_0,  g_t = P(success | S_1..t)

    g_t is a logistic regression on standardised scores, one a step, over the rollouts that reach
    that step; pi is the share at the first step, so the ratio also knows that the rollout is
    still running. Steps with fewer than ``LEAST`` examples of a class carry the ratio on.

    Args:
        scores: per rollout, a verifier's score at each step; NaN where it failed.
        success_N: (N,) of 0 and 1.
    Raises:
        CreditError: for lengths that differ, another label, or one class only.
    Reference: E-valuator (arXiv 2512.03109), section 4.
    """
    from sklearn.linear_model import LogisticRegression

    y = np.asarray(success_N, dtype=float)
    rows = [np.asarray(s, dtype=float) for s in scores]
    if y.shape != (len(rows),) or not np.isin(y, (0, 1)).all() or not 0 < y.mean() < 1:
        raise CreditError(f"want one label of 0 or 1 a rollout, both in use; got {y.tolist()[:9]}")
    weights, means, scales = [], [], []
    for t in range(1, max(r.size for r in rows) + 1):
        on = [i for i, r in enumerate(rows) if r.size >= t]
        x, label = np.array([rows[i][:t] for i in on]), y[on]
        known = (~np.isnan(x)).sum(axis=0)
        mean = np.where(known > 0, np.nansum(x, axis=0) / np.maximum(known, 1), 0.0)
        x = np.where(np.isnan(x), mean, x) - mean
        spread = x.std(axis=0)
        scale = np.where(spread > 1e-12, spread, 1.0)
        means.append(mean)
        scales.append(scale)
        if min(label.sum(), (1 - label).sum()) < LEAST:
            weights.append(np.zeros(0))
            continue
        made = LogisticRegression().fit(x / scale, label)
        weights.append(np.append(made.coef_[0], made.intercept_[0]))
    return RatioModel(tuple(weights), tuple(means), tuple(scales), float(y.mean()))


def peaks(ratios: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Return max_t M_t of each rollout, (N,); 0 for one without steps."""
    return np.array([max(np.asarray(r, float).tolist(), default=0.0) for r in ratios])


def alarm_steps(ratios: Sequence[ArrayLike], threshold: float) -> NDArray[np.intp]:
    """Return the first step (1-based) whose ratio exceeds the threshold, 0 where none does.

    >>> alarm_steps([[0.5, 2.0, 3.0], [2.0]], 2.0)
    array([3, 0])
    """
    out = []
    for r in ratios:
        over = np.asarray(r, float) > threshold
        out.append(int(np.argmax(over)) + 1 if over.any() else 0)
    return np.array(out, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Alarms:
    """What alarms at one threshold do.

    Args:
        threshold: alarm on strict >.
        false_alarm: share of successes that are alarmed, exact bounds.
        power: share of failures that are alarmed, exact bounds.
        tokens_saved: share of all tokens that failures spend after their alarm.
        tokens_lost: the same for successes that were stopped by mistake.
        mean_step: mean alarm step among the failures that are alarmed.
    """

    threshold: float
    false_alarm: Interval
    power: Interval
    tokens_saved: float
    tokens_lost: float
    mean_step: float


def measure_alarms(
    ratios: Sequence[ArrayLike],
    success_N: ArrayLike,
    threshold: float,
    tokens: Sequence[ArrayLike] | None = None,
    *,
    level: float = 0.95,
) -> Alarms:
    """Return false alarms, power and tokens saved of one threshold on rollouts with known ends.

    The bounds take rollouts as independent; runs of one task are not quite.

    Args:
        ratios: per rollout, M_t at each step.
        success_N: (N,) of 0 and 1.
        threshold: alarm on strict >; +inf never alarms.
        tokens: per rollout, tokens of each step; None counts steps.
        level: of the bounds.
    Raises:
        CreditError: for lengths that differ.
    """
    y = np.asarray(success_N, dtype=float)
    spent = [np.ones(len(r)) for r in ratios] if tokens is None else tokens
    spent = [np.asarray(s, dtype=float) for s in spent]
    if y.shape != (len(ratios),) or [s.size for s in spent] != [len(r) for r in ratios]:
        raise CreditError("want a label and as many token counts as steps for each rollout")
    at = alarm_steps(ratios, threshold)
    after = np.array([s[a:].sum() if a else 0.0 for s, a in zip(spent, at, strict=True)])
    everything = float(sum(s.sum() for s in spent))
    good, bad = y == 1, y == 0
    caught = at[bad & (at > 0)]

    def rate(who: NDArray[np.bool_]) -> Interval:
        return clopper_pearson(int((at[who] > 0).sum()), int(who.sum()), level=level)

    def part(who: NDArray[np.bool_]) -> float:
        return float(after[who].sum() / everything) if everything else float("nan")

    return Alarms(
        float(threshold),
        rate(good),
        rate(bad),
        part(bad),
        part(good),
        float(caught.mean()) if caught.size else float("nan"),
    )
