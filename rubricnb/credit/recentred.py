"""Re-centred credit: within a group, no type of step is pushed up or down as a whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .batch import CreditBatch
from .common import Array, as_finite, joint_key, less_means


def recentre(batch: CreditBatch, credit_GS: ArrayLike) -> Array:
    """Return the credit minus the token-weighted mean of its step type within the group.

        m_t = sum_{type t} n a / sum_{type t} n;   a'[i, j] = a[i, j] - m_type(i, j)

    A baseline by step type: credit compares steps with steps of their own kind and says nothing
    of how often a kind should be used.

    Laws: the push of each type, and so of the group, is 0; applied twice it changes nothing;
    adding a constant to a type changes nothing; a type that occurs once gets 0. Given up: the
    push of a rollout, GRPO's push of a type, and the sign.

    Args:
        batch: tokens_GS and kind_GS, and the reward, which says what is graded.
        credit_GS: (G, S) per-token credit of another rule.
    Returns:
        (G, S) credit per token; rollouts without a reward keep 0 and are not counted.
    Raises:
        CreditError: a field is missing or a shape is wrong.
    Reference: ours.

    >>> b = CreditBatch([[2, 2], [2, 2]], advantage_G=[1.0, -1.0], kind_GS=[["a", "b"], ["a", "b"]])
    >>> recentre(b, [[2.0, 0.0], [-1.0, -1.0]]).tolist()
    [[1.5, 0.5], [-1.5, -0.5]]
    """
    a = as_finite("credit_GS", credit_GS, batch.tokens_GS.shape)
    used = batch.live_GS & batch.graded("rubric", "recentred")[:, None]
    group = np.broadcast_to(batch.group_G[:, None], a.shape)
    key = joint_key(group, batch.need("kind_GS", "recentred"))
    return less_means(a, batch.tokens_GS, key, used)
