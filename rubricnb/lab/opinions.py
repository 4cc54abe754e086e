"""Who says what of each rollout: judges, rules and detectors as one row of answers each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import CreditError
from ..grading import arrays
from ..judge.config import JudgeConfig
from ..judge.protocol import Judge
from ..judge.run import grade
from ..metrics.claims import closing_claim
from ..metrics.false_success import cross_detect, fit_detector, rollout_text
from ..rubric import FailedJudgement, GradedGroup, Rubric
from ..seeds import generator
from ..trajectory import Group, Trajectory
from ..worlds import (
    EXACT,
    LENIENT,
    LENIENT_NAME,
    NAME,
    STRICT,
    OrdersDesk,
    offline_judge,
)
from ..worlds.static_rubric import candidates
from .logs import Logs
from .section import SIMULATED
from .toolcalls import score_calls

# Which desk criteria answer which question.
AXES: Mapping[str, tuple[str, ...]] = {
    "success": (
        "Everything asked for is in place",
        "Works for the person named",
        "Changes only the things named",
        "Does not say done too early",
        "Reports what was refused",
        "Closes the work",
    ),
    "no side effects": ("Works for the person named", "Changes only the things named"),
    "no repetition": ("Does not repeat a look-up",),
    "shortest way": ("Does not repeat a look-up", "Leaves settled parts alone", "Stays brisk"),
}


def desk_rubric(*axes: str) -> Rubric:
    """Return the desk criteria that these axes ask; all four axes where none is named.

    >>> len(desk_rubric("success")), len(desk_rubric())
    (6, 9)
    """
    titles = {t for a in (axes or AXES) for t in AXES[a]}
    return Rubric(tuple(c for c in candidates().criteria if c.title in titles))


@dataclass(frozen=True, eq=False)
class Opinion:
    """One judge's answers on one axis.

    Args:
        judge: its name; one that errs by drawn noise is named as such.
        said_N: (N,) 1 yes, 0 no, NaN no usable answer.
        axis: what was asked; yes is always the good answer.
        reads: what it reads, in words.
        calls: judge calls a rollout.
        agreement_N: (N,) share of its votes that agree with the majority, NaN for one vote.
        margin_N: (N,) how far from the decision, NaN where there is no such number.
    """

    judge: str
    said_N: np.ndarray
    axis: str = "success"
    reads: str = "everything"
    calls: float = 1.0
    agreement_N: np.ndarray | None = None
    margin_N: np.ndarray | None = None


def said_by(graded: GradedGroup, titles: Sequence[str] = (), least: float = 1.0) -> np.ndarray:
    """Return (G,) 1 where the passed share of the criteria reaches ``least``, 0 where not.

    NaN where the rollout is ungraded, where nothing applied, or where a failed judgement could
    turn the answer. With least = 1 one failed criterion is a no.

    Args:
        graded: the group.
        titles: criteria that count; () for all.
        least: share of passes among the applicable, in (0, 1].
    """
    a = arrays(graded, "chars", dropout=False)
    use = np.array([not titles or c.title in titles for c in graded.rubric.criteria], dtype=bool)
    v = a.verdict_GK[:, use]
    passed, failed = (v == 1).sum(axis=1), (v == -1).sum(axis=1)
    lost = np.array(
        [
            sum(isinstance(j, FailedJudgement) for j, u in zip(row, use, strict=True) if u)
            for row in graded.judgements
        ]
    )
    n = passed + failed
    # The worst and the best that the lost judgements could have been.
    worst = np.where(n + lost > 0, passed / np.maximum(n + lost, 1), np.nan)
    best = np.where(n + lost > 0, (passed + lost) / np.maximum(n + lost, 1), np.nan)
    said = np.where(worst >= least, 1.0, np.where(best < least, 0.0, np.nan))
    gone = (n == 0) | np.isnan(a.reward_G)
    return np.where(gone, np.nan, said)


def rule_opinions(logs: Logs, tools: Sequence[Mapping[str, Any]] | None = None) -> list[Opinion]:
    """Return the baselines that need no model: pass all, the closing claim, the tool calls."""
    runs = logs.trajectories
    claim = np.array([float(closing_claim(t).claimed) for t in runs])
    calls = np.array([s.passed for s in score_calls(runs, tools)])
    how = "tool calls, schemas " + ("learned from the log" if tools is None else "given")
    return [
        Opinion("passes everything", np.ones(len(runs)), reads="nothing", calls=0),
        Opinion("closing claim (rule)", claim, reads="the last message", calls=0),
        Opinion("tool-call scorer (rule)", calls, reads=how, calls=0),
    ]


def detector_opinion(logs: Logs, seed: int = 0, learn: np.ndarray | None = None) -> Opinion | None:
    """Return the text detector as a judge, out of fold; None where it cannot be fitted.

    It says yes where P(failure) <= 1/2 under balanced classes.

    Args:
        logs: rollouts with outcomes.
        seed: of the folds.
        learn: rows that it may learn from, whole tasks: these are scored out of fold among
            themselves, all others by one detector of them. None: all, out of fold.
    """
    known = np.flatnonzero(np.isfinite(logs.success_N))
    if learn is not None:
        known = np.intersect1d(known, learn)
    y = 1 - logs.success_N[known]
    said, margin = (np.full(len(logs.trajectories), np.nan) for _ in range(2))
    try:
        texts = [rollout_text(logs.trajectories[i]) for i in known]
        p = cross_detect(texts, y, [logs.task_N[i] for i in known], seed=seed)
        if learn is not None:
            rest = np.setdiff1d(np.arange(len(logs.trajectories)), known)
            made = fit_detector(texts, y)
            known = np.concatenate([known, rest])
            others = [rollout_text(logs.trajectories[i]) for i in rest]
            p = np.concatenate([p, made.score(others)])
    except CreditError:
        return None
    said[known] = np.where(np.isnan(p), np.nan, p <= 0.5)
    margin[known] = np.abs(p - 0.5)
    name = "text detector (trained out of fold)"
    return Opinion(name, said, reads="what the agent wrote", calls=0, margin_N=margin)


def judge_name(graded: GradedGroup) -> str:
    """Return who graded a group; the bundled judges, whose errors are drawn, are named as such."""
    name = str(graded.record.get("judge") or "the file's judge")[:80]
    return f"{SIMULATED}: {name}" if name in (NAME, LENIENT_NAME) else name


def judge_names(graded: Sequence[GradedGroup]) -> str:
    """Return who graded these groups, "A and B" where several did."""
    return " and ".join(dict.fromkeys(judge_name(g) for g in graded))


def graded_opinions(logs: Logs) -> list[Opinion]:
    """Return the answers of a graded file's own judge: nothing failed, and most passed."""
    if not logs.graded:
        return []
    name = judge_names(logs.graded)
    out = []
    for what, least in (("no criterion failed", 1.0), ("most criteria passed", 0.5)):
        said = np.concatenate([said_by(g, least=least) for g in logs.graded])
        reward = np.concatenate([arrays(g, "chars", dropout=False).reward_G for g in logs.graded])
        calls = [sum((g.record.get("calls") or {}).values()) / len(g.group) for g in logs.graded]
        out.append(
            Opinion(
                f"{name}: {what}",
                said,
                calls=float(np.mean(calls)),
                margin_N=np.abs(reward - (2 * least - 1)),
            )
        )
    return out


