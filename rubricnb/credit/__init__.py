"""Step-credit rules on common arrays: ``RULES[name](batch, **options)`` -> (G, S) per-token credit.

Numpy only. A new rule is one file with one function and one line in ``RULES``. ``laws`` says, by
trying, which rule keeps which law.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .arco import arco
from .batch import CreditBatch, stack
from .common import Array, choice, discriminative, group_advantage, rubric_reward
from .draco import DracoDetails, DracoOptions, draco, draco_details, draco_rule
from .gigpo import gigpo
from .grpo import grpo
from .mixed import mix
from .neutral import type_neutral
from .rar import rar, rar_reward
from .recentred import recentre
from .rtmc import rtmc
from .salt import salt
from .signed import signed
from .srar import srar
from .terminal_plain import terminal_plain
from .tokens import per_token
from .trca import trca
from .triage import triage


def neutral(
    batch: CreditBatch, *, rule: str = "draco", ddof: int = 1, eps: float = 1e-6, **options: Any
) -> Array:
    """Return another rule's credit made type-neutral (see ``type_neutral``).

    Args:
        batch: what the other rule reads, and kind_GS.
        rule: a name of ``RULES`` that starts from the rubric's advantage.
        ddof, eps, options: of that rule.

    >>> b = CreditBatch([[2, 2]], advantage_G=[1.0], kind_GS=[["read", "finish"]],
    ...     pass_GS=[[1, 0]], fail_GS=[[0, 1]])
    >>> neutral(b).tolist()
    [[1.0, 1.0]]
    """
    choice("rule", rule, tuple(RULES))
    credit = RULES[rule](batch, ddof=ddof, eps=eps, **options)
    return type_neutral(batch, credit, ddof=ddof, eps=eps)


def recentred(
    batch: CreditBatch, *, rule: str = "draco", ddof: int = 1, eps: float = 1e-6, **options: Any
) -> Array:
    """Return another rule's credit with every step type's mean taken off (see ``recentre``).

    Args:
        batch: what the other rule reads, and kind_GS.
        rule: a name of ``RULES`` that starts from the rubric's advantage.
        ddof, eps, options: of that rule.

    >>> b = CreditBatch([[2], [2]], advantage_G=[1.0, -1.0], kind_GS=[["a"], ["a"]],
    ...     pass_GS=[[1], [0]], fail_GS=[[0], [1]])
    >>> recentred(b).tolist()
    [[1.0], [-1.0]]
    """
    choice("rule", rule, tuple(RULES))
    return recentre(batch, RULES[rule](batch, ddof=ddof, eps=eps, **options))


def mixed(
    batch: CreditBatch,
    *,
    rule: str = "draco",
    weight: float = 0.5,
    ddof: int = 1,
    eps: float = 1e-6,
    **options: Any,
) -> Array:
    """Return a blend of another rule's credit and plain GRPO's (see ``mix``).

    Args:
        batch: what the other rule reads.
        rule: a name of ``RULES`` that starts from the rubric's advantage.
        weight: in [0, 1], of the other rule.
        ddof, eps, options: of that rule.

    >>> b = CreditBatch([[2, 2]], advantage_G=[1.0], pass_GS=[[1, 0]], fail_GS=[[0, 1]])
    >>> mixed(b).tolist()
    [[1.5, 0.5]]
    """
    choice("rule", rule, tuple(RULES))
    credit = RULES[rule](batch, ddof=ddof, eps=eps, **options)
    return mix(batch, credit, weight=weight, ddof=ddof, eps=eps)


RULES: dict[str, Callable[..., Array]] = {
    "grpo": grpo,
    "draco": draco_rule,
    "neutral": neutral,
    "recentred": recentred,
    "terminal_plain": terminal_plain,
    "signed": signed,
    "mixed": mixed,
    "triage": triage,
    "trca": trca,
    "arco": arco,
    "srar": srar,
    "gigpo": gigpo,
    "salt": salt,
    "rtmc": rtmc,
    "rar": rar,
}

__all__ = [
    "RULES",
    "CreditBatch",
    "DracoDetails",
    "DracoOptions",
    "arco",
    "discriminative",
    "draco",
    "draco_details",
    "draco_rule",
    "gigpo",
    "group_advantage",
    "grpo",
    "mix",
    "mixed",
    "neutral",
    "per_token",
    "rar",
    "rar_reward",
    "recentre",
    "recentred",
    "rtmc",
    "rubric_reward",
    "salt",
    "signed",
    "srar",
    "stack",
    "terminal_plain",
    "trca",
    "triage",
    "type_neutral",
]
