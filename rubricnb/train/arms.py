"""The study's arms: one frozen value each, differing in the reward signal and in nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError
from ..trajectory import EMPTY


@dataclass(frozen=True)
class Arm:
    """One row of the tables.

    Args:
        name: what run folders and tables call it.
        reward: "rubric" (a judge's verdicts), "outcome" (the world's own verdict) or "random"
            (a fair coin a rollout).
        rubric: "dynamic" (written for the group at hand) or "static" (one task-agnostic set).
        rule: how the group advantage reaches the tokens: a name of ``rubricnb.credit.RULES``.
        rule_options: keyword arguments of the rule.
        lenient: judged by the lenient judge, which stands in for the policy judging itself.
        votes: scoring calls a rollout, aggregated by unanimity.
        style: citation style of the offline judge.
        evidence: what the grader hands the rule: a name of ``graders.EVIDENCE``.
        noise: error rates of the offline judge that differ from its own, by name
            (``JudgeNoise``).
        view: "full", or "closing": the offline judge sees the closing alone, and believes it.
    """

    name: str
    reward: str = "rubric"
    rubric: str = "dynamic"
    rule: str = "grpo"
    rule_options: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    lenient: bool = False
    votes: int = 1
    style: str = "flip"
    evidence: str = "rubric"
    noise: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    view: str = "full"

    @property
    def attribution(self) -> str:
        """Steps are cited only where the rule reads citations: a call a rollout less elsewhere."""
        return "none" if self.rule == "grpo" else "separate"


_BLIND_TRIAGE = {"base": "rubric"}  # the judged rubric's reward in place of the outcome

ARMS: Mapping[str, Arm] = {
    a.name: a
    for a in (
        Arm("outcome", reward="outcome"),
        Arm("random", reward="random"),
        Arm("static", rubric="static"),
        Arm("static_credit", rubric="static", rule="draco"),
        Arm("dynamic"),
        Arm("draco", rule="draco"),
        Arm("draco_self_k3", rule="draco", lenient=True, votes=3),
        Arm("draco_self_k1", rule="draco", lenient=True),
        # Rules of other papers. Both start from the world's outcome, as published; the variants
        # that never see it follow.
        Arm("triage", reward="outcome", rule="triage", evidence="roles"),
        Arm("trca", reward="outcome", rule="trca", evidence="operators"),
        Arm("trca_judged", reward="outcome", rule="trca", evidence="judged_operators"),
        Arm("triage_blind", rule="triage", rule_options=_BLIND_TRIAGE, evidence="roles"),
        Arm("trca_blind", rule="trca", rule_options={"base": "none"}, evidence="operators"),
        # A rubric model that is trained beside the policy, its ablations, and an opaque process
        # reward in its place. All learn from the world's outcome.
        *(
            Arm(name, reward="outcome", rule="arco", evidence=name)
            for name in (
                *("arco", "arco_frozen", "arco_no_rubric", "arco_no_adaptive", "arco_no_prefix"),
                *("arco_k1", "arco_k2", "arco_k4", "agentprm"),
            )
        ),
    )
}


def arm(name: str) -> Arm:
    """Return the arm of that name.

    >>> arm("draco").attribution, arm("dynamic").attribution
    ('separate', 'none')
    """
    try:
        return ARMS[name]
    except KeyError:
        raise ConfigError(f"want an arm among {list(ARMS)}; got {name!r}") from None
