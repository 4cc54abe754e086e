"""What verdicts, citations and credit look like: saturation, inertness, spread, step types.

Axes: G rollouts side by side (of any number of groups), S steps, K criteria. ``pass_GS`` and
``fail_GS`` count, after dropout, the PASS and FAIL criteria that cite a step; tokens 0 is padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CreditError


@dataclass(frozen=True, slots=True)
class LabelShares:
    """Shares of judgements, NaN where there is none to share.

    Args:
        passed: passes / (passes + fails), the pass rate.
        failed: fails / (passes + fails).
        not_applicable: share of all answered.
        missing: failed judgements, share of all asked.
        n: judgements asked for.
    """

    passed: float
    failed: float
    not_applicable: float
    missing: float
    n: int


def _share(part: ArrayLike, whole: ArrayLike) -> float:
    whole = float(np.sum(whole))
    return float(np.sum(part) / whole) if whole > 0 else float("nan")


def label_shares(verdict: ArrayLike) -> LabelShares:
    """Return the shares of pass, fail, not applicable and failed judgements in any array.

    Args:
        verdict: any shape, +1, -1, 0 or NaN.
    Raises:
        CreditError: for another value.

    >>> s = label_shares([[1, 1, -1, 0, float("nan")]])
    >>> round(s.passed, 3), s.not_applicable, s.missing, s.n
    (0.667, 0.25, 0.2, 5)
    """
    v = np.asarray(verdict, dtype=float)
    if not (np.isin(v, (-1, 0, 1)) | np.isnan(v)).all():
        raise CreditError("want verdicts of +1, -1, 0 or NaN; got another value")
    decided = np.abs(v) == 1
    answered = ~np.isnan(v)
    return LabelShares(
        _share(v == 1, decided),
        _share(v == -1, decided),
        _share(v == 0, answered),
        _share(~answered, np.ones_like(v)),
        int(v.size),
    )


def criterion_pass_rates(verdict_GK: ArrayLike) -> NDArray[np.float64]:
    """Return each criterion's pass rate over the rollouts that it applied to.

        passes / (passes + fails), NaN where it never applied

    Args:
        verdict_GK: (G, K), +1, -1, 0 or NaN.
    Returns:
        (K,) in [0, 1] or NaN. A rate of 1 means saturated: the criterion no longer tells.

    >>> criterion_pass_rates([[1, 0], [-1, 0]])
    array([0.5, nan])
    """
    v = np.asarray(verdict_GK, dtype=float)
    if v.ndim != 2:
        raise CreditError(f"want verdicts of shape (G, K); got shape {v.shape}")
    passed, failed = (v == 1).sum(axis=0), (v == -1).sum(axis=0)
    total = passed + failed
    return np.where(total > 0, passed / np.maximum(total, 1), np.nan)


def _counts(pass_GS: ArrayLike, fail_GS: ArrayLike, tokens_GS: ArrayLike) -> tuple[NDArray, ...]:
    p, f, n = (np.asarray(x, dtype=float) for x in (pass_GS, fail_GS, tokens_GS))
    if n.ndim != 2 or not p.shape == f.shape == n.shape:
        raise CreditError(
            f"want pass, fail and tokens of one shape (G, S); got {p.shape}, {f.shape}, {n.shape}"
        )
    if not (p >= 0).all() or not (f >= 0).all() or not (n >= 0).all():
        raise CreditError("want counts and tokens >= 0; got a negative or missing one")
    live = n > 0
    return np.where(live, p, 0), np.where(live, f, 0), live


def pass_fraction(pass_GS: ArrayLike, fail_GS: ArrayLike, tokens_GS: ArrayLike) -> NDArray:
    """Return Q per step: p / (p + f) where cited, NaN where uncited or padding.

    Args:
        pass_GS: (G, S) counts of PASS criteria that cite the step.
        fail_GS: (G, S) counts of FAIL criteria that cite the step.
        tokens_GS: (G, S) policy tokens, 0 for padding.
    Returns:
        (G, S) in [0, 1] or NaN.
    Reference:
        DRACO, arXiv 2609.04094, Eq. 4, before uncited steps get the mean.

    >>> pass_fraction([[1, 0, 0]], [[1, 0, 2]], [[5, 5, 5]])
    array([[0.5, nan, 0. ]])
    """
    p, f, _ = _counts(pass_GS, fail_GS, tokens_GS)
    cited = p + f > 0
    return np.where(cited, p / np.where(cited, p + f, 1), np.nan)


@dataclass(frozen=True, slots=True)
class InertShare:
    """How often step credit tells no step from another, as shares of the rollouts with steps.

    Args:
        unanimous: the paper's count: all citing criteria agree (or none cites).
        exact: all weights of the rollout are equal, or the rule fell back: includes one cited
            step with mixed verdicts, and equal Q everywhere.
        uncited: no step is cited (a part of both).
        collapsed: some step is cited but all weights are 0: unanimous against the direction.
        n: rollouts with a step that has tokens and with a known advantage.
    """

    unanimous: float
    exact: float
    uncited: float
    collapsed: float
    n: int


def inert_share(
    pass_GS: ArrayLike, fail_GS: ArrayLike, tokens_GS: ArrayLike, advantage_G: ArrayLike
) -> InertShare:
    """Return how often the weights of step credit are all alike.

    The paper calls a rollout inert iff its citing criteria are unanimous. That is a lower bound:
    one cited step, or the same Q at every cited step, makes all weights equal too. Law:
    exact >= unanimous >= uncited + collapsed.

    Args:
        pass_GS: (G, S) counts of PASS criteria that cite the step.
        fail_GS: (G, S) counts of FAIL criteria that cite the step.
        tokens_GS: (G, S) policy tokens, 0 for padding.
        advantage_G: (G,), its sign is the branch; >= 0 takes Q, < 0 takes 1 - Q.
    Raises:
        CreditError: for shapes that differ or counts below 0.
    Reference:
        DRACO, arXiv 2609.04094, App. B.3 and E.7; the exact count is ours.

    >>> s = inert_share([[1, 0], [1, 0]], [[1, 0], [0, 1]], [[5, 5], [5, 5]], [1.0, 1.0])
    >>> s.unanimous, s.exact
    (0.0, 0.5)
    """
    p, f, live = _counts(pass_GS, fail_GS, tokens_GS)
    a = np.asarray(advantage_G, dtype=float)
    if a.shape != (len(p),):
        raise CreditError(f"want one advantage per rollout, {len(p)}; got shape {a.shape}")
    keep = live.any(axis=1) & np.isfinite(a)
    if not keep.any():
        nan = float("nan")
        return InertShare(nan, nan, nan, nan, 0)
    p, f, live, a = p[keep], f[keep], live[keep], a[keep]
    q = pass_fraction(p, f, live)
    low = np.min(np.where(np.isnan(q), np.inf, q), axis=1)
    high = np.max(np.where(np.isnan(q), -np.inf, q), axis=1)
    uncited = np.isinf(low)
    unanimous = uncited | (high == 0) | (low == 1)
    collapsed = ~uncited & np.where(a >= 0, high == 0, low == 1)
    exact = uncited | (low == high)
    return InertShare(*(float(x.mean()) for x in (unanimous, exact, uncited, collapsed)), len(p))


def q_spread(pass_GS: ArrayLike, fail_GS: ArrayLike, tokens_GS: ArrayLike) -> NDArray:
    """Return, per rollout, the population SD of Q over its steps, uncited ones at the mean.

    0 where nothing is told apart, at most 0.5; NaN where no step is cited.

    Args:
        pass_GS: (G, S) counts of PASS criteria that cite the step.
        fail_GS: (G, S) counts of FAIL criteria that cite the step.
        tokens_GS: (G, S) policy tokens, 0 for padding.
    Returns:
        (G,) in [0, 0.5] or NaN.

    >>> q_spread([[1, 0, 0]], [[0, 1, 0]], [[5, 5, 0]])
    array([0.5])
    """
    _, _, live = _counts(pass_GS, fail_GS, tokens_GS)
    q = pass_fraction(pass_GS, fail_GS, tokens_GS)
    cited = ~np.isnan(q)
    m = cited.sum(axis=1)
    mean = np.where(cited, q, 0).sum(axis=1) / np.maximum(m, 1)
    square = np.where(cited, (q - mean[:, None]) ** 2, 0).sum(axis=1)
    return np.where(m > 0, np.sqrt(square / np.maximum(live.sum(axis=1), 1)), np.nan)


@dataclass(frozen=True, slots=True)
class CitationCounts:
    """Citations per step with tokens: median, mean, share of steps with none and with >= 10."""

    median: float
    mean: float
    none: float
    ten_or_more: float
    steps: int


def citations_per_step(
    pass_GS: ArrayLike, fail_GS: ArrayLike, tokens_GS: ArrayLike
) -> CitationCounts:
    """Return how many retained criteria cite a step, over all steps with tokens.

    NaN figures where there is no step.

    >>> citations_per_step([[1, 0]], [[1, 0]], [[5, 5]]).mean
    1.0
    """
    p, f, live = _counts(pass_GS, fail_GS, tokens_GS)
    c = (p + f)[live]
    if c.size == 0:
        nan = float("nan")
        return CitationCounts(nan, nan, nan, nan, 0)
    return CitationCounts(
        float(np.median(c)),
        float(c.mean()),
        float((c == 0).mean()),
        float((c >= 10).mean()),
        int(c.size),
    )


def mean_by_step_type(
    credit_GS: ArrayLike, tokens_GS: ArrayLike, kind_GS: Sequence[Sequence[object]] | NDArray
) -> dict[object, tuple[float, int]]:
    """Return, per step type, the token-weighted mean credit and the number of steps.

        mean_t = sum_{type t} n a / sum_{type t} n

    Under plain GRPO a type that occurs once in every rollout has a mean near 0; weights that are
    never negative can push such a type one way for good, which is what this shows. Law: the
    token-weighted sum over types is the total push.

    Args:
        credit_GS: (G, S) per-token credit or advantage.
        tokens_GS: (G, S) policy tokens, 0 for padding.
        kind_GS: (G, S) step types; padding's type is not read.
    Returns:
        type -> (mean, steps), in order of first appearance.
    Raises:
        CreditError: for shapes that differ or credit that is not finite where there are tokens.

    >>> mean_by_step_type([[1.0, -1.0]], [[2, 2]], [["find", "finish"]])
    {'find': (1.0, 1), 'finish': (-1.0, 1)}
    """
    a, n = np.asarray(credit_GS, dtype=float), np.asarray(tokens_GS, dtype=float)
    kind = np.asarray(kind_GS, dtype=object)
    if a.ndim != 2 or not a.shape == n.shape == kind.shape:
        raise CreditError(
            f"want credit, tokens and types of one shape (G, S); got {a.shape}, {n.shape}, "
            f"{kind.shape}"
        )
    live = n > 0
    if not np.isfinite(a[live]).all():
        raise CreditError("want finite credit where there are tokens; got NaN or infinity")
    push: dict[object, list[float]] = {}
    for k, tokens, credit in zip(kind[live], n[live], a[live], strict=True):
        row = push.setdefault(k, [0.0, 0.0, 0])
        row[0] += tokens * credit
        row[1] += tokens
        row[2] += 1
    return {k: (float(total / tokens), int(steps)) for k, (total, tokens, steps) in push.items()}
