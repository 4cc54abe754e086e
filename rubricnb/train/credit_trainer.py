"""CreditGRPOTrainer: trl's GRPOTrainer with the advantage of each token replaced, nothing else.

trl samples, pads, masks, logs and computes its loss as ever. In between, where it would use one
advantage a rollout, this class puts the credit of the step that the token belongs to:

    rewards   the grader sees the groups of trajectories and answers with verdicts (a GradedGroup)
              or with rewards; trl logs them as the reward function "rubric"
    credit    a rule of ``rubricnb.credit`` turns them, with n_j counted on the final loss mask,
              into (rollouts, steps), which is spread over the tokens of each step

A trl script of one's own becomes step-credited by importing this class in place of GRPOTrainer and
adding ``judge=``; its ``reward_funcs`` are still called and logged, with weight 0.

It is not a new trainer: losses, KL, clipping, LoRA, generation and checkpoints are trl's. With
trl's ``environment_factory`` a step is one assistant turn, a run of ones in the tool mask; with a
``rollout_func`` the rollouts say themselves which token belongs to which step (``step_ids``).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from trl import GRPOConfig, GRPOTrainer

from ..credit import RULES, CreditBatch, stack
from ..errors import ConfigError, CreditError, RubricNBError
from ..grading import arrays
from ..judge.config import JudgeConfig
from ..judge.protocol import Judge
from ..judge.run import grade as grade_groups
from ..rubric import GradedGroup
from ..trajectory import Group, Trajectory
from .transcripts import trajectory_of

Grade = GradedGroup | CreditBatch | Sequence[float]
Grader = Callable[[Sequence[Group]], Sequence[Grade]]


@dataclass(frozen=True, eq=False)
class CreditStep:
    """What one generation batch got, for whoever watches the training.

    Args:
        step: optimizer steps done before it.
        groups: P groups of trajectories.
        grades: the grader's answer for each group; None where it failed.
        batch: the rollouts of graded groups as the rule read them, tokens as the loss counts
            them; None where no group was graded.
        rows: (len(batch),) which rollouts of the whole batch those are.
        credit_GS: (all rollouts, S) per-token credit of each step; 0 where the grader failed.
        errors: what the grader raised, by group index.
        bills: what ``grader.bill()`` said of this batch in each process; () without that method.
    """

    step: int
    groups: tuple[Group, ...]
    grades: tuple[Grade | None, ...]
    batch: CreditBatch | None
    rows: np.ndarray
    credit_GS: np.ndarray
    errors: Mapping[int, str]
    bills: tuple[Any, ...] = ()


class CreditGRPOTrainer(GRPOTrainer):
    """GRPOTrainer whose tokens get the credit of their step.

    Args:
        grader: ``grader(groups) -> grades``, one per group: a GradedGroup, a CreditBatch with
            whatever the rule reads, or G rewards (NaN: ungraded). It runs once a group whichever
            processes its rollouts lie on, and for one task always in the same process. What it
            raises leaves the groups it was given without an update and is reported; a
            RubricNBError would meet every other group too and ends the training. A method
            ``bill()``, where it has one, is asked after each batch and gathered for the observer.
        judge: instead of a grader: any judge, which writes rubrics and grades as DRACO does.
        judge_config: its settings.
        rule: a name of ``rubricnb.credit.RULES``, or ``fn(CreditBatch) -> (G, S)``.
        rule_options: keyword arguments of the rule.
        observer: called on the main process with a CreditStep.
        args, kwargs: GRPOTrainer's own. ``reward_funcs`` are called and logged beside the grader's
            rewards and push nothing.
    Raises:
        ConfigError: an unknown rule, not one of grader and judge, or a loss that drops or reweights
            single tokens, which would break conservation unseen.
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: GRPOConfig | None = None,
        *more: Any,
        grader: Grader | None = None,
        judge: Judge | None = None,
        judge_config: JudgeConfig | None = None,
        rule: str | Callable[..., np.ndarray] = "draco",
        rule_options: Mapping[str, Any] | None = None,
        observer: Callable[[CreditStep], None] | None = None,
        **kwargs: Any,
    ) -> None:
        if (grader is None) == (judge is None):
            raise ConfigError(
                "want a grader or a judge; got " + ("none" if judge is None else "both")
            )
        if isinstance(rule, str) and rule not in RULES:
            raise ConfigError(f"want a rule among {list(RULES)}; got {rule!r}")
        self._grader = grader if judge is None else _judging(judge, judge_config)
        self._observer = observer
        self._rule = RULES[rule] if isinstance(rule, str) else rule
        self._rule_options = dict(rule_options or {})
        self._graded: _Graded | None = None

        def rubric(prompts: list, completions: list, **columns: Any) -> list[float | None]:
            return self._grade(prompts, completions, columns)

        logged = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
        logged = [f for f in logged if f is not None]
        own = kwargs.get("reward_processing_classes")
        if isinstance(own, list):
            kwargs["reward_processing_classes"] = [None, *own]
        args = copy.copy(args)
        if args is not None:
            args.reward_weights = None  # they weigh what is logged only
        super().__init__(model, [rubric, *logged], args, *more, **kwargs)
        self.reward_weights = torch.tensor([1.0] + [0.0] * len(logged))
        if logged:
            names = ", ".join(self.reward_func_names[1:])
            warnings.warn(
                f"reward_funcs are logged and push nothing here: {names}; the judge's rubric does",
                stacklevel=2,
            )
        if self.args.top_entropy_quantile < 1 or self.importance_sampling_level != "token":
            raise ConfigError(
                "want every token's loss kept (top_entropy_quantile=1, token-level importance "
                f"sampling); got {self.args.top_entropy_quantile}, {self.importance_sampling_level}"
            )

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        if self._graded is None:  # pragma: no cover - trl always asks the reward function
            raise CreditError("want a graded generation batch; got none from the reward function")
        graded, self._graded = self._graded, None
        mask = output["completion_mask"] * output.get("tool_mask", 1)
        step_ids = _step_ids(mask, graded.local_step_ids)
        credit_GS = self._credit(graded, step_ids)
        local = slice(graded.start, graded.start + len(inputs))
        output["advantages"] = spread(credit_GS[local], step_ids).to(output["advantages"].device)
        return output

    def _grade(self, prompts: list, completions: list, columns: Mapping[str, Any]) -> list:
        """trl's reward function: this process's rewards, from groups graded once over all."""
        rows = columns.get("trajectory") or [None] * len(prompts)
        start = self.accelerator.process_index * len(prompts)
        local = [
            t if t is not None else trajectory_of(p, c, i)
            for i, (t, p, c) in enumerate(zip(rows, prompts, completions, strict=True), start)
        ]
        everyone = gather_object(local)
        G = self.num_generations if self.model.training else self.num_generations_eval
        if len(everyone) % G:
            raise ConfigError(f"want whole groups of {G}; got {len(everyone)} rollouts in all")
        groups = tuple(_group(everyone[i : i + G]) for i in range(0, len(everyone), G))
        grades, errors, bills = self._shared_grades(groups)
        reward = np.concatenate(
            [_rewards(g, len(group)) for g, group in zip(grades, groups, strict=True)]
        )
        self._graded = _Graded(groups, grades, errors, bills, start, columns.get("step_ids"))
        mine = reward[start : start + len(prompts)]
        return [None if np.isnan(r) else float(r) for r in mine]

    def _shared_grades(
        self, groups: Sequence[Group]
    ) -> tuple[tuple[Grade | None, ...], dict[int, str], tuple[Any, ...]]:
        """Each process grades its share of the groups; everybody gets grades, errors and bills.

        A task's groups always go to the same process, which may know the task's rubric already.

        Nothing is raised before the exchange: a process that raised alone would leave the others
        waiting for ever.
        """
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        share = [i for i, g in enumerate(groups) if owner_of(g.task.id, world) == rank]
        done: list[tuple[int, Grade | None, str, bool]] = []
        try:
            answered = list(self._grader([groups[i] for i in share])) if share else []
            if len(answered) != len(share):
                raise ConfigError(
                    f"want one grade per group, {len(share)}; got {len(answered)} from the grader"
                )
            done = [(i, g, "", False) for i, g in zip(share, answered, strict=True)]
        except Exception as e:
            fatal = isinstance(e, RubricNBError)
            done = [(i, None, f"{type(e).__name__}: {e}", fatal) for i in share]
        grades: list[Grade | None] = [None] * len(groups)
        errors: dict[int, str] = {}
        for i, grade, error, fatal in sorted(gather_object(done), key=lambda d: d[0]):
            if fatal:
                raise RubricNBError(f"the grader cannot go on: {error}")
            grades[i] = grade
            if error:
                errors[i] = error
        bill = getattr(self._grader, "bill", None)
        bills = gather_object([bill()]) if bill is not None else []
        return tuple(grades), errors, tuple(bills)

    def _credit(self, graded: _Graded, step_ids: torch.Tensor) -> np.ndarray:
        """(all rollouts, S) credit; every process computes the same."""
        tokens = gather_object(_counts(step_ids))
        batches, rows, at = [], [], 0
        for group, grade in zip(graded.groups, graded.grades, strict=True):
            if grade is not None:
                batches.append(_evidence(group, grade, tokens[at : at + len(group)]))
                rows.extend(range(at, at + len(group)))
            at += len(group)
        batch = stack(batches) if batches else None
        width = max([len(n) for n in tokens] + ([batch.tokens_GS.shape[1]] if batches else []))
        credit = np.zeros((at, width))
        if batch is not None:
            credit[rows, : batch.tokens_GS.shape[1]] = self._rule(batch, **self._rule_options)
        if self._observer is not None and self.accelerator.is_main_process:
            step = self.state.global_step
            told = (graded.groups, graded.grades, batch, np.array(rows), credit, graded.errors)
            self._observer(CreditStep(step, *told, graded.bills))
        return credit


