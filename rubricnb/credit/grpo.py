"""Plain GRPO: every token of a rollout gets the rollout's advantage."""

from __future__ import annotations

import numpy as np

from .batch import CreditBatch
from .common import Array


def grpo(
    batch: CreditBatch,
    *,
    base: str = "rubric",
    ddof: int = 1,
    eps: float = 1e-6,
    single: str = "zero",
) -> Array:
    """Return the group advantage on every step.

        a[g, s] = A[g] where tokens[g, s] > 0, else 0

    Laws: the push of a rollout is A N; every credit is 0 or has A's sign; no step is told from
    another.

    Args:
        batch: tokens_GS and advantage_G, reward_G or verdict_GK (base="rubric"), or outcome_G.
        base: "rubric" or "outcome", the number that is standardised.
        ddof, eps, single: as ``group_advantage``.
    Returns:
        (G, S) credit per token.
    Raises:
        CreditError: a field is missing or an option is out of range.
    Reference: GRPO (arXiv 2402.03300); DRACO (arXiv 2609.04094) Eq. 1.

    >>> grpo(CreditBatch([[2, 4], [3, 0]], advantage_G=[1.0, -1.0])).tolist()
    [[1.0, 1.0], [-1.0, 0.0]]
    """
    A = batch.advantage(base=base, rule="grpo", ddof=ddof, eps=eps, single=single)
    return np.where(batch.live_GS, A[:, None], 0.0) + 0.0
