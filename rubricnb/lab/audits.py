"""Online auditing on labelled rollouts: a trained auditor, any judge, and a trivial one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..judge.protocol import Judge
from ..metrics.auditing import AuditScores, audit_scores, cross_audit
from ..metrics.step_features import step_features
from ..rubric import Rubric
from ..trajectory import Trajectory
from .logs import Logs
from .prefixes import audit_with_judge
from .section import SIMULATED, columns_of, percent, span


def error_step(trajectory: Trajectory) -> float:
    """Return the labelled first decisive error: a step, 0 for a safe rollout, NaN without label.

    Read are "steps" (the first -1), "mistake_step" and "error_step" of the labels.
    """
    labels = trajectory.labels
    if "steps" in labels:
        bad = [int(k) for k, v in labels["steps"].items() if v == -1]
        return float(min(bad, default=0)) if labels["steps"] else float("nan")
    for name in ("mistake_step", "error_step"):
        value = labels.get(name)
        if isinstance(value, int) and 0 <= value <= len(trajectory):
            return float(value)
    return float("nan")


def flags_of(
    logs: Logs, errors: np.ndarray, judge: Judge | None, rubric: Rubric | None, most: int
) -> tuple[str, np.ndarray, dict[str, Any]] | None:
    """The judge's name, the rollouts that it audited, and its flags."""
    if judge is None:
        return None
    some = np.flatnonzero(np.isfinite(errors))[:most]
    runs = [logs.trajectories[i] for i in some]
    return judge.name, some, audit_with_judge(runs, judge, rubric)


def audits(logs, errors, far, seed, flags, tables, figures, values, said) -> None:
    """Add the audits' rows, figure, values and sentences to those of the section."""
    known = np.flatnonzero(np.isfinite(errors))
    runs = [logs.trajectories[i] for i in known]
    error, cluster = errors[known].astype(int), [logs.task_N[i] for i in known]
    features = [step_features(t) for t in runs]
    ends = np.array([len(t) for t in runs])
    made: dict[str, Any] = {"flags every last step": (ends, ends, error, cluster)}
    limits = [("small auditor", None)] + ([] if far is None else [(f"same, FAR {far:g}", far)])
    for name, limit in limits:
        at = cross_audit(features, error, cluster, far=limit, seed=seed)[0]
        made[name] = (at, at, error, cluster)
    if flags is not None:
        name, some, f = flags
        labels, tasks = errors[some].astype(int), [logs.task_N[i] for i in some]
        made[name] = (f["alarm"], f["named"], labels, tasks)
    rows, points = [], []
    for name, (alarm, named, label, tasks) in made.items():
        s = audit_scores(alarm, named, label, tasks)
        values[name] = s
        row: dict[str, Any] = {"auditor": name, "safe": s.n_safe, "unsafe": s.n_unsafe}
        for what, i in s.intervals.items():
            row |= {what: i.mean, f"{what} low": i.low, f"{what} high": i.high}
            if what in ("exact_f1", "far", "detected"):
                points.append(
                    {"what": what.replace("_", " "), "series": name, "value": i.mean,
                     "low": i.low, "high": i.high}
                )  # fmt: skip
        rows.append(row)
    tables["online_audit"] = columns_of(rows)
    from ..figures import lab as draw

    note = f", with a {SIMULATED}" if any(SIMULATED in name for name in made) else ""
    figures["online_audit"] = draw.intervals(
        points,
        title=f"Online auditing, prefix by prefix{note} ({logs.source})",
        axis="share",
        description="Every rollout is audited step by step, safe ones too; intervals over tasks.",
    )
    best, base = values["small auditor"], values["flags every last step"]
    said.append(
        f"Audited prefix by prefix, a small auditor trained on step features reaches exact F1 "
        f"{span(best.intervals['exact_f1'])} against {base.exact_f1:.2f} for flagging every last "
        f"step; {false(best)}, and where it flags "
        f"an unsafe one it is {best.step_error:.1f} steps off, {best.delay:+.1f} steps late."
    )
    if far is not None and best.n_safe:
        s = values[f"same, FAR {far:g}"]
        said.append(
            f"Held to {percent(far)} false alarms in training, it detects "
            f"{span(s.intervals['detected'])} of the unsafe ones at a measured false-alarm share "
            f"of {span(s.intervals['far'])}."
        )
    if flags is not None:
        s, calls = values[flags[0]], flags[2]["calls"]
        said.append(
            f"The {flags[0]} as auditor, over {len(calls)} rollouts and {calls.mean():.1f} calls "
            f"each: exact F1 {span(s.intervals['exact_f1'])}, false alarms "
            f"{span(s.intervals['far'])}, detected {span(s.intervals['detected'])}; "
            f"{int(flags[2]['failed'].sum())} judgements failed and count as no objection."
        )


def false(s: AuditScores) -> str:
    """False alarms in words, or why they are not known."""
    if not s.n_safe:
        return "no rollout here is labelled safe, so false alarms are not known"
    return f"it flags {span(s.intervals['far'])} of the safe rollouts"
