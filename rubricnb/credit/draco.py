"""DRACO: a rollout's push, split over its steps by the quality that cited verdicts give them.

Everything is a matter of multipliers: a token of step j gets ``A mult_j``, and the token-weighted
mean of the multipliers of a rollout is 1, which is what conserves its push.
The options are the places that the paper leaves open or that users asked to vary; each default is
the paper's reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .batch import CreditBatch
from .common import Array, as_counts, as_finite, choice, number

TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class DracoDetails:
    """What ``draco`` did, array by array.

    Args:
        credit_GS: per-token credit, as ``draco`` returns it.
        Q_GS: pass share of the citations of each step; the rollout's mean where uncited; NaN on
            padding and in rollouts without any citation.
        w_GS: Q for winners (A >= 0), 1 - Q for losers; NaN where Q is.
        share_GS: n_j a_j / (A N) before the cap; sums to 1 a rollout.
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
    *,
    nocite: str = "uniform",
    terminal: str = "redistribute",
    weights: str = "quality",
    signed_scale: float = 2.0,
    mix: float = 1.0,
    max_token_mult: float | None = None,
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
        nocite: rollouts without a citation get "uniform" A a token, or "equal_step" totals.
        terminal: "redistribute", or "plain": the last step keeps A, the others share the rest.
        weights: "quality" (the paper's), or "signed": share_j = (1 + s (Q_j - Qbar)) / M with
            s = signed_scale for winners and -signed_scale for losers. It conserves the push, never
            collapses and can change the sign.
        signed_scale: >= 0.
        mix: in [0, 1]; a = (1 - mix) A + mix a_draco.
        max_token_mult: caps |a_j| at this multiple of |A|, > 0; breaks conservation.
    Returns:
        (G, S) credit per token, 0 on padding.
    Raises:
        CreditError: a shape, a sign or an option is wrong; names the first offender.
    Reference: DRACO (arXiv 2609.04094) Eqs. 4-6, App. E.7, E.8. "signed" and "plain" are ours.

    >>> draco([1.0], [[0, 1]], [[1, 1]], [[2, 4]]).tolist()
    [[0.0, 1.5]]
    """
    return draco_details(
        advantage_G,
        pass_GS,
        fail_GS,
        tokens_GS,
        nocite=nocite,
        terminal=terminal,
        weights=weights,
        signed_scale=signed_scale,
        mix=mix,
        max_token_mult=max_token_mult,
    ).credit_GS


def draco_details(
    advantage_G: ArrayLike,
    pass_GS: ArrayLike,
    fail_GS: ArrayLike,
    tokens_GS: ArrayLike,
    *,
    nocite: str = "uniform",
    terminal: str = "redistribute",
    weights: str = "quality",
    signed_scale: float = 2.0,
    mix: float = 1.0,
    max_token_mult: float | None = None,
) -> DracoDetails:
    """Return ``draco``'s credit with the qualities, weights, shares and flags behind it.

    Arguments, laws and errors are ``draco``'s.

    >>> d = draco_details([1.0], [[1, 0, 0]], [[0, 0, 1]], [[2, 4, 4]])
    >>> d.Q_GS.tolist(), d.share_GS.round(3).tolist(), d.inert_G.tolist()
    ([[1.0, 0.5, 0.0]], [[0.667, 0.333, 0.0]], [False])
    """
    choice("nocite", nocite, ("uniform", "equal_step"))
    choice("terminal", terminal, ("redistribute", "plain"))
    choice("weights", weights, ("quality", "signed"))
    mix = number("mix", mix, 0, 1)
    scale = number("signed_scale", signed_scale, 0)
    cap = np.inf if max_token_mult is None else number("max_token_mult", max_token_mult, TINY)
    n = as_counts("tokens_GS", tokens_GS, (None, None))
    A = as_finite("advantage_G", advantage_G, n.shape[:1])
    p, f = as_counts("pass_GS", pass_GS, n.shape), as_counts("fail_GS", fail_GS, n.shape)

    live = n > 0
    active = live & ~last_live(live) if terminal == "plain" else live
    cites = p + f
    Q, mean_G, m_G = _quality(p, cites, active)
    winner = (A >= 0)[:, None]
    if weights == "quality":
        w = np.where(winner, Q, 1.0 - Q)
    else:
        w = 1.0 + np.where(winner, scale, -scale) * (Q - mean_G[:, None])
    w *= active
    mult, collapsed = _multipliers(n, w, active, m_G == 0, nocite)
    mult = np.where(active, mult, live)
    if mix < 1:
        mult = (1.0 - mix) * live + mix * mult
    capped = np.abs(mult) > cap
    credit = A[:, None] * (np.clip(mult, -cap, cap) if cap < np.inf else mult) + 0.0

    known = active & (m_G > 0)[:, None]
    # A tolerance, because the mean of equal qualities can miss them by an ulp.
    span = np.where(active, w, -np.inf).max(axis=1, initial=-np.inf) - np.where(
        active, w, np.inf
    ).min(axis=1, initial=np.inf)
    return DracoDetails(
        credit_GS=credit,
        Q_GS=np.where(known, Q, np.nan),
        w_GS=np.where(known, w, np.nan),
        share_GS=mult * n / np.maximum(n.sum(axis=1), TINY)[:, None],
        collapsed_G=collapsed,
        uncited_G=m_G == 0,
        inert_G=(m_G == 0) | collapsed | (span <= 1e-12),
        dropped_G=(cites * ~live).sum(axis=1),
        capped_GS=capped,
    )


def last_live(live_GS: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(G, S) mask of each rollout's last step with tokens."""
    after = np.cumsum(live_GS[:, ::-1], axis=1)[:, ::-1]
    return live_GS & (after == 1)


def _quality(p: Array, cites: Array, active: NDArray[np.bool_]) -> tuple[Array, Array, NDArray]:
    """Q by step (the mean where uncited), that mean, and the number of cited steps."""
    cited = active & (cites > 0)
    Q = np.divide(p, cites, out=np.zeros_like(p), where=cited)
    m = cited.sum(axis=1)
    mean = Q.sum(axis=1) / np.maximum(m, 1)
    return np.where(cited, Q, mean[:, None]), mean, m


def _multipliers(
    n: Array, w: Array, active: NDArray[np.bool_], uncited_G: NDArray[np.bool_], nocite: str
) -> tuple[Array, NDArray[np.bool_]]:
    """a_j / A by step with both fallbacks applied, and which rollouts collapsed."""
    total = w.sum(axis=1)
    collapsed = (total == 0) & ~uncited_G
    if nocite == "equal_step":
        w = np.where(uncited_G[:, None], active, w)
        total = np.where(uncited_G, active.sum(axis=1), total)
        fallback = collapsed | (total == 0)
    else:
        fallback = collapsed | uncited_G
    scale = (n * active).sum(axis=1) / np.where(total == 0, 1.0, total)
    mult = np.divide(w, n, out=np.zeros_like(n), where=active)
    mult *= scale[:, None]
    return np.where(fallback[:, None], active, mult), collapsed


def draco_rule(
    batch: CreditBatch, *, ddof: int = 1, eps: float = 1e-6, single: str = "zero", **options: Any
) -> Array:
    """Return ``draco`` of a batch: its advantage, and the citations counted in it.

    Args:
        batch: tokens_GS, pass_GS, fail_GS, and advantage_G, reward_G or verdict_GK.
        ddof, eps, single: as ``group_advantage``.
        options: ``draco``'s.
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
