"""How large a fidelity benchmark is, and the judges under which every rule is scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import ConfigError
from ..worlds.desk_noise import EXACT, STRICT, JudgeNoise


@dataclass(frozen=True)
class Size:
    """One size of the benchmark.

    Args:
        name: folder under the runs.
        seeds: of rollouts, roll-ins and judge noise; each gives rollouts of its own.
        tasks: tasks of each pool, spread evenly over it.
        group_size: rollouts a task (G).
        samples: roll-ins a state (K), even: two halves make two independent oracles.
        minutes: the time that it should stay within on two cores.
        pools: splits of the orders desk.
        policy: "main", "weak" or a policy folder.
        chunk: tasks a saved file; what a kill can cost.
        resamples: of the bootstrap over tasks.
    """

    name: str
    seeds: tuple[int, ...]
    tasks: int
    group_size: int
    samples: int
    minutes: int
    pools: tuple[str, ...] = ("dev",)
    policy: str = "main"
    chunk: int = 4
    resamples: int = 400

    def __post_init__(self) -> None:
        if self.samples < 2 or self.samples % 2:
            raise ConfigError(f"want an even number of roll-ins, >= 2; got {self.samples}")
        if self.group_size < 2 or self.tasks < 2 or not self.seeds:
            raise ConfigError(f"want >= 2 tasks of >= 2 rollouts and a seed; got {self}")


SIZES = {
    s.name: s
    for s in (
        Size("quick", (0,), 24, 6, 16, 5),
        Size("small", (0, 1), 48, 6, 20, 30, pools=("dev", "long_dev")),
        Size("full", (0, 1, 2, 3, 4), 120, 8, 64, 600, pools=("dev", "long_dev")),
    )
}


def size_of(name: str) -> Size:
    """Return the size of that name.

    >>> size_of("quick").seeds
    (0,)
    """
    if name not in SIZES:
        raise ConfigError(f"want a profile of {list(SIZES)}; got {name!r}")
    return SIZES[name]


@dataclass(frozen=True)
class Condition:
    """One way to judge: how the offline judge errs, how it cites, what its rubrics leave out.

    Args:
        title: what tables call it.
        noise: error rates of verdicts and citations.
        style: citation style, one of "flip", "root", "all", "last".
        blind: kinds of criteria that are never written (a bias of the generated rubric).
    """

    title: str
    noise: JudgeNoise = EXACT
    style: str = "flip"
    blind: tuple[str, ...] = ()


def _noise(**rates: float) -> JudgeNoise:
    return JudgeNoise(**{k: getattr(EXACT, k) for k in EXACT.__slots__} | rates)


CONDITIONS: Mapping[str, Condition] = {
    "exact": Condition("exact verdicts, deciding step"),
    "stated": Condition("the study's judge noise", STRICT),
    "self": Condition(
        "the published self-model's disagreement", _noise(false_pass=0.304, false_fail=0.013)
    ),
    "miscite": Condition("half of the citations at a random step", _noise(miscite=0.5)),
    "no_results": Condition("no criteria on results", blind=("reached", "honest_close")),
    "no_mix_ups": Condition("no criteria on mix-ups", blind=("right_person", "right_thing")),
    "root": Condition("exact verdicts, root cause", style="root"),
    "all": Condition("exact verdicts, every step touched", style="all"),
    "last": Condition("exact verdicts, last step", style="last"),
}
