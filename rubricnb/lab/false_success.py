"""False success: how often failed rollouts claim to be done, and whether text gives them away."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import CreditError
from ..metrics.claims import closing_claim
from ..metrics.false_success import (
    PARTS,
    Detector,
    cross_detect,
    fit_detector,
    leave_one_out,
    rollout_text,
)
from ..metrics.intervals import Interval
from ..metrics.ranked import auroc_interval, recall_intervals
from ..metrics.resampled import cluster_share
from ..trajectory import Group, Trajectory
from .logs import Logs
from .opinions import judge_names
from .section import SIMULATED, Section, columns_of, percent, skipped, span

QUESTION = "How often does a failed rollout claim success, and does its text give it away?"
RATES = (0.05, 0.1, 0.2)
READS = (
    *("get", "search", "find", "list", "look", "read", "view", "show", "think", "calculate"),
    *("transfer", "check", "query", "browse", "open", "goto", "finish", "submit", "message"),
)


def family_of(group: Group) -> str:
    """Return a task's family: what its records say, else the changing tool its rollouts use most.

    >>> from rubricnb import Step, Task, ToolCall
    >>> task = Task("t", "p")
    >>> run = Trajectory("a", task, (Step("", (ToolCall("cancel_order"), ToolCall("get_user"))),))
    >>> family_of(Group(task, (run,)))
    'cancel_order'
    """
    for source in (group.task.meta, *(t.meta for t in group.trajectories[:1])):
        for name in ("family", "domain", "data_source", "category"):
            if isinstance(source.get(name), str) and source[name]:
                return source[name][:60]
    used = Counter(
        c.name
        for t in group.trajectories
        for s in t.steps
        for c in s.calls
        if not c.name.lower().startswith(READS)
    )
    # Equal counts: the first name in the alphabet, so that it does not depend on the order.
    return min(used, key=lambda n: (-used[n], n))[:60] if used else "no change made"


def family_rows(logs: Logs, claimed_N: Sequence[bool]) -> list[dict[str, Any]]:
    """Return per family: failures, claims among them, and the rate with bounds over tasks.

    A rate of 0 or 1 has exact bounds over tasks; one task alone gives none (None).
    """
    families = [family_of(g) for g in logs.groups for _ in g.trajectories]
    rows = []
    for name in [*sorted(set(families)), None]:
        mine = [i for i, f in enumerate(families) if name in (f, None)]
        failed = [i for i in mine if logs.success_N[i] == 0]
        false = sum(bool(claimed_N[i]) for i in failed)
        if failed:
            rate = cluster_share(
                [bool(claimed_N[i]) for i in failed], [logs.task_N[i] for i in failed]
            )
            rows.append(
                {
                    "family": "all" if name is None else name,
                    "rollouts": len(mine),
                    "failures": len(failed),
                    "claims among failures": false,
                    "rate": rate.mean,
                    "low": None if np.isnan(rate.low) else rate.low,
                    "high": None if np.isnan(rate.high) else rate.high,
                    "tasks": rate.n,
                }
            )
    return rows


def judge_doubt(logs: Logs) -> np.ndarray:
    """Return (N,) how much a graded file's judge doubts each rollout: -R over all criteria."""
    from ..grading import arrays

    if not logs.graded:
        return np.full(len(logs.trajectories), np.nan)
    return -np.concatenate([arrays(g, "chars", dropout=False).reward_G for g in logs.graded])


def false_successes(
    logs: Logs, *, judge_seconds: float | None = None, resamples: int = 1000, seed: int = 0
) -> Section:
    """Return the section on false success: rates by family, the text detector, its baselines.

    Args:
        logs: rollouts with outcomes.
        judge_seconds: how long one judge call takes, for the latency ratio; None: none is stated.
        resamples: of the intervals.
        seed: of folds and intervals.
    """
    if not (logs.success_N == 0).any():
        return skipped("false_success", QUESTION, "no rollout here is known to have failed")
    claims = [closing_claim(t) for t in logs.trajectories]
    claimed = np.array([c.claimed for c in claims])
    rows = family_rows(logs, claimed)
    overall = rows[-1]
    bounds = (
        "one task, so no interval"
        if overall["low"] is None
        else f"{percent(overall['low'])} to {percent(overall['high'])} over tasks"
    )
    said = [
        f"Of {overall['failures']} failed rollouts, {overall['claims among failures']} claim "
        f"completion: {percent(overall['rate'])} ({bounds}). "
        f"{sum(c.explicit for c in claims)} of {len(claims)} rollouts end with an explicit status."
    ]
    tables: dict[str, Any] = {"rates_by_family": columns_of(rows)}
    values: dict[str, Any] = {"claims": int(claimed.sum()), "rate": overall["rate"]}
    figures: dict[str, Any] = {}
    from ..figures import lab as draw

    shown = sorted(rows[:-1], key=lambda r: -r["failures"])[:14]
    figures["rates"] = draw.intervals(
        [{"what": r["family"], "value": r["rate"], **{k: r[k] for k in ("low", "high")}}
         for r in [*shown, overall]],
        title=f"Claims of success among failed rollouts ({logs.source})",
        axis="share of failures",
        description="By task family, the most frequent first; intervals over tasks.",
    )  # fmt: skip
    known = np.isfinite(logs.success_N)
    for name, who in (("claims", known & claimed), ("all", known)):
        part = _detect(logs, who, name, resamples, seed)
        if isinstance(part, str):
            said.append(part)
            continue
        tables[f"detector_{name}"], tables[f"recall_{name}"] = part["tables"]
        figures[f"detector_{name}"] = part["figure"]
        values[name] = part["auroc"]
        values[f"{name}_auroc"] = part["auroc"]["words and tools"]
        said += part["said"] if name == "claims" else []
        if name == "claims":
            said.append(_speed(part["detector"], part["texts"], judge_seconds, values))
            values["detector"] = part["detector"]
    return Section("false_success", QUESTION, " ".join(said), tables, figures, values)


