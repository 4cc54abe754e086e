"""DRACO: a rollout's push, split over its steps by the quality that cited verdicts give them.

Everything is a matter of multipliers: a token of step j gets ``A mult_j``, and the token-weighted
mean of a rollout's multipliers is 1, which is what conserves its push.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .batch import CreditBatch
from .common import Array, as_counts, as_finite, choice, last_live, number

TINY = np.finfo(np.float64).tiny
BLOCK = 512  # Rollouts at a time: their temporaries stay in the cache.


@dataclass(frozen=True)
class DracoOptions:
    """What the paper leaves open, and remedies of ours; each default is the paper's reading.

    Args:
        nocite: rollouts without a citation get "uniform" A a token, or "equal_step" totals.
        terminal: "redistribute", or "plain": the last step keeps A and the others share the rest.
        weights: "quality", or "signed": share_j = (1 + s (Q_j - Qbar)) / M, s = signed_scale for
            winners and -signed_scale for losers. It conserves the push, never collapses, and can
            change the sign.
        signed_scale: >= 0.
        mix: in [0, 1]; a = (1 - mix) A + mix a_draco.
        length: "step", a step's share is split over its n_j tokens (the paper's 1/n_j), or "token":
            a_j = A N w_j / sum_k n_k w_k, so that long steps claim more.
        max_token_mult: > 0, caps |a_j| at this multiple of |A|; breaks conservation.
    Raises:
        CreditError: an option is out of range.
    """

    nocite: str = "uniform"
    terminal: str = "redistribute"
    weights: str = "quality"
    signed_scale: float = 2.0
    mix: float = 1.0
    length: str = "step"
    max_token_mult: float | None = None

    def __post_init__(self) -> None:
        choice("nocite", self.nocite, ("uniform", "equal_step"))
        choice("terminal", self.terminal, ("redistribute", "plain"))
        choice("weights", self.weights, ("quality", "signed"))
        choice("length", self.length, ("step", "token"))
        number("signed_scale", self.signed_scale, 0)
        number("mix", self.mix, 0, 1)
        if self.max_token_mult is not None:
            number("max_token_mult", self.max_token_mult, TINY)


@dataclass(frozen=True, eq=False)
class DracoDetails:
    """What ``draco`` did, array by array.

    Args:
        credit_GS: per-token credit, as ``draco`` returns it.
        Q_GS: pass share of the citations of each step; the rollout's mean where uncited; NaN on
            padding, in rollouts without any citation, and on a terminal step that is left plain.
        w_GS: Q for winners (A >= 0), 1 - Q for losers; NaN where Q is.
        share_GS: n_j a_j / (A N), before the cap; sums to 1 a rollout.
        collapsed_G: steps are cited and every weight is 0: plain advantage.
        uncited_G: no step is cited: plain advantage (or equal steps).
        inert_G: the weights tell no step from another, fallbacks included.
        dropped_G: citations that pointed at steps without tokens.
        capped_GS: where ``max_token_mult`` cut the credit.
    """

    credit_GS: Array
    Q_GS: Array
    w_GS: Array
    share_GS: Array
    collapsed_G: NDArray[np.bool_]
    uncited_G: NDArray[np.bool_]
    inert_G: NDArray[np.bool_]
    dropped_G: Array
    capped_GS: NDArray[np.bool_]


def draco(
    advantage_G: ArrayLike,
    pass_GS: ArrayLike,
    fail_GS: ArrayLike,
    tokens_GS: ArrayLike,
    **options: Any,
) -> Array:
    """Return the credit of each token of each step.

        Q_j = p_j / (p_j + f_j) where cited, the mean of the cited steps' Q elsewhere
        w_j = Q_j if A >= 0 else 1 - Q_j
        a_j = A N w_j / (n_j sum_k w_k);   a_j = A where no step is cited or all w = 0

    Laws: sum_j n_j a_j = A N always (unless capped); a_j is 0 or has A's sign (unless
    weights="signed"); negating A and swapping passes with fails negates a; an uncited step
    beside cited ones has the share 1/M; a_j / A does not depend on the scale of A.

    Args:
        advantage_G: (G,) finite.
        pass_GS, fail_GS: (G, S) >= 0, retained passes and fails that cite the step.
        tokens_GS: (G, S) >= 0, n_j; a step of 0 tokens is padding and its citations are dropped.
        options: ``DracoOptions`` by keyword: nocite, terminal, weights, signed_scale, mix,
            length, max_token_mult.
    Returns:
        (G, S) credit per token, 0 on padding.
    Raises:
        CreditError: a shape, a sign or an option is wrong; names the first offender.
    Reference: DRACO (arXiv 2609.04094) Eqs. 4-6, App. E.7, E.8.

    >>> draco([1.0], [[0, 1]], [[1, 1]], [[2, 4]]).tolist()
    [[0.0, 1.5]]
    """
    o = DracoOptions(**options)
    A, p, f, n = _checked(advantage_G, pass_GS, fail_GS, tokens_GS)
    out = np.empty(n.shape)
    for i in range(0, len(n), BLOCK):
        b = slice(i, i + BLOCK)
        out[b] = _credit(A[b], _solve(A[b], p[b], f[b], n[b], o).mult, o)
    return out


def draco_details(
    advantage_G: ArrayLike,
    pass_GS: ArrayLike,
    fail_GS: ArrayLike,
    tokens_GS: ArrayLike,
    **options: Any,
) -> DracoDetails:
    """Return ``draco``'s credit with the qualities, weights, shares and flags behind it.

    Arguments, laws and errors are ``draco``'s.

    >>> d = draco_details([1.0], [[1, 0, 0]], [[0, 0, 1]], [[2, 4, 4]])
    >>> d.Q_GS.tolist(), d.share_GS.round(3).tolist(), d.inert_G.tolist()
    ([[1.0, 0.5, 0.0]], [[0.667, 0.333, 0.0]], [False])
    """
    o = DracoOptions(**options)
    A, p, f, n = _checked(advantage_G, pass_GS, fail_GS, tokens_GS)
    x = _solve(A, p, f, n, o)
    known = x.active & ~x.uncited[:, None]
    high = np.where(known, x.w, -np.inf).max(axis=1, initial=-np.inf)
    low = np.where(known, x.w, np.inf).min(axis=1, initial=np.inf)
    return DracoDetails(
        credit_GS=_credit(A, x.mult, o),
        Q_GS=np.where(known, x.Q, np.nan),
        w_GS=np.where(known, x.w, np.nan),
        share_GS=x.mult * n / np.maximum(n.sum(axis=1), TINY)[:, None],
        collapsed_G=x.collapsed,
        uncited_G=x.uncited,
        # A tolerance, because the mean of equal qualities can miss them by an ulp.
        inert_G=high - low <= 1e-12,
        dropped_G=((p * 1.0 + f) * (n == 0)).sum(axis=1),
        capped_GS=np.abs(x.mult) > (o.max_token_mult or np.inf),
    )


def draco_rule(
    batch: CreditBatch, *, ddof: int = 1, eps: float = 1e-6, single: str = "zero", **options: Any
) -> Array:
    """Return ``draco`` of a batch: its advantage, and the citations counted in it.

    Args:
        batch: tokens_GS, pass_GS, fail_GS, and advantage_G, reward_G or verdict_GK.
        ddof, eps, single: as ``group_advantage``.
        options: ``DracoOptions``.
    Returns:
        (G, S) credit per token.
    Raises:
        CreditError: a field is missing or an option is out of range.

    >>> b = CreditBatch([[2, 4]], advantage_G=[1.0], pass_GS=[[0, 1]], fail_GS=[[1, 1]])
    >>> draco_rule(b, terminal="plain").tolist()
    [[1.0, 1.0]]
    """
    p, f = batch.need("pass_GS", "draco"), batch.need("fail_GS", "draco")
    A = batch.advantage(rule="draco", ddof=ddof, eps=eps, single=single)
    return draco(A, p, f, batch.tokens_GS, **options)


@dataclass(frozen=True, eq=False)
class _Solved:
    """Arrays of one block: qualities and weights (0 where not active) and a_j / A."""

    mult: Array
    Q: Array
    w: Array
    active: NDArray[np.bool_]
    uncited: NDArray[np.bool_]
    collapsed: NDArray[np.bool_]


def _checked(A: ArrayLike, p: ArrayLike, f: ArrayLike, n: ArrayLike) -> tuple[Array, ...]:
    """The four arguments as arrays of numbers, checked."""
    n = as_counts("tokens_GS", n, (None, None), keep=True)
    A = as_finite("advantage_G", A, n.shape[:1])
    p = as_counts("pass_GS", p, n.shape, keep=True)
    return A, p, as_counts("fail_GS", f, n.shape, keep=True), n


def _solve(A: Array, p: Array, f: Array, n: Array, o: DracoOptions) -> _Solved:
    """Qualities, weights and multipliers, both fallbacks and the mix applied."""
    p, f, n = (np.asarray(x, dtype=np.float64) for x in (p, f, n))
    live = n > 0
    active = live & ~last_live(live) if o.terminal == "plain" else live
    cites = (p + f) * active
    cited = cites > 0
    m = np.count_nonzero(cited, axis=1)
    Q = p * cited / np.where(cited, cites, 1.0)
    mean = (Q.sum(axis=1) / np.maximum(m, 1))[:, None]
    Q = np.where(cited, Q, mean)
    winner = (A >= 0)[:, None]
    if o.weights == "quality":
        w = np.where(winner, Q, 1.0 - Q) * active
    else:
        w = (1.0 + np.where(winner, o.signed_scale, -o.signed_scale) * (Q - mean)) * active
    uncited = m == 0
    share = w * n if o.length == "token" else w
    total = share.sum(axis=1)
    collapsed = (total == 0) & ~uncited
    plain = collapsed | uncited
    if o.nocite == "equal_step":
        equal = active * n if o.length == "token" else active
        w = np.where(uncited[:, None], active, w)
        share = np.where(uncited[:, None], equal, share)
        total, plain = np.where(uncited, equal.sum(axis=1), total), collapsed
    push = np.divide((n * active).sum(axis=1), total, out=np.zeros(len(n)), where=total > 0)
    mult = share / np.where(active, n, 1.0) * push[:, None]
    if plain.any():
        mult[plain] = live[plain]
    if o.terminal == "plain":
        mult = np.where(active, mult, live)
    if o.mix < 1:
        mult = (1.0 - o.mix) * live + o.mix * mult
    return _Solved(mult, Q, w, active, uncited, collapsed)


def _credit(A: Array, mult: Array, o: DracoOptions) -> Array:
    """A times the multipliers, capped."""
    if o.max_token_mult is not None:
        mult = np.clip(mult, -o.max_token_mult, o.max_token_mult)
    # + 0.0 turns -0.0 into 0.0: saved tables are compared as text.
    return A[:, None] * mult + 0.0
