"""RTMC: Monte-Carlo values of states and actions, from the rollouts that pass through them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .batch import CreditBatch
from .common import Array, choice, joint_key, number, returns_to_go


def rtmc(
    batch: CreditBatch,
    *,
    prior: float = 1.0,
    gamma: float = 1.0,
    visits: str = "first",
    base: str = "outcome",
) -> Array:
    """Return the smoothed Monte-Carlo advantage of each step's action in its state.

        V(s) = (sum of returns through s + prior mean) / (n(s) + prior)
        Q(s, a) = (sum of returns through (s, a) + prior V(s)) / (n(s, a) + prior)
        a[i, t] = Q(s, a) - V(s);   mean is the mean return of the group

    Laws: with prior = 0 a state with a single action gets 0, and the visits of a state sum to 0
    (visits="every"); as the prior grows every credit goes to 0; it conserves no push and can
    change the sign.

    Args:
        batch: tokens_GS, state_GS, action_GS, env_GS or outcome_G.
        prior: >= 0, in visits; the published amount is undetermined.
        gamma: in [0, 1], discount of the return from a visit on.
        visits: a rollout counts at its "first" visit of a state(-action), or at "every" one
            (undetermined).
        base: "outcome" or "rubric".
    Returns:
        (G, S) credit per token in units of the return; 0 for rollouts without an outcome.
    Raises:
        CreditError: a field is missing or an option is out of range.
    Reference: RTMC (arXiv 2604.11037).

    >>> b = CreditBatch([[1], [1]], outcome_G=[1.0, 0.0], state_GS=[["s"], ["s"]],
    ...     action_GS=[["x"], ["y"]])
    >>> rtmc(b, prior=0).tolist()
    [[0.5], [-0.5]]
    """
    choice("visits", visits, ("first", "every"))
    prior = number("prior", prior, 0)
    used = batch.live_GS & batch.graded(base, "rtmc")[:, None]
    r = batch.step_rewards(base, "rtmc")
    R = returns_to_go(r, number("gamma", gamma, 0, 1))[used]
    row = np.nonzero(used)[0]
    group = np.broadcast_to(batch.group_G[:, None], used.shape)
    state = joint_key(group, batch.need("state_GS", "rtmc"))[used]
    pair = joint_key(group, batch.state_GS, batch.need("action_GS", "rtmc"))[used]
    mean = _group_means(batch, r, used)[row]
    V = _smoothed(R, state, row, mean, prior, visits)
    Q = _smoothed(R, pair, row, V, prior, visits)
    out = np.zeros(used.shape)
    out[used] = Q - V
    return out + 0.0


def _group_means(batch: CreditBatch, reward_GS: Array, used: NDArray[np.bool_]) -> Array:
    """(G,) mean return over the graded rollouts of each rollout's group."""
    rows = used.any(axis=1)
    g = joint_key(batch.group_G)
    n = np.bincount(g, rows)
    return (np.bincount(g, reward_GS.sum(axis=1) * rows) / np.maximum(n, 1))[g]


def _smoothed(
    R: Array, key: NDArray, row: NDArray, towards: Array, prior: float, visits: str
) -> Array:
    """Mean return of each key, drawn towards a value by ``prior`` visits' worth."""
    counts = np.ones(len(key))
    if visits == "first":
        # Steps come rollout by rollout in order, so the first index of a pair is its first visit.
        first = np.unique(np.stack([key, row]), axis=1, return_index=True)[1]
        counts = np.zeros(len(key))
        counts[first] = 1.0
    n, total = np.bincount(key, counts), np.bincount(key, counts * R)
    return (total[key] + prior * towards) / (n[key] + prior)
