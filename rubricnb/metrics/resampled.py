"""Cluster bootstrap of many figures at once, where each is a function of sums over clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CreditError
from .exact import clopper_pearson
from .intervals import Interval, cluster_rows

Cases = Callable[[NDArray[np.float64]], NDArray[np.float64]]
NONE: Mapping[str, Cases] = MappingProxyType({})
Figures = Callable[[NDArray[np.float64]], Mapping[str, NDArray[np.float64]]]


def ratio(part: ArrayLike, whole: ArrayLike) -> NDArray[np.float64]:
    """Return part / whole, NaN where whole is 0.

    >>> ratio([1.0, 0.0], [2.0, 0.0]).tolist()
    [0.5, nan]
    """
    part, whole = np.asarray(part, dtype=float), np.asarray(whole, dtype=float)
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), np.nan)


def bootstrap_sums(
    per_cluster_CX: ArrayLike,
    figures: Figures,
    *,
    shares: Mapping[str, Cases] = NONE,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Return figures of the summed table, with percentile intervals over resampled clusters.

    The same as ``bootstrap_clusters`` for each figure, for the price of one matrix product:
    drawing clusters with repeats is weighting their rows by multinomial counts.

    Args:
        per_cluster_CX: (C, X), what each of C clusters adds to X sums.
        figures: from (..., X) sums to named arrays of shape (...); NaN where undefined.
        shares: figures that are shares, and from (..., X) sums to the cases each is a share of.
            Where such a share is 0 or 1 its bounds are exact, over clusters with a case
            (``at_the_edge``): resampling would claim certainty.
        level: coverage, in (0, 1).
        resamples: number of resamples, >= 1.
        seed: of the resampling.
    Returns:
        name -> interval. Undefined resamples are left out; where more than half are, or there is
        one cluster, the bounds are NaN.
    Raises:
        CreditError: for another shape or a level outside of (0, 1).

    >>> def share(s):
    ...     return {"share": ratio(s[..., 0], s[..., 1])}
    >>> b = bootstrap_sums([[1, 2], [2, 2], [0, 2]], share)
    >>> b["share"].mean, b["share"].n
    (0.5, 3)
    """
    per = np.asarray(per_cluster_CX, dtype=float)
    if per.ndim != 2 or len(per) < 1 or not 0 < level < 1 or resamples < 1:
        raise CreditError(
            f"want (C, X) sums of at least one cluster and a level in (0, 1); got shape "
            f"{per.shape}, level {level}, resamples {resamples}"
        )
    c = len(per)
    point = {k: float(v) for k, v in figures(per.sum(axis=0)).items()}
    if c == 1:
        return {k: Interval(v, float("nan"), float("nan"), 1, level) for k, v in point.items()}
    counts = np.random.default_rng(seed).multinomial(c, np.full(c, 1 / c), size=resamples)
    drawn = figures(counts @ per)
    made = {k: _interval(v, np.asarray(drawn[k], float), c, level) for k, v in point.items()}
    for name, cases in shares.items():
        made[name] = at_the_edge(made[name], int((cases(per) > 0).sum()))
    return made


def _interval(point: float, drawn_B: NDArray[np.float64], n: int, level: float) -> Interval:
    known = drawn_B[np.isfinite(drawn_B)]
    if known.size * 2 < drawn_B.size or not np.isfinite(point):
        return Interval(point, float("nan"), float("nan"), n, level)
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(point, float(low), float(high), n, level)


def at_the_edge(interval: Interval, units: int) -> Interval:
    """Return the interval of a share, or exact bounds over whole clusters where a share is 0 or 1.

    Resampling cannot leave 0 or 1 where no case does, which would claim certainty. There the
    clusters are the cases: Clopper-Pearson with so many units.

    >>> round(at_the_edge(Interval(0.0, 0.0, 0.0, 9), 9).high, 3)
    0.336
    """
    point = interval.mean
    if units < 1 or point not in (0.0, 1.0):
        return interval
    exact = clopper_pearson(round(point * units), units, level=interval.level)
    return Interval(point, exact.low, exact.high, units, interval.level)


def kappa_at_one(kappa: Interval, agreement: Interval, chance: float) -> Interval:
    """Return kappa's interval; where it is 1, with the lower bound that the agreement's implies.

        low = 1 - (1 - low of agreement) / (1 - chance agreement)

    >>> k = kappa_at_one(Interval(1.0, 1.0, 1.0, 9), Interval(1.0, 0.75, 1.0, 9), 0.5)
    >>> k.low, k.high
    (0.5, 1.0)
    """
    if kappa.mean != 1.0 or not chance < 1 or not np.isfinite(agreement.low):
        return kappa
    return replace(kappa, low=1 - (1 - agreement.low) / (1 - chance))


def cluster_share(
    hit_N: ArrayLike,
    cluster_N: Sequence[object],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Return a share of cases with bounds over resampled clusters, exact ones where it is 0 or 1.

    Args:
        hit_N: (N,) of 0 and 1.
        cluster_N: (N,) what is resampled, such as the task.
        level, resamples, seed: of the interval.
    Returns:
        The share; its n is the number of clusters. NaN and bounds of 0 and 1 without cases.
    Raises:
        CreditError: for lengths that differ, or another value.

    >>> cluster_share([1, 1, 0, 0], ["a", "a", "b", "b"]).mean
    0.5
    """
    hit = np.asarray(hit_N, dtype=float)
    if hit.shape != (len(cluster_N),) or not np.isin(hit, (0, 1)).all():
        raise CreditError(f"want a hit of 0 or 1 a cluster label; got shape {hit.shape}")
    if not hit.size:
        return Interval(float("nan"), 0.0, 1.0, 0, level)
    per = np.array([[hit[r].sum(), len(r)] for r in cluster_rows(cluster_N)])
    return bootstrap_sums(
        per, lambda s: {"share": ratio(s[..., 0], s[..., 1])},
        shares={"share": lambda s: s[..., 1]}, level=level, resamples=resamples, seed=seed,
    )["share"]  # fmt: skip