class WithoutCards(CreditGRPOTrainer):
    """The trainer without model cards, which trl would render into every checkpoint."""

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""


@dataclass(frozen=True, eq=False)
class _Graded:
    """Between trl's reward call and the end of the batch."""

    groups: tuple[Group, ...]
    grades: tuple[Grade | None, ...]
    errors: dict[int, str]
    bills: tuple[Any, ...]
    start: int
    local_step_ids: Sequence[Sequence[int]] | None


def owner_of(task: str, processes: int) -> int:
    """Return which of so many processes grades a task's groups: the same in every process and run.

    >>> owner_of("t1", 1), owner_of("t1", 2) == owner_of("t1", 2)
    (0, True)
    """
    digest = blake2b(task.encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % processes


def _judging(judge: Judge, config: JudgeConfig | None) -> Grader:
    """DRACO's grader: a task's rubric is written once."""
    known: dict = {}
    return lambda groups: grade_groups(groups, judge, config, task_rubrics=known)


def spread(credit_GS: np.ndarray, step_ids: torch.Tensor) -> torch.Tensor:
    """Return (B, T) float32: each token's credit, 0 where it belongs to no step.

    Args:
        credit_GS: (B, S) credit per token of each step.
        step_ids: (B, T) number of the token's step from 1, 0 for none.
    """
    table = np.zeros((credit_GS.shape[0], credit_GS.shape[1] + 1), dtype=np.float32)
    table[:, 1:] = credit_GS
    return torch.from_numpy(table).gather(1, step_ids.cpu().long())


def _step_ids(mask: torch.Tensor, told: Sequence[Sequence[int]] | None) -> torch.Tensor:
    """(B, T) step of each token that the loss counts: as told, or the runs of ones in the mask."""
    mask = (mask > 0).cpu()
    if told is None:
        before = torch.nn.functional.pad(mask[:, :-1], (1, 0))
        return (mask & ~before).cumsum(dim=1) * mask
    ids = torch.zeros(mask.shape, dtype=torch.long)
    for row, steps in zip(ids, told, strict=True):
        kept = torch.as_tensor(list(steps))[: len(row)]
        row[: len(kept)] = kept
    return ids * mask


def _counts(step_ids: torch.Tensor) -> list[np.ndarray]:
    """Per row, n_j for j = 1 .. the last step with tokens."""
    return [np.bincount(row)[1:].astype(float) for row in step_ids.cpu().numpy()]


def _group(members: Sequence[Trajectory]) -> Group:
    return Group(members[0].task, tuple(members))


def _rewards(grade: Grade | None, n: int) -> np.ndarray:
    if grade is None:
        return np.full(n, np.nan)
    if isinstance(grade, GradedGroup):
        return arrays(grade, tokens=len).reward_G
    if isinstance(grade, CreditBatch):
        return grade.scalar("outcome" if grade.reward_G is None else "rubric", "the grader")
    reward = np.asarray(grade, dtype=float)
    if reward.shape != (n,):
        raise CreditError(f"want {n} rewards for a group of {n}; got shape {reward.shape}")
    return reward


def _evidence(group: Group, grade: Grade, tokens: Sequence[np.ndarray]) -> CreditBatch:
    """A group's verdicts or rewards as the rules read them, with n_j as the loss counts it."""
    S = max([len(t) for t in group.trajectories] + [len(n) for n in tokens])
    counted = np.zeros((len(group), S))
    for row, n, t in zip(counted, tokens, group.trajectories, strict=True):
        if len(n) > len(t):
            raise CreditError(
                f"want at most {len(t)} steps with tokens, as the transcript of {t.id!r} has; "
                f"got {len(n)} in the loss mask"
            )
        row[: len(n)] = n
    if isinstance(grade, GradedGroup):
        grade = arrays(grade, tokens=len).batch()
    if isinstance(grade, CreditBatch):
        return replace(grade, tokens_GS=counted[:, : grade.tokens_GS.shape[1]])
    kinds = [[s.kind for s in t.steps] + [""] * (S - len(t)) for t in group.trajectories]
    return CreditBatch(
        counted,
        reward_G=_rewards(grade, len(group)),
        outcome_G=[np.nan if t.outcome is None else t.outcome for t in group.trajectories],
        kind_GS=np.array(kinds, dtype=np.str_).reshape(len(group), S),
    )
