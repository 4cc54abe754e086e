"""What a run shows: saturation, inert credit, spread, citations and step types, as plain rows.

Rows are mappings as the figures take them; everything is computed from the graded groups of
sealed runs, in which a failed judgement is NaN and never a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import grading
from ..credit import RULES, CreditBatch, group_advantage, stack
from ..judge import Judge, JudgeConfig, grade_iter
from ..metrics import (
    citations_per_step,
    inert_share,
    label_shares,
    mean_by_step_type,
    q_spread,
)
from ..rubric import GradedGroup, Rubric
from .more_tables import judge_bill
from .records import Run
from .scores import Evaluations
from .tables import figure_of, ks


@dataclass(frozen=True)
class Graded:
    """One graded group as arrays, with its training step and its group advantage."""

    step: int
    arrays: grading.GradedArrays
    advantage_G: np.ndarray
    criteria: int


def graded_arrays(groups: Iterable[GradedGroup]) -> Iterator[Graded]:
    """Yield the groups that have a rubric, as arrays."""
    for g in groups:
        if len(g.rubric) == 0:
            continue
        made = grading.arrays(g, "auto")
        yield Graded(
            int(g.record.get("step", 0)), made, group_advantage(made.reward_G), len(g.rubric)
        )


def _flat(groups: Sequence[Graded]) -> CreditBatch:
    return stack([g.arrays.batch() for g in groups])


def window_row(groups: Sequence[Graded]) -> dict[str, Any]:
    """Return the diagnostics of some graded groups: one row of a training curve."""
    shares = label_shares(np.concatenate([g.arrays.verdict_GK.ravel() for g in groups]))
    batch = _flat(groups)
    p, f, n = batch.pass_GS, batch.fail_GS, batch.tokens_GS
    advantage = np.concatenate([g.advantage_G for g in groups])
    inert = inert_share(p, f, n, advantage)
    cites = citations_per_step(p, f, n)
    spread = q_spread(p, f, n)
    reward = np.concatenate([g.arrays.reward_G for g in groups])
    return {
        "pass_rate": shares.passed,
        "fail_share": shares.failed,
        "not_applicable": shares.not_applicable,
        "missing": shares.missing,
        "inert_share": inert.exact,
        "inert_unanimous": inert.unanimous,
        "uncited": inert.uncited,
        "collapsed": inert.collapsed,
        "q_spread": _mean(spread),
        "citations_mean": cites.mean,
        "citations_median": cites.median,
        "citations_ten_or_more": cites.ten_or_more,
        "criteria": _mean([g.criteria for g in groups]),
        "kept": _mean([int(g.arrays.keep_K.sum()) for g in groups]),
        "reward": _mean(reward),
        "zero_spread_groups": _mean([not np.any(g.advantage_G) for g in groups]),
        "groups": len(groups),
    }


def _mean(values: Any) -> float:
    v = np.asarray(values, dtype=float)
    v = v[np.isfinite(v)]
    return float(v.mean()) if v.size else float("nan")


def training_rows(run: Run, windows: int | None = None) -> list[dict[str, Any]]:
    """Return one row of diagnostics a training step, or a window of equal numbers of steps.

    Columns: arm, seed, step (the last of its window) and those of ``window_row``. Empty for an
    arm without a judge.
    """
    by_step: dict[int, list[Graded]] = {}
    for g in graded_arrays(run.groups()):
        by_step.setdefault(g.step, []).append(g)
    steps = sorted(by_step)
    if not steps:
        return []
    parts = np.array_split(steps, min(windows or len(steps), len(steps)))
    head = {"policy": run.key.policy, "arm": run.key.arm, "seed": run.key.seed}
    return [
        {**head, "step": int(part[-1]), **window_row([g for s in part for g in by_step[int(s)]])}
        for part in parts
    ]


STEP_COLUMNS = ("success", "turns", "reward", "max_multiplier", "grad_norm", "kl", "pass_rate")


def step_rows(runs: Iterable[Run], policy: str = "main") -> list[dict[str, Any]]:
    """Return one row a training step of every trained arm of a policy, from its train.jsonl.

    Columns: arm, seed, step and ``STEP_COLUMNS``; None where the arm has no such figure.
    """
    return [
        {
            "arm": run.key.arm,
            "seed": run.key.seed,
            "step": row["step"],
            **{name: row.get(name) for name in STEP_COLUMNS},
        }
        for run in runs
        if run.key.policy == policy
        for row in run.rows("train.jsonl")
    ]


def type_rows(groups: Iterable[GradedGroup], rule: str = "draco", **options: Any) -> list[dict]:
    """Return mean credit by type of step under a rule, beside plain GRPO's.

    Columns kind, mean, n, grpo: a type that occurs once in every rollout has a grpo mean near 0,
    so what ``mean`` shows there is what redistribution does to the type as such.
    """
    made = list(graded_arrays(groups))
    if not made:
        return []
    batch = _flat(made)
    ours = mean_by_step_type(RULES[rule](batch, **options), batch.tokens_GS, batch.kind_GS)
    plain = mean_by_step_type(RULES["grpo"](batch), batch.tokens_GS, batch.kind_GS)
    return [
        {"kind": str(kind), "mean": mean, "n": n, "grpo": plain[kind][0]}
        for kind, (mean, n) in sorted(ours.items(), key=lambda item: str(item[0]))
    ]


def rescored(
    groups: Iterable[GradedGroup], judge: Judge, rubric: Rubric, **config: Any
) -> list[GradedGroup]:
    """Return the same rollouts graded on a fixed rubric: is it saturated under this policy?"""
    settings = JudgeConfig(rubric=rubric, attribution="none", **config)
    again = []
    for graded in groups:
        new = next(iter(grade_iter([graded.group], judge, settings)))
        step = {"step": graded.record.get("step", 0)}
        again.append(GradedGroup(new.group, new.rubric, new.judgements, new.failures,
                                 {**new.record, **step}))  # fmt: skip
    return again


def consistency_rows(
    ev: Evaluations, split: str = "test_normal", metric: str = "TGC", policy: str = "main"
) -> list[dict[str, Any]]:
    """Return pass@k and pass^k of every arm: columns arm, k, pass_at_k, pass_hat_k."""
    rows = []
    for arm in (a for a in ev.arms() if a[0] == policy):
        for k in ks(ev):
            hat, at = (figure_of(ev, arm, split, metric, k, r) for r in ("pass^", "pass@"))
            if hat is not None and at is not None:
                rows.append({"arm": arm[1], "k": k, "pass_at_k": at.value, "pass_hat_k": hat.value})
    return rows


def cost_rows(
    ev: Evaluations, split: str = "test_normal", metric: str = "TGC", policy: str = "main"
) -> list[dict[str, Any]]:
    """Return judge tokens a training step against success: arm, cost, success, low, high.

    An arm without a judge costs 0; where tokens are unknown the cost is None.
    """
    rows = []
    for arm in (a for a in ev.arms() if a[0] == policy):
        score = figure_of(ev, arm, split, metric, 1)
        if score is None:
            continue
        costs = [_tokens_a_step(r) for r in ev.runs[arm]]
        low, high = score.seeds.low, score.seeds.high
        known = None not in costs
        rows.append(
            {
                "arm": arm[1],
                "cost": sum(costs) / len(costs) if known else None,
                "success": score.value,
                "low": None if np.isnan(low) else low,
                "high": None if np.isnan(high) else high,
            }
        )
    return rows


def _tokens_a_step(run: Run) -> float | None:
    bill: Mapping[str, Any] = judge_bill(run)
    if bill["unknown"]:
        return None
    tokens = bill["prompt"] + bill["cached"] + bill["completion"]
    return tokens / max(int(run.done["global_step"]), 1)
