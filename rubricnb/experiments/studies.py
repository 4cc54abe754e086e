"""Training studies: when does step credit help? Each is a list of conditions and paired contrasts.

A condition is an arm with some settings of its own; all conditions of a study share seeds, tasks
and the luck of every evaluation run, so that they are compared pair by pair. Pools are fresh:
``study_*``, on which nothing was chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from ..errors import ConfigError
from ..trajectory import EMPTY
from .profiles import Profile

EASY, LONG = "easy", "long"
POOLS = {EASY: ("study_train", "study_test"), LONG: ("study_long_train", "study_long_test")}
REMEDIES = ("neutral", "recentred", "terminal_plain", "signed", "mixed")


@dataclass(frozen=True)
class Condition:
    """One row of a study.

    Args:
        name: what folders and tables call it.
        arm: fields of ``Arm`` but its name; None is the untrained policy.
        horizon: "easy" or "long": which pools are trained and tested on.
        policy: the warm-up that it starts from.
        settings: settings that differ from the profile's.
    """

    name: str
    arm: Mapping[str, Any] | None = field(default_factory=lambda: EMPTY)
    horizon: str = EASY
    policy: str = "main"
    settings: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True)
class Study:
    """A question, its conditions, and the differences that answer it.

    Args:
        name, title, question: what it is called and asks.
        conditions: in the order of the table.
        contrasts: (a, b, what a - b is called), each paired by seed.
        quick: conditions of the quick profile; () for all.
        curve: column of train.jsonl that its figure follows over training; "" for success.
    """

    name: str
    title: str
    question: str
    conditions: tuple[Condition, ...]
    contrasts: tuple[tuple[str, str, str], ...]
    quick: tuple[str, ...] = ()
    curve: str = ""


def _arm(rule: str, rubric: str = "dynamic", **more: Any) -> dict[str, Any]:
    return {"rule": rule, "rubric": rubric, **more}


def _early() -> Study:
    """Credit against none on both rubrics and both horizons, and every remedy."""
    rows, pairs = [], []
    for horizon in (EASY, LONG):
        for rubric in ("static", "dynamic"):
            plain = f"{rubric}_{horizon}"
            rows.append(Condition(plain, _arm("grpo", rubric), horizon))
            for rule in ("draco", *(REMEDIES if (rubric, horizon) != ("static", LONG) else ())):
                name = f"{rubric}_{rule}_{horizon}"
                rows.append(Condition(name, _arm(rule, rubric), horizon))
                pairs.append((name, plain, f"{rule} on {rubric} rubrics, {horizon}"))
    quick = ("static_easy", "static_draco_easy", "dynamic_easy", "dynamic_draco_easy")
    return Study(
        "early",
        "Credit against none, and the remedies",
        "Does step credit hurt on static rubrics, and do remedies take the harm away?",
        tuple(rows),
        tuple(pairs),
        (*quick, "dynamic_neutral_easy"),
    )


NOISE = {"exact": {"false_pass": 0.0, "false_fail": 0.0, "miscite": 0.0}, "noisy": {
    "false_pass": 0.304, "false_fail": 0.013, "miscite": 0.2}}  # fmt: skip


def _grid() -> Study:
    """Rule x rubric kind x citation style x judge noise x horizon."""
    rows, pairs = [], []
    axes = (("static", "dynamic"), ("flip", "root", "all"), NOISE, (EASY, LONG))
    for rubric, style, noise, horizon in product(*axes):
        told = {"style": style, "noise": NOISE[noise]}
        for rule in ("draco", "neutral"):
            plain = f"{rubric}_{noise}_{horizon}_grpo"
            name = f"{rubric}_{noise}_{horizon}_{style}_{rule}"
            rows.append(Condition(name, _arm(rule, rubric, **told), horizon))
            pairs.append((name, plain, f"{rule}, {rubric}, {noise}, {style}, {horizon}"))
        if style == "flip":  # Uniform credit reads no citation.
            rows.append(Condition(plain, _arm("grpo", rubric, noise=NOISE[noise]), horizon))
    quick = [f"dynamic_{n}_easy_{r}" for n in NOISE for r in ("grpo", "flip_draco", "root_draco")]
    title = "Rule, rubric kind, citation style, judge noise and horizon"
    return Study("grid", title, "Where does credit help?", tuple(rows), tuple(pairs), tuple(quick))


def _base() -> Study:
    """From a stronger and a weaker warm-up, on easy and long tasks: four base success rates."""
    rows, pairs = [], []
    for policy, horizon in product(("main", "weak"), (EASY, LONG)):
        names = {r: f"{policy}_{horizon}_{r}" for r in ("base", "grpo", "draco", "neutral")}
        for rule, name in names.items():
            arm = None if rule == "base" else _arm(rule)
            rows.append(Condition(name, arm, horizon, policy))
        pairs += [(names[r], names["grpo"], f"{r}, {policy}, {horizon}") for r in
                  ("draco", "neutral")]  # fmt: skip
    quick = tuple(f"{p}_easy_{r}" for p in ("main", "weak") for r in ("base", "grpo", "draco"))
    question = "Does credit help where successes are rare?"
    return Study("base", "Base success rate", question, tuple(rows), tuple(pairs), quick)


def _mixing() -> Study:
    """From uniform credit (0) to DRACO's (1)."""
    weights = (0.0, 0.25, 0.5, 0.75, 1.0)
    rows = tuple(
        Condition(f"mix_{w:g}", _arm("mixed", rule_options={"weight": w})) for w in weights
    )
    pairs = tuple((c.name, "mix_0", f"weight {c.name[4:]} against 0") for c in rows[1:])
    question = "How much credit is best, between none and all?"
    return Study("mixing", "Mixing weight", question, rows, pairs, ("mix_0", "mix_0.5", "mix_1"))


