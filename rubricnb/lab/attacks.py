"""Attacks carried out: a judge before and after a rewrite, through any view, and its credit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..grading import arrays
from ..judge.config import JudgeConfig
from ..judge.protocol import Judge
from ..judge.run import grade
from ..metrics.gaming import CreditChange, Effect, credit_change, effect
from ..rubric import GradedGroup, Rubric
from ..trajectory import Group, Trajectory
from ..worlds import EXACT, offline_judge
from .gullible import NAME, TextJudge, gullible_judge
from .logs import Logs
from .opinions import ask, desk_rubric
from .rewrites import STRATEGIES, rewrite
from .views import VIEWS

Says = Callable[[Sequence[Trajectory]], np.ndarray]
Factory = Callable[[str], Says]
WORST = "fabricated progress"  # the strategy that the literature found strongest


def mapped(logs: Logs, change: Callable[[Trajectory], Trajectory]) -> Logs:
    """Return the logs with every rollout changed, ungraded."""
    return Logs(
        logs.source,
        tuple(Group(g.task, tuple(change(t) for t in g.trajectories)) for g in logs.groups),
    )


def judge_says(
    logs: Logs,
    judge: Judge,
    rubric: Rubric,
    view: str = "full",
    *,
    caveats: str = "",
    votes: int = 1,
    titles: Sequence[str] = (),
) -> Says:
    """Return a function from changed rollouts (in the order of ``logs``) to a judge's answers."""
    config = JudgeConfig(caveats=caveats, nonce="lab")

    def says(runs: Sequence[Trajectory]) -> np.ndarray:
        by_id = iter(runs)
        shown = mapped(logs, lambda _: VIEWS[view](next(by_id)))
        axes = {"success": tuple(titles)}
        return ask(shown, judge, rubric, axes=axes, votes=votes, config=config)[0].said_N

    return says


def attacks_on(
    logs: Logs,
    judges: Mapping[str, Factory],
    *,
    strategies: Sequence[str] = tuple(STRATEGIES),
    views: Sequence[str] = tuple(VIEWS),
    rewrites: Mapping[str, Sequence[Trajectory | None]] | None = None,
    resamples: int = 500,
    seed: int = 0,
) -> dict[tuple[str, str, str], Effect]:
    """Return (judge, view, strategy) -> what the rewrite did.

    Args:
        logs: rollouts with outcomes.
        judges: name -> function from a view's name to a judge of rollouts.
        strategies: tried in the full view.
        views: the other views get ``WORST`` alone, where it is among the strategies.
        rewrites: strategy -> rewritten rollouts in order, for instance from an endpoint; None in
            place of a rollout leaves it out of that strategy and counts it as missing. None:
            templates.
        resamples, seed: of intervals and rewrites.
    """
    runs = logs.trajectories
    made = rewrites or {s: [rewrite(t, s, seed) for t in runs] for s in strategies}
    out = {}
    for name, factory in judges.items():
        for view in views:
            says = factory(view)
            before = says(runs)
            for strategy, changed in made.items():
                if view != "full" and strategy != WORST and WORST in made:
                    continue
                gone = np.array([t is None for t in changed])
                after = says([t or r for t, r in zip(changed, runs, strict=True)])
                out[name, view, strategy] = effect(
                    before, np.where(gone, np.nan, after), logs.success_N, logs.task_N,
                    resamples=resamples, seed=seed,
                )  # fmt: skip
    return out


def credit_attacks(
    logs: Logs, judge: Judge, rubric: Rubric, strategy: str, *, most: int = 40, seed: int = 0
) -> list[CreditChange]:
    """Return what rewriting one failed rollout a group changes in its R, A and citations.

    The group is graded on a fixed rubric; then the rewritten rollout alone is graded again and
    takes the place of its first grading.
    """
    groups = [
        g for g in logs.groups
        if len(g) > 1 and any(t.outcome is not None and t.outcome < 1 for t in g.trajectories)
    ][:most]  # fmt: skip
    config = JudgeConfig(rubric=rubric, attribution="inline", nonce="lab")
    member = [
        next(i for i, t in enumerate(g.trajectories) if t.outcome is not None and t.outcome < 1)
        for g in groups
    ]
    alone = [
        Group(g.task, (rewrite(g.trajectories[m], strategy, seed),))
        for g, m in zip(groups, member, strict=True)
    ]
    first, second = grade(groups, judge, config), grade(alone, judge, config)
    return [_changed(a, b, m) for a, b, m in zip(first, second, member, strict=True)]


def _changed(before: GradedGroup, alone: GradedGroup, m: int) -> CreditChange:
    rows = list(before.judgements)
    rows[m] = alone.judgements[0]
    failures = list(before.failures or [""] * len(rows))
    failures[m] = alone.failures[0] if alone.failures else ""
    after = replace(
        before, judgements=tuple(rows), failures=tuple(failures) if any(failures) else ()
    )
    a, b = arrays(before, "chars"), arrays(after, "chars")
    return credit_change(
        a.reward_G, b.reward_G, a.verdict_GK[m], b.verdict_GK[m], a.cite_GKS[m], b.cite_GKS[m], m
    )


def desk_factories(logs: Logs) -> dict[str, Factory]:
    """Return the desk's judges that can be attacked: rules, the gullible one, the text judge."""
    rubric = desk_rubric("success")
    rules = offline_judge(EXACT, name="rule judge without noise")
    return {
        rules.name: lambda v: judge_says(logs, rules, rubric, v),
        NAME: lambda v: judge_says(logs, gullible_judge(), rubric, v),
        TextJudge.name: lambda v: TextJudge(logs, VIEWS[v]),
    }
