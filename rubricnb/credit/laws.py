"""Which rule keeps which law: found by trying every rule on random batches, never typed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .batch import CreditBatch
from .common import Array, group_advantage, joint_key

Rule = Callable[..., Array]
LEVELS = ("rollout", "step type", "group by token", "group by step")
TOL = 1e-5  # Rules add 1e-6 to a standard deviation, and what they are measured by does not.
# GRPO is compared as published, on the outcome; every other rule with its defaults.
PUBLISHED: Mapping[str, Mapping[str, Any]] = {"grpo": {"base": "outcome"}}


def random_batch(
    rng: np.random.Generator, *, groups: int = 3, size: int = 5, steps: int = 6, criteria: int = 5
) -> CreditBatch:
    """Return a batch with every field that some rule reads: ragged, with states that recur.

    The evidence is random but hangs together: citations belong to the verdicts, the reward is
    theirs, and the step scores sum to each rollout's outcome, as a trained scorer's do.

    Args:
        rng: the source of randomness.
        groups, size, steps, criteria: numbers of groups, rollouts a group, most steps, criteria.
    """
    G = groups * size
    live = np.arange(steps) < rng.integers(1, steps + 1, G)[:, None]
    n = rng.integers(1, 40, (G, steps)) * live
    verdict = rng.choice([1.0, -1.0, 0.0], (G, criteria), p=[0.45, 0.45, 0.1])
    cite = (rng.random((G, criteria, steps)) < 0.3) & live[:, None] & (verdict != 0)[:, :, None]
    # Half of the batches have outcomes in between, so that small advantages occur, too.
    outcome = rng.integers(0, 2, G).astype(float) if rng.random() < 0.5 else rng.random(G)
    words = np.array(["read", "write", "finish"])
    roles = np.array(["decisive", "exploration", "no_progress", "regression", "invalid"])
    return CreditBatch(
        n,
        group_G=np.repeat(np.arange(groups), size),
        verdict_GK=verdict,
        cite_GKS=cite,
        pass_GS=(cite & (verdict == 1)[:, :, None]).sum(axis=1),
        fail_GS=(cite & (verdict == -1)[:, :, None]).sum(axis=1),
        outcome_G=outcome,
        kind_GS=rng.choice(words, (G, steps)),
        role_GS=rng.choice(roles, (G, steps)),
        score_GS=_scores(rng.uniform(-1, 1, (G, steps)), outcome, live),
        state_GS=rng.integers(0, 3, (G, steps)),
        action_GS=rng.integers(0, 2, (G, steps)),
        active_GSJ=rng.random((G, steps, 4)) < 0.3,
        item_GJ=np.tile(np.array(["Ev", "Ex", "Inv", "Ev"]), (G, 1)),
        weight_GK=np.ones((G, criteria)),
    )


def _scores(raw: Array, total: Array, live: Array) -> Array:
    """Scores that sum to each rollout's total: what a scorer trained on outcomes gives."""
    steps = live.sum(axis=1, keepdims=True)
    return np.where(
        live, raw + (total[:, None] - (raw * live).sum(axis=1, keepdims=True)) / steps, 0
    )


def with_outcome(batch: CreditBatch, outcome_G: Array) -> CreditBatch:
    """Return the batch had the world judged otherwise: the outcome, and what is learned from it."""
    fields = dict(vars(batch))
    fields["outcome_G"] = outcome_G
    if batch.score_GS is not None:
        fields["score_GS"] = _scores(batch.score_GS, outcome_G, batch.live_GS)
    return CreditBatch(**fields)


def needs_outcome(rule: Rule, batch: CreditBatch) -> bool:
    """Return whether the credit changes when the world's verdicts do, all else being equal."""
    other = with_outcome(batch, 1.0 - batch.outcome_G)
    return not np.allclose(rule(batch), rule(other), rtol=1e-9, atol=1e-12)


def base_advantage(batch: CreditBatch, base: str) -> Array:
    """(G,) advantage of the outcome or of the rubric without eps: what a rule is measured by."""
    return group_advantage(batch.scalar(base, "laws"), eps=0, group_G=batch.group_G)


