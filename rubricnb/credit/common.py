"""What every credit rule shares: reward, dropout, the group's advantage, and sums over steps.

This module knows no rule. Ragged groups stand side by side in one array: ``group_G`` names each
rollout's group, in any order, and nothing here loops over rollouts or groups. Rules import the
argument checks from here, too.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CreditError
from .checks import (
    Array,
    as_counts,
    as_finite,
    as_floats,
    check_shape,
    choice,
    number,
    offender,
)

__all__ = [
    "Array",
    "as_counts",
    "as_finite",
    "as_floats",
    "as_verdicts",
    "check_shape",
    "choice",
    "discriminative",
    "group_advantage",
    "group_index",
    "joint_key",
    "last_live",
    "number",
    "offender",
    "quality",
    "returns_to_go",
    "rubric_reward",
    "standardise",
]


def group_index(G: int, group_G: ArrayLike | None, group_P: ArrayLike | None = None) -> NDArray:
    """(G,) int64 group numbers 0..P-1, from labels per rollout or from group sizes."""
    if group_G is not None and group_P is not None:
        raise CreditError("want group_G (a label a rollout) or group_P (sizes); got both")
    if group_P is not None:
        sizes = as_counts("group_P", group_P, (None,)).astype(np.int64)
        if sizes.sum() != G:
            raise CreditError(f"want group_P, the sizes, to sum to {G} rollouts; got {sizes.sum()}")
        return np.repeat(np.arange(len(sizes)), sizes)
    if group_G is None:
        return np.zeros(G, dtype=np.int64)
    labels = np.asarray(group_G)
    check_shape("group_G", labels, (G,))
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def as_verdicts(verdict_GK: ArrayLike) -> Array:
    """Verdicts as (G, K) floats in {+1, -1, 0, NaN}, or CreditError naming the first offender."""
    v = as_floats("verdict_GK", verdict_GK, (None, None))
    bad = ~(np.isnan(v) | (v == 0) | (np.abs(v) == 1))
    offender("verdict_GK", v, bad, "verdicts +1, -1, 0, or NaN where the judgement failed")
    return v


def rubric_reward(verdict_GK: ArrayLike) -> Array:
    """Return each rollout's rubric reward: passes minus fails over passes plus fails.

        R[g] = (p[g] - f[g]) / (p[g] + f[g]),   p, f counted over verdicts +1 and -1

    Not-applicable and failed judgements enter neither count. Law: R is in [-1, 1], and a rollout
    where nothing applied has R = 0, but NaN if one of its judgements failed: then it is ungraded.
    Apply ``discriminative`` to the columns first.

    Args:
        verdict_GK: (G, K), +1 pass, -1 fail, 0 not applicable, NaN judgement failed.
    Returns:
        (G,), unitless, in [-1, 1] or NaN.
    Raises:
        CreditError: a verdict is another number, or the array is not (G, K).
    Reference: DRACO (arXiv 2609.04094) Eq. 3. NaN for the failed judgement is ours.

    >>> rubric_reward([[1, 1, -1], [0, 0, 0], [0, float("nan"), 0]]).round(3).tolist()
    [0.333, 0.0, nan]
    """
    v = as_verdicts(verdict_GK)
    p, f = (v == 1).sum(axis=1), (v == -1).sum(axis=1)
    reward = (p - f) / np.maximum(p + f, 1)
    return np.where((p + f == 0) & np.isnan(v).any(axis=1), np.nan, reward)


def discriminative(verdict_GK: ArrayLike) -> NDArray[np.bool_]:
    """Return the mask of criteria that some rollout of the group failed.

        keep[k] = any_g verdict[g, k] = -1

    Law: a criterion that everyone passes or to which nobody's rollout applies is dropped; one
    that everybody fails is kept. A failed judgement is not a fail.

    Args:
        verdict_GK: (G, K) verdicts of one group, as for ``rubric_reward``.
    Returns:
        (K,) bool; the caller applies it: ``verdict_GK[:, discriminative(verdict_GK)]``.
    Raises:
        CreditError: as ``rubric_reward``.
    Reference: DRACO section 3.2 ("discriminative dropout").

    >>> discriminative([[1, -1, 0, -1], [1, 1, 0, -1]]).tolist()
    [False, True, False, True]
    """
    return (as_verdicts(verdict_GK) == -1).any(axis=0)


def group_advantage(
    reward_G: ArrayLike,
    *,
    ddof: int = 1,
    eps: float = 1e-6,
    group_G: ArrayLike | None = None,
    group_P: ArrayLike | None = None,
    single: str = "zero",
    scale: bool = True,
) -> Array:
    """Return GRPO's advantage: each reward standardised within its group.

        A[g] = (R[g] - mean(R)) / (std(R) + eps)

    Laws: equal rewards give exactly 0 at any eps, 0 included; a rollout without a reward (NaN)
    gets 0 and does not move its siblings; a group with fewer than two graded rollouts gets 0 and
    a warning; adding a constant to a group's rewards changes nothing.

    Args:
        reward_G: (G,), finite, or NaN where the rollout is ungraded.
        ddof: 1 divides the sum of squares by n - 1 (torch.std, verl), 0 by n.
        eps: >= 0, added to the standard deviation.
        group_G: (G,) labels of the groups, in any order; default: one group.
        group_P: (P,) sizes of groups that stand one after the other; instead of group_G.
        single: a lone graded rollout gets "zero", or its own "reward" (verl's mean 0, std 1).
        scale: False centres without dividing.
    Returns:
        (G,), unitless.
    Raises:
        CreditError: a reward is infinite, or an option is out of range.
    Reference: DRACO Eq. 1, which has no eps and no ddof; both defaults are verl's.

    >>> group_advantage([1.0, 0.0, float("nan"), 5.0, 5.0], group_P=[3, 2], eps=0).round(4).tolist()
    [0.7071, -0.7071, 0.0, 0.0, 0.0]
    """
    R = as_finite("reward_G", reward_G, (None,), nan=True)
    choice("ddof", ddof, (0, 1))
    choice("single", single, ("zero", "reward"))
    g = group_index(len(R), group_G, group_P)
    A, lone = standardise(R, g, ddof=ddof, eps=number("eps", eps, 0), scale=scale)
    if single == "reward":
        return np.where(lone, R, A)
    if np.bincount(g[np.isfinite(R)], minlength=g.max(initial=-1) + 1).min(initial=2) < 2:
        warnings.warn("groups with fewer than 2 graded rollouts get advantage 0", stacklevel=2)
    return A


def standardise(
    value_N: Array, bucket_N: NDArray, *, ddof: int, eps: float, scale: bool = True
) -> tuple[Array, NDArray[np.bool_]]:
    """(value - bucket mean) / (bucket std + eps), and which entries stand alone in their bucket.

    NaN entries get 0 and move nothing; buckets of one, or of equal values, give exactly 0.
    ``scale=False`` centres only.
    """
    graded = np.isfinite(value_N)
    b, x = bucket_N[graded], value_N[graded]
    size = int(bucket_N.max(initial=-1)) + 1
    n = np.bincount(b, minlength=size)
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(low, b, x)
    np.maximum.at(high, b, x)
    # Equal values may miss their own mean by an ulp, so they are told by min = max.
    spread = (n > 1) & (high > low)
    centred = x - (np.bincount(b, x, size) / np.maximum(n, 1))[b]
    out = np.zeros(len(value_N))
    if scale:
        # Divided by the range first, so that squares of tiny spreads do not underflow.
        unit = np.where(spread, high - low, 1.0)
        square = np.bincount(b, (centred / unit[b]) ** 2, size) / np.maximum(n - ddof, 1)
        std = np.where(spread, unit * np.sqrt(square), 1.0)
        centred = centred / (std + eps)[b]
    out[graded] = np.where(spread[b], centred, 0.0)
    lone = np.zeros(len(value_N), dtype=bool)
    lone[graded] = n[b] == 1
    # + 0.0 turns -0.0 into 0.0: saved tables are compared as text.
    return out + 0.0, lone


def joint_key(*keys: NDArray) -> NDArray[np.int64]:
    """Whole numbers 0..n-1 that are equal where all the arrays (text or int) are."""
    code = np.zeros(np.shape(keys[0]), dtype=np.int64)
    for key in keys:
        labels, index = np.unique(key, return_inverse=True)
        code = code * len(labels) + index.reshape(code.shape)
        # Numbered anew each time, so that many keys cannot overflow.
        code = np.unique(code, return_inverse=True)[1].reshape(code.shape)
    return code


def less_means(
    value_GS: Array, tokens_GS: Array, key_GS: NDArray[np.int64], used_GS: NDArray[np.bool_]
) -> Array:
    """(G, S) each value less the token-weighted mean of the used ones that share its key.

    Exactly 0 for a value that is alone, not the rounding of a - a, and where nothing is used.
    """
    key, n, a = key_GS[used_GS], tokens_GS[used_GS], value_GS[used_GS]
    push, tokens = np.bincount(key, n * a), np.bincount(key, n)
    mean = push / np.where(tokens > 0, tokens, 1.0)
    lone = np.bincount(key)[key] == 1
    out = np.zeros(value_GS.shape)
    out[used_GS] = np.where(lone, 0.0, a - mean[key])
    return out + 0.0


def last_live(live_GS: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(G, S) mask of each rollout's last step with tokens."""
    after = np.cumsum(live_GS[:, ::-1], axis=1)[:, ::-1]
    return live_GS & (after == 1)


def quality(pass_GS: Array, fail_GS: Array, live_GS: NDArray[np.bool_]) -> tuple[Array, Array]:
    """(G, S) pass share Q of each step's citations, 0 off the live steps, and (G,) their mean.

    An uncited step has its rollout's mean over cited steps; without any citation both are NaN.
    """
    cites = (pass_GS + fail_GS) * live_GS
    cited = cites > 0
    Q = np.where(cited, pass_GS, 0.0) / np.where(cited, cites, 1.0)
    m = np.count_nonzero(cited, axis=1)
    mean = np.where(m > 0, Q.sum(axis=1) / np.maximum(m, 1), np.nan)
    return np.where(live_GS, np.where(cited, Q, mean[:, None]), 0.0), mean


def returns_to_go(reward_GS: Array, gamma: float = 1.0) -> Array:
    """sum_{k >= s} gamma^(k - s) reward[g, k]. A loop over steps, not over rollouts."""
    out = np.array(reward_GS, dtype=np.float64)
    for s in range(out.shape[1] - 2, -1, -1):
        out[:, s] += gamma * out[:, s + 1]
    return out
