"""How good judges are against labels: precision on success first, and the ranking of agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..metrics.judge_eval import FIGURES, Quality, judge_quality, ranking_fidelity
from .logs import Logs
from .opinions import (
    Opinion,
    desk_labels,
    desk_opinions,
    detector_opinion,
    graded_opinions,
    rule_opinions,
)
from .section import SIMULATED, Section, columns_of, percent, skipped, span

QUESTION = "How good is the judge, against labels?"


def opinions_of(logs: Logs, *, seed: int = 0) -> tuple[list[Opinion], dict[str, np.ndarray]]:
    """Return every opinion that can be had without a network, and the labels by axis.

    Rollouts of the bundled desk get its rule judges and all axes; others get rules, the trained
    text detector and, where the file is graded, its judge.
    """
    if all("side_effect" in t.labels for t in logs.trajectories):
        return [*desk_opinions(logs, seed=seed), *graded_opinions(logs)], desk_labels(logs)
    found = [*rule_opinions(logs), *graded_opinions(logs)]
    detector = detector_opinion(logs, seed)
    return found + ([detector] if detector else []), {"success": logs.success_N}


def how_good(
    logs: Logs,
    opinions: Sequence[Opinion] | None = None,
    labels: Mapping[str, Any] | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Section:
    """Return the section on judge quality, in both views of missing answers.

    Args:
        logs: rollouts with labels.
        opinions: judges' answers; None: all that can be had offline (``opinions_of``).
        labels: axis -> (N,) labels, 1 good, 0 bad, NaN unsure; None: outcomes, and for desk
            rollouts side effects, repetition and the shortest way.
        resamples, seed: of the intervals.
    """
    made, known = ([], {}) if opinions is not None else opinions_of(logs, seed=seed)
    opinions = list(opinions) if opinions is not None else made
    labels = dict(labels or known or {"success": logs.success_N})
    use = {a: _binary(v) for a, v in labels.items() if {0.0, 1.0} <= set(_binary(v))}
    if not use or not opinions:
        return skipped("judge", QUESTION, "want labels of both kinds and a judge; got one or none")
    rows, points, best = [], [], {}
    for o in opinions:
        if o.axis not in use:
            continue
        both = {
            view: judge_quality(
                o.said_N, use[o.axis], logs.task_N, view=view, resamples=resamples, seed=seed
            )
            for view in ("left_out", "wrong")
        }
        best[o.axis, o.judge] = both["left_out"]
        rows += [_row(o, q) for q in both.values()]
        for figure in ("precision", "recall"):
            i = both["left_out"].intervals[figure]
            points.append(
                {"axis": o.axis, "what": o.judge, "series": figure, "value": i.mean,
                 "low": i.low, "high": i.high, "n": i.n}
            )  # fmt: skip
    tables = {"quality": columns_of(rows)}
    from ..figures import lab as draw

    figures: dict[str, Any] = {}
    for axis in use:
        own = [p for p in points if p["axis"] == axis]
        if own:
            name = axis.replace(" ", "_")
            figures[f"quality_{name}"] = draw.intervals(
                own,
                title=f"Judges on {axis}{simulated_note(opinions)} ({logs.source})",
                axis="share",
                description="Missing answers left out; intervals over tasks.",
            )
    values: dict[str, Any] = {"quality": best}
    said = [_words(axis, use[axis], opinions, best) for axis in use]
    ranks = _ranks(logs, opinions, use, tables, values, seed)
    return Section("judge", QUESTION, " ".join([*said, *ranks]), tables, figures, values)


def _binary(value_N: Any) -> np.ndarray:
    return np.asarray(value_N, dtype=float)


def simulated_note(opinions: Sequence[Opinion]) -> str:
    """Return what a title adds where a judge's errors are drawn, not made."""
    some = any(SIMULATED in o.judge for o in opinions)
    return f", with {SIMULATED}s" if some else ""


def _row(o: Opinion, q: Quality) -> dict[str, Any]:
    row: dict[str, Any] = {
        "axis": o.axis,
        "judge": o.judge,
        "reads": o.reads,
        "calls a rollout": o.calls,
        "missing answers": {"left_out": "left out", "wrong": "count as wrong"}[q.view],
        "labelled": q.n,
        "unsure": q.unsure,
        "missing": q.missing,
        "base rate": q.base_rate,
    }
    for name in FIGURES:
        i = q.intervals[name]
        row |= {name: i.mean, f"{name} low": i.low, f"{name} high": i.high}
    return row


def _words(
    axis: str, label_N: Any, opinions: Sequence[Opinion], best: Mapping[Any, Quality]
) -> str:
    """One sentence an axis: every judge on success, the best and the worst on the others."""
    real = [o for o in opinions if o.axis == axis and (axis, o.judge) in best]
    if not real:
        return f"On {axis} there is no judge."
    if axis != "success" and len(real) > 2:
        order = sorted(real, key=lambda o: -np.nan_to_num(best[axis, o.judge].kappa, nan=-2))
        real = [order[0], order[-1]]
    parts = []
    for o in real:
        q = best[axis, o.judge]
        gone = f", {q.missing} unanswered" if q.missing else ""
        parts.append(
            f"{o.judge}: precision {span(q.intervals['precision'])}, recall "
            f"{span(q.intervals['recall'])}, kappa {span(q.intervals['kappa'])}{gone}"
        )
    y = _binary(label_N)
    return (
        f"On {axis} ({int(np.isfinite(y).sum())} labelled, {percent(float(np.nanmean(y)))} good) "
        + "; ".join(parts)
        + "."
    )


def _ranks(logs, opinions, use, tables, values, seed) -> list[str]:
    """Rows and a sentence on the ranking of agents, where several are named."""
    agents = [t.model for t in logs.trajectories]
    named = np.array([bool(a) for a in agents])
    n = len({a for a in agents if a})
    if n < 2 or "success" not in use:
        who = "One agent only" if n == 1 else "No agent is named"
        return [f"{who}, so how well judges rank agents cannot be measured here."]
    rows, said = [], []
    for o in opinions:
        if o.axis != "success" or o.reads == "nothing":
            continue
        r = ranking_fidelity(
            o.said_N[named],
            use["success"][named],
            [a for a in agents if a],
            [c for c, k in zip(logs.task_N, named, strict=True) if k],
            resamples=200,
            seed=seed,
        )
        values["ranking", o.judge] = r
        row: dict[str, Any] = {"judge": o.judge, "agents": len(r.agents)}
        for name, point in (("kendall", r.kendall), ("spearman", r.spearman)):
            i = r.intervals.get(name)
            row |= {name: point}
            row |= {f"{name} low": i.low, f"{name} high": i.high} if i else {}
        rows.append(row)
        known = r.intervals.get("kendall")
        point = "not defined" if np.isnan(r.kendall) else f"{r.kendall:.2f}"
        said.append(f"{o.judge} {point if known is None else span(known)}")
    tables["ranking"] = columns_of(rows)
    few = " With so few agents only gross errors show." if n < 6 else ""
    return [f"Kendall's tau of the ranking of {n} agents: " + "; ".join(said) + "." + few]
