"""A reward recipe for these rollouts: a short table with a reason in numbers on every line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..metrics.claims import closing_claim
from ..metrics.cost_model import Workload, compare
from .dear import workload_of
from .logs import Logs
from .section import Section, columns_of, number, percent

QUESTION = "Which reward recipe suits these rollouts?"
LONG = 8.0  # steps from which it matters which step is credited
MIXED = 0.2  # share of groups with both outcomes below which an outcome says little
CLAIMS = 0.2  # rate of false success from which claims must be checked


@dataclass(frozen=True, slots=True)
class Situation:
    """What the recommendation is made from; NaN where it is not known.

    Args:
        steps: mean steps a rollout.
        group: mean rollouts a task.
        known: share of rollouts with an outcome.
        mixed: share of groups with both outcomes, among groups with outcomes.
        diversity: mean share of actions that two rollouts of a group do not have in common.
        false_success: claims of completion among failures.
        budget: judge tokens that may be spent a policy token; inf for no limit.
        auroc_low: lower bound of the false-success detector's AUROC on unseen tasks.
    """

    steps: float
    group: float
    known: float
    mixed: float
    diversity: float
    false_success: float
    budget: float = float("inf")
    auroc_low: float = float("nan")


def situation_of(
    logs: Logs, budget: float = float("inf"), auroc_low: float = float("nan")
) -> Situation:
    """Return the situation of these rollouts.

    Args:
        logs: the rollouts.
        budget: judge tokens a policy token.
        auroc_low: of the false-success detector on these rollouts, NaN where it was not measured.
    """
    y = logs.success_N
    outcomes = [[t.outcome for t in g.trajectories if t.outcome is not None] for g in logs.groups]
    some = [o for o in outcomes if len(o) > 1]
    failed = [t for t, s in zip(logs.trajectories, y, strict=True) if s == 0]
    false = [closing_claim(t).claimed for t in failed]
    return Situation(
        steps=float(np.mean([len(t) for t in logs.trajectories])),
        group=float(np.mean([len(g) for g in logs.groups])),
        known=float(np.isfinite(y).mean()),
        mixed=float(np.mean([min(o) < max(o) for o in some])) if some else float("nan"),
        diversity=_diversity(logs),
        false_success=float(np.mean(false)) if false else float("nan"),
        budget=budget,
        auroc_low=auroc_low,
    )


def _diversity(logs: Logs) -> float:
    """Mean 1 - Jaccard of the call sets of two rollouts, over groups with two; NaN without."""
    found = []
    for g in logs.groups[:200]:
        sets = [
            {(c.name, c.arguments) for s in t.steps for c in s.calls} for t in g.trajectories[:6]
        ]
        pairs = [(a, b) for i, a in enumerate(sets) for b in sets[i + 1 :] if a | b]
        if pairs:
            found.append(np.mean([1 - len(a & b) / len(a | b) for a, b in pairs]))
    return float(np.mean(found)) if found else float("nan")


def recipes(s: Situation, w: Workload) -> list[dict[str, Any]]:
    """Return one row a recipe: whether it fits, its cost, and why.

    Fits are rules of thumb from the numbers in the reason; no training stands behind them.

    Args:
        s: the situation.
        w: lengths, for the cost.
    """
    costs = compare(w)
    votes = compare(w, votes=3)
    long, alike = s.steps >= LONG, s.mixed < MIXED
    claims = f"{percent(s.false_success)} of failures claim success"
    steps = f"{s.steps:.1f} steps a rollout"
    rows = [
        _row(
            "outcome reward", None, s,
            s.known > 0.99 and not alike,
            f"{percent(s.known)} of rollouts have an outcome and {percent(s.mixed)} of groups hold "
            "both; every step of a rollout gets the same push",
        ),
        _row(
            "static rubric", costs["static rubric"], s, not long,
            f"one reading a rollout; criteria that every rollout passes stop telling them apart, "
            f"and {steps} get one push",
        ),
        _row(
            "dynamic rubric", costs["dynamic rubric"], s, not long,
            f"criteria follow what this group fails; at {steps} "
            + ("the credited step matters, and this spreads credit evenly" if long
               else "uniform credit loses little"),
        ),
        _row(
            "dynamic rubric + step credit", costs["dynamic rubric + step credit"], s, long,
            f"{steps}: " + ("long enough that the credited step matters" if long
                            else "too short for step credit to pay for its extra calls"),
        ),
        _row(
            "the same, self-judge with 3 votes",
            votes["dynamic rubric + step credit, 3 votes"], s, False,
            "no other model is needed, but a self-judge passes about 3 in 10 of what a stronger "
            f"one fails, and {claims}: measure it first",
        ),
        _row(
            "tournament, pairs read in full", costs["tournament, pairs read in full"], s, False,
            f"a group of {w.rollouts} needs {w.rollouts * (w.rollouts - 1) // 2} pairs of two "
            "readings each, and gives no step credit; a scorepad gives an order at pointwise cost",
        ),
    ]  # fmt: skip
    rows.append(
        _row(
            "beside any: false-success triage", None, s,
            s.false_success >= CLAIMS and s.auroc_low > 0.5,
            f"{claims}; the detector costs no judge call, " + _told(s.auroc_low),
        )
    )  # fmt: skip
    return rows


def _told(auroc_low: float) -> str:
    if auroc_low > 0.5:
        return f"and its AUROC on tasks it has not seen is above {auroc_low:.2f}"
    if auroc_low == auroc_low:
        return f"but here it cannot be told from chance (its AUROC may be {auroc_low:.2f})"
    return "but its AUROC is not known here: measure it first"


def _row(name: str, cost: Any, s: Situation, fits: bool, why: str) -> dict[str, Any]:
    ratio = cost.ratio if cost is not None else 0.0
    dear = ratio > s.budget
    if dear:
        why = f"over the budget of {s.budget:g} judge tokens a policy token; {why}"
    return {
        "recipe": name,
        "fits": "no, too dear" if dear and fits else "yes" if fits else "no",
        "judge tokens a policy token": ratio,
        "why": why,
    }


def what_recipe(
    logs: Logs,
    *,
    budget: float = float("inf"),
    workload: Workload | None = None,
    auroc_low: float = float("nan"),
) -> Section:
    """Return the section that recommends a reward recipe for these rollouts.

    Args:
        logs: the rollouts.
        budget: judge tokens that may be spent a policy token.
        workload: instead of the one made of the rollouts.
        auroc_low: as ``situation_of``.
    """
    s, w = situation_of(logs, budget, auroc_low), workload or workload_of(logs)
    rows = recipes(s, w)
    fit = [r for r in rows if r["fits"] == "yes" and not r["recipe"].startswith("beside")]
    beside = any(r["fits"] == "yes" and r["recipe"].startswith("beside") for r in rows)
    judged = [r for r in fit if r["judge tokens a policy token"] > 0]
    if judged:
        best = judged[-1]
        said = f"Of rubric rewards, {best['recipe']} suits best: {best['why']}. "
    elif fit:
        said = f"{fit[0]['recipe'].capitalize()} suits: {fit[0]['why']}. "
    else:
        cheap = min(rows[1:4], key=lambda r: r["judge tokens a policy token"])
        said = (
            f"Nothing fits within the budget; {cheap['recipe']} is the cheapest at "
            f"{cheap['judge tokens a policy token']:.1f} judge tokens a policy token. "
        )
    if fit and fit[0]["recipe"] == "outcome reward" and judged:
        said += "Where outcomes are known for training tasks, too, they are free and come first. "
    if beside:
        said += f"Put the false-success detector beside it: {rows[-1]['why']}. "
    facts: Mapping[str, float] = {
        "steps a rollout": s.steps,
        "rollouts a group": s.group,
        "share with an outcome": s.known,
        "mixed groups": s.mixed,
        "actions not shared in a group": s.diversity,
        "claims among failures": s.false_success,
        "detector AUROC, lower bound": s.auroc_low,
    }
    said += (
        "These are rules of thumb on "
        + ", ".join(f"{k} {number(v, 2)}" for k, v in facts.items())
        + "; no training of yours stands behind them."
    )
    tables = {
        "recipes": columns_of(rows),
        "situation": {"what": list(facts), "value": list(facts.values())},
    }
    return Section("recipe", QUESTION, said, tables, {}, {"situation": s, "rows": rows})
