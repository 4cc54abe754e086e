"""How far one judge agrees with another, on three labels, with what was left unanswered.

Labels are +1 (pass), -1 (fail), 0 (not applicable) and NaN (the judgement failed). A missing
answer is a disagreement: it is never dropped and never a label. All figures are functions of one
table of counts, so a cluster bootstrap only adds tables up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CreditError
from .intervals import Interval, bootstrap_clusters, cluster_rows
from .resampled import at_the_edge, kappa_at_one

# The cases that each share is of: in (C, 4, 4) tables, rows the reference.
_SHARES = {
    "agreement": lambda m: m.sum(axis=(1, 2)),
    "false_pass": lambda m: m[:, 1].sum(axis=1),
    "false_fail": lambda m: m[:, 0].sum(axis=1),
    "missing": lambda m: m.sum(axis=(1, 2)),
}
LABELS = (1.0, -1.0, 0.0)
FIGURES = ("agreement", "false_pass", "false_fail", "missing", "kappa", "alpha")


@dataclass(frozen=True, slots=True)
class Agreement:
    """One judge against another; every share in [0, 1], NaN where it has no cases.

    Args:
        n: judgements compared.
        agreement: share with the same label; a missing answer on either side disagrees.
        always_pass: the agreement that a judge would have which passes everything.
        majority: the agreement of always giving the reference's most frequent label.
        false_pass: share of the reference's fails that the other passes.
        false_fail: share of the reference's passes that the other fails.
        missing: share that the other left unanswered.
        kappa: Cohen's kappa, a missing answer being a disagreement.
        alpha: Krippendorff's nominal alpha over what both answered.
        counts: (4, 4), rows the reference and columns the other judge, in the order pass, fail,
            not applicable, missing.
        intervals: figure -> interval over resampled clusters.
    """

    n: int
    agreement: float
    always_pass: float
    majority: float
    false_pass: float
    false_fail: float
    missing: float
    kappa: float
    alpha: float
    counts: tuple[tuple[int, ...], ...]
    intervals: Mapping[str, Interval] = field(default_factory=dict)


def _codes(label_N: ArrayLike, name: str) -> NDArray[np.intp]:
    v = np.asarray(label_N, dtype=float)
    if v.ndim != 1:
        raise CreditError(f"want {name} of shape (N,); got shape {v.shape}")
    codes = np.full(v.size, -1)
    for code, label in enumerate(LABELS):
        codes[v == label] = code
    codes[np.isnan(v)] = 3
    if (codes < 0).any():
        i = int(np.argmax(codes < 0))
        raise CreditError(f"want {name} of +1, -1, 0 or NaN; got {v[i]} at {i}")
    return codes


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else float("nan")


def cohen_kappa(counts: ArrayLike) -> float:
    """Return Cohen's kappa of a (4, 4) table of counts, its last row and column "missing".

        kappa = (po - pe) / (1 - pe),  pe = sum over the three labels of p_k q_k

    Missing answers count in n and in neither side's label shares, so they lower po alone.
    Without missing answers it equals scikit-learn's ``cohen_kappa_score``. NaN where pe = 1.

    >>> round(cohen_kappa([[20, 5, 0, 0], [10, 15, 0, 0], [0] * 4, [0] * 4]), 3)
    0.4
    """
    m = np.asarray(counts, dtype=float)
    n = m.sum()
    if n == 0:
        return float("nan")
    po = np.trace(m[:3, :3]) / n
    pe = float((m[:3].sum(axis=1) * m[:, :3].sum(axis=0)).sum() / n**2)
    return float((po - pe) / (1 - pe)) if pe < 1 else float("nan")


def krippendorff_pair(counts: ArrayLike) -> float:
    """Return Krippendorff's nominal alpha of two judges from their (4, 4) table of counts.

        alpha = 1 - (2n - 1) * sum_{c != k} o_ck / sum_{c != k} n_c n_k,  o = counts + counts^T

    over the n items that both answered. Equals the ``krippendorff`` library's alpha (compared in
    the tests); this form costs nothing in a bootstrap. NaN where only one label occurs.

    >>> krippendorff_pair([[5, 0, 0, 1], [0, 5, 0, 0], [0] * 4, [0] * 4])
    1.0
    """
    m = np.asarray(counts, dtype=float)[:3, :3]
    o = m + m.T
    total = o.sum(axis=1)
    expected = total.sum() ** 2 - (total**2).sum()
    if expected == 0:
        return float("nan")
    return float(1 - (total.sum() - 1) * (o.sum() - np.trace(o)) / expected)


def krippendorff_alpha(label_RN: ArrayLike) -> float:
    """Return Krippendorff's nominal alpha of R judges (or repeats) on N items, NaN unanswered.

    Computed by the ``krippendorff`` library, which is imported on use. NaN where it is not
    defined: fewer than two labels, or no item with two answers.

    Args:
        label_RN: (R, N) of +1, -1, 0 or NaN.
    Raises:
        CreditError: for another shape or value.

    >>> krippendorff_alpha([[1, -1, 0], [1, -1, 0]])
    1.0
    """
    v = np.asarray(label_RN, dtype=float)
    if v.ndim != 2 or not (np.isin(v, LABELS) | np.isnan(v)).all():
        raise CreditError(f"want (R, N) labels of +1, -1, 0 or NaN; got shape {v.shape}")
    paired = v[:, (~np.isnan(v)).sum(axis=0) >= 2]
    if np.unique(paired[~np.isnan(paired)]).size < 2:
        return float("nan")
    import krippendorff

    return float(
        krippendorff.alpha(
            reliability_data=paired, level_of_measurement="nominal", value_domain=[-1.0, 0.0, 1.0]
        )
    )


def _figures(m: NDArray[np.float64]) -> dict[str, float]:
    n = m.sum()
    return {
        "agreement": _ratio(np.trace(m[:3, :3]), n),
        "false_pass": _ratio(m[1, 0], m[1].sum()),
        "false_fail": _ratio(m[0, 1], m[0].sum()),
        "missing": _ratio(m[:, 3].sum(), n),
        "kappa": cohen_kappa(m),
        "alpha": krippendorff_pair(m),
    }


def agreement(
    test_N: ArrayLike,
    reference_N: ArrayLike,
    cluster_N: Sequence[object] | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Agreement:
    """Return how far the judge under test agrees with a reference judge.

    False pass and false fail are relative to the reference, not to the truth. Law: agreement is
    1 iff every label is answered and equal; renaming rows changes nothing.

    Args:
        test_N: (N,) labels +1, -1, 0 or NaN of the judge under test.
        reference_N: (N,) labels of the reference.
        cluster_N: (N,) what is resampled for the intervals (the task: its rollouts share a
            rubric); none: no intervals.
        resamples: of the bootstrap.
        seed: of the bootstrap.
        level: coverage of the intervals.
    Raises:
        CreditError: for lengths that differ, no judgements, or another label.
    Reference:
        DRACO, arXiv 2609.04094, App. B.1; kappa, alpha, the baseline and the intervals are ours.

    >>> a = agreement([1, 1, -1, float("nan")], [1, -1, -1, 1])
    >>> a.agreement, a.false_pass, a.missing, a.always_pass
    (0.5, 0.5, 0.25, 0.5)
    """
    test, ref = _codes(test_N, "test"), _codes(reference_N, "reference")
    if test.size != ref.size or test.size == 0:
        raise CreditError(f"want as many labels on both sides; got {test.size} and {ref.size}")
    cell = np.zeros((test.size, 4, 4))
    cell[np.arange(test.size), ref, test] = 1
    m = cell.sum(axis=0)
    bounds: dict[str, Interval] = {}
    if cluster_N is not None:
        if len(cluster_N) != test.size:
            raise CreditError(f"want one cluster per label, {test.size}; got {len(cluster_N)}")
        per_cluster = np.array([cell[r].sum(axis=0) for r in cluster_rows(cluster_N)])
        for name in FIGURES:
            bounds[name] = bootstrap_clusters(
                lambda i, name=name: _figures(per_cluster[i].sum(axis=0))[name],
                len(per_cluster),
                level=level,
                resamples=resamples,
                seed=seed,
            )
        for name, cases in _SHARES.items():
            bounds[name] = at_the_edge(bounds[name], int((cases(per_cluster) > 0).sum()))
        p = m / m.sum()
        chance = float(p[:3].sum(axis=1) @ p[:, :3].sum(axis=0))
        bounds["kappa"] = kappa_at_one(bounds["kappa"], bounds["agreement"], chance)
    return Agreement(
        n=int(m.sum()),
        always_pass=float(m[0].sum() / m.sum()),
        majority=float(m[:3].sum(axis=1).max() / m.sum()),
        counts=tuple(tuple(int(x) for x in row) for row in m),
        intervals=bounds,
        **_figures(m),
    )


def drift(
    test_N: ArrayLike,
    reference_N: ArrayLike,
    step_N: ArrayLike,
    *,
    parts: int = 4,
    cluster_N: Sequence[object] | None = None,
    resamples: int = 1000,
) -> list[Agreement]:
    """Return the agreement in each equal part (quarter) of training, first to last.

    The steps that occur are cut into runs of equal number, so no step is in two parts.

    Args:
        test_N: (N,) labels of the judge under test.
        reference_N: (N,) labels of the reference.
        step_N: (N,) training step of each judgement.
        parts: number of parts, at most the number of different steps.
        cluster_N: (N,) clusters for intervals, or none.
        resamples: of the bootstrap.
    Raises:
        CreditError: for lengths that differ, or fewer different steps than parts.

    >>> [a.agreement for a in drift([1, 1, 1, 1], [1, 1, -1, -1], [1, 2, 3, 4], parts=2)]
    [1.0, 0.0]
    """
    test, ref = np.asarray(test_N, float), np.asarray(reference_N, float)
    steps = np.asarray(step_N)
    known = np.unique(steps)
    if not test.shape == ref.shape == steps.shape or not 1 <= parts <= known.size:
        raise CreditError(
            f"want equal lengths and 1 <= parts <= {known.size} steps; got {test.shape}, "
            f"{ref.shape}, {steps.shape}, parts {parts}"
        )
    out = []
    for part in np.array_split(known, parts):
        at = np.flatnonzero(np.isin(steps, part))
        clusters = None if cluster_N is None else [cluster_N[i] for i in at]
        out.append(agreement(test[at], ref[at], clusters, resamples=resamples))
    return out
