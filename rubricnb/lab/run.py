"""Every section that the labels of a file allow, in one go, and where the time went."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError, CreditError
from ..judge.protocol import Judge
from . import cheaper, dear, earlier, false_success, foolable, judged, people, recipe, worth
from .cheaper import how_cheap
from .dear import what_it_costs
from .desk import desk_logs
from .earlier import how_early
from .false_success import false_successes
from .foolable import how_foolable
from .judged import how_good
from .logs import Logs
from .people import with_people
from .prefixes import desk_audit_rubric
from .recipe import what_recipe
from .section import SIMULATED, Section, save, skipped
from .worth import worth_as_reward

ASKED = {
    "judge": judged.QUESTION, "worth": worth.QUESTION, "false_success": false_success.QUESTION,
    "gaming": foolable.QUESTION, "cascade": cheaper.QUESTION, "early": earlier.QUESTION,
    "cost": dear.QUESTION, "people": people.QUESTION, "recipe": recipe.QUESTION,
}  # fmt: skip
SECTIONS = tuple(ASKED)


@dataclass(frozen=True)
class LabConfig:
    """What ``run_lab`` does.

    Args:
        only: names of ``SECTIONS``; () for all.
        seed: of every split, fold, rewrite and interval.
        resamples: of the intervals.
        alpha, delta: of the alarms' promises.
        budget: judge tokens a policy token, for the recommendation.
        price: dollars per million prompt, cached and completion tokens; None: no dollars.
        judge_seconds: what one judge call takes, for the latency ratio.
        runs: ``<out>/<profile>`` of a study, for quality against worth; None leaves it out.
        writer: an endpoint that rewrites reasoning in the gaming section; None: templates.
        key, answers: a labelling sheet's key and the answers to it.
    """

    only: tuple[str, ...] = ()
    seed: int = 0
    resamples: int = 1000
    alpha: float = 0.1
    delta: float = 0.1
    budget: float = float("inf")
    price: tuple[float, float, float] | None = None
    judge_seconds: float | None = None
    runs: Path | None = None
    writer: Judge | None = None
    key: Path | None = None
    answers: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        unknown = sorted(set(self.only) - set(SECTIONS))
        if unknown:
            raise ConfigError(f"want sections among {SECTIONS}; got {unknown[0]!r}")
        for name, given in (("people", self.key), ("worth", self.runs)):
            if name in self.only and given is None:
                need = "a sheet's key" if name == "people" else "a study's runs"
                raise ConfigError(f"want {need} for the section {name!r}; got none")
        if not (0 < self.alpha < 1 and 0 < self.delta < 1):
            raise ConfigError(f"want alpha and delta in (0, 1); got {self.alpha} and {self.delta}")


def _makers(
    logs: Logs, c: LabConfig, claims: Logs | None = None
) -> dict[str, Callable[[], Section]]:
    """Section name -> how it is made; what was not asked for or given is not there.

    ``claims`` are the rollouts of the false-success section, if others than ``logs``. Sections
    are made in order: the recipe knows how far the detector got.
    """
    seen: dict[str, float] = {}

    def false() -> Section:
        s = false_successes(
            claims or logs, judge_seconds=c.judge_seconds, resamples=c.resamples, seed=c.seed
        )
        auroc = s.values.get("claims_auroc")
        seen.update({} if auroc is None else {"auroc_low": auroc.low})
        return s

    made: dict[str, Callable[[], Section]] = {
        "judge": lambda: how_good(logs, resamples=c.resamples, seed=c.seed),
        "false_success": false,
        "gaming": lambda: how_foolable(logs, writer=c.writer, seed=c.seed),
        "cascade": lambda: how_cheap(logs, seed=c.seed),
        "early": lambda: how_early(logs, alpha=c.alpha, delta=c.delta, seed=c.seed),
        "cost": lambda: what_it_costs(logs, price=c.price),
        "recipe": lambda: what_recipe(logs, budget=c.budget, **seen),
    }
    if c.runs is not None:
        made["worth"] = lambda: worth_as_reward(c.runs)
    if c.key is not None:
        made["people"] = lambda: with_people(c.key, c.answers, resamples=c.resamples)
    return {n: made[n] for n in SECTIONS if n in made and (not c.only or n in c.only)}


def run_lab(
    logs: Logs, config: LabConfig | None = None, say: Callable[[str], None] | None = None
) -> list[Section]:
    """Return every section that the labels of these rollouts allow, in order.

    Args:
        logs: any rollouts; what a section needs and they lack, its paragraph says.
        config: settings.
        say: told each section's name and time.
    """
    out = []
    for name, make in _makers(logs, config or LabConfig()).items():
        start = time.perf_counter()
        try:
            out.append(make())
        except CreditError as e:  # these rollouts do not carry this section: say why, go on
            out.append(skipped(name, ASKED[name], str(e)))
        if say is not None:
            done = "not answered" if out[-1].skipped else "done"
            say(f"{name}: {done}, {time.perf_counter() - start:.1f} s")
    return out


def desk_lab(
    n: int = 600,
    config: LabConfig | None = None,
    *,
    false_successes_at: int = 3000,
    say: Callable[[str], None] | None = None,
) -> list[Section]:
    """Return the lab on rollouts of the bundled desk, where everything is known.

    Args:
        n: rollouts of all sections but one.
        config: settings; a labelling sheet belongs to other logs and is ignored.
        false_successes_at: rollouts of the false-success section, or ``n`` where that is more.
        say: told each section's name and time.
    """
    from ..worlds import offline_judge

    c = config or LabConfig()
    logs = desk_logs(n, seed=c.seed)
    judge = offline_judge(name=f"{SIMULATED}, strict rates")
    many = desk_logs(max(n, false_successes_at), seed=c.seed)
    made = _makers(logs, c, many) | {
        "early": lambda: how_early(
            logs, alpha=c.alpha, delta=c.delta, seed=c.seed, judge=judge, rubric=desk_audit_rubric()
        ),
    }
    out = []
    for name in SECTIONS:
        if name == "people" or name not in made or (c.only and name not in c.only):
            continue
        start = time.perf_counter()
        out.append(made[name]())
        if say is not None:
            say(f"{name}: done, {time.perf_counter() - start:.1f} s")
    return out


def write_lab(
    sections: Sequence[Section], folder: str | os.PathLike[str], source: str
) -> dict[str, Path]:
    """Write tables, figures, answers and, where one was fitted, the detector; return the paths."""
    out = save(sections, folder, f"Can I trust this judge? {source}")
    for s in sections:
        if s.name == "false_success" and "detector" in s.values:
            out["detector"] = s.values["detector"].save(Path(folder) / "false_success_detector")
    return out
