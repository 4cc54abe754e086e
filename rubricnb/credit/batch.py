"""CreditBatch: the evidence that every credit rule reads, as arrays side by side.

A rule is ``rule(batch, **options) -> (G, S)`` credit per token of each step. It reads the fields
that it needs and raises CreditError naming a field that is missing. Rollouts are padded on the
right with steps of 0 tokens; groups of different sizes stand one after the other or mixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CreditError
from .common import (
    Array,
    as_counts,
    as_finite,
    as_verdicts,
    check_shape,
    choice,
    group_advantage,
    group_index,
    last_live,
    rubric_reward,
)

# What pads a field when batches of different lengths are stacked.
PAD: dict[str, Any] = {"verdict_GK": 0.0, "weight_GK": 0.0}


@dataclass(frozen=True, eq=False)
class CreditBatch:
    """G rollouts of one or more groups, and what is known of their S steps.

    Args:
        tokens_GS: n_j, policy tokens a step (or another unit, the same for all); 0 is padding.
        group_G: label of each rollout's group; default: one group.
        verdict_GK: +1, -1, 0, NaN (failed), after dropout.
        cite_GKS: bool, the step is cited by that verdict.
        pass_GS, fail_GS: how many retained passes and fails cite the step.
        reward_G: rubric reward; NaN is ungraded. Default: from verdict_GK.
        advantage_G: used as it is in place of the reward's group advantage.
        outcome_G: the world's verdict; only outcome-based rules read it. NaN is unknown.
        kind_GS: the step's type (tool name), text or int.
        role_GS: TRIAGE's role names, "" or "invalid" for none.
        score_GS: a process score a step; NaN is none.
        env_GS: the environment's own reward a step.
        state_GS: key of the state or context before the step, text or int.
        action_GS: key of the action.
        active_GSJ: bool, a rule-based rubric item fired at the step.
        item_GJ: category of each item of active_GSJ; "" is padding.
        weight_GK: weight of each criterion of verdict_GK.
        category_GK: category name of each criterion of verdict_GK; "" is padding.
    Raises:
        CreditError: shapes disagree or a number is out of range; names the first offender.

    >>> batch = CreditBatch([[2, 4], [3, 0]], reward_G=[1.0, 0.0])
    >>> batch.advantage(eps=0).round(4).tolist()
    [0.7071, -0.7071]
    """

    tokens_GS: Array
    group_G: NDArray | None = None
    verdict_GK: Array | None = None
    cite_GKS: NDArray[np.bool_] | None = None
    pass_GS: Array | None = None
    fail_GS: Array | None = None
    reward_G: Array | None = None
    advantage_G: Array | None = None
    outcome_G: Array | None = None
    kind_GS: NDArray | None = None
    role_GS: NDArray | None = None
    score_GS: Array | None = None
    env_GS: Array | None = None
    state_GS: NDArray | None = None
    action_GS: NDArray | None = None
    active_GSJ: NDArray[np.bool_] | None = None
    item_GJ: NDArray | None = None
    weight_GK: Array | None = None
    category_GK: NDArray | None = None

    def __post_init__(self) -> None:
        tokens = as_counts("tokens_GS", self.tokens_GS, (None, None))
        G, S = tokens.shape
        size: dict[str, int | None] = {"G": G, "S": S, "K": None, "J": None}
        object.__setattr__(self, "tokens_GS", tokens)
        if self.group_G is None:
            object.__setattr__(self, "group_G", group_index(G, None))
        for f in fields(self):
            value = getattr(self, f.name)
            if value is None:
                continue
            axes = f.name.split("_")[1]
            array = _convert(f.name, value, tuple(size[a] for a in axes))
            size.update(zip(axes, array.shape, strict=True))
            object.__setattr__(self, f.name, array)

    @property
    def live_GS(self) -> NDArray[np.bool_]:
        """Which entries are steps with tokens, not padding."""
        return self.tokens_GS > 0

    def __len__(self) -> int:
        return len(self.tokens_GS)

    def need(self, name: str, rule: str) -> Any:
        """The field, or CreditError that says which rule misses it."""
        value = getattr(self, name)
        if value is None:
            raise CreditError(f"want {name} in the batch for the rule {rule!r}; got none")
        return value

    def scalar(self, base: str, rule: str) -> Array:
        """(G,) the trajectory-level number a rule starts from: "outcome", or the "rubric" reward.

        NaN where the rollout is ungraded.
        """
        choice("base", base, ("outcome", "rubric"))
        if base == "outcome":
            return self.need("outcome_G", rule)
        if self.reward_G is not None:
            return self.reward_G
        if self.verdict_GK is None:
            raise CreditError(
                f"want reward_G or verdict_GK in the batch for the rule {rule!r}; got neither"
            )
        return rubric_reward(self.verdict_GK)

    def advantage(
        self,
        *,
        base: str = "rubric",
        rule: str = "grpo",
        ddof: int = 1,
        eps: float = 1e-6,
        single: str = "zero",
        scale: bool = True,
    ) -> Array:
        """(G,) group advantage of the outcome or of the rubric reward.

        ``advantage_G`` stands in for the rubric reward's where the batch has it.
        """
        if base == "rubric" and self.advantage_G is not None:
            return self.advantage_G
        value = self.scalar(base, rule)
        return group_advantage(
            value, ddof=ddof, eps=eps, group_G=self.group_G, single=single, scale=scale
        )

    def graded(self, base: str, rule: str) -> NDArray[np.bool_]:
        """(G,) which rollouts have the number that the rule starts from."""
        if base == "rubric" and self.advantage_G is not None and self.reward_G is None:
            return np.ones(len(self), dtype=bool)
        return ~np.isnan(self.scalar(base, rule))

    def step_rewards(self, base: str, rule: str) -> Array:
        """(G, S) the environment's rewards, or else ``scalar`` on each rollout's last step.

        0 where the rollout is ungraded.
        """
        if base == "outcome" and self.env_GS is not None:
            return np.where(self.live_GS, self.env_GS, 0.0)
        value = np.nan_to_num(self.scalar(base, rule))
        return np.where(last_live(self.live_GS), value[:, None], 0.0)


def _convert(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> NDArray:
    """A field's value with its type and shape checked."""
    if name == "verdict_GK":
        array = as_verdicts(value)
    elif name in ("tokens_GS", "pass_GS", "fail_GS"):
        array = as_counts(name, value, shape)
    elif name in ("reward_G", "outcome_G", "score_GS"):
        array = as_finite(name, value, shape, nan=True)
    elif name in ("advantage_G", "env_GS", "weight_GK"):
        array = as_finite(name, value, shape)
    elif name in ("cite_GKS", "active_GSJ"):
        array = np.asarray(value, dtype=bool)
    else:
        array = np.asarray(value)
        if array.dtype.kind not in "iuUS":
            raise CreditError(f"want {name} of text or whole numbers; got {array.dtype}")
    check_shape(name, array, shape)
    return array