def few_steps(trajectory: Trajectory, steps: int, seed: int = 0) -> Trajectory:
    """Return the rollout with its first and last step and so many random ones between them."""
    n = len(trajectory)
    if n <= steps:
        return trajectory
    rng = generator(seed, "few", trajectory.id)
    middle = rng.choice(np.arange(1, n - 1), max(0, steps - 2), replace=False).tolist()
    kept = sorted({0, n - 1, *middle})[: max(steps, 1)]
    return replace(trajectory, steps=tuple(trajectory.steps[i] for i in kept))


def ask(
    logs: Logs,
    judge: Judge,
    rubric: Rubric,
    *,
    axes: Mapping[str, Sequence[str]] | None = None,
    name: str = "",
    votes: int = 1,
    steps: int | None = None,
    config: JudgeConfig | None = None,
    seed: int = 0,
) -> list[Opinion]:
    """Return a judge's answers on each axis, one scoring call a rollout and vote.

    Args:
        logs: the rollouts.
        judge: any judge.
        rubric: a fixed rubric.
        axes: axis -> titles of its criteria; None asks the whole rubric for "success".
        name: how the answers are labelled; "" takes the judge's.
        votes: independent calls a rollout; the majority answers, a tie is a no.
        steps: shows only so many steps of each rollout; None shows all.
        config: the judge's settings.
        seed: of the steps that are shown.
    """
    groups = [
        Group(g.task, tuple(few_steps(t, steps, seed) for t in g.trajectories)) if steps else g
        for g in logs.groups
    ]
    asked = replace(config or JudgeConfig(), rubric=rubric, attribution="none", votes=1)
    rounds = [grade(groups, _Sampled(judge, k) if k else judge, asked) for k in range(votes)]
    out = []
    for axis, titles in (axes or {"success": ()}).items():
        said_VN = np.array([np.concatenate([said_by(g, titles) for g in r]) for r in rounds])
        known = (~np.isnan(said_VN)).sum(axis=0)
        yes = np.nansum(said_VN, axis=0)
        share = np.where(known > 0, yes / np.maximum(known, 1), np.nan)
        said = np.where(np.isnan(share), np.nan, share > 0.5)
        passed = np.concatenate([arrays(g, "chars", dropout=False).reward_G for g in rounds[0]])
        out.append(
            Opinion(
                name or judge.name,
                said,
                axis,
                "everything" if steps is None else f"{steps} sampled steps",
                float(votes),
                np.maximum(share, 1 - share),
                np.abs(passed),
            )
        )
    return out


