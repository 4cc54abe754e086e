"""Cluster bootstrap of many figures at once, where each is a function of sums over clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CreditError
from .intervals import Interval

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
    return {k: _interval(v, np.asarray(drawn[k], float), c, level) for k, v in point.items()}


def _interval(point: float, drawn_B: NDArray[np.float64], n: int, level: float) -> Interval:
    known = drawn_B[np.isfinite(drawn_B)]
    if known.size * 2 < drawn_B.size or not np.isfinite(point):
        return Interval(point, float("nan"), float("nan"), n, level)
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(point, float(low), float(high), n, level)
