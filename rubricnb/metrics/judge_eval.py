"""A judge's yes or no against labels: precision on success first, and fidelity of rankings.

A judge that calls failures successes poisons a training set, one that misses successes only
wastes rollouts: so precision on success leads. An unsure label is dropped. A missing answer is
never a no: figures come in two views, without those rollouts and with each as a wrong answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from ..errors import CreditError
from .intervals import Interval, cluster_rows
from .resampled import bootstrap_sums, kappa_at_one, ratio

FIGURES = (
    "precision",
    "recall",
    "f1",
    "npv",
    "tnr",
    "accuracy",
    "balanced_accuracy",
    "kappa",
)
VIEWS = ("left_out", "wrong", "no")


@dataclass(frozen=True, slots=True)
class Quality:
    """How good a judge's yes or no is. Shares in [0, 1], NaN where there are no cases.

    Args:
        n: rollouts with a label, a missing answer included.
        unsure: rollouts whose label is unknown, dropped.
        missing: labelled rollouts without an answer.
        view: what became of these.
        tp, fp, fn, tn: counts, "p" a yes.
        base_rate: share of successes among the labelled.
        precision: of its yeses, share that are successes.
        recall: of the successes, share with a yes.
        f1: harmonic mean of both.
        npv: of its noes, share that are failures.
        tnr: of the failures, share with a no; 1 - tnr is the false-pass rate.
        accuracy, balanced_accuracy: share right; mean of recall and tnr.
        kappa: Cohen's, on two labels.
        intervals: figure -> interval over resampled clusters.
    """

    n: int
    unsure: int
    missing: int
    view: str
    tp: int
    fp: int
    fn: int
    tn: int
    base_rate: float
    precision: float
    recall: float
    f1: float
    npv: float
    tnr: float
    accuracy: float
    balanced_accuracy: float
    kappa: float
    intervals: Mapping[str, Interval] = field(default_factory=lambda: MappingProxyType({}))


def _figures(sums: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Figures from (..., 4) counts tp, fp, fn, tn."""
    tp, fp, fn, tn = np.moveaxis(np.asarray(sums, dtype=float), -1, 0)
    n = tp + fp + fn + tn
    recall, tnr = ratio(tp, tp + fn), ratio(tn, tn + fp)
    po = ratio(tp + tn, n)
    pe = ratio((tp + fp) * (tp + fn) + (fn + tn) * (fp + tn), n**2)
    return {
        "precision": ratio(tp, tp + fp),
        "recall": recall,
        "f1": ratio(2 * tp, 2 * tp + fp + fn),
        "npv": ratio(tn, tn + fn),
        "tnr": tnr,
        "accuracy": po,
        "balanced_accuracy": (recall + tnr) / 2,
        "kappa": ratio(po - pe, 1 - pe),
    }


# The cases that each share is of, from the same sums.
_SHARES = MappingProxyType(
    {
        "precision": lambda s: s[..., 0] + s[..., 1],
        "recall": lambda s: s[..., 0] + s[..., 2],
        "f1": lambda s: s[..., 0] + s[..., 1] + s[..., 2],
        "npv": lambda s: s[..., 2] + s[..., 3],
        "tnr": lambda s: s[..., 1] + s[..., 3],
        "accuracy": lambda s: s.sum(axis=-1),
    }
)


def _binary(value_N: ArrayLike, name: str) -> NDArray[np.float64]:
    v = np.asarray(value_N, dtype=float)
    if v.ndim != 1 or not (np.isin(v, (0, 1)) | np.isnan(v)).all():
        raise CreditError(f"want {name} of 1, 0 or NaN in one row; got shape {v.shape}")
    return v


