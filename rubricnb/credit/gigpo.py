"""GiGPO: a second group inside the group, of steps that started from the same state."""

from __future__ import annotations

import numpy as np

from .batch import CreditBatch
from .common import Array, choice, joint_key, number, returns_to_go, standardise


def gigpo(
    batch: CreditBatch,
    *,
    omega: float = 1.0,
    gamma: float = 0.95,
    mode: str = "mean_std_norm",
    lone: str = "zero",
    base: str = "outcome",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Array:
    """Return the episode's advantage plus that of the step among those with its anchor state.

        a[i, t] = A^E[i] + omega A^S[i, t]
        A^S standardises R[i, t] = sum_{k >= t} gamma^(k - t) r[i, k] over the steps of the group
        with the same state; 0 for a lone step or equal returns

    Laws: with all states different, or omega = 0, it is GRPO; the A^S of an anchor sum to 0; it
    conserves no push and can change the sign.

    Args:
        batch: tokens_GS, state_GS (equal keys are one anchor: similar states must share a key),
            env_GS or outcome_G.
        omega: >= 0.
        gamma: in [0, 1].
        mode: "mean_std_norm", or "mean_norm": centred without division, in both groups.
        lone: a step alone at its anchor gets "zero", or its "return" (mean 0, std 1, as the
            released code does).
        base, ddof, eps: as ``grpo``.
    Returns:
        (G, S) credit per token; 0 for rollouts without an outcome.
    Raises:
        CreditError: a field is missing or an option is out of range.
    Reference: GiGPO (arXiv 2505.10978).

    >>> b = CreditBatch([[1, 1], [1, 1]], outcome_G=[1.0, 0.0], state_GS=[["s", "a"], ["s", "b"]])
    >>> gigpo(b, eps=0).round(3).tolist()
    [[1.414, 0.707], [-1.414, -0.707]]
    """
    choice("mode", mode, ("mean_std_norm", "mean_norm"))
    choice("lone", lone, ("zero", "return"))
    omega, scale = number("omega", omega, 0), mode == "mean_std_norm"
    A = batch.advantage(base=base, rule="gigpo", ddof=ddof, eps=eps, scale=scale)
    used = batch.live_GS & batch.graded(base, "gigpo")[:, None]
    R = returns_to_go(batch.step_rewards(base, "gigpo"), number("gamma", gamma, 0, 1))
    group = np.broadcast_to(batch.group_G[:, None], R.shape)
    key = joint_key(group, batch.need("state_GS", "gigpo"))
    value = np.where(used, R, np.nan).ravel()
    step, alone = standardise(value, key.ravel(), ddof=ddof, eps=eps, scale=scale)
    if lone == "return":
        step = np.where(alone, value, step)
    return np.where(used, A[:, None] + omega * step.reshape(R.shape), 0.0) + 0.0