def stack(batches: Sequence[CreditBatch]) -> CreditBatch:
    """Return one batch of all rollouts, groups kept apart, shorter axes padded.

    A field is kept only where every batch has it.

    Raises:
        CreditError: no batch is given, or one has a field as text and another as numbers.

    >>> both = stack([CreditBatch([[2, 4]]), CreditBatch([[3], [5]])])
    >>> both.tokens_GS.tolist(), both.group_G.tolist()
    ([[2.0, 4.0], [3.0, 0.0], [5.0, 0.0]], [0, 1, 1])
    """
    if not batches:
        raise CreditError("want at least one batch to stack; got none")
    out: dict[str, NDArray] = {}
    for f in fields(CreditBatch):
        parts = [getattr(b, f.name) for b in batches]
        if f.name != "group_G" and all(p is not None for p in parts):
            out[f.name] = _padded(f.name, parts)
    offset, groups = 0, []
    for b in batches:
        index = group_index(len(b), b.group_G)
        groups.append(index + offset)
        offset += int(index.max(initial=-1)) + 1
    return CreditBatch(**{**out, "group_G": np.concatenate(groups)})


def _padded(name: str, parts: list[NDArray]) -> NDArray:
    """The parts under each other, every axis but the first as long as the longest."""
    if len({p.dtype.kind in "US" for p in parts}) > 1:
        raise CreditError(f"want {name} as text or as numbers in every batch; got both")
    dtype = np.result_type(*parts)
    fill = PAD.get(name, dtype.type())
    shape = tuple(max(p.shape[i] for p in parts) for i in range(1, parts[0].ndim))
    out = np.full((sum(len(p) for p in parts), *shape), fill, dtype=dtype)
    row = 0
    for p in parts:
        out[(slice(row, row + len(p)), *(slice(n) for n in p.shape[1:]))] = p
        row += len(p)
    return out
