"""Type-neutral credit: step credit that favours no type of step over another."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .batch import CreditBatch
from .common import Array, as_finite, joint_key, less_means


def type_neutral(
    batch: CreditBatch, credit_GS: ArrayLike, *, ddof: int = 1, eps: float = 1e-6
) -> Array:
    """Return the credit minus each step type's mean excess over plain GRPO, within the group.

        e_t = sum_{type t} n (a - A) / sum_{type t} n;   a'[i, j] = a[i, j] - e_type(i, j)

    Plain GRPO gives a type that occurs once in every rollout the mean advantage 0; weights >= 0
    break that baseline and push whole types up or down. This restores it: credit then says only
    which steps of a type deserve more than others of that type.

    Laws: the push of each type, and so of the group, is GRPO's; a type that occurs once in the
    group keeps A; applied twice it changes nothing; plain GRPO stays as it is. Given up: the push
    of a rollout and the sign.

    Args:
        batch: tokens_GS, kind_GS, and the advantage of ``grpo``.
        credit_GS: (G, S) per-token credit of another rule.
        ddof, eps: as ``grpo``.
    Returns:
        (G, S) credit per token; rollouts without a reward keep 0 and are not counted.
    Raises:
        CreditError: a field is missing or a shape is wrong.
    Reference: ours.

    >>> b = CreditBatch([[2, 2], [2, 2]], advantage_G=[1.0, -1.0], kind_GS=[["a", "b"], ["a", "b"]])
    >>> type_neutral(b, [[2.0, 0.0], [-1.0, -1.0]]).tolist()
    [[1.5, 0.5], [-1.5, -0.5]]
    """
    a = as_finite("credit_GS", credit_GS, batch.tokens_GS.shape)
    A = batch.advantage(rule="neutral", ddof=ddof, eps=eps)
    used = batch.live_GS & batch.graded("rubric", "neutral")[:, None]
    group = np.broadcast_to(batch.group_G[:, None], a.shape)
    key = joint_key(group, batch.need("kind_GS", "neutral"))
    plain = np.broadcast_to(A[:, None], a.shape)
    excess = less_means(np.where(used, a - plain, 0.0), batch.tokens_GS, key, used)
    return np.where(used, plain + excess, 0.0) + 0.0
