"""Cheaper judging: a cascade whose risk is audited; what cannot be certified is not claimed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..metrics.cascade import Audited, Tier, cascade
from ..metrics.exact import clopper_pearson
from ..seeds import generator
from ..worlds import EXACT, LENIENT, offline_judge
from .earlier import split_clusters
from .logs import Logs, read_chars
from .opinions import Opinion, ask, desk_rubric, detector_opinion, graded_opinions
from .section import SIMULATED, Section, columns_of, percent, skipped

QUESTION = "Can a cascade of judges cost less at a risk that is certified?"


def tier_of(opinion: Opinion, logs: Logs, cost: float) -> Tier:
    """Return an opinion as a tier: features are its answer, agreement, margin and the length."""
    runs = logs.trajectories
    nan = np.full(len(runs), np.nan)
    features = [
        opinion.said_N,
        nan if opinion.agreement_N is None else opinion.agreement_N,
        nan if opinion.margin_N is None else opinion.margin_N,
        np.log1p([read_chars(t) for t in runs]),
        [len(t) for t in runs],
    ]
    return Tier(opinion.judge, opinion.said_N, np.array(features, dtype=float).T, cost)


def desk_tiers(logs: Logs, votes: int = 3, learn: np.ndarray | None = None) -> list[Tier]:
    """Return tiers for desk rollouts: a text detector, a lenient judge with votes, the rules.

    Costs are relative: the detector reads nothing that a judge would, a vote of the small judge
    is a tenth of the top one. The detector learns from the rows ``learn`` (None: all, by folds).
    """
    rubric = desk_rubric("success")
    name = f"{SIMULATED}, lenient rates, {votes} votes"
    small = offline_judge(LENIENT, name=name)
    top = offline_judge(EXACT, name="rule judge without noise")
    tiers = []
    detector = detector_opinion(logs, learn=learn)
    if detector is not None:
        tiers.append(tier_of(detector, logs, 0.0))
    lower = ask(logs, small, rubric, votes=votes)[0]
    tiers.append(tier_of(lower, logs, 0.1 * votes))
    tiers.append(tier_of(ask(logs, top, rubric)[0], logs, 1.0))
    return tiers


def log_tiers(logs: Logs, learn: np.ndarray | None = None) -> list[Tier]:
    """Return tiers for any labelled log: the text detector, then the graded file's judge.

    The detector learns from the rows ``learn`` (None: all, by folds).
    """
    graded = graded_opinions(logs)
    detector = detector_opinion(logs, learn=learn) if graded else None
    if detector is None or not graded:
        return []
    return [tier_of(detector, logs, 0.0), tier_of(graded[-1], logs, 1.0)]


def how_cheap(
    logs: Logs,
    tiers: Sequence[Tier] | None = None,
    *,
    risks: Sequence[float] = (0.02, 0.05, 0.1, 0.2),
    level: float = 0.95,
    looks: int = 2,
    seed: int = 0,
) -> Section:
    """Return the section on cascades: for each risk, coverage, compute and the certificate.

    Args:
        logs: rollouts with outcomes.
        tiers: from the cheapest to the top; None: detector, small judge and rules on desk
            rollouts, detector and the file's judge on graded ones.
        risks: largest error share among the accepted, in (0, 1); each is a claim of its own.
        level: of each certificate.
        looks: thresholds that the audit may try.
        seed: of the split of the tasks in three.
    """
    known = np.flatnonzero(np.isfinite(logs.success_N))
    cluster = [logs.task_N[i] for i in known]
    cut = split_clusters(cluster, (1, 1, 1), generator(seed, "cascade"))
    parts = tuple(known[c] for c in cut)
    if tiers is None:
        # No label of a calibration or audit rollout may touch a tier, or nothing is certified.
        desk = all("side_effect" in t.labels for t in logs.trajectories)
        tiers = (
            desk_tiers(logs, learn=parts[0])
            if desk and logs.labelled
            else log_tiers(logs, learn=parts[0])
        )
    if len(tiers) < 2 or not logs.labelled:
        why = "want outcomes of both kinds and two judges on the same rollouts; got fewer"
        return skipped("cascade", QUESTION, why)
    made = {
        r: cascade(
            tiers,
            logs.success_N,
            parts,
            risk=r,
            level=level,
            looks=looks,
            cluster_N=logs.task_N,
            seed=seed,
        )
        for r in risks
    }
    tables = {"cascade": columns_of([_row(r, a, tiers) for r, a in made.items()])}
    from ..figures import lab as draw

    note = f", with a {SIMULATED}" if any(SIMULATED in t.name for t in tiers) else ""
    points = [
        {"what": f"risk {r:g}", "series": name, "value": value, "low": None, "high": None}
        for r, a in made.items()
        for name, value in (
            ("answered below the top", a.coverage),
            ("relative compute", a.compute),
            ("error bound of the accepted", a.bound.high if a.bound.n else None),
        )
    ]
    figure = draw.intervals(
        points,
        title=f"A cascade of judges{note} ({logs.source})",
        axis="share",
        description="A risk that is not certified accepts nothing.",
    )
    text = _words(made, tiers, len(parts[2]), level)
    return Section("cascade", QUESTION, text, tables, {"cascade": figure}, {"audited": made})


def _row(risk: float, a: Audited, tiers: Sequence[Tier]) -> dict[str, Any]:
    return {
        "risk": risk,
        "certified": "yes" if a.certified else "no",
        "tasks with an accepted rollout in the audit": a.bound.n,
        "error": a.bound.mean,
        "upper bound": a.bound.high if a.bound.n else None,
        "answered below the top": a.coverage,
        **{f"answered by {t.name}": s for t, s in zip(tiers, a.shares, strict=True)},
        "relative compute": a.compute,
        "accuracy": a.accuracy,
        "accuracy of the top alone": a.top_accuracy,
        "unanswered": a.unanswered,
        "unanswered by the top alone": a.top_unanswered,
        "audited": a.n,
        "looks": a.looks,
        "why not": a.why,
    }


def _gone(a: Audited) -> str:
    if not a.unanswered and not a.top_unanswered:
        return ""
    return (
        f", of what each answers ({percent(a.unanswered)} and {percent(a.top_unanswered)} have no "
        "answer)"
    )


def _words(made: dict[float, Audited], tiers: Sequence[Tier], n: int, level: float) -> str:
    names = " -> ".join(t.name for t in tiers)
    good = [(r, a) for r, a in made.items() if a.certified]
    said = f"Cascade {names}, audited on {n} rollouts of tasks that chose nothing. "
    if good:
        said += " ".join(
            f"A risk of {percent(r)} is certified (bound {percent(a.bound.high, 1)} at "
            f"{percent(level)}): {percent(a.coverage)} is answered below the top at "
            f"{a.compute:.2f} of its compute, accuracy {a.accuracy:.3f} against "
            f"{a.top_accuracy:.3f}{_gone(a)}."
            for r, a in good
        )
    bad = [(r, a) for r, a in made.items() if not a.certified]
    if bad:
        said += " Not claimed: " + "; ".join(f"{percent(r)} ({a.why})" for r, a in bad) + "."
    least = next(k for k in range(1, 10_000) if clopper_pearson(0, k, side="upper").high <= 0.05)
    return said.strip() + (
        f" The audit counts one accepted rollout a task, as those of one task are not "
        f"independent; for 5 % at least {least} tasks without an error are needed."
    )
