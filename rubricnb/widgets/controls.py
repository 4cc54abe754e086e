"""Which constants a credit rule has, and what a slider or a list offers for each of them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..credit import RULES, DracoOptions
from ..errors import ConfigError

# A rule that hands its options on has the constants of what it hands them to.
ALSO = {
    "draco": {f.name: f.default for f in dataclasses.fields(DracoOptions)},
}
# Numerical guards: nothing to see in a figure.
HIDDEN = {"eps", "whiten_eps"}
RANGE: dict[str, tuple[float, float, float]] = {
    "ddof": (0, 1, 1),
    "whiten_ddof": (0, 1, 1),
    "mix": (0.0, 1.0, 0.05),
    "lam": (0.0, 1.0, 0.05),
    "gamma": (0.0, 1.0, 0.01),
    "signed_scale": (0.0, 6.0, 0.1),
}
CHOICES: dict[str, tuple[str, ...]] = {
    "base": ("rubric", "outcome"),
    "single": ("zero", "reward"),
    "nocite": ("uniform", "equal_step"),
    "terminal": ("redistribute", "plain"),
    "weights": ("quality", "signed"),
    "rule": ("grpo", "draco"),
    "future": ("sum", "mean", "discount"),
    "bucket": ("position", "kind"),
    "mode": ("mean_std_norm", "mean_norm"),
    "lone": ("zero", "return"),
    "visits": ("first", "every"),
    "merge": ("transition", "state_action"),
    "repeats": ("each", "once"),
    "cites": ("split", "each"),
    "episode": ("env", "env+rubric"),
    "outside": ("advantage", "mask"),
    "signal": ("role", "score"),
}


@dataclass(frozen=True)
class Constant:
    """A rule's constant: its name, default, and the values that a control offers.

    A constant that is a table of numbers is one for each entry, named "table.entry".
    """

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
    ['base', 'ddof', 'single']
    """
    made = []
    for name, default in _defaults(rule).items():
        if isinstance(default, Mapping):
            made += [_constant(f"{name}.{k}", v) for k, v in default.items()]
        else:
            made.append(_constant(name, default))
    return tuple(c for c in made if c is not None)


def _defaults(rule: str) -> dict[str, Any]:
    if rule not in RULES:
        raise ConfigError(f"want a rule among {sorted(RULES)}; got {rule!r}")
    found = dict(ALSO.get(rule, {}))
    for p in inspect.signature(RULES[rule]).parameters.values():
        if p.kind is p.KEYWORD_ONLY and p.name not in HIDDEN:
            found.setdefault(p.name, p.default)
    return found


def options(rule: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return constants, as controls name them, as the rule takes them: entries back in tables.

    Raises:
        ConfigError: for a constant that the rule does not have.

    >>> options("triage", {"lam": 0.5, "c.decisive": 2.0})["c"]["decisive"]
    2.0
    """
    known = [c.name for c in constants(rule)]
    wrong = [k for k in values if k not in known]
    if wrong:
        raise ConfigError(f"want constants of {rule!r} among {known}; got {wrong}")
    out: dict[str, Any] = {}
    for name, value in values.items():
        table, _, entry = name.partition(".")
        if entry:
            out.setdefault(table, dict(_defaults(rule)[table]))[entry] = value
        else:
            out[name] = value
    return out


def _constant(name: str, default: Any) -> Constant | None:
    """A control for a constant, or None where its kind has none."""
    if name in CHOICES and isinstance(default, str):
        return Constant(name, default, choices=tuple(dict.fromkeys((default, *CHOICES[name]))))
    if isinstance(default, bool):
        return Constant(name, default, choices=(False, True))
    if not isinstance(default, (int, float)):
        return None
    if name in RANGE:
        return Constant(name, default, *RANGE[name])
    if isinstance(default, int):
        return Constant(name, default, 0, max(2, 2 * default), 1)
    if "." in name:
        return Constant(name, default, -2.0, 2.0, 0.05)
    return Constant(name, default, min(0.0, 2 * default), max(1.0, 2 * default), 0.05)