class _Sampled:
    """The same judge, asked for its k-th independent sample."""

    def __init__(self, judge: Judge, k: int) -> None:
        self.judge, self.k, self.name = judge, k, judge.name

    async def complete(self, call):
        return await self.judge.complete(replace(call, sample=call.sample + 1000 * self.k))


def desk_opinions(logs: Logs, *, steps: int = 4, seed: int = 0) -> list[Opinion]:
    """Return what rules and rule judges say of desk rollouts, on all four axes.

    Three of the judges are one set of rules, with the noise that its name says.
    """
    rubric = desk_rubric()
    exact = offline_judge(EXACT, name="rule judge without noise")
    out = [
        *rule_opinions(logs, OrdersDesk().tools()),
        *ask(logs, exact, rubric, axes=AXES),
        *ask(logs, exact, desk_rubric("success"), steps=steps, seed=seed,
             name=f"rule judge without noise, {steps} steps"),
    ]  # fmt: skip
    for what, noise in (("strict rates", STRICT), ("lenient rates", LENIENT)):
        name = f"{SIMULATED}, {what}"
        out += ask(logs, offline_judge(noise, name=name), rubric, axes=AXES)
    return out


def desk_labels(logs: Logs) -> dict[str, np.ndarray]:
    """Return axis -> (N,) labels of desk rollouts, 1 for good."""
    labels = [t.labels for t in logs.trajectories]
    return {
        "success": logs.success_N,
        "no side effects": np.array([float(not a["side_effect"]) for a in labels]),
        "no repetition": np.array([float(not a["repetition"]) for a in labels]),
        "shortest way": np.array([float(a["optimality"] == 4) for a in labels]),
    }
