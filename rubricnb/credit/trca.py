"""TRCA: rewards of a transition rubric, one part for what a step does and one for what is new."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CreditError
from .batch import CreditBatch
from .common import (
    Array,
    check_shape,
    choice,
    group_advantage,
    joint_key,
    number,
    offender,
    returns_to_go,
    standardise,
)

CATEGORIES = ("Ev", "Ex", "Inv")  # evidence, exploration, invalid
SCALE: Mapping[str, float] = dict.fromkeys(CATEGORIES, 1.0)


def trca(
    batch: CreditBatch,
    *,
    lam: float = 0.8,
    gamma: float = 0.95,
    r: Mapping[str, float] = SCALE,
    base: str = "outcome",
    episode: str = "env",
    step_weight: float = 1.0,
    ddof: int = 1,
    eps: float = 1e-6,
) -> Array:
    """Return the episode's group advantage plus the step's advantage among like contexts.

        r[t] = (1 - lam) F[t] + lam B[t]   (see ``transition_rewards``)
        R[i, t] = sum_{k >= t} gamma^(k - t) (r_env[i, k] + r[i, k])
        a[i, t] = A^E[i] + step_weight A^S[i, t];   A^S standardises R among the steps of one
        group with one context key, 0 for a lone step or equal returns

    Laws: with no item active and contexts all different it is GRPO; it conserves no push and can
    change the sign; without a single success (base="none") it is not degenerate.

    Args:
        batch: tokens_GS, active_GSJ, item_GJ, state_GS (context keys); env_GS or outcome_G.
        lam: in [0, 1], weight of Breakthrough.
        gamma: in [0, 1], discount.
        r: scale of each category, >= 0 (published values unknown: 1).
        base: "outcome", "rubric", or "none": no environment return, so A^E = 0; a NaN in reward_G
            then still leaves a rollout out.
        episode: A^E standardises the return of "env" alone, or of "env+rubric" (undetermined).
        step_weight, ddof, eps: >= 0; of A^S and as ``group_advantage`` (undetermined).
    Returns:
        (G, S) credit per token; 0 for rollouts without an outcome.
    Raises:
        CreditError: a field is missing, a category unknown, an option out of range.
    Reference: TRCA (arXiv 2608.16156).

    >>> b = CreditBatch([[2], [4]], outcome_G=[1.0, 1.0], state_GS=[["a"], ["a"]],
    ...     active_GSJ=[[[True]], [[False]]], item_GJ=[["Ev"], ["Ev"]])
    >>> trca(b, eps=0).round(3).tolist()
    [[0.707], [-0.707]]
    """
    choice("episode", episode, ("env", "env+rubric"))
    choice("base", base, ("outcome", "rubric", "none"))
    F, B = transition_rewards(
        batch.need("active_GSJ", "trca"), batch.need("item_GJ", "trca"), batch.live_GS, r
    )
    lam, gamma = number("lam", lam, 0, 1), number("gamma", gamma, 0, 1)
    step = (1.0 - lam) * F + lam * B
    if base == "none":
        env, graded = np.zeros(F.shape), np.ones(len(batch), dtype=bool)
        if batch.reward_G is not None:
            graded = ~np.isnan(batch.reward_G)
    else:
        env, graded = batch.step_rewards(base, "trca"), batch.graded(base, "trca")
    total = env.sum(axis=1) + (step.sum(axis=1) if episode == "env+rubric" else 0.0)
    total = np.where(graded, total, np.nan)
    A = group_advantage(total, ddof=ddof, eps=eps, group_G=batch.group_G)
    used = batch.live_GS & graded[:, None]
    R = np.where(used, returns_to_go(env + step, gamma), np.nan)
    key = joint_key(
        np.broadcast_to(batch.group_G[:, None], R.shape), batch.need("state_GS", "trca")
    )
    S = standardise(R.ravel(), key.ravel(), ddof=ddof, eps=eps)[0].reshape(R.shape)
    return np.where(used, A[:, None] + number("step_weight", step_weight, 0) * S, 0.0) + 0.0


def transition_rewards(
    active_GSJ: ArrayLike,
    item_GJ: ArrayLike,
    live_GS: ArrayLike | None = None,
    r: Mapping[str, float] = SCALE,
) -> tuple[Array, Array]:
    """Return the Foundational and the Breakthrough reward of every step.

        F[t] = sum_j q[t, j];   q = O r^c / M_c for Ev and Ex, -O |r^c| / M_c for Inv
        Phi[t] = sum over Ev and Ex of (r^c / M_c) max_{u <= t} O[u, j];   B[t] = Phi[t] - Phi[t-1]

    Laws: |F| <= max(r^Ev + r^Ex, r^Inv); B >= 0; sum_t B <= r^Ev + r^Ex, so that repetition earns
    no Breakthrough (but still its Foundational); an item's first activation is worth the same
    whenever it comes.

    Args:
        active_GSJ: (G, S, J) bool, item j fired at step s.
        item_GJ: (G, J) category of each item, "Ev", "Ex" or "Inv"; "" is padding.
        live_GS: (G, S) bool; items on other steps do not count. Default: all.
        r: scale of each category, >= 0.
    Returns:
        two (G, S) arrays, reward units.
    Raises:
        CreditError: a category is unknown, shapes disagree, a scale is negative.

    >>> F, B = transition_rewards([[[1, 0], [1, 0], [0, 1]]], [["Ev", "Inv"]])
    >>> F.tolist(), B.tolist()
    ([[1.0, 1.0, -1.0]], [[1.0, 0.0, 0.0]])
    """
    O = np.asarray(active_GSJ, dtype=bool)  # noqa: E741
    item = np.asarray(item_GJ)
    check_shape("active_GSJ", O, (None, None, None))
    check_shape("item_GJ", item, (O.shape[0], O.shape[2]))
    offender("item_GJ", item, ~np.isin(item, [*CATEGORIES, ""]), f"categories {CATEGORIES} or ''")
    if live_GS is not None:
        live = np.asarray(live_GS, dtype=bool)
        check_shape("live_GS", live, O.shape[:2])
        O = O & live[:, :, None]  # noqa: E741
    good, bad = _values(item, r)
    covered = np.maximum.accumulate(O, axis=1) if O.shape[1] else O
    phi = np.einsum("gsj,gj->gs", covered, good)
    return np.einsum("gsj,gj->gs", O, good - bad), np.diff(phi, axis=1, prepend=0.0)


def _values(item: NDArray, r: Mapping[str, float]) -> tuple[Array, Array]:
    """r^c / M_c of each item: that of Ev and Ex, and that of Inv."""
    if set(r) != set(CATEGORIES):
        raise CreditError(f"want r with exactly the keys {CATEGORIES}; got {tuple(r)}")
    good, bad = np.zeros(item.shape), np.zeros(item.shape)
    for name in CATEGORIES:
        of = item == name
        value = of * number(f"r[{name!r}]", r[name], 0) / np.maximum(of.sum(axis=1), 1)[:, None]
        target = bad if name == "Inv" else good
        target += value
    return good, bad
