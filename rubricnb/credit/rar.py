"""RaR: a weighted rubric as the reward of the whole response."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from .batch import CreditBatch
from .common import Array, as_counts, as_verdicts, group_advantage, number, offender

# Quoted from memory by a secondary source and not verified against the paper.
WEIGHTS: Mapping[str, float] = {"essential": 1.0, "important": 0.7, "optional": 0.3, "pitfall": 0.9}


def rar_reward(verdict_GK: ArrayLike, weight_GK: ArrayLike) -> Array:
    """Return the weighted share of criteria that passed.

        R[g] = sum_c w_c [v_c = +1] / sum_c w_c,   over criteria with a verdict +1 or -1

    The published rubrics have no not-applicable verdict; ours leave both sums, as failed
    judgements do. Law: in [0, 1]; with equal weights it is (1 + ``rubric_reward``) / 2.

    Args:
        verdict_GK: (G, K), +1, -1, 0, NaN.
        weight_GK: (G, K) or (1, K), >= 0.
    Returns:
        (G,), or NaN where no weight applies and a judgement failed; 0 where none did.
    Raises:
        CreditError: a verdict is another number or a weight is negative.
    Reference: RaR (arXiv 2507.17746), explicit aggregation.

    >>> rar_reward([[1, -1], [1, 0]], [[1.0, 0.3]]).round(3).tolist()
    [0.769, 1.0]
    """
    v = as_verdicts(verdict_GK)
    w = as_counts("weight_GK", weight_GK, (None, v.shape[1]))
    w = np.abs(np.nan_to_num(v)) * w
    total = w.sum(axis=1)
    reward = (w * (v == 1)).sum(axis=1) / np.where(total > 0, total, 1.0)
    return np.where((total == 0) & np.isnan(v).any(axis=1), np.nan, reward)


def rar(
    batch: CreditBatch,
    *,
    weights: Mapping[str, float] = WEIGHTS,
    ddof: int = 1,
    eps: float = 1e-6,
    single: str = "zero",
) -> Array:
    """Return plain GRPO on the weighted rubric reward.

    Laws: GRPO's.

    Args:
        batch: tokens_GS, verdict_GK, and weight_GK or category_GK.
        weights: weight of each category, for category_GK.
        ddof, eps, single: as ``group_advantage``.
    Returns:
        (G, S) credit per token.
    Raises:
        CreditError: a field is missing, a category has no weight, an option is out of range.
    Reference: RaR (arXiv 2507.17746).

    >>> b = CreditBatch([[2], [3]], verdict_GK=[[1.0], [-1.0]], weight_GK=[[1.0], [1.0]])
    >>> rar(b, eps=0).round(3).tolist()
    [[0.707], [-0.707]]
    """
    v, w = batch.need("verdict_GK", "rar"), batch.weight_GK
    if w is None:
        category = batch.need("category_GK", "rar")
        known = np.isin(category, [*weights, ""])
        offender("category_GK", category, ~known, f"categories {tuple(weights)}, or '' for padding")
        w = np.zeros(v.shape)
        for name, value in weights.items():
            w[category == name] = number(f"weights[{name!r}]", value, 0)
    reward = rar_reward(v, w)
    A = group_advantage(reward, ddof=ddof, eps=eps, group_G=batch.group_G, single=single)
    return np.where(batch.live_GS, A[:, None], 0.0) + 0.0
