"""From an arm to the grader that CreditGRPOTrainer asks: outcome, coin, judge, or a rival's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..errors import ConfigError
from ..files import content_hash, to_json
from ..grading import arrays
from ..judge.config import JudgeConfig
from ..judge.criteria import CriteriaReading
from ..judge.ledger import Ledger
from ..judge.protocol import Call, CallableJudge, Judge, Reply, Usage
from ..judge.rivals.roles import label_roles
from ..judge.rivals.transitions import Item, operators
from ..judge.run import grade
from ..rubric import Criterion, GradedGroup, Rubric
from ..seeds import child_seed
from ..trajectory import Group
from ..worlds.closing_judge import closing_judge
from ..worlds.desk_judge import LENIENT_NAME, NAME, offline_judge
from ..worlds.desk_noise import LENIENT, STRICT, JudgeNoise
from ..worlds.desk_operators import desk_operators
from .arco import VARIANTS, Arco, open_arco
from .arms import Arm
from .credit_trainer import Grade

UNIT = "words and punctuation marks of the prompts and replies; no model is called"
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass
class ArmGrader:
    """``grader(groups) -> grades`` of one arm, with its bill.

    Args:
        arm: the arm.
        seed: of the training; it also names the judge's errors and the coin.
        static: the fixed rubric of the static arms.
        judge: in place of the offline judge of the bundled world.
        noise: the offline judge's error rates; default: the arm's.
        caveats: what the judge must know of the world, as text.
    """

    arm: Arm
    seed: int
    static: Rubric | None = None
    judge: Judge | None = None
    noise: JudgeNoise | None = None
    caveats: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    _task_rubrics: dict = field(default_factory=dict)
    _items: dict = field(default_factory=dict)
    _arco: Arco | None = None

    def __post_init__(self) -> None:
        if self.noise is None:
            rates = LENIENT if self.arm.lenient else STRICT
            named = {**self.arm.noise, "seed": child_seed(self.seed, "judge noise")}
            self.noise = replace(rates, **named)
        self._simulated = self.judge is None
        if self.arm.evidence not in EVIDENCE:
            raise ConfigError(f"want evidence of {list(EVIDENCE)}; got {self.arm.evidence!r}")
        if not self._asks:
            return
        if self.judge is None:
            self.judge = _offline(self.arm, self.noise)
        self._config = JudgeConfig(
            rubric=self.static if self.arm.rubric == "static" else "dynamic",
            attribution=self.arm.attribution if self.arm.evidence == "rubric" else "none",
            votes=self.arm.votes,
            caveats=self.caveats,
            # Fixed by the seed, so that an interrupted run and an unbroken one are the same.
            nonce=content_hash(["nonce", self.seed])[:32],
        )
        self._judge = booked(self.judge, self.ledger)

    @property
    def _asks(self) -> bool:
        """Whether a judge is asked at all."""
        kind = self.arm.evidence
        return kind in ("roles", "judged_operators") or (
            kind == "rubric" and self.arm.reward == "rubric"
        )

    def __call__(self, groups: Sequence[Group]) -> Sequence[Grade]:
        """Grade whole groups."""
        return EVIDENCE[self.arm.evidence](self, groups)

    def rewards(self, groups: Sequence[Group]) -> Sequence[Grade]:
        """Outcomes, coins, or groups graded on a rubric."""
        if self.arm.reward == "outcome":
            return [[_outcome(t.outcome) for t in g.trajectories] for g in groups]
        if self.arm.reward == "random":
            return [[float(self._coin(t.id)) for t in g.trajectories] for g in groups]
        return grade(groups, self._judge, self._config, task_rubrics=self._task_rubrics)

    def roles(self, groups: Sequence[Group]) -> Sequence[Grade]:
        """TRIAGE: every step's role, beside the outcome or, outcome-blind, a rubric's reward."""
        batches = [r.batch(tokens=len) for r in label_roles(groups, self._judge, self._config)]
        if self.arm.reward == "outcome":
            return batches
        rewards = [arrays(g, tokens=len).reward_G for g in self.rewards(groups)]
        return [
            replace(b, reward_G=r, outcome_G=None) for b, r in zip(batches, rewards, strict=True)
        ]

    def operators(self, groups: Sequence[Group]) -> Sequence[Grade]:
        """TRCA: what each step sets off, by the bundled world's rules, without a judge."""
        seen = self.arm.reward == "outcome"
        return [o.batch(tokens=len, outcome=seen) for o in desk_operators(groups)]

    def judged_operators(self, groups: Sequence[Group]) -> Sequence[Grade]:
        """TRCA in any world: the items and what sets them off are a judge's."""
        seen = self.arm.reward == "outcome"
        made = operators(groups, self._judge, self._config, memory=self._items)
        return [o.batch(tokens=len, outcome=seen) for o in made]

    def arco(self, groups: Sequence[Group]) -> Sequence[Grade]:
        """ARCO: scores of a rubric model, which then learns from these groups' outcomes."""
        return self._rubric_model()(groups)

    def _rubric_model(self) -> Arco:
        if self._arco is None:
            self._arco = open_arco(self.arm.evidence, self.seed)
        return self._arco

    def _coin(self, rollout: str) -> int:
        return child_seed(self.seed, "random reward", rollout) & 1

    def bill(self) -> dict[str, dict[str, Any]]:
        """What was asked since the last call of this, by phase, as JSON types."""
        told = {k: b.to_json() for k, b in self.ledger.by("phase").items()}
        self.ledger.entries.clear()
        if self._arco is not None:
            told["rubric_model"] = dict(self._arco.told)
        return told

    def memory(self) -> list[Any]:
        """The task rubrics and items known so far, as JSON types: what a checkpoint has to keep."""
        rows = [[*key, to_json(value)] for key, value in self._task_rubrics.items()]
        items = [[*key, {"items": [asdict(i) for i in v]}] for key, v in self._items.items()]
        model = [] if self._arco is None else [["", "", {"arco": self._arco.state()}]]
        return rows + items + model

    def recall(self, memory: Sequence[Any]) -> None:
        """Take back what ``memory`` returned, so that no known task rubric is asked for again."""
        for task, prompt, value in memory:
            if "arco" in value:
                self._rubric_model().restore(value["arco"])
                continue
            if "items" in value:
                self._items[task, prompt] = tuple(Item(**i) for i in value["items"])
                continue
            criteria = tuple(Criterion(**c) for c in value.get("criteria", ()))
            known = CriteriaReading(criteria, None, value.get("dropped", 0), value.get("over", 0))
            self._task_rubrics[task, prompt] = known

    def record(self) -> dict[str, Any] | None:
        """What judge.json holds; None where no judge was asked."""
        if not self._asks:
            return None
        noise = {k: v for k, v in asdict(self.noise).items() if k != "seed"}
        return {
            "name": self.judge.name,
            "simulated": self._simulated,
            "noise": noise if self._simulated else {},
            "style": self.arm.style if self._simulated else None,
            "unit": UNIT if self._simulated else "the endpoint's tokens",
            **self.ledger.to_json(),
        }