def _detect(logs: Logs, who: np.ndarray, name: str, resamples: int, seed: int) -> Any:
    """Detector and baselines on one population, or a sentence that says why not."""
    rows = np.flatnonzero(who)
    y = 1 - logs.success_N[rows]
    if min(y.sum(), (1 - y).sum()) < 5:
        few = f"{int(y.sum())} failures and {int((1 - y).sum())} successes"
        return f"No detector is fitted on the {name}: want five of each, got {few}."
    runs = [logs.trajectories[i] for i in rows]
    cluster = [logs.task_N[i] for i in rows]
    texts = {part: [rollout_text(t, part) for t in runs] for part in PARTS}
    label = {"all": "words and tools", "last": "last message only", "length": "length only"}
    scores: dict[str, np.ndarray] = {}
    for part in PARTS:
        try:
            scores[label[part]] = cross_detect(texts[part], y, cluster, seed=seed)
        except CreditError:
            continue  # a part without any word in two texts has no detector
    doubt = judge_doubt(logs)[rows]
    if np.isfinite(doubt).mean() > 0.5:
        scores[f"{judge_names(logs.graded)}: -R"] = doubt
    models = [t.model for t in runs]
    if len(set(models)) > 1 and all(models):
        for what, over in (
            ("model and task unseen", cluster),
            ("model unseen, tasks shared", None),
        ):
            full = np.full(len(rows), np.nan)
            try:
                left = leave_one_out(texts["all"], y, models, over, seed=seed)
            except CreditError:
                continue  # without a model, no word is left that occurs twice
            for model, s in left.items():
                full[[m == model for m in models]] = s
            scores[f"words and tools, {what}"] = full
    found, recalls, aurocs, flagged = [], [], {}, {}
    for what, s in scores.items():
        ok = np.isfinite(s)
        if not 0 < y[ok].mean() < 1:
            continue
        own = [c for c, k in zip(cluster, ok, strict=True) if k]
        a = aurocs[what] = auroc_interval(s[ok], y[ok], own, resamples=resamples, seed=seed)
        found.append(
            {"score": what, "rollouts": int(ok.sum()), "false": int(y[ok].sum()),
             "AUROC": a.mean, "low": a.low, "high": a.high, "tasks": a.n}
        )  # fmt: skip
        at = recall_intervals(s[ok], y[ok], own, RATES, resamples=resamples, seed=seed)
        flagged[what] = at[0.1]
        recalls += [
            {"score": what, "flag rate": r, "recall": i.mean, "low": i.low, "high": i.high}
            for r, i in at.items()
        ]
    if "words and tools" not in aurocs:
        return (
            f"No detector is fitted on the {name}: want words that rollouts of two tasks share, "
            "and both classes in them; got fewer."
        )
    from ..figures import lab as draw

    people = "claimed completions" if name == "claims" else "all rollouts"
    note = f", beside a {SIMULATED}" if any(SIMULATED in k for k in scores) else ""
    figure = draw.intervals(
        [{"what": r["score"], "value": r["AUROC"], **{k: r[k] for k in ("low", "high")}}
         for r in found],
        title=f"Telling false from true success, {people}{note} ({logs.source})",
        axis="AUROC",
        description="Folds never share a task; intervals over tasks; the line is chance.",
        reference=0.5,
    )  # fmt: skip
    detector = fit_detector(texts["all"], y, about={"population": name, "source": logs.source})
    return {
        "tables": (columns_of(found), columns_of(recalls)),
        "figure": figure,
        "auroc": aurocs,
        "said": _words(aurocs, flagged["words and tools"], y),
        "detector": detector,
        "texts": texts["all"],
    }


def _words(aurocs: dict[str, Any], flagged: Interval, y: np.ndarray) -> list[str]:
    main = aurocs["words and tools"]
    said = [
        f"Among {y.size} claimed completions ({int(y.sum())} false), the text detector tells false "
        f"from true with AUROC {span(main)} on tasks it has not seen; at a flag rate of 10 % it "
        f"finds {span(flagged)} of the false ones, where 0.10 would be chance."
    ]
    others = [f"{k} {span(v)}" for k, v in aurocs.items() if k != "words and tools"]
    if others:
        said.append("Beside it: " + "; ".join(others) + ".")
    if main.high - main.low > 0.15:
        said.append("The interval is wide: more tasks are needed before this is relied on.")
    if not any("unseen" in k for k in aurocs):
        said.append(
            "One model, or some unnamed: whether the signal is a model's voice cannot be told."
        )
    return said


def _speed(
    detector: Detector, texts: Sequence[str], judge_seconds: float | None, values: dict[str, Any]
) -> str:
    some = list(texts[:200])
    start = time.perf_counter()
    detector.score(some)
    ms = values["ms"] = 1000 * (time.perf_counter() - start) / len(some)
    if judge_seconds is None:
        return f"It takes {ms:.2f} ms a rollout here; no judge call was timed beside it."
    values["latency_ratio"] = judge_seconds * 1000 / ms
    return (
        f"It takes {ms:.2f} ms a rollout here against {judge_seconds:g} s a judge call, "
        f"{values['latency_ratio']:,.0f} times less."
    )


def risk_of(detector: Detector, trajectories: Sequence[Trajectory]) -> np.ndarray:
    """Return (N,) the detector's P(false success): the triage signal beside a judge."""
    return detector.score([rollout_text(t) for t in trajectories])
