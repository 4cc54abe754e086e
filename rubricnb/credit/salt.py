"""SALT: steps that did the same thing in the same place share the mean of their advantages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .batch import CreditBatch
from .common import Array, choice, joint_key


def salt(
    batch: CreditBatch,
    *,
    merge: str = "transition",
    repeats: str = "each",
    base: str = "outcome",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Array:
    """Return, for every step, the mean advantage of the rollouts that made its transition.

        a[i, t] = mean of A over the steps of the group with the same (s, a, s')

    Laws: a transition that occurs once keeps its A; over a group the sum of credit by step is
    that of GRPO (repeats="each"); between the least and the largest A of the group; a push is not
    conserved by rollout, and the sign can change.

    Args:
        batch: tokens_GS, state_GS, action_GS, outcome_G. s' is the next step's state; after the
            last step it is one and the same end.
        merge: "transition" (s, a, s'), or "state_action" (s, a).
        repeats: a rollout that makes a transition twice counts at "each" step, or "once".
        base, ddof, eps: as ``grpo``.
    Returns:
        (G, S) credit per token; 0 for rollouts without an outcome, which also move no other.
    Raises:
        CreditError: a field is missing or an option is out of range.
    Reference: SALT (arXiv 2510.20022). How repeats count is undetermined.

    >>> b = CreditBatch([[1, 1], [1, 1]], outcome_G=[1.0, 0.0], state_GS=[["s", "t"], ["s", "t"]],
    ...     action_GS=[["go", "x"], ["go", "y"]])
    >>> salt(b, eps=0).round(3).tolist()
    [[0.0, 0.707], [0.0, -0.707]]
    """
    choice("merge", merge, ("transition", "state_action"))
    choice("repeats", repeats, ("each", "once"))
    A = batch.advantage(base=base, rule="salt", ddof=ddof, eps=eps)
    used = batch.live_GS & batch.graded(base, "salt")[:, None]
    key = _transitions(batch, merge)[used]
    rollout = np.nonzero(used)[0]
    if repeats == "each":
        n, total = np.bincount(key), np.bincount(key, A[rollout])
    else:
        pairs = np.unique(np.stack([key, rollout]), axis=1)
        n, total = np.bincount(pairs[0]), np.bincount(pairs[0], A[pairs[1]])
    out = np.zeros(used.shape)
    # A lone transition keeps its A to the last bit.
    out[used] = np.where(n[key] == 1, A[rollout], total[key] / n[key])
    return out + 0.0


def _transitions(batch: CreditBatch, merge: str) -> NDArray[np.int64]:
    """(G, S) numbers that are equal where group, state, action (and next state) are."""
    state = joint_key(batch.need("state_GS", "salt")) + 1
    action = batch.need("action_GS", "salt")
    group = np.broadcast_to(batch.group_G[:, None], state.shape)
    if merge == "state_action":
        return joint_key(group, state, action)
    after = np.zeros_like(state)
    here = np.where(batch.live_GS, state, 0)
    after[:, :-1] = here[:, 1:]
    return joint_key(group, state, action, after)
