"""Step-credit rules on common arrays: ``RULES[name](batch, **options)`` -> (G, S) per-token credit.

Numpy only. A new rule is one file with one function and one line in ``RULES``.
"""

from __future__ import annotations

from collections.abc import Callable

from .batch import CreditBatch, stack
from .common import discriminative, group_advantage, per_token, rubric_reward
from .draco import DracoDetails, draco, draco_details, draco_rule
from .grpo import grpo

RULES: dict[str, Callable[..., object]] = {
    "grpo": grpo,
    "draco": draco_rule,
}

__all__ = [
    "RULES",
    "CreditBatch",
    "DracoDetails",
    "discriminative",
    "draco",
    "draco_details",
    "draco_rule",
    "group_advantage",
    "grpo",
    "per_token",
    "rubric_reward",
    "stack",
]
