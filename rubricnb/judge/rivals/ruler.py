"""RULER: one call scores all rollouts of a group; their common beginning is shown once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...trajectory import Group
from ..config import JudgeConfig
from ..messages import prefix, template
from ..protocol import Judge, Reply
from ..views import shares
from .common import Opened, excerpt, number_in, over_groups, read_object
from .results import Rewarded

# In our words: the default rubric has four lines of this content.
RULES = (
    "A rollout that carries out the task scores clearly above one that does not.",
    "Of two that carry it out, the one that needs less to get there may score a little higher.",
    "Of two that are much alike, let the scores lie close; of two that differ, far apart.",
    "Partial progress earns something, even where the task is not carried out.",
)


@dataclass(frozen=True)
class _Scores:
    scores: tuple[float, ...] = ()
    reasons: tuple[str, ...] = ()
    problem: str = ""
    cut: bool = False


def read_scores(reply: Reply | str, n: int, untrusted: str = "") -> _Scores:
    """Return n scores in [0, 1] in the order of the rollouts; one missing spoils the reply.

    >>> read_scores('{"scores": [{"rollout": 2, "score": 0.5}, {"rollout": 1, "score": 1}]}', 2)
    _Scores(scores=(1.0, 0.5), reasons=('', ''), problem='', cut=False)
    >>> read_scores('{"scores": [{"rollout": 1, "score": "7/10"}]}', 1).problem
    "want for rollout 1 a number from 0 to 1; got '7/10'"
    """
    found = read_object(reply, "scores", untrusted)
    if found.value is None:
        return _Scores(problem=found.problem, cut=found.cut)
    rows = found.value["scores"]
    said: dict[int, list] = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and type(row.get("rollout")) is int:
            said.setdefault(row["rollout"], []).append(row)
    scores, reasons = [], []
    for g in range(1, n + 1):
        mine = said.get(g, [])
        if len(mine) != 1:
            problem = f"want one score for rollout {g}; got {len(mine)}"
            return _Scores(problem=problem, cut=found.cut)
        score = number_in(mine[0].get("score"), 0, 1)
        if score is None:
            got = repr(mine[0].get("score"))[:40]
            problem = f"want for rollout {g} a number from 0 to 1; got {got}"
            return _Scores(problem=problem, cut=found.cut)
        scores.append(score)
        reasons.append(str(mine[0].get("reason", "")))
    return _Scores(tuple(scores), tuple(reasons), "", found.cut)


def common_steps(group: Group) -> int:
    """Return how many leading steps all rollouts share, at least one step of each left over.

    >>> from rubricnb import Step, Task, Trajectory
    >>> task = Task("t", "p")
    >>> rows = [Trajectory(k, task, (Step("a"), Step(k))) for k in "xy"]
    >>> common_steps(Group(task, tuple(rows)))
    1
    """
    shortest = min(len(t) for t in group.trajectories)
    for s in range(max(shortest - 1, 0)):
        if any(t.steps[s] != group.trajectories[0].steps[s] for t in group.trajectories):
            return s
    return max(shortest - 1, 0)


async def _group(o: Opened, rules: Sequence[str]) -> Rewarded:
    n, config = len(o.group), o.asker.config
    common = common_steps(o.group) if n > 1 else 0
    first = [1] + [common + 1] * (n - 1)
    views = [
        excerpt(p, f, max(p.n_steps, f), config, None)
        for p, f in zip(o.views.prepared, first, strict=True)
    ]
    if o.views._room is not None:
        room = shares([config.count(v.text) for v in views], o.views._room)
        views = [
            v if r is None else excerpt(p, f, max(p.n_steps, f), config, r)
            for v, r, p, f in zip(views, room, o.views.prepared, first, strict=True)
        ]
    untrusted = "\n".join(o.views.untrusted(g) for g in range(n)).strip()
    reading = await o.asker.ask(
        "ranking",
        prefix(o.views.task, views),
        template("ranking").render(n_rollouts=n, common=common, rules=rules),
        lambda reply: read_scores(reply, n, untrusted),
    )
    if reading.problem:
        why = (reading.problem,) * n
        return Rewarded(o.group, "ruler", (None,) * n, why, o.record("ruler", common=common))
    record = o.record("ruler", common=common, reasons=list(reading.reasons))
    return Rewarded(o.group, "ruler", reading.scores, ("",) * n, record)


def rank_groups(
    groups: Iterable[Group] | Group,
    judge: Judge,
    config: JudgeConfig | None = None,
    *,
    rules: Sequence[str] = RULES,
    in_flight: int = 16,
) -> list[Rewarded]:
    """Return a score in [0, 1] a rollout, by one call a group; it is the reward as it is.

    A group whose reply cannot be read, or lacks a rollout, is dropped: no rollout has a reward.

    Args:
        groups: groups, or one.
        judge: who answers, or any function of a Call.
        config: settings; rubric and votes play no part.
        rules: what a score should mean, a line each.
        in_flight: groups worked on at once.
    Raises:
        JudgeError: where the judge cannot be called further.
    Reference: RULER (OpenPipe ART); the prompt is in our own words.
    """
    return over_groups(lambda o: _group(o, tuple(rules)), groups, judge, config, in_flight)
