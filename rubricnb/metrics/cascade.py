"""A cascade of judges: a cheap one answers where it is probably right, a dear one the rest.

Three disjoint parts of the labelled data do three things: heads are fitted on the first,
thresholds chosen on the second, and the error among what was accepted is bounded on the third. A
bound that does not hold is not claimed: then nothing is accepted and all goes to the top judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from ..errors import CreditError
from .exact import clopper_pearson
from .intervals import Interval

ROOM = 0.7


@dataclass(frozen=True, eq=False)
class Tier:
    """One judge's answers on all items.

    Args:
        name: who judged.
        answer_N: (N,) 1 success, 0 failure, NaN no answer: such an item always goes up.
        features_NF: (N, F) what its correctness is predicted from: agreement of its votes,
            margin, length, ...
        cost: of one item, in any unit, >= 0.
    """

    name: str
    answer_N: NDArray[np.float64]
    features_NF: NDArray[np.float64]
    cost: float


@dataclass(frozen=True, eq=False)
class Head:
    """P(the tier is right) from its features: a logistic regression as plain numbers."""

    mean_F: NDArray[np.float64]
    scale_F: NDArray[np.float64]
    weight_F: NDArray[np.float64]
    bias: float

    def confidence(self, features_NF: ArrayLike) -> NDArray[np.float64]:
        """Return (N,) in (0, 1); a missing feature counts as the mean."""
        x = np.asarray(features_NF, dtype=float)
        z = (np.where(np.isnan(x), self.mean_F, x) - self.mean_F) / self.scale_F
        return 1 / (1 + np.exp(-np.clip(z @ self.weight_F + self.bias, -50, 50)))


def fit_head(features_NF: ArrayLike, right_N: ArrayLike) -> Head:
    """Return a head fitted to whether the tier was right.

    Where it was always right, or always wrong, the head gives one confidence to all: the share
    right, with one case of each kind added.

    Raises:
        CreditError: for no cases.
    """
    from sklearn.linear_model import LogisticRegression

    x, y = np.asarray(features_NF, dtype=float), np.asarray(right_N, dtype=float)
    if x.ndim != 2 or not len(x) or y.shape != (len(x),):
        raise CreditError(f"want features (N, F) of N >= 1 answers; got {x.shape} and {y.shape}")
    known = (~np.isnan(x)).sum(axis=0)
    mean = np.where(known > 0, np.nansum(x, axis=0) / np.maximum(known, 1), 0.0)
    x = np.where(np.isnan(x), mean, x) - mean
    spread = x.std(axis=0)
    scale = np.where(spread > 1e-12, spread, 1.0)
    if y.min() == y.max():
        share = (y.sum() + 1) / (y.size + 2)
        return Head(mean, scale, np.zeros(x.shape[1]), float(np.log(share / (1 - share))))
    made = LogisticRegression().fit(x / scale, y)
    return Head(mean, scale, made.coef_[0], float(made.intercept_[0]))


def choose_tau(
    confidence_N: ArrayLike, wrong_N: ArrayLike, risk: float, *, level: float = 0.95
) -> float:
    """Return the lowest confidence from which the error's upper bound stays within the risk.

    The bound is Clopper-Pearson's over the accepted items of the calibration part. It picks a
    threshold and proves nothing: the proof is the audit's.

    Returns:
        tau: accept where confidence >= tau; +inf where no threshold keeps the risk.

    >>> choose_tau([0.9] * 60 + [0.2], [0] * 60 + [1], 0.05)
    0.9
    """
    c, wrong = np.asarray(confidence_N, dtype=float), np.asarray(wrong_N, dtype=float)
    if not c.size:
        return float("inf")
    order = np.argsort(-c, kind="stable")
    n, errors = np.arange(1, c.size + 1), np.cumsum(wrong[order])
    high = np.where(errors < n, stats.beta.ppf(level, errors + 1, np.maximum(n - errors, 1)), 1.0)
    # Equal confidences are accepted together.
    last = np.append(c[order][1:] != c[order][:-1], True)
    good = np.flatnonzero((high <= risk) & last)
    return float(c[order][good[-1]]) if good.size else float("inf")


@dataclass(frozen=True, slots=True)
class Audited:
    """What a cascade did on the audit part.

    Args:
        taus: accept threshold of each tier but the last; +inf accepts nothing.
        certified: whether the bound below is within the risk, so that it may be claimed.
        bound: error among what lower tiers accepted, with its one-sided upper bound. Where it is
            not certified it describes the thresholds that failed.
        coverage: share answered below the top tier (0 where nothing is certified).
        shares: share that each tier answers.
        compute: cost of the tiers that ran over the cost of the top tier on everything.
        accuracy: of the cascade, over the items that it answers; NaN where it answers none.
        top_accuracy: of the top tier alone, over the items that it answers.
        n: items audited.
        looks: thresholds that the audit tried.
        why: in words, where it is not certified.
        unanswered: share of the items to which the cascade has no answer.
        top_unanswered: the same of the top tier alone.
    """

    taus: tuple[float, ...]
    certified: bool
    bound: Interval
    coverage: float
    shares: tuple[float, ...]
    compute: float
    accuracy: float
    top_accuracy: float
    n: int
    looks: int
    why: str = ""
    unanswered: float = 0.0
    top_unanswered: float = 0.0


def route(
    tiers: Sequence[Tier], confidence: Sequence[NDArray[np.float64]], taus: Sequence[float]
) -> NDArray[np.intp]:
    """Return the tier (0-based) that answers each item: the first that is sure enough."""
    n = tiers[0].answer_N.size
    at = np.full(n, len(tiers) - 1)
    for m in reversed(range(len(tiers) - 1)):
        sure = (confidence[m] >= taus[m]) & ~np.isnan(tiers[m].answer_N)
        at[sure] = m
    return at


def cascade(
    tiers: Sequence[Tier],
    label_N: ArrayLike,
    parts: tuple[ArrayLike, ArrayLike, ArrayLike],
    *,
    risk: float = 0.05,
    level: float = 0.95,
    looks: int = 1,
    cluster_N: Sequence[object] | None = None,
    seed: int = 0,
) -> Audited:
    """Return what a cascade saves, and whether its risk can be certified.

    Law: where ``certified``, the error among accepted items exceeds the risk with probability at
    most 1 - level, over audit items that are independent. Each further look at the audit part
    raises the thresholds and is paid for: every look is held to 1 - (1 - level) / looks.

    Args:
        tiers: from the cheapest to the top one, at least two, each on the same N items.
        label_N: (N,) 1 success, 0 failure.
        parts: row numbers to fit on, calibrate on and audit on; disjoint. Cut them by task.
        risk: largest error share among accepted items, in (0, 1).
        level: of the certificate.
        looks: how many thresholds the audit may try, >= 1.
        cluster_N: (N,) tasks. The audit then counts one accepted item a task, drawn at random:
            those are independent where tasks are, and the certificate is for an accepted item
            of a new task. None: every item counts, as if they were independent.
        seed: of that draw.
    Raises:
        CreditError: for fewer than two tiers, parts that overlap, or unknown labels.
    Reference: cascades of judges with correctness heads, arXiv 2607.27984; its features are not
        published, and the choice of thresholds is ours.
    """
    y = np.asarray(label_N, dtype=float)
    fit, held, audit = (np.asarray(p, dtype=int) for p in parts)
    rows = np.concatenate([fit, held, audit])
    if len(tiers) < 2 or len(set(rows.tolist())) < rows.size or not np.isin(y[rows], (0, 1)).all():
        raise CreditError("want two tiers or more, disjoint parts and labels of 0 or 1")
    if not 0 < risk < 1 or looks < 1:
        raise CreditError(f"want risk in (0, 1) and looks >= 1; got {risk}, {looks}")
    confidence = []
    for tier in tiers[:-1]:
        use = fit[~np.isnan(tier.answer_N[fit])]
        head = fit_head(tier.features_NF[use], tier.answer_N[use] == y[use])
        confidence.append(head.confidence(tier.features_NF))
    strict = 1 - (1 - level) / looks
    bound, tried, taus = clopper_pearson(0, 0), 0, (float("inf"),) * (len(tiers) - 1)
    for look in range(looks):
        # The chosen threshold is the luckiest of many, so it must clear the risk with room; each
        # look asks more room of the calibration part, which raises the thresholds.
        found = _thresholds(tiers, confidence, y, held, risk * ROOM ** (look + 1), level)
        if not np.isfinite(found).any():
            break
        tried += 1
        at = route([_rows(t, audit) for t in tiers], [c[audit] for c in confidence], found)
        taken = at < len(tiers) - 1
        wrong = (_answers(tiers, audit, at) != y[audit])[_counted(taken, audit, cluster_N, seed)]
        bound = clopper_pearson(int(wrong.sum()), wrong.size, level=strict, side="upper")
        if taken.any() and bound.high <= risk:
            return _audited(tiers, confidence, y, audit, found, bound, tried, "")
    why = (
        f"no threshold keeps the error within {risk:.1%} on the calibration part"
        if not tried
        else f"the audit bounds the error by {bound.high:.1%}, above {risk:.1%}"
    )
    return _audited(tiers, confidence, y, audit, taus, bound, tried, why)


def _counted(taken, audit, cluster_N, seed) -> NDArray[np.intp]:
    """Which accepted audit items the certificate counts: all, or one a cluster."""
    rows = np.flatnonzero(taken)
    if cluster_N is None:
        return rows
    rows = np.random.default_rng(seed).permutation(rows)
    return np.array(sorted({cluster_N[audit[i]]: i for i in rows}.values()), dtype=np.intp)


def _rows(tier: Tier, rows: NDArray[np.intp]) -> Tier:
    return Tier(tier.name, tier.answer_N[rows], tier.features_NF[rows], tier.cost)


def _answers(tiers: Sequence[Tier], rows: NDArray[np.intp], at: NDArray[np.intp]) -> NDArray:
    return np.array([tiers[m].answer_N[i] for m, i in zip(at, rows, strict=True)])


def _thresholds(tiers, confidence, y, held, risk, level) -> tuple[float, ...]:
    """Thresholds tier by tier, each on the calibration items that reach it."""
    taus: list[float] = []
    left = held
    for tier, c in zip(tiers[:-1], confidence, strict=True):
        use = left[~np.isnan(tier.answer_N[left])]
        tau = choose_tau(c[use], tier.answer_N[use] != y[use], risk, level=level)
        taus.append(tau)
        sure = (c[left] >= tau) & ~np.isnan(tier.answer_N[left])
        left = left[~sure]
    return tuple(taus)


def _audited(tiers, confidence, y, audit, taus, bound, looks, why) -> Audited:
    at = route([_rows(t, audit) for t in tiers], [c[audit] for c in confidence], taus)
    shares = np.bincount(at, minlength=len(tiers)) / max(1, audit.size)
    reached = shares[::-1].cumsum()[::-1]
    cost = np.array([t.cost for t in tiers])
    # A tier whose threshold is +inf would never be asked.
    asked = np.append(np.isfinite(taus), True)
    said, label = _answers(tiers, audit, at), y[audit]
    top = tiers[-1].answer_N[audit]
    return Audited(
        taus=tuple(taus),
        certified=not why,
        bound=bound,
        coverage=float(1 - shares[-1]),
        shares=tuple(shares.tolist()),
        compute=float((reached * cost * asked).sum() / cost[-1]) if cost[-1] else float("nan"),
        accuracy=_accuracy(said, label),
        top_accuracy=_accuracy(top, label),
        n=int(audit.size),
        looks=looks,
        why=why,
        unanswered=float(np.isnan(said).mean()) if said.size else 0.0,
        top_unanswered=float(np.isnan(top).mean()) if top.size else 0.0,
    )


def _accuracy(said: NDArray, label: NDArray) -> float:
    """Share right among the answers; a missing one is no wrong answer."""
    known = ~np.isnan(said)
    return float((said == label)[known].mean()) if known.any() else float("nan")
