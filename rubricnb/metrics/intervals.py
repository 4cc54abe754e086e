"""Intervals: over training seeds, over tasks by cluster bootstrap, and of paired differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from ..errors import CreditError


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its interval; NaN bounds where one unit gives no spread to judge by.

    Args:
        mean: the figure itself, in the unit of the data.
        low: lower bound.
        high: upper bound.
        n: how many independent units (seeds or clusters) are behind it.
        level: coverage, in (0, 1).
        sd: sample standard deviation over the units (ddof 1); NaN for one unit.
    """

    mean: float
    low: float
    high: float
    n: int
    level: float = 0.95
    sd: float = float("nan")


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise CreditError(f"want a level in (0, 1); got {level}")


def t_interval(values: ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the mean over independent units (training seeds) with Student's t interval.

        mean +- t(level, n - 1) * sd / sqrt(n),  sd with ddof = 1

    Law: shifting every value shifts the interval, scaling scales it.

    Args:
        values: (n,), one figure a unit, finite.
        level: coverage, in (0, 1).
    Returns:
        The interval; its bounds and sd are NaN for n = 1.
    Raises:
        CreditError: for no values or one that is not finite.

    >>> t = t_interval([1.0, 2.0, 3.0])
    >>> round(t.mean, 3), round(t.low, 3), round(t.high, 3), t.n
    (2.0, -0.484, 4.484, 3)
    """
    v = np.asarray(values, dtype=float)
    if v.ndim != 1 or v.size == 0 or not np.isfinite(v).all():
        raise CreditError(f"want a row of at least one finite value; got {v.tolist()}")
    _check_level(level)
    mean = float(v.mean())
    if v.size == 1:
        return Interval(mean, float("nan"), float("nan"), 1, level)
    sd = float(v.std(ddof=1))
    half = float(stats.t.ppf((1 + level) / 2, v.size - 1)) * sd / float(np.sqrt(v.size))
    return Interval(mean, mean - half, mean + half, int(v.size), level, sd)


def paired_difference(
    a: Mapping[object, float], b: Mapping[object, float], *, level: float = 0.95
) -> Interval:
    """Return the mean of a - b over the seeds that both have, with Student's t interval.

    Pairing by seed removes what a seed does to both arms. Law: swapping a and b negates it.

    Args:
        a: seed -> figure of one arm.
        b: seed -> figure of the other.
        level: coverage, in (0, 1).
    Raises:
        CreditError: where no seed is in both.

    >>> d = paired_difference({0: 0.8, 1: 0.9}, {0: 0.7, 1: 0.6, 2: 0.1})
    >>> round(d.mean, 3), d.n
    (0.2, 2)
    """
    common = [s for s in a if s in b]
    if not common:
        raise CreditError(f"want a seed in both arms; got {list(a)} and {list(b)}")
    return t_interval([a[s] - b[s] for s in common], level=level)


def cluster_rows(cluster_N: Sequence[object]) -> list[NDArray[np.intp]]:
    """Return the row numbers of each cluster, clusters in order of first appearance."""
    rows: dict[object, list[int]] = {}
    for i, c in enumerate(cluster_N):
        rows.setdefault(c, []).append(i)
    return [np.array(r) for r in rows.values()]


def bootstrap_clusters(
    statistic: Callable[[NDArray[np.intp]], float],
    n: int,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Return a statistic of n clusters with its percentile interval over resampled clusters.

    Resamples where the statistic is not defined (NaN) are left out; where more than half are,
    the bounds are NaN. The draws are made by ``scipy.stats.bootstrap``.

    Args:
        statistic: takes cluster numbers, (n,) in 0..n-1 with repeats, and returns a figure.
        n: number of clusters, >= 1.
        level: coverage, in (0, 1).
        resamples: number of resamples, >= 1.
        seed: of the resampling.
    Raises:
        CreditError: for n < 1 or a level outside of (0, 1).

    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> b = bootstrap_clusters(lambda i: x[i].mean(), 4)
    >>> b.mean, 1.0 <= b.low < b.mean < b.high <= 4.0
    (2.5, True)
    """
    if n < 1:
        raise CreditError(f"want at least one cluster; got {n}")
    _check_level(level)
    every = np.arange(n)
    point = float(statistic(every))
    if n == 1:
        return Interval(point, float("nan"), float("nan"), 1, level)
    with warnings.catch_warnings():
        # Its own bounds are not used: they are NaN as soon as one resample is undefined.
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        drawn = stats.bootstrap(
            (every,),
            lambda i: float(statistic(np.asarray(i, dtype=np.intp))),
            n_resamples=resamples,
            vectorized=False,
            method="percentile",
            rng=np.random.default_rng(seed),
        ).bootstrap_distribution
    known = drawn[np.isfinite(drawn)]
    if known.size * 2 <= drawn.size or not np.isfinite(point):
        return Interval(point, float("nan"), float("nan"), n, level)
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(point, float(low), float(high), n, level)


def cluster_bootstrap(
    value_N: ArrayLike,
    cluster_N: Sequence[object],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Return the mean of values with its interval over resampled clusters (tasks or scenarios).

    Runs of one task, and tasks of one scenario, succeed together, so the cluster is drawn and
    not the single value. Law: with one value a cluster it is the plain bootstrap of the mean.

    Args:
        value_N: (N,), finite.
        cluster_N: (N,), the cluster of each value.
        level: coverage, in (0, 1).
        resamples: number of resamples.
        seed: of the resampling.
    Raises:
        CreditError: for lengths that differ, no values, or values that are not finite.

    >>> cluster_bootstrap([1, 1, 0, 0], ["a", "a", "b", "b"]).n
    2
    """
    v = np.asarray(value_N, dtype=float)
    if v.ndim != 1 or v.size == 0 or v.size != len(cluster_N) or not np.isfinite(v).all():
        raise CreditError(
            f"want finite values, one cluster each, {len(cluster_N)}; got shape {v.shape}"
        )
    _check_level(level)
    rows = cluster_rows(cluster_N)
    total = np.array([v[r].sum() for r in rows])
    size = np.array([r.size for r in rows])
    mean = float(v.mean())
    if len(rows) == 1:
        return Interval(mean, float("nan"), float("nan"), 1, level)
    drawn = stats.bootstrap(
        (total, size),
        lambda t, n, axis: t.sum(axis=axis) / n.sum(axis=axis),
        paired=True,
        n_resamples=resamples,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).bootstrap_distribution
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(mean, float(low), float(high), len(rows), level)


def checkpoint_spread(value_C: ArrayLike, last: int = 3) -> tuple[float, float]:
    """Return mean and sample SD (ddof 1) over the last checkpoints of one training.

    This is the paper's spread; it is not the spread over training seeds and is smaller.

    Args:
        value_C: (C,), one figure a checkpoint, in order of training.
        last: how many of the last checkpoints count.
    Returns:
        Mean and SD; the SD is NaN for one checkpoint.
    Raises:
        CreditError: for no checkpoints or last < 1.

    >>> checkpoint_spread([0.1, 0.5, 0.6, 0.7])
    (0.6, 0.09999999999999998)
    """
    v = np.asarray(value_C, dtype=float)
    if v.ndim != 1 or v.size == 0 or last < 1:
        raise CreditError(f"want at least one checkpoint and last >= 1; got {v.tolist()}, {last}")
    v = v[-last:]
    return float(v.mean()), float(v.std(ddof=1)) if v.size > 1 else float("nan")
