"""Mixed credit: between one advantage for all tokens and credit by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .batch import CreditBatch
from .common import Array, as_finite, number


def mix(
    batch: CreditBatch,
    credit_GS: ArrayLike,
    *,
    weight: float = 0.5,
    ddof: int = 1,
    eps: float = 1e-6,
) -> Array:
    """Return ``(1 - weight) A + weight a``: the credit, drawn towards plain GRPO.

    Laws: at weight 0 it is plain GRPO, at 1 the other rule, and linear in between; whatever sum
    both conserve, and a sign that both keep, it keeps. Any weight below 1 leaves no step of a
    graded rollout at 0 where the other rule is sign-safe.

    Args:
        batch: tokens_GS and the advantage of ``grpo``.
        credit_GS: (G, S) per-token credit of another rule.
        weight: in [0, 1].
        ddof, eps: as ``grpo``.
    Returns:
        (G, S) credit per token, 0 on padding.
    Raises:
        CreditError: a shape is wrong or the weight is out of range.
    Reference: ours.

    >>> b = CreditBatch([[2, 2]], advantage_G=[1.0])
    >>> mix(b, [[2.0, 0.0]], weight=0.25).tolist()
    [[1.25, 0.75]]
    """
    a = as_finite("credit_GS", credit_GS, batch.tokens_GS.shape)
    w = number("weight", weight, 0, 1)
    A = batch.advantage(rule="mixed", ddof=ddof, eps=eps)
    return np.where(batch.live_GS, (1.0 - w) * A[:, None] + w * a, 0.0) + 0.0