# What an arm's rule reads, by the name in ``Arm.evidence``; a new rule's grader is one line here.
EVIDENCE: Mapping[str, Callable[[ArmGrader, Sequence[Group]], Sequence[Grade]]] = {
    "rubric": ArmGrader.rewards,
    "roles": ArmGrader.roles,
    "operators": ArmGrader.operators,
    "judged_operators": ArmGrader.judged_operators,
    **dict.fromkeys(VARIANTS, ArmGrader.arco),
}

VIEWS = ("full", "closing")  # what the offline judge sees of a rollout
JUDGED = ("roles", "judged_operators")  # evidence, beside the rubric's, that a judge gives


def _offline(arm: Arm, noise: JudgeNoise) -> CallableJudge:
    """The bundled world's judge as the arm wants it."""
    if arm.view not in VIEWS:
        raise ConfigError(f"want a view of {VIEWS}; got {arm.view!r}")
    if arm.view == "closing":
        return closing_judge(noise)
    return offline_judge(noise, arm.style, LENIENT_NAME if arm.lenient else NAME)


def _outcome(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def booked(judge: Judge, ledger: Ledger) -> CallableJudge:
    """The same judge with every call in the ledger; a judge without usage is counted in words."""

    async def complete(call: Call) -> Reply:
        reply = await judge.complete(call)
        usage = reply.usage
        if usage is None:
            asked = sum(len(_TOKEN.findall(m["content"])) for m in call.messages)
            usage = Usage(asked, 0, len(_TOKEN.findall(reply.text)))
        ledger.add(call, usage, reply.seconds)
        return reply

    return CallableJudge(complete, judge.name)


def sample_of(
    groups: Iterable[Group], grades: Iterable[Grade | None], step: int, most: int
) -> Iterable[GradedGroup]:
    """The first graded groups of a step, with the step in their record, for the run folder."""
    kept = 0
    for grade_ in grades:
        if isinstance(grade_, GradedGroup) and kept < most:
            kept += 1
            yield replace(grade_, record={**grade_.record, "step": step})


def summed(bills: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return bills by phase, of processes or steps, as one; an unknown price stays unknown."""
    total: dict[str, dict[str, Any]] = {}
    for by_phase in bills:
        for phase, bill in by_phase.items():
            sums = total.setdefault(phase, {})
            for key, value in bill.items():
                before = sums.get(key, 0)
                sums[key] = None if value is None or before is None else before + value
    return total
