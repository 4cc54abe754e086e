"""TRIAGE: the outcome's advantage, corrected by what role a judge gives each step.

Also its scalar baseline (signal="score") and the arithmetic of when a correction helps.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CreditError
from .batch import CreditBatch
from .common import Array, as_finite, check_shape, choice, number, offender

ROLES = ("decisive", "exploration", "no_progress", "regression")
CORRECTION: Mapping[str, float] = dict(zip(ROLES, (1.0, 0.5, -0.1, -0.5), strict=True))


def triage(
    batch: CreditBatch,
    *,
    lam: float = 0.2,
    c: Mapping[str, float] = CORRECTION,
    signal: str = "role",
    whiten: bool = True,
    outside: str = "advantage",
    base: str = "outcome",
    ddof: int = 1,
    eps: float = 1e-6,
    whiten_ddof: int = 0,
    whiten_eps: float = 1e-8,
) -> Array:
    """Return the advantage plus lam times the correction of each step's role, whitened.

        a[g, s] = A[g] + lam c[role[g, s]];   a~ = (a - mean(a)) / std(a) over all segments

    Laws: with lam = 0 or every role invalid and whiten=False it is GRPO; whitened, the segments of
    the batch have mean 0 and std 1; it conserves no push and can change the sign, and a group of
    equal outcomes still gets lam c. An invalid label ("" is none at all) is no correction.

    Args:
        batch: tokens_GS, outcome_G (or the rubric's reward), and role_GS or score_GS. A role is
            one of ``ROLES``, "invalid", or "" where the step is outside of any segment.
        lam: >= 0; published 0.4 for search, 0.2 for ALFWorld and WebShop.
        c: correction of each role; set one to 0 for the published ablations.
        signal: "role", or "score": lam times score_GS in [-1, 1] (the scalar baseline; NaN is 0).
        whiten: False leaves a as it is.
        outside: steps with role "" get their "advantage", whitened with the rest but not counted
            in its mean and std; or "mask": 0.
        base, ddof, eps: as ``grpo``.
        whiten_ddof, whiten_eps: of the whitening; not determined by the source, 0 and 1e-8 are a
            port's.
    Returns:
        (G, S) credit per token; 0 for rollouts without an outcome.
    Raises:
        CreditError: a field is missing, a role unknown, a score or an option out of range.
    Reference: TRIAGE (arXiv 2606.32017). Tokens outside segments are not determined: ours.

    >>> b = CreditBatch([[2, 4]], advantage_G=[0.05], role_GS=[["decisive", "regression"]])
    >>> triage(b, whiten=False, base="rubric").round(3).tolist()
    [[0.25, -0.05]]
    """
    choice("outside", outside, ("advantage", "mask"))
    choice("whiten_ddof", whiten_ddof, (0, 1))
    A = batch.advantage(base=base, rule="triage", ddof=ddof, eps=eps)
    segment, delta = _signal(batch, signal, c)
    used = batch.live_GS & batch.graded(base, "triage")[:, None]
    a = A[:, None] + number("lam", lam, 0) * delta
    counted = used & segment
    if whiten and counted.any():
        x = a[counted]
        if x.max() == x.min():
            a = np.where(segment, 0.0, a - x.mean())
        else:
            a = (a - x.mean()) / (x.std(ddof=whiten_ddof) + number("whiten_eps", whiten_eps, 0))
    kept = counted if outside == "mask" else used
    return np.where(kept, a, 0.0) + 0.0


def _signal(
    batch: CreditBatch, signal: str, c: Mapping[str, float]
) -> tuple[NDArray[np.bool_], Array]:
    """Which steps are segments, and each one's uncalibrated correction."""
    choice("signal", signal, ("role", "score"))
    if signal == "score":
        s = batch.need("score_GS", "triage")
        offender("score_GS", s, np.abs(s) > 1, "scores in [-1, 1]")
        return np.ones(s.shape, dtype=bool), np.nan_to_num(s)
    role = batch.need("role_GS", "triage")
    known = np.isin(role, [*ROLES, "invalid", ""])
    offender("role_GS", role, batch.live_GS & ~known, f"roles {ROLES}, 'invalid' or ''")
    if set(c) != set(ROLES):
        raise CreditError(f"want c with exactly the keys {ROLES}; got {tuple(c)}")
    delta = np.zeros(role.shape)
    for name, value in c.items():
        delta[role == name] = number(f"c[{name!r}]", value)
    return role != "", delta


def correction_gain(delta_N: ArrayLike, correction_N: ArrayLike, *, centred: bool = True) -> dict:
    """Return whether, and by how much, lam times a correction brings the advantage nearer truth.

        MSE(lam) - MSE(0) = lam^2 E[c^2] - 2 lam E[c delta];   best lam = E[c delta] / E[c^2]

    Law: some lam > 0 helps if and only if E[c delta] > 0, and then every lam below
    2 E[c delta] / E[c^2] does.

    Args:
        delta_N: (N,) true advantage minus the rule's base advantage, by step.
        correction_N: (N,) the correction c of the (judged) role of that step.
        centred: use covariance and variance, as whitening makes of the moments.
    Returns:
        dict of helps, cross = E[c delta], square = E[c^2], best_lam, limit_lam, best_gain.
    Raises:
        CreditError: lengths differ or a value is not finite.
    Reference: TRIAGE, MSE-optimality of role-conditioned corrections; the derivation is ours.

    >>> correction_gain([1.0, -1.0], [1.0, -1.0])["best_lam"]
    1.0
    """
    delta = as_finite("delta_N", delta_N, (None,))
    c = as_finite("correction_N", correction_N, delta.shape)
    if centred and len(c):
        delta, c = delta - delta.mean(), c - c.mean()
    cross, square = (float((c * x).sum()) / max(len(c), 1) for x in (delta, c))
    best = cross / square if square else 0.0
    return {
        "helps": cross > 0,
        "cross": cross,
        "square": square,
        "best_lam": best,
        "limit_lam": 2 * best,
        "best_gain": cross * best,
    }


def role_means(delta_N: ArrayLike, role_N: ArrayLike) -> dict[str, float]:
    """Return the best correction of each role: the mean of delta over its steps.

        g*(rho) = E[delta | rho];   it minimises E[(delta - g)^2] with the gain E[g*^2]

    Args:
        delta_N: (N,) true advantage minus base advantage.
        role_N: (N,) role names.
    Returns:
        dict role -> mean, for the roles that occur.
    Raises:
        CreditError: lengths differ or a value is not finite.

    >>> role_means([1.0, 0.0, -1.0], ["decisive", "decisive", "regression"])
    {'decisive': 0.5, 'regression': -1.0}
    """
    delta = as_finite("delta_N", delta_N, (None,))
    roles = np.asarray(role_N)
    check_shape("role_N", roles, delta.shape)
    return {str(r): float(delta[roles == r].mean()) for r in np.unique(roles)}


def judged_role_means(mean_R: ArrayLike, joint_RJ: ArrayLike) -> Array:
    """Return the best correction of each judged role when the judge confuses roles.

        g*(judged) = sum_role P(role | judged) E[delta | role]

    Args:
        mean_R: (R,) E[delta | role].
        joint_RJ: (R, J) counts or probabilities of true role by judged role, >= 0.
    Returns:
        (J,); 0 where a judged role never occurs.
    Raises:
        CreditError: shapes disagree or an entry is negative.

    >>> judged_role_means([1.0, -1.0], [[3, 0], [1, 2]]).tolist()
    [0.5, -1.0]
    """
    mean = as_finite("mean_R", mean_R, (None,))
    joint = as_finite("joint_RJ", joint_RJ, (len(mean), None))
    offender("joint_RJ", joint, joint < 0, "counts >= 0")
    total = joint.sum(axis=0)
    return mean @ joint / np.where(total > 0, total, 1.0)


def conflict_cells(batch: CreditBatch, *, threshold: float = 0.5) -> dict[str, dict[str, int]]:
    """Return how many steps of each role lie in successes and in failures.

    The two conflict cells are regressions in successes and decisive or exploring steps in
    failures: there a rollout's single advantage has the wrong sign.

    Args:
        batch: tokens_GS, role_GS and outcome_G.
        threshold: an outcome at or above is a success; an unknown one is left out.
    Returns:
        dict role -> {"success": steps, "failure": steps}.

    >>> b = CreditBatch([[2, 4]], outcome_G=[1.0], role_GS=[["decisive", "regression"]])
    >>> conflict_cells(b)["regression"]
    {'success': 1, 'failure': 0}
    """
    role, outcome = batch.need("role_GS", "triage"), batch.need("outcome_G", "triage")
    cell = {"success": outcome >= threshold, "failure": outcome < threshold}
    return {
        name: {
            k: int(((role == name) & batch.live_GS & rows[:, None]).sum())
            for k, rows in cell.items()
        }
        for name in ROLES
    }
