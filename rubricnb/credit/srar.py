"""SRaR: rubric points on the step that earned them, standardised across rollouts by position."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .batch import CreditBatch
from .common import Array, choice, joint_key, number, offender, standardise

POINTS: Mapping[str, float] = {"suggest": 0.8, "pitfall": -1.0, "bonus": 1.0}


def srar(
    batch: CreditBatch,
    *,
    points: Mapping[str, float] = POINTS,
    base: str = "outcome",
    cites: str = "split",
    normalise: bool = True,
    ddof: int = 1,
    eps: float = 1e-6,
) -> Array:
    """Return the outcome's advantage plus the standardised rubric points of each step.

        d[i, k] = sum over items met at step k of points_c / count_c
        a[i, k] = z(r)[i] + z_k(d)[i, 0] + z_k(d)[i, k];   z_k standardises over the rollouts of
        the group that have a step k, 0 for a lone one or equal values; index 0 is the whole
        response and takes the points of items met without a step

    Laws: with no item met it is GRPO; the points of a step position sum to 0 over the group; it
    conserves no push and can change the sign.

    Args:
        batch: tokens_GS, verdict_GK, cite_GKS, outcome_G; category_GK names each criterion's
            category (default: all "suggest"). A pitfall is met where its verdict is a fail, the
            others where it is a pass.
        points: points of each category.
        base: what r is; the published one is 0.9 accuracy + 0.1 format.
        cites: an item met at several steps is "split" over them, or counts at "each"; published
            items have one step.
        normalise: False adds d itself (the published ablation).
        ddof, eps: as ``group_advantage``.
    Returns:
        (G, S) credit per token; 0 for rollouts without an outcome.
    Raises:
        CreditError: a field is missing, a category has no points, an option is out of range.
    Reference: SRaR (arXiv 2605.17291).

    >>> b = CreditBatch([[2, 4], [2, 4]], outcome_G=[1.0, 1.0], verdict_GK=[[1.0], [0.0]],
    ...     cite_GKS=[[[True, False]], [[False, False]]])
    >>> srar(b, eps=0).round(3).tolist()
    [[0.707, 0.0], [-0.707, 0.0]]
    """
    choice("cites", cites, ("split", "each"))
    number("eps", eps, 0)
    A = batch.advantage(base=base, rule="srar", ddof=ddof, eps=eps)
    used = batch.live_GS & batch.graded(base, "srar")[:, None]
    met = _points(batch, points)
    cite = batch.need("cite_GKS", "srar") & used[:, None, :]
    count = cite.sum(axis=2)
    share = 1.0 if cites == "each" else 1.0 / np.maximum(count, 1)
    d = np.einsum("gk,gks->gs", met * share, cite)
    whole = (met * (count == 0)).sum(axis=1)
    if normalise:
        d, whole = _by_position(batch, d, whole, used, ddof, eps)
    return np.where(used, A[:, None] + whole[:, None] + d, 0.0) + 0.0


def _points(batch: CreditBatch, points: Mapping[str, float]) -> Array:
    """(G, K) points of each item that was met, 0 elsewhere."""
    v = batch.need("verdict_GK", "srar")
    category = batch.category_GK
    if category is None:
        category = np.full(v.shape, "suggest")
    known = np.isin(category, [*points, ""])
    offender("category_GK", category, ~known, f"categories {tuple(points)}, or '' for padding")
    out = np.zeros(v.shape)
    for name, value in points.items():
        of = category == name
        met = of & (v == (-1 if number(f"points[{name!r}]", value) < 0 else 1))
        out += met * value / np.maximum(of.sum(axis=1), 1)[:, None]
    return out


def _by_position(
    batch: CreditBatch, d: Array, whole: Array, used: NDArray[np.bool_], ddof: int, eps: float
) -> tuple[Array, Array]:
    """Both kinds of points standardised over the group, by step position and as a whole."""
    group = np.broadcast_to(batch.group_G[:, None], d.shape)
    key = joint_key(group, np.broadcast_to(np.arange(d.shape[1]), d.shape))
    value = np.where(used, d, np.nan)
    steps = standardise(value.ravel(), key.ravel(), ddof=ddof, eps=eps)[0].reshape(d.shape)
    whole = np.where(used.any(axis=1), whole, np.nan)
    return steps, standardise(whole, joint_key(batch.group_G), ddof=ddof, eps=eps)[0]
