"""Which constants a credit rule has, and the range that a slider gives each of them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..credit import RULES, draco
from ..errors import ConfigError

# A rule that hands options on to another function has that function's constants, too.
ALSO = {"draco": draco}
# Numerical guards: nothing to see in a figure.
HIDDEN = {"eps", "tol"}
RANGE: dict[str, tuple[float, float, float]] = {
    "ddof": (0, 1, 1),
    "mix": (0.0, 1.0, 0.05),
    "signed_scale": (0.0, 6.0, 0.1),
}
CHOICES: dict[str, tuple[str, ...]] = {
    "base": ("rubric", "outcome"),
    "nocite": ("uniform", "equal_step"),
    "terminal": ("redistribute", "plain"),
    "weights": ("quality", "signed"),
}


@dataclass(frozen=True)
class Constant:
    """A rule's constant: its name, default, and the values that a control offers."""

    name: str
    default: Any
    low: float = 0.0
    high: float = 1.0
    step: float = 0.05
    choices: tuple[Any, ...] = ()


def constants(rule: str) -> tuple[Constant, ...]:
    """Return the constants of a rule that a reader can move, in the order of its signature.

    Raises:
        ConfigError: for an unknown rule.

    >>> [c.name for c in constants("grpo")]
    ['base', 'ddof']
    """
    if rule not in RULES:
        raise ConfigError(f"want a rule among {sorted(RULES)}; got {rule!r}")
    found: dict[str, Any] = {}
    for function in (RULES[rule], ALSO.get(rule)):
        for p in inspect.signature(function).parameters.values() if function else ():
            if p.kind is p.KEYWORD_ONLY and p.name not in HIDDEN:
                found.setdefault(p.name, p.default)
    made = [_constant(name, default) for name, default in found.items()]
    return tuple(c for c in made if c is not None)


def _constant(name: str, default: Any) -> Constant | None:
    """A control for a constant, or None where its kind has none."""
    if name in CHOICES and default in CHOICES[name]:
        return Constant(name, default, choices=CHOICES[name])
    if isinstance(default, bool):
        return Constant(name, default, choices=(False, True))
    if not isinstance(default, (int, float)):
        return None
    if name in RANGE:
        low, high, step = RANGE[name]
    elif isinstance(default, int):
        low, high, step = 0, max(2, 2 * default), 1
    else:
        low, high, step = min(0.0, 2 * default), max(1.0, 2 * default), 0.05
    return Constant(name, default, low, high, step)


def defaults(rule: str) -> Mapping[str, Any]:
    """Return a rule's constants at their defaults."""
    return {c.name: c.default for c in constants(rule)}
