"""The three sizes of the study, and the order and names of its arms. Frozen: a run can be named."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import ConfigError

# arm -> what tables call it. "Dyn" is the rubric made per group, "Cred" the step credit.
ARMS = {
    "base": "base",
    "outcome": "outcome reward",
    "random": "random reward",
    "static": "w/o Dyn & Cred",
    "static_credit": "w/o Dyn",
    "dynamic": "w/o Cred",
    "draco": "DRACO",
    "draco_self_k3": "DRACO, self-judge, k=3",
    "draco_self_k1": "DRACO, self-judge, k=1",
}
POLICIES = {"main": "main policy", "weak": "weaker warm-up"}
# What each policy is trained with.
STUDY = {"main": tuple(ARMS), "weak": ("base", "draco")}
SPLITS = ("test_normal", "test_challenge", "transfer")
ENOUGH_SEEDS = 5  # Below this a table supports no claim.


@dataclass(frozen=True)
class Profile:
    """One size of the study.

    Args:
        name: folder under the runs.
        seeds: training seeds; every arm is trained once with each.
        steps: optimizer steps a training.
        groups: tasks a step.
        group_size: rollouts a task (G).
        checkpoints: steps that are evaluated and averaged, as the paper does, no selection.
        eval_runs: runs a task in each evaluation.
        eval_scenarios: evaluate so many scenarios of each split, spread evenly; None for all.
        minutes: the time that it should stay within on two cores.
        workers: trainings side by side, one thread each.
    """

    name: str
    seeds: tuple[int, ...]
    steps: int
    checkpoints: tuple[int, ...]
    minutes: int
    groups: int = 16
    group_size: int = 6
    eval_runs: int = 3
    eval_scenarios: int | None = None
    workers: int = 2

    @property
    def settings(self) -> dict[str, Any]:
        """What one training is told; the same for every arm and seed."""
        keys = ("steps", "groups", "group_size", "checkpoints", "eval_runs", "eval_scenarios")
        out = {k: asdict(self)[k] for k in keys}
        return {**out, "checkpoints": list(self.checkpoints)}


PROFILES = {
    p.name: p
    for p in (
        Profile("quick", (0,), 6, (4, 5, 6), 5, groups=8, eval_scenarios=8),
        Profile("small", (0, 1), 32, (28, 30, 32), 20, eval_scenarios=48),
        Profile("full", (0, 1, 2, 3, 4), 40, (36, 38, 40), 60),
    )
}


def profile(name: str) -> Profile:
    """Return the profile of that name.

    >>> len(profile("full").seeds) >= ENOUGH_SEEDS
    True
    """
    try:
        return PROFILES[name]
    except KeyError:
        raise ConfigError(f"want a profile of {list(PROFILES)}; got {name!r}") from None
