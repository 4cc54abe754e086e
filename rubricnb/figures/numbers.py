"""R, A and step credit of a graded group under one rule, as figures, explorers and reports show.

No plotly here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..credit import RULES, CreditBatch
from ..errors import CreditError
from ..grading import GradedArrays, Tokens, arrays
from ..rubric import GradedGroup
from ..trajectory import Group, Trajectory


@dataclass(frozen=True, eq=False)
class Numbers:
    """What one rule made of one graded group.

    Args:
        graded: the group and its judgements.
        arrays: verdicts, citations, kept criteria, lengths.
        reward_G: R, NaN where a rollout is ungraded.
        advantage_G: A of R, or of the outcome where the rule was told base="outcome"; 0 where a
            rollout has none.
        credit_GS: credit of each token, 0 on padding.
        rule, options: how it was computed.
    """

    graded: GradedGroup
    arrays: GradedArrays
    reward_G: np.ndarray
    advantage_G: np.ndarray
    credit_GS: np.ndarray
    rule: str = "draco"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shown_G(self) -> np.ndarray:
        """(G,) A, NaN where the rollout has nothing that A could come from."""
        source = self.arrays.outcome_G if self.by_outcome else self.reward_G
        return np.where(np.isnan(source), np.nan, self.advantage_G)

    @property
    def by_outcome(self) -> bool:
        """Whether the rule was told to start from the outcome."""
        return self.options.get("base") == "outcome"

    @property
    def total_GS(self) -> np.ndarray:
        """(G, S) step totals n_j a_j."""
        return self.credit_GS * self.arrays.tokens_GS

    def row(self, member: int) -> tuple[np.ndarray, np.ndarray]:
        """(S,) credit and (S,) lengths of one rollout, without padding."""
        n = len(self.graded.group.trajectories[member])
        return self.credit_GS[member, :n], self.arrays.tokens_GS[member, :n]


def batch_of(graded: GradedGroup, made: GradedArrays) -> CreditBatch:
    """Return the group's CreditBatch with the state and action keys that group rules ask for.

    A step's state is what the agent last saw before it, its action what it wrote: rollouts that
    saw the same and wrote the same share them. Without any known outcome the batch has none, so
    that a rule that needs outcomes says so instead of giving 0.
    """
    states, actions = _keys(graded.group, made.tokens_GS.shape[1])
    known = bool(np.isfinite(made.outcome_G).any())
    return dataclasses.replace(
        made.batch(),
        state_GS=states,
        action_GS=actions,
        outcome_G=made.outcome_G if known else None,
    )


def _keys(group: Group, S: int) -> tuple[np.ndarray, np.ndarray]:
    """(G, S) whole numbers that are equal where the texts are equal."""
    seen: dict[Any, int] = {}
    states, actions = (np.full((len(group), S), -1) for _ in range(2))
    for g, t in enumerate(group.trajectories):
        before: Any = "start"
        for s, step in enumerate(t.steps):
            states[g, s] = seen.setdefault(("state", before), len(seen))
            actions[g, s] = seen.setdefault(("action", step.authored), len(seen))
            before = tuple(o.text for o in step.observations)
    return states, actions


def numbers_of(
    graded: GradedGroup, rule: str = "draco", *, tokens: Tokens = "auto", **options: Any
) -> Numbers:
    """Return R, A and the step credit of a graded group under one rule.

    Args:
        graded: the group and its judgements.
        rule: a name of ``rubricnb.credit.RULES``.
        tokens: where n_j comes from, as ``rubricnb.grading.arrays`` takes it.
        options: the rule's own.
    Raises:
        CreditError: for an unknown rule, or a field that the rule needs and the group lacks.
    """
    if rule not in RULES:
        raise CreditError(f"want a rule among {sorted(RULES)}; got {rule!r}")
    made = arrays(graded, tokens)
    batch = batch_of(graded, made)
    names = ("ddof", "eps", "single", "base")
    centring = {k: options[k] for k in names if options.get(k, "none") != "none"}
    return Numbers(
        graded=graded,
        arrays=made,
        reward_G=made.reward_G,
        advantage_G=np.asarray(batch.advantage(**centring), float),
        credit_GS=np.asarray(RULES[rule](batch, **options), float),
        rule=rule,
        options=options,
    )


def all_rules(
    graded: GradedGroup,
    member: int,
    names: Sequence[str] | None = None,
    *,
    tokens: Tokens = "auto",
    options: Mapping[str, Mapping[str, Any]] | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return credit by rule on one rollout, and why the other rules cannot be computed.

    Args:
        graded: the group: group rules need the siblings.
        member: which rollout, from 0.
        names: the rules to try; default all.
        tokens: as ``numbers_of``.
        options: rule -> its options.
        evidence: further fields of ``CreditBatch`` (role_GS, score_GS, ...) that some rules need.
    Raises:
        CreditError: where the group has no such member, or an option is wrong.
    """
    check_member(graded.group, member)
    made = arrays(graded, tokens)
    batch = dataclasses.replace(batch_of(graded, made), **(evidence or {}))
    n = len(graded.group.trajectories[member])
    credit, why = {}, {}
    for name in names if names is not None else RULES:
        chosen = dict((options or {}).get(name, {}))
        try:
            credit[name] = np.asarray(RULES[name](batch, **chosen), float)[member, :n]
        except CreditError as e:
            if chosen:
                raise
            why[name] = str(e)
    return credit, why


def check_member(group: Group, member: int) -> Trajectory:
    """Return the rollout, or raise CreditError saying which ones there are."""
    if not 0 <= member < len(group):
        raise CreditError(f"want a member of 0..{len(group) - 1}; got {member}")
    return group.trajectories[member]
