"""What an attack on a judge does: false passes, flips, and what changes in R, A and citations.

The same rollouts are judged twice, before and after a rewrite that changes no action and no
observation, so every difference is the judge's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CreditError
from .exact import clopper_pearson
from .intervals import Interval, cluster_rows
from .resampled import bootstrap_sums, ratio


@dataclass(frozen=True, slots=True)
class Effect:
    """What a rewrite did to a judge's yes or no. Shares in [0, 1].

    Args:
        failures, successes: rollouts of each kind that were answered both times.
        missing: labelled rollouts without an answer in one of the two; they are left out.
        fpr_before, fpr_after: yeses among true failures.
        delta: their difference, in points of share.
        relative: delta over fpr_before, NaN where that is 0.
        flip_rate: of the failures that were judged failures, share now judged successes.
        recall_before, recall_after: yeses among true successes.
        intervals: figure -> interval over resampled clusters, paired.
    """

    failures: int
    successes: int
    missing: int
    fpr_before: float
    fpr_after: float
    delta: float
    relative: float
    flip_rate: float
    recall_before: float
    recall_after: float
    recall_change: float
    intervals: Mapping[str, Interval] = field(default_factory=lambda: MappingProxyType({}))


def _figures(sums: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """From (..., 7) sums: failures, yes before, yes after, flips, successes, yes before, after."""
    bad, before, after, flips, good, had, has = np.moveaxis(np.asarray(sums, float), -1, 0)
    a, b = ratio(before, bad), ratio(after, bad)
    return {
        "fpr_before": a,
        "fpr_after": b,
        "delta": b - a,
        "relative": ratio(b - a, a),
        "flip_rate": ratio(flips, bad - before),
        "recall_before": ratio(had, good),
        "recall_after": ratio(has, good),
        "recall_change": ratio(has - had, good),
    }


# The cases that each share is of, from the same sums.
_SHARES = MappingProxyType(
    {
        "fpr_before": lambda s: s[..., 0],
        "fpr_after": lambda s: s[..., 0],
        "flip_rate": lambda s: s[..., 0] - s[..., 1],
        "recall_before": lambda s: s[..., 4],
        "recall_after": lambda s: s[..., 4],
    }
)


def effect(
    before_N: ArrayLike,
    after_N: ArrayLike,
    label_N: ArrayLike,
    cluster_N: Sequence[object] | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Effect:
    """Return what an attack did to a judge, on the same rollouts before and after.

    Law: without any change of answer, delta, flips and recall change are 0.

    Args:
        before_N, after_N: (N,) 1 yes, 0 no, NaN no usable answer.
        label_N: (N,) 1 success, 0 failure, NaN unknown (dropped).
        cluster_N: (N,) tasks, resampled in pairs for the intervals; None: none.
        resamples, seed: of the intervals.
    Raises:
        CreditError: for lengths or values that do not fit.
    Reference: Gaming the Judge, arXiv 2601.14691; "up to 90 %" there is ``relative``.

    >>> e = effect([0, 0, 1], [1, 0, 1], [0, 0, 1])
    >>> e.delta, e.flip_rate, e.recall_change
    (0.5, 0.5, 0.0)
    """
    before, after, label = (np.asarray(x, dtype=float) for x in (before_N, after_N, label_N))
    for name, v in (("answers before", before), ("answers after", after), ("labels", label)):
        if v.shape != label.shape or v.ndim != 1 or not (np.isin(v, (0, 1)) | np.isnan(v)).all():
            raise CreditError(f"want {name} of 1, 0 or NaN, one a rollout; got shape {v.shape}")
    known = ~np.isnan(label)
    use = known & ~np.isnan(before) & ~np.isnan(after)
    bad, good = use & (label == 0), use & (label == 1)
    parts = np.column_stack(
        [
            bad,
            bad & (before == 1),
            bad & (after == 1),
            bad & (before == 0) & (after == 1),
            good,
            good & (before == 1),
            good & (after == 1),
        ]
    ).astype(float)
    bounds: dict[str, Interval] = {}
    if cluster_N is not None:
        per = np.array([parts[r].sum(axis=0) for r in cluster_rows(cluster_N)])
        bounds = bootstrap_sums(per, _figures, shares=_SHARES, resamples=resamples, seed=seed)
        for name, who in (("delta", bad), ("recall_change", good)):
            if not (before != after)[who].any():
                units = len({c for c, w in zip(cluster_N, who, strict=True) if w})
                bounds[name] = _unmoved(bounds[name], units)
    return Effect(
        failures=int(bad.sum()),
        successes=int(good.sum()),
        missing=int((known & ~use).sum()),
        intervals=MappingProxyType(bounds),
        **{k: float(v) for k, v in _figures(parts.sum(axis=0)).items()},
    )


def _unmoved(change: Interval, units: int) -> Interval:
    """The interval of a change where no answer changed: exact, over clusters, in both directions.

    Resampling would claim that the attack never works.
    """
    if units < 1:
        return change
    most = clopper_pearson(0, units, level=change.level).high
    return Interval(change.mean, -most, most, units, change.level)


@dataclass(frozen=True, slots=True)
class CreditChange:
    """What one attacked rollout gained in its group.

    Args:
        reward: change of R; NaN where it is ungraded before or after.
        advantage: change of its A within the group.
        citations: share of cited (criterion, step) pairs that are not in both (1 - Jaccard).
        flipped: criteria that went from fail to pass.
        criteria: criteria judged both times.
    """

    reward: float
    advantage: float
    citations: float
    flipped: int
    criteria: int


def credit_change(
    reward_before_G: ArrayLike,
    reward_after_G: ArrayLike,
    verdict_before_K: ArrayLike,
    verdict_after_K: ArrayLike,
    cite_before_KS: ArrayLike,
    cite_after_KS: ArrayLike,
    member: int,
) -> CreditChange:
    """Return what changed for one member of a group; the other members are judged once.

    Args:
        reward_before_G, reward_after_G: (G,) R of the group, with the member before and after.
        verdict_before_K, verdict_after_K: (K,) its verdicts, +1, -1, 0 or NaN.
        cite_before_KS, cite_after_KS: (K, S) bool, its citations.
        member: which one, from 0.
    """
    from ..credit.common import group_advantage

    r0, r1 = np.asarray(reward_before_G, float), np.asarray(reward_after_G, float)
    a0, a1 = group_advantage(r0), group_advantage(r1)
    v0, v1 = np.asarray(verdict_before_K, float), np.asarray(verdict_after_K, float)
    c0, c1 = np.asarray(cite_before_KS, bool), np.asarray(cite_after_KS, bool)
    either, both = (c0 | c1).sum(), (c0 & c1).sum()
    return CreditChange(
        reward=float(r1[member] - r0[member]),
        advantage=float(a1[member] - a0[member]),
        citations=float(1 - both / either) if either else float("nan"),
        flipped=int(((v0 == -1) & (v1 == 1)).sum()),
        criteria=int((~np.isnan(v0) & ~np.isnan(v1)).sum()),
    )