def judge_quality(
    said_N: ArrayLike,
    label_N: ArrayLike,
    cluster_N: Sequence[object] | None = None,
    *,
    view: str = "left_out",
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Quality:
    """Return how good a judge's answers are against labels, in one view of its missing ones.

    Laws: a judge that repeats the labels has every figure 1; with no missing answers the views
    agree; swapping yes and no in both swaps precision with npv and recall with tnr.

    Args:
        said_N: (N,) 1 for success, 0 for failure, NaN where the judge gave no usable answer.
        label_N: (N,) 1, 0, NaN where the people (or the world) were unsure: dropped.
        cluster_N: (N,) tasks, resampled for the intervals; None: no intervals.
        view: "left_out" (of a missing answer), "wrong" (it counts as the wrong answer) or "no"
            (as failure, AgentRewardBench's code).
        level, resamples, seed: of the intervals.
    Raises:
        CreditError: for lengths that differ, another value or view, or no labelled rollout.
    Reference: AgentRewardBench (arXiv 2504.08942).

    >>> q = judge_quality([1, 1, 0, float("nan")], [1, 0, 0, 1], view="wrong")
    >>> q.precision, round(q.recall, 2), q.missing
    (0.5, 0.5, 1)
    """
    said, label = _binary(said_N, "answers"), _binary(label_N, "labels")
    if said.shape != label.shape or view not in VIEWS:
        raise CreditError(
            f"want as many answers as labels and a view of {VIEWS}; got {said.size}, "
            f"{label.size}, {view!r}"
        )
    sure = ~np.isnan(label)
    gone = np.isnan(said) & sure
    if not sure.any():
        raise CreditError("want at least one labelled rollout; got none")
    use = sure & ~gone if view == "left_out" else sure
    filled = np.where(gone, 1 - label if view == "wrong" else 0.0, said)
    yes, good = filled == 1, label == 1
    cell = np.column_stack([yes & good, yes & ~good, ~yes & good, ~yes & ~good]) & use[:, None]
    counts = cell.sum(axis=0)
    bounds: dict[str, Interval] = {}
    if cluster_N is not None:
        if len(cluster_N) != said.size:
            raise CreditError(f"want one cluster a rollout, {said.size}; got {len(cluster_N)}")
        per = np.array([cell[r].sum(axis=0) for r in cluster_rows(cluster_N)])
        bounds = bootstrap_sums(
            per, _figures, shares=_SHARES, level=level, resamples=resamples, seed=seed
        )
        p = counts.reshape(2, 2) / max(
            counts.sum(), 1
        )  # rows the answer; yes-yes first, no-no last
        chance = float((p[0].sum() * (p[0, 0] + p[1, 0])) + (p[1].sum() * (p[0, 1] + p[1, 1])))
        bounds["kappa"] = kappa_at_one(bounds["kappa"], bounds["accuracy"], chance)
        both = bounds["balanced_accuracy"]
        if both.mean in (0.0, 1.0):  # so are the two that it is the mean of
            a, b = bounds["recall"], bounds["tnr"]
            bounds["balanced_accuracy"] = replace(
                both, low=(a.low + b.low) / 2, high=(a.high + b.high) / 2
            )
    tp, fp, fn, tn = (int(c) for c in counts)
    return Quality(
        n=int(sure.sum()),
        unsure=int((~sure).sum()),
        missing=int(gone.sum()),
        view=view,
        tp=tp,
        fp=fp,
        fn=fn,
        tn=tn,
        base_rate=float(label[sure].mean()),
        intervals=MappingProxyType(bounds),
        **{k: float(v) for k, v in _figures(counts).items()},
    )


@dataclass(frozen=True, slots=True)
class Ranking:
    """How a judge ranks agents against how labels rank them.

    Args:
        agents: names, best by label first.
        judged, labelled: success rate of each agent by the judge and by the labels.
        kendall: tau-b over the agents; NaN for fewer than two, or all tied.
        spearman: rank correlation.
        intervals: "kendall" and "spearman" over resampled clusters; missing for two agents.
    """

    agents: tuple[str, ...]
    judged: tuple[float, ...]
    labelled: tuple[float, ...]
    kendall: float
    spearman: float
    intervals: Mapping[str, Interval] = field(default_factory=lambda: MappingProxyType({}))


def correlations(a_M: ArrayLike, b_M: ArrayLike) -> tuple[float, float]:
    """Return Kendall's tau-b and Spearman's rho, NaN where fewer than two values differ.

    >>> tuple(round(float(r), 3) for r in correlations([1, 2, 3], [1, 3, 2]))
    (0.333, 0.5)
    """
    a, b = np.asarray(a_M, dtype=float), np.asarray(b_M, dtype=float)
    use = np.isfinite(a) & np.isfinite(b)
    a, b = a[use], b[use]
    if a.size < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan"), float("nan")
    return float(stats.kendalltau(a, b).statistic), float(stats.spearmanr(a, b).statistic)


def ranking_fidelity(
    said_N: ArrayLike,
    label_N: ArrayLike,
    agent_N: Sequence[str],
    cluster_N: Sequence[object] | None = None,
    *,
    resamples: int = 500,
    seed: int = 0,
) -> Ranking:
    """Return how well a judge ranks agents by their success rates.

    Rates are over the rollouts that have both an answer and a label.

    Args:
        said_N, label_N: as ``judge_quality``.
        agent_N: (N,) who acted.
        cluster_N: (N,) tasks, resampled for intervals; None: no intervals.
        resamples, seed: of the intervals.
    Raises:
        CreditError: for lengths that differ.
    """
    said, label = _binary(said_N, "answers"), _binary(label_N, "labels")
    if not len(agent_N) == said.size == label.size:
        raise CreditError(f"want as many agents as answers, {said.size}; got {len(agent_N)}")
    names = list(dict.fromkeys(agent_N))
    use = ~(np.isnan(said) | np.isnan(label))
    one_hot = (np.array([names.index(a) for a in agent_N])[:, None] == np.arange(len(names))) & use[
        :, None
    ]
    m = len(names)
    parts = np.hstack(
        [one_hot * np.nan_to_num(said)[:, None], one_hot * np.nan_to_num(label)[:, None], one_hot]
    )

    def rates(sums: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
        return ratio(sums[:m], sums[2 * m :]), ratio(sums[m : 2 * m], sums[2 * m :])

    judged, labelled = rates(parts.sum(axis=0))
    tau, rho = correlations(judged, labelled)
    bounds: dict[str, Interval] = {}
    if cluster_N is not None and m > 2:
        per = np.array([parts[r].sum(axis=0) for r in cluster_rows(cluster_N)])

        def figures(sums: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
            rows = sums.reshape(-1, sums.shape[-1])
            both = np.array([correlations(*rates(r)) for r in rows])
            shape = sums.shape[:-1]
            return {"kendall": both[:, 0].reshape(shape), "spearman": both[:, 1].reshape(shape)}

        bounds = bootstrap_sums(per, figures, resamples=resamples, seed=seed)
    order = sorted(range(m), key=lambda i: -np.nan_to_num(labelled[i], nan=-1))
    return Ranking(
        tuple(names[i] for i in order),
        tuple(float(judged[i]) for i in order),
        tuple(float(labelled[i]) for i in order),
        tau,
        rho,
        MappingProxyType(bounds),
    )
