"""Scores against labels: AUROC and recall at fixed flag rates, resampled by cluster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from ..errors import CreditError
from .intervals import Interval, cluster_rows


def _checked(score_N: ArrayLike, label_N: ArrayLike) -> tuple[NDArray, NDArray]:
    s, y = np.asarray(score_N, dtype=float), np.asarray(label_N, dtype=float)
    if s.ndim != 1 or s.shape != y.shape or not np.isin(y, (0, 1)).all() or np.isnan(s).any():
        raise CreditError("want as many finite scores as labels of 0 or 1; got something else")
    return s, y


def auroc(score_N: ArrayLike, label_N: ArrayLike) -> float:
    """Return the chance that a case of label 1 scores above one of label 0, ties counting half.

    NaN where only one label occurs. Laws: 1 - auroc under negated scores; unchanged by any
    increasing map of the scores.

    >>> auroc([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1])
    0.875
    """
    s, y = _checked(score_N, label_N)
    n1 = int(y.sum())
    n0 = y.size - n1
    if not n0 or not n1:
        return float("nan")
    return float((rankdata(s)[y == 1].sum() - n1 * (n1 + 1) / 2) / (n0 * n1))


def recall_at(score_N: ArrayLike, label_N: ArrayLike, flag_rate: float) -> float:
    """Return the share of label-1 cases among the highest-scored flag_rate of all cases.

    At least one case is flagged; of equal scores the first ones are. NaN without label-1 cases.

    >>> recall_at([0.9, 0.8, 0.1, 0.2], [1, 0, 0, 1], 0.5)
    0.5
    """
    s, y = _checked(score_N, label_N)
    if not 0 < flag_rate <= 1:
        raise CreditError(f"want a flag rate in (0, 1]; got {flag_rate}")
    if not y.sum():
        return float("nan")
    top = np.argsort(-s, kind="stable")[: max(1, round(flag_rate * s.size))]
    return float(y[top].sum() / y.sum())


def _draws(cluster_N: Sequence[object], resamples: int, seed: int):
    """(B, N) weights of rows under resampled clusters, one row at a time."""
    rows = cluster_rows(cluster_N)
    place = np.zeros(len(cluster_N), dtype=int)
    for c, r in enumerate(rows):
        place[r] = c
    rng = np.random.default_rng(seed)
    c = len(rows)
    for _ in range(resamples):
        yield rng.multinomial(c, np.full(c, 1 / c))[place]


def _bounds(point: float, drawn: list[float], n: int, level: float) -> Interval:
    known = np.array([d for d in drawn if np.isfinite(d)])
    if n < 2 or known.size * 2 < len(drawn) or not np.isfinite(point):
        return Interval(point, float("nan"), float("nan"), n, level)
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(point, float(low), float(high), n, level)


def auroc_interval(
    score_N: ArrayLike,
    label_N: ArrayLike,
    cluster_N: Sequence[object],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Return AUROC with its percentile interval over resampled clusters (tasks).

    Args:
        score_N, label_N: as ``auroc``.
        cluster_N: (N,) the cluster of each case.
        level, resamples, seed: of the bootstrap.
    Raises:
        CreditError: for lengths that differ.

    >>> auroc_interval([0.1, 0.9, 0.2, 0.8], [0, 1, 0, 1], "abcd").mean
    1.0
    """
    s, y = _checked(score_N, label_N)
    if len(cluster_N) != s.size:
        raise CreditError(f"want one cluster a score, {s.size}; got {len(cluster_N)}")
    order = np.argsort(s, kind="stable")
    y = y[order]
    # Where each run of equal scores starts and ends, so that ties count half.
    first = np.searchsorted(s[order], s[order], side="left")
    last = np.searchsorted(s[order], s[order], side="right")
    drawn = []
    for w in _draws(cluster_N, resamples, seed):
        w = w[order]
        below = np.concatenate([[0], np.cumsum(w * (1 - y))])
        good = w * y
        total = good.sum() * below[-1]
        half = (below[first] + below[last]) / 2
        drawn.append(float((good * half).sum() / total) if total else float("nan"))
    n = len(set(cluster_N))
    return _bounds(auroc(score_N, label_N), drawn, n, level)


def recall_intervals(
    score_N: ArrayLike,
    label_N: ArrayLike,
    cluster_N: Sequence[object],
    flag_rates: Sequence[float] = (0.05, 0.1, 0.2),
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[float, Interval]:
    """Return recall at each flag rate with its interval over resampled clusters.

    Args: as ``auroc_interval``; ``flag_rates`` in (0, 1].
    """
    s, y = _checked(score_N, label_N)
    order = np.argsort(-s, kind="stable")
    y = y[order]
    drawn: dict[float, list[float]] = {r: [] for r in flag_rates}
    for w in _draws(cluster_N, resamples, seed):
        w = w[order]
        seen, caught = np.cumsum(w), np.cumsum(w * y)
        for rate, row in drawn.items():
            want = max(1.0, rate * seen[-1])
            i = int(np.searchsorted(seen, want - 1e-9))
            row.append(float(caught[i] / caught[-1]) if caught[-1] else float("nan"))
    n = len(set(cluster_N))
    return {r: _bounds(recall_at(s, label_N, r), d, n, level) for r, d in drawn.items()}