def conserves(rule: Rule, batch: CreditBatch, base: str) -> set[str]:
    """Return the levels of ``LEVELS`` at which the rule's push is plain GRPO's.

        sum over the level's steps of n a  =  sum of n A,   up to one common factor > 0

    "group by step" counts each step once instead of n times.

    Args:
        rule: batch -> (G, S).
        batch: as the rule needs it, with kind_GS.
        base: "outcome" or "rubric", what A standardises.
    """
    a, live = rule(batch), batch.live_GS
    plain = base_advantage(batch, base)[:, None] * live
    rows = np.broadcast_to(np.arange(len(batch))[:, None], a.shape)
    group = np.broadcast_to(batch.group_G[:, None], a.shape)
    keys = (rows, joint_key(group, batch.kind_GS), joint_key(group), joint_key(group))
    kept = set()
    for level, key in zip(LEVELS, keys, strict=True):
        n = live * 1.0 if level == "group by step" else batch.tokens_GS
        got, want = (np.bincount(key.ravel(), (n * x).ravel()) for x in (a, plain))
        scale = got @ want / max(want @ want, np.finfo(float).tiny)
        if scale > 0 and np.allclose(got, scale * want, rtol=TOL, atol=TOL * np.abs(got).max()):
            kept.add(level)
    return kept


def sign_safe(rule: Rule, batch: CreditBatch, base: str) -> bool:
    """Return whether every credit is 0 or has the sign of its rollout's advantage."""
    a = rule(batch)
    sign = np.sign(base_advantage(batch, base))[:, None]
    return bool(np.where(sign == 0, np.abs(a) <= TOL, a * sign >= -TOL).all())


def judge_calls(G: int, k: int, steps: float) -> dict[str, float]:
    """Return judge or model calls a rollout beyond a reward that is given, by rule.

    DRACO's 1 + G + 1 + kG + G calls a group; a call a step for TRIAGE's roles and ARCO's scores;
    one a rollout where a judge grades a fixed rubric; none where rules or states suffice.
    """
    draco = (2 + 2 * G + k * G) / G
    cited = ("draco", "neutral", "recentred", "terminal_plain", "signed", "mixed")
    per_rule = {**dict.fromkeys(cited, draco), "triage": steps, "arco": steps}
    return {**per_rule, "srar": 1.0, "rar": 1.0}


def comparison(
    rules: Mapping[str, Rule],
    *,
    trials: int = 12,
    seed: int = 0,
    settings: Mapping[str, Mapping[str, Any]] = PUBLISHED,
    G: int = 6,
    k: int = 1,
    steps: float = 15.0,
) -> list[dict[str, Any]]:
    """Return one row a rule: what it conserves, whether it is sign-safe, whether it needs outcome.

    A law holds where it holds on every one of ``trials`` random batches.

    Args:
        rules: name -> rule, such as ``RULES``.
        trials, seed: random batches to try, and their seed.
        settings: options by rule name.
        G, k, steps: group size, votes and steps a rollout, for the number of calls.
    Returns:
        rows of rule, conserves ("rollout", the finest of ``LEVELS``, or "no"), sign_safe,
        needs_outcome, calls_per_rollout.
    """
    rng = np.random.default_rng(seed)
    batches = [random_batch(rng) for _ in range(trials)]
    calls = judge_calls(G, k, steps)
    rows = []
    for name, rule in rules.items():
        options = settings.get(name, {})

        def run(batch: CreditBatch, rule: Rule = rule, options: Mapping = options) -> Array:
            return rule(batch, **options)

        outcome = any(needs_outcome(run, b) for b in batches)
        base = "outcome" if outcome else "rubric"
        kept = set.intersection(*(conserves(run, b, base) for b in batches))
        rows.append(
            {
                "rule": name,
                "conserves": next((level for level in LEVELS if level in kept), "no"),
                "sign_safe": all(sign_safe(run, b, base) for b in batches),
                "needs_outcome": outcome,
                "calls_per_rollout": round(calls.get(name, 0.0), 2),
            }
        )
    return rows
