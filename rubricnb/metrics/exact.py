"""Exact binomial bounds, and how many cases a wished interval needs."""

from __future__ import annotations

from math import ceil, isfinite

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ..errors import CreditError
from .intervals import Interval


def clopper_pearson(k: int, n: int, *, level: float = 0.95, side: str = "both") -> Interval:
    """Return a share k / n with its exact (Clopper-Pearson) bounds.

        low = Beta^-1(a; k, n - k + 1),  high = Beta^-1(1 - a; k + 1, n - k)

    with a = (1 - level) / 2 for two sides, 1 - level for one. Law: coverage is at least the level
    whatever the true share. With n = 0 nothing is known: NaN, from 0 to 1.

    Args:
        k: cases counted, 0 to n.
        n: independent cases.
        level: in (0, 1).
        side: "both", "upper" (low is 0) or "lower" (high is 1).
    Raises:
        CreditError: for an argument out of range.
    Reference: Clopper and Pearson (1934).

    >>> upper = clopper_pearson(0, 59, side="upper")
    >>> round(upper.high, 4)
    0.0495
    """
    if not (0 <= k <= n) or not 0 < level < 1 or side not in ("both", "upper", "lower"):
        raise CreditError(
            f"want 0 <= k <= n, a level in (0, 1) and a side both, upper or lower; "
            f"got {k}, {n}, {level}, {side!r}"
        )
    if n == 0:
        return Interval(float("nan"), 0.0, 1.0, 0, level)
    a = (1 - level) / (2 if side == "both" else 1)
    low = 0.0 if k == 0 or side == "upper" else float(stats.beta.ppf(a, k, n - k + 1))
    high = 1.0 if k == n or side == "lower" else float(stats.beta.ppf(1 - a, k + 1, n - k))
    return Interval(k / n, low, high, n, level)


def sample_size_share(
    width: float, share: float = 0.5, *, level: float = 0.95, design: float = 1.0
) -> int:
    """Return how many cases give an interval of a share of at most this full width.

        n = design * share (1 - share) (2 z / width)^2

    Args:
        width: from bound to bound, in (0, 1].
        share: the share expected, in [0, 1]; 0.5 is the safe choice.
        level: coverage.
        design: design effect of clusters, 1 + (cases a cluster - 1) * their correlation, >= 1.
    Raises:
        CreditError: for an argument out of range.

    >>> sample_size_share(0.1), sample_size_share(0.1, 0.9)
    (385, 139)
    """
    if not 0 < width <= 1 or not 0 <= share <= 1 or not 0 < level < 1 or design < 1:
        raise CreditError(
            f"want width in (0, 1], share in [0, 1], level in (0, 1), design >= 1; "
            f"got {width}, {share}, {level}, {design}"
        )
    z = stats.norm.ppf((1 + level) / 2)
    return max(1, ceil(design * share * (1 - share) * (2 * z / width) ** 2))


def kappa_variance(share_LL: ArrayLike) -> float:
    """Return n times the large-sample variance of Cohen's kappa, from a table of joint shares.

        [ sum_i p_ii (1 - (p_i. + p_.i)(1 - k))^2
          + (1 - k)^2 sum_{i != j} p_ij (p_.i + p_j.)^2 - (k - pe (1 - k))^2 ] / (1 - pe)^2

    Args:
        share_LL: (L, L), rows one rater and columns the other; counts are made shares.
    Returns:
        The variance times n; NaN where pe = 1.
    Raises:
        CreditError: for another shape, a negative entry or an empty table.
    Reference: Fleiss, Cohen and Everitt (1969), Eq. 13.

    >>> round(kappa_variance([[0.4, 0.1], [0.1, 0.4]]), 2)
    0.64
    """
    p = np.asarray(share_LL, dtype=float)
    if p.ndim != 2 or p.shape[0] != p.shape[1] or (p < 0).any() or not p.sum() > 0:
        raise CreditError(f"want a square table of counts with some in it; got {p.tolist()}")
    p = p / p.sum()
    row, col = p.sum(axis=1), p.sum(axis=0)
    po, pe = float(np.trace(p)), float(row @ col)
    if pe >= 1:
        return float("nan")
    k = (po - pe) / (1 - pe)
    same = np.diag(p) * (1 - (row + col) * (1 - k)) ** 2
    apart = p * (col[:, None] + row[None, :]) ** 2
    off = apart.sum() - np.trace(apart)
    total = same.sum() + (1 - k) ** 2 * off - (k - pe * (1 - k)) ** 2
    return float(max(total, 0.0) / (1 - pe) ** 2)


def sample_size_kappa(
    width: float, share_LL: ArrayLike, *, level: float = 0.95, design: float = 1.0
) -> int:
    """Return how many items give an interval of Cohen's kappa of at most this full width.

    Args:
        width: from bound to bound, in (0, 2].
        share_LL: the joint table expected, for instance the one of a pilot.
        level: coverage.
        design: design effect of clusters, >= 1.
    Raises:
        CreditError: for an argument out of range, or a table whose kappa is not defined.

    >>> sample_size_kappa(0.2, [[0.4, 0.1], [0.1, 0.4]])
    246
    """
    variance = kappa_variance(share_LL)
    if not 0 < width <= 2 or not 0 < level < 1 or design < 1 or not isfinite(variance):
        raise CreditError(
            f"want width in (0, 2], level in (0, 1), design >= 1 and two labels in use; "
            f"got {width}, {level}, {design}, variance {variance}"
        )
    z = stats.norm.ppf((1 + level) / 2)
    return max(1, ceil(design * variance * (2 * z / width) ** 2))


def design_effect(cases: ArrayLike, correlation: float) -> float:
    """Return the design effect of clusters: 1 + (m - 1) c, m the size-weighted mean cluster size.

    >>> design_effect([4, 4, 4], 0.5)
    2.5
    """
    n = np.asarray(cases, dtype=float)
    if n.size == 0 or (n < 1).any() or not 0 <= correlation <= 1:
        raise CreditError(f"want cluster sizes >= 1 and correlation in [0, 1]; got {correlation}")
    return float(1 + ((n**2).sum() / n.sum() - 1) * correlation)
