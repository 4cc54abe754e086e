"""What judging costs: the published example, the corrected one, and the user's own workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..metrics.cost_model import (
    EXAMPLE_A,
    EXAMPLE_B,
    PUBLISHED,
    Workload,
    compare,
    phases,
    pointwise,
    published_ratio,
    tournament,
    tournament_published,
)
from ..rubric import GradedGroup
from .logs import Logs, token_means
from .opinions import judge_name
from .section import Section, columns_of

QUESTION = "What does judging cost beside the policy's own tokens?"


def workload_of(logs: Logs, groups_a_step: float = 16) -> Workload:
    """Return the workload of these rollouts: their mean lengths and the mean group size.

    Raises:
        CreditError: where the groups have one rollout each, which no rule can compare.
    """
    means = token_means(logs.trajectories)
    size = max(2, round(float(np.mean([len(g) for g in logs.groups]))))
    return Workload(
        groups=groups_a_step,
        rollouts=size,
        trajectory=means["trajectory"],
        policy=means["policy"],
        task=means["task"],
        summary=means["policy"] + 0.2 * (means["trajectory"] - means["policy"]),
    )


def published_rows() -> list[dict[str, Any]]:
    """Return the published example, recomputed: one row a workload and way to count."""
    rows = []
    for name, w in (("A", EXAMPLE_A), ("B", EXAMPLE_B)):
        made = {
            "pointwise": pointwise(w),
            "tournament as published": tournament_published(w),
            "tournament, pairs read in full": tournament(w),
            "tournament, both orders": tournament(w, both_orders=True),
        }
        said = dict(zip(made, PUBLISHED[name], strict=False))
        for way, c in made.items():
            rows.append(
                {
                    "example": name,
                    "way to judge": way,
                    "tokens a judgement": (c.prompt + c.completion) / c.calls,
                    "million judge tokens": c.tokens / 1e6,
                    "million policy tokens": c.policy / 1e6,
                    "ratio": c.ratio,
                    "ratio of rounded millions": round(published_ratio(c), 2),
                    "published": said.get(way),
                }
            )
    return rows


def ledger_rows(graded: Iterable[GradedGroup]) -> list[dict[str, Any]]:
    """Return what the judge of a graded file really used, by phase; unknown tokens stay unknown."""
    sums: dict[str, dict[str, float]] = {}
    n = 0
    for g in graded:
        n += 1
        for phase, calls in (g.record.get("calls") or {}).items():
            row = sums.setdefault(phase, dict.fromkeys(("calls", "unknown"), 0))
            row["calls"] += calls
        for phase, used in (g.record.get("tokens") or {}).items():
            row = sums.setdefault(phase, dict.fromkeys(("calls", "unknown"), 0))
            for kind, value in used.items():
                row[kind] = row.get(kind, 0) + value
    return [
        {
            "phase": phase,
            "calls a group": row["calls"] / n,
            **{k: row.get(k) for k in ("prompt", "cached", "completion")},
            "calls with unknown tokens": row["unknown"],
        }
        for phase, row in sums.items()
    ]


def what_it_costs(
    logs: Logs | None = None,
    *,
    workload: Workload | None = None,
    votes: int = 1,
    price: tuple[float, float, float] | None = None,
) -> Section:
    """Return the cost section: published example, all ways to judge this workload, real ledger.

    Args:
        logs: rollouts whose lengths make the workload, and whose records hold the ledger.
        workload: instead of the one made of ``logs``; without either, example A.
        votes: scoring votes of the rubric arms.
        price: dollars per million prompt, cached and completion tokens; None: no dollars.
    """
    if workload is None:
        workload = workload_of(logs) if logs is not None else EXAMPLE_A
    costs = compare(workload, votes=votes)
    rows = [_row(name, c, price) for name, c in costs.items()]
    arm = "dynamic rubric + step credit"
    parts = [
        {"phase": name, **_row("", c, price)} for name, c in phases(workload, arm, votes).items()
    ]
    for p in parts:
        p.pop("way to judge")
    tables = {
        "published_example": columns_of(published_rows()),
        "ways_to_judge": columns_of(rows),
        "phases": columns_of(parts),
    }
    used = ledger_rows(logs.graded) if logs is not None else []
    if used:
        who = " and ".join(dict.fromkeys(judge_name(g) for g in logs.graded))
        tables["ledger"] = columns_of([{"judge": who, **r} for r in used])
    from ..figures import lab as draw

    where = f" ({logs.source})" if logs is not None else " (published example A)"
    figure = draw.cost(workload, votes=votes, title=f"Judge tokens a training step{where}")
    text = _paragraph(workload, costs, used, logs, price, votes)
    return Section(
        "cost", QUESTION, text, tables, {"tokens": figure}, {"costs": costs, "workload": workload}
    )


def _row(name: str, c, price: tuple[float, float, float] | None) -> dict[str, Any]:
    return {
        "way to judge": name,
        "calls": c.calls,
        "full reads": c.full_reads,
        "judge tokens": c.tokens,
        "of which cached": c.cached,
        "over policy tokens": c.ratio,
        **({"dollars": c.dollars(*price)} if price else {}),
    }


def _paragraph(
    w: Workload,
    costs: Mapping[str, Any],
    used: list[dict[str, Any]],
    logs: Logs | None,
    price: tuple[float, float, float] | None,
    votes: int,
) -> str:
    point, pairs = costs["pointwise"], costs["tournament, pairs read in full"]
    arm = "dynamic rubric + step credit" + ("" if votes == 1 else f", {votes} votes")
    full = costs[arm]
    said = (
        f"With {w.rollouts} rollouts a group of {w.trajectory:,.0f} tokens to read and "
        f"{w.policy:,.0f} generated, scoring each once costs {point.ratio:.2f} judge tokens a "
        f"policy token, a tournament whose pairs are read in full {pairs.ratio:.2f}, and rubrics "
        f"with step credit {full.ratio:.2f} in {full.calls / w.groups:.0f} calls a group, of "
        f"whose tokens {full.cached / full.tokens:.0%} repeat the start of an earlier prompt. "
    )
    if logs is not None and not token_means(logs.trajectories)["exact"]:
        said += "Lengths are characters over four, so expect them to be off by a third. "
    if used:
        unknown = sum(r["calls with unknown tokens"] for r in used)
        known = sum((r["prompt"] or 0) + (r["completion"] or 0) for r in used)
        said += f"The recorded gradings used {known:,.0f} tokens" if known else ""
        said += (
            f"{' and ' if known else 'Of the recorded gradings '}{unknown:,.0f} calls say nothing "
            "of theirs. "
            if unknown
            else ". "
        )
    return said + (
        f"At the prices given that is ${full.dollars(*price):,.2f} a training step."
        if price
        else "No prices were given, so no dollars are stated."
    )


def scaled(workload: Workload, factor: float) -> Workload:
    """Return the workload with rollouts ``factor`` times as long, read and generated."""
    return replace(
        workload,
        **{k: getattr(workload, k) * factor for k in ("trajectory", "policy", "summary")},
    )