def _group_size() -> Study:
    """The same number of rollouts a step, in smaller and larger groups."""
    rows, pairs = [], []
    for size, groups in ((3, 32), (6, 16), (12, 8)):
        told = {"group_size": size, "groups": groups}
        for rule in ("grpo", "draco"):
            rows.append(Condition(f"g{size}_{rule}", _arm(rule), settings=told))
        pairs.append((f"g{size}_draco", f"g{size}_grpo", f"credit in groups of {size}"))
    question = "Does credit need larger groups?"
    return Study("group_size", "Group size", question, tuple(rows), tuple(pairs))


def _length() -> Study:
    """DRACO with and without the factor 1 / n_j."""
    rows = (
        Condition("plain", _arm("grpo")),
        Condition("divided", _arm("draco")),
        Condition("undivided", _arm("draco", rule_options={"length": "token"})),
    )
    pairs = (
        ("undivided", "divided", "without 1/n_j against with it"),
        ("divided", "plain", "with 1/n_j against no credit"),
        ("undivided", "plain", "without 1/n_j against no credit"),
    )
    question = "Does splitting a step's share over its tokens matter?"
    return Study("length", "The factor 1 / n_j", question, rows, pairs)


def _closing() -> Study:
    """The same training with a judge of the whole rollout and one of the closing alone."""
    rows = (
        Condition("all_seeing", _arm("grpo")),
        Condition("closing_only", _arm("grpo", view="closing")),
    )
    pairs = (("closing_only", "all_seeing", "closing only against all-seeing"),)
    question = "How fast are false claims learned from a judge that sees only the closing?"
    title = "A judge that sees only the closing"
    return Study("closing", title, question, rows, pairs, curve="false_claims")


STUDIES: Mapping[str, Study] = {
    s.name: s for s in (_early(), _grid(), _base(), _mixing(), _group_size(), _length(), _closing())
}
SIZES = {
    p.name: p
    for p in (
        Profile("quick", (0,), 3, (3,), 5, groups=8, eval_runs=1, eval_scenarios=8),
        Profile("small", (0, 1, 2, 3, 4), 24, (20, 22, 24), 240, groups=8, eval_scenarios=24),
        Profile("full", (0, 1, 2, 3, 4), 40, (36, 38, 40), 1000),
    )
}


def study(name: str) -> Study:
    """Return the study of that name.

    >>> study("closing").curve
    'false_claims'
    """
    if name not in STUDIES:
        raise ConfigError(f"want a study among {list(STUDIES)}; got {name!r}")
    return STUDIES[name]


def size(chosen: Study, profile: str, seeds: Sequence[int] = ()) -> Profile:
    """Return a study's profile, whose name is its folder, with other seeds if told."""
    if profile not in SIZES:
        raise ConfigError(f"want a profile of {list(SIZES)}; got {profile!r}")
    p = SIZES[profile]
    return replace(p, name=f"studies/{chosen.name}/{profile}", seeds=tuple(seeds) or p.seeds)


def conditions(chosen: Study, profile: Profile, only: Sequence[str] = ()) -> list[Condition]:
    """Return the conditions to train: those named, the quick ones at the quick size, or all.

    Raises:
        ConfigError: for a name that the study has not.
    """
    names = [c.name for c in chosen.conditions]
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise ConfigError(f"want conditions among {names}; got {unknown[0]!r}")
    quick = chosen.quick if profile.name.endswith("/quick") else ()
    keep = tuple(only) or quick or names
    return [c for c in chosen.conditions if c.name in keep]


def told(c: Condition, profile: Profile) -> dict[str, Any]:
    """Return what one training of a condition is told, with its arm, as JSON values."""
    train, test = POOLS[c.horizon]
    arm = None if c.arm is None else {k: _plain(v) for k, v in c.arm.items()}
    pools = {"pool": train, "splits": [test], "keep_groups": 0}
    return {**profile.settings, **pools, **c.settings, "arm": arm}


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def by_policy(chosen: Sequence[Condition]) -> dict[str, tuple[str, ...]]:
    """Return policy -> names of conditions, as the scheduler takes them."""
    return {p: tuple(c.name for c in chosen if c.policy == p) for p in _policies(chosen)}


def _policies(chosen: Sequence[Condition]) -> Iterator[str]:
    yield from dict.fromkeys(c.policy for c in chosen)
