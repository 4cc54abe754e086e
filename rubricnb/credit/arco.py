"""ARCO: step scores of a learned rubric model, centred among the steps of one position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .batch import CreditBatch
from .common import Array, as_finite, choice, joint_key, last_live, number, returns_to_go


def arco(
    batch: CreditBatch,
    *,
    scale: float = 0.5,
    future: str = "sum",
    gamma: float = 0.9,
    bucket: str = "position",
    counted: Sequence[str] | None = None,
    leave_one_out: bool = False,
) -> Array:
    """Return the reward-to-go of step scores, minus its mean over the steps of one bucket.

        G[t] = sum_{k >= t} s[k];   a[t] = scale (G[t] - mean of G in bucket(t))

    The last step of a rollout is in the bucket "terminal". A bucket with one step is compared
    with the mean of all. There are no groups: the batch is the baseline.

    Laws: with leave_one_out=False every bucket of two or more has the credit sum 0; equal rollouts
    get 0; it conserves no push and can change the sign.

    Args:
        batch: tokens_GS and score_GS in [-1, 1] by convention; a rollout with a NaN score on a
            step is left out and gets 0. kind_GS for bucket="kind".
        scale: > 0, the published 0.5; there is no division by a std.
        future: "sum", "mean" (of the remaining scores), or "discount" by gamma.
        gamma: in [0, 1], for future="discount".
        bucket: "position": the r-th step; "kind": the r-th step of that kind, as published for
            searches.
        counted: with "kind", the kinds that have buckets; others are "terminal" (published:
            searches only). Default: all.
        leave_one_out: leaves the value itself out of its bucket's mean.
    Returns:
        (G, S) credit per token.
    Raises:
        CreditError: a field is missing or an option is out of range.
    Reference: ARCO (arXiv 2606.21262), dense phase, as its released trainer computes it.

    >>> arco(CreditBatch([[2, 4], [2, 4]], score_GS=[[0.5, 0.5], [-0.5, 0.5]])).tolist()
    [[0.25, 0.0], [-0.25, 0.0]]
    """
    choice("future", future, ("sum", "mean", "discount"))
    choice("bucket", bucket, ("position", "kind"))
    score, live = batch.need("score_GS", "arco"), batch.live_GS
    used = live & ~(np.isnan(score) & live).any(axis=1, keepdims=True)
    s = np.where(used, score, 0.0)
    G = returns_to_go(s, number("gamma", gamma, 0, 1) if future == "discount" else 1.0)
    if future == "mean":
        G = G / np.maximum(returns_to_go(used.astype(float)), 1)
    key = _buckets(batch, bucket, counted)[used]
    value = G[used]
    n, total = np.bincount(key), np.bincount(key, value)
    own = value if leave_one_out else 0.0
    others = n[key] - 1 if leave_one_out else n[key]
    b = (total[key] - own) / np.maximum(others, 1)
    # Where the bucket is alone, the published code falls back to the mean of the whole batch.
    b = np.where(n[key] > 1, b, value.mean() if len(value) else 0.0)
    out = np.zeros(live.shape)
    out[used] = number("scale", scale, 0) * (value - b)
    return out + 0.0


def _buckets(batch: CreditBatch, bucket: str, counted: Sequence[str] | None) -> Array:
    """(G, S) bucket numbers; "terminal" is 0."""
    live = batch.live_GS
    if bucket == "position":
        rank = np.cumsum(live, axis=1)
        return np.where(last_live(live), 0, rank)
    kind = joint_key(batch.need("kind_GS", "arco"))
    rank = np.zeros(live.shape, dtype=np.int64)
    for k in np.unique(kind[live]):
        of = live & (kind == k)
        rank = np.where(of, np.cumsum(of, axis=1), rank)
    code = joint_key(kind, rank) + 1
    terminal = last_live(live)
    if counted is not None:
        terminal = terminal | ~np.isin(batch.need("kind_GS", "arco"), list(counted))
    return np.where(terminal, 0, code)


def decompose(
    score_GS: ArrayLike, total_G: ArrayLike, live_GS: ArrayLike, rounds: int = 60
) -> Array:
    """Return the scores nearest to the given ones that sum to each rollout's total.

        argmin sum (x - s)^2  subject to  sum_t x[t] = R,  -1 <= x <= 1

    Solved by bisection on the shift u of x = clip(s + u, -1, 1). Law: it is a projection, so
    projecting again changes nothing.

    Args:
        score_GS: (G, S) scores before projection.
        total_G: (G,) the return of each rollout, clipped to what its steps can sum to.
        live_GS: (G, S) bool, the steps; others get 0.
        rounds: halvings of the interval.
    Returns:
        (G, S) in [-1, 1].
    Raises:
        CreditError: a shape is wrong or a number is not finite.
    Reference: ARCO (arXiv 2606.21262), warm-up data of the rubric model.

    >>> decompose([[0.0, 1.0, 0.0]], [1.0], [[True, True, True]]).tolist()
    [[0.0, 1.0, 0.0]]
    """
    s = as_finite("score_GS", score_GS, (None, None))
    live = np.asarray(live_GS, dtype=bool)
    R = as_finite("total_G", total_G, s.shape[:1])
    low = np.full(len(s), -1.0 - np.abs(s).max(initial=0.0))
    high = -low
    for _ in range(rounds):
        middle = (low + high) / 2
        under = np.where(live, np.clip(s + middle[:, None], -1, 1), 0.0).sum(axis=1) < R
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    x = np.clip(s + ((low + high) / 2)[:, None], -1, 1)
    # Rounded to the bisection's accuracy: 1e-17 is not a score.
    return np.where(live, x.round(12), 0.0) + 0.0
