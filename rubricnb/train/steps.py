"""What one training step looked like, as numbers for train.jsonl."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from ..credit import CreditBatch
from ..metrics import conflict_shares, push_second_moment
from ..metrics.claims import closing_claim
from ..rubric import GradedGroup, Verdict
from ..trajectory import Trajectory
from .credit_trainer import CreditStep


def step_row(seen: CreditStep) -> dict[str, Any]:
    """Return reward, credit and termination figures of one generation batch."""
    trajectories = [t for g in seen.groups for t in g.trajectories]
    row: dict[str, Any] = {
        "rollouts": len(trajectories),
        "success": float(np.mean([t.outcome or 0.0 for t in trajectories])),
        "turns": float(np.mean([len(t) for t in trajectories])),
        "tokens": int(sum(s.tokens or 0 for t in trajectories for s in t.steps)),
        **_claims(trajectories),
        "terminations": _counts(t.termination for t in trajectories),
        "grader_errors": len(seen.errors),
    }
    if seen.batch is None:
        return row
    batch, credit = seen.batch, seen.credit_GS[seen.rows, : seen.batch.tokens_GS.shape[1]]
    reward = batch.scalar("outcome" if batch.reward_G is None else "rubric", "the record")
    row |= {
        "reward": float(np.nanmean(reward)) if np.isfinite(reward).any() else None,
        "ungraded": int(np.isnan(reward).sum()),
        "zero_spread_groups": _zero_spread(reward, batch.group_G),
        "push_second_moment": push_second_moment(credit, batch.tokens_GS),
        "max_multiplier": _largest_multiplier(batch, credit),
        "credit_by_kind": _by_kind(batch, credit),
    }
    if batch.role_GS is not None:
        row["roles"] = _counts(batch.role_GS[batch.live_GS])
        if batch.outcome_G is not None:
            row["conflicts"] = _conflicts(batch)
    graded = [g for g in seen.grades if isinstance(g, GradedGroup)]
    return row | _verdicts(graded) if graded else row


def _conflicts(batch: CreditBatch) -> dict[str, float | None]:
    """The two cells in which role and outcome are at odds; None where there is no step."""
    shares = asdict(conflict_shares(batch.role_GS, batch.outcome_G, batch.tokens_GS))
    return {k: None if v != v else v for k, v in shares.items()}


def _claims(trajectories: list[Trajectory]) -> dict[str, float]:
    """Shares of rollouts that close with the claim to be done, and that do so falsely."""
    said = np.array([closing_claim(t).claimed for t in trajectories])
    failed = np.array([t.outcome == 0 for t in trajectories])
    return {"claims": float(said.mean()), "false_claims": float((said & failed).mean())}


def _counts(names: Any) -> dict[str, int]:
    values, counts = np.unique(list(names), return_counts=True)
    return {str(v): int(c) for v, c in zip(values, counts, strict=True)}


def _zero_spread(reward_G: np.ndarray, group_G: np.ndarray) -> float:
    """Share of groups whose graded members all have the same reward: no update from them."""
    flat = []
    for g in np.unique(group_G):
        own = reward_G[(group_G == g) & np.isfinite(reward_G)]
        flat.append(own.size < 2 or np.ptp(own) == 0)
    return float(np.mean(flat))


def _largest_multiplier(batch: CreditBatch, credit: np.ndarray) -> float:
    """Largest |a_j / A|: how far one token's push exceeds plain GRPO's."""
    if batch.reward_G is None and batch.advantage_G is None and batch.verdict_GK is None:
        return 1.0
    advantage = np.abs(batch.advantage())[:, None]
    ratio = np.divide(np.abs(credit), advantage, out=np.zeros_like(credit), where=advantage > 1e-9)
    return float(ratio.max(initial=0.0))


def _by_kind(batch: CreditBatch, credit: np.ndarray) -> dict[str, list[float]]:
    """Token-weighted mean credit and number of steps of each type."""
    if batch.kind_GS is None:
        return {}
    live, out = batch.live_GS, {}
    for kind in np.unique(batch.kind_GS[live]):
        at = live & (batch.kind_GS == kind)
        n = batch.tokens_GS[at]
        out[str(kind)] = [float((credit[at] * n).sum() / n.sum()), int(at.sum())]
    return out


def _verdicts(graded: list[GradedGroup]) -> dict[str, Any]:
    judgements = [j for g in graded for row in g.judgements for j in row]
    said = [j.value for j in judgements if isinstance(j, Verdict)]
    decided = [v for v in said if v]
    return {
        "criteria": float(np.mean([len(g.rubric) for g in graded])),
        "verdicts": len(said),
        "failed_judgements": len(judgements) - len(said),
        "ungraded_groups": sum(not len(g.rubric) for g in graded),
        "pass_rate": float(np.mean([v > 0 for v in decided])) if decided else None,
    }
