"""Signed credit: shares around the mean quality, so that a bad step of a winner can lose."""

from __future__ import annotations

import numpy as np

from .batch import CreditBatch
from .common import Array, number, quality


def signed(batch: CreditBatch, *, scale: float = 2.0, ddof: int = 1, eps: float = 1e-6) -> Array:
    """Return DRACO's split with signed shares around the rollout's mean quality.

        share_j = (1 + s (Q_j - mean Q)) / M,   s = scale if A >= 0 else -scale
        a_j = A N share_j / n_j;   a_j = A where no step is cited

    Q is the pass share of the citations of a step, the mean of the cited ones elsewhere.

    Laws: sum_j n_j a_j = A N; an uncited step beside cited ones has the share 1/M; it never
    collapses; at scale 0 every step has the same total. Given up: the sign, where
    ``scale |Q_j - mean Q| > 1``.

    Args:
        batch: tokens_GS, pass_GS, fail_GS, and the advantage of ``grpo``.
        scale: >= 0; at most 1 keeps the sign.
        ddof, eps: as ``grpo``.
    Returns:
        (G, S) credit per token, 0 on padding.
    Raises:
        CreditError: a field is missing or the scale is out of range.
    Reference: ours.

    >>> b = CreditBatch([[10, 10]], advantage_G=[1.0], pass_GS=[[3, 0]], fail_GS=[[0, 3]])
    >>> signed(b).tolist(), signed(b, scale=4.0).tolist()
    ([[2.0, 0.0]], [[3.0, -1.0]])
    """
    p, f = batch.need("pass_GS", "signed"), batch.need("fail_GS", "signed")
    A = batch.advantage(rule="signed", ddof=ddof, eps=eps)[:, None]
    n, live = batch.tokens_GS, batch.live_GS
    s = number("scale", scale, 0)
    Q, mean = quality(p, f, live)
    M = np.maximum(live.sum(axis=1), 1)[:, None]
    share = (1.0 + np.where(A >= 0, s, -s) * (Q - mean[:, None])) / M
    a = A * n.sum(axis=1)[:, None] * share / np.where(live, n, 1.0)
    return np.where(live, np.where(np.isnan(mean)[:, None], A, a), 0.0) + 0.0
