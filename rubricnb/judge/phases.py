"""The five phases for one group: task rubric, rollout rubrics, union, scoring, attribution.

1 + G + 1 + k G + G calls when a task is first seen; a fixed rubric skips the first three phases.
What fails and what follows from it:

    task rubric or union unreadable    the group has no rubric, and so no reward
    a rollout rubric unreadable        the group goes on without that rollout's suggestions
    scoring of a rollout unreadable    that rollout has no reward; the others keep theirs
    one verdict missing                asked for once more, then a failed judgement
    attribution unreadable             the verdicts stay, nothing is cited
    the judge cannot be called         JudgeError: everything in flight is cancelled
"""

from __future__ import annotations

import dataclasses
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..rubric import GradedGroup, Rubric, Verdict
from ..trajectory import Group
from .asking import Asker, together
from .config import JudgeConfig
from .messages import PROMPT_VERSION, system
from .protocol import Judge, as_judge
from .rubrics import Proposal, TaskRubrics, propose
from .verdicts import Graded, Rollout
from .views import Views


def settled(config: JudgeConfig | None) -> JudgeConfig:
    """Return the settings with a nonce: the given one, or one drawn from the system."""
    config = config or JudgeConfig()
    if config.nonce:
        return config
    return dataclasses.replace(config, nonce=secrets.token_hex(16))


async def grade_group(
    group: Group,
    judge: Judge,
    config: JudgeConfig | None = None,
    *,
    task_rubrics: TaskRubrics | None = None,
    seen: Callable[[], None] | None = None,
) -> GradedGroup:
    """Return the group with its rubric and a judgement per rollout and criterion.

    Args:
        group: the G rollouts of one task.
        judge: who answers the calls.
        config: settings; the defaults are DRACO's procedure with one vote.
        task_rubrics: memory of task rubrics shared by the groups of a run.
        seen: called after every reply, for progress.
    Returns:
        GradedGroup; its ``record`` says who judged, what they saw and what went wrong.
    Raises:
        JudgeError: where the judge cannot be called further (quota, budget, no endpoint).
    Reference: DRACO (arXiv 2609.04094) section 3.2 and App. F.
    """
    config, judge = settled(config), as_judge(judge)
    views = Views(group, config)
    asker = Asker(judge, config, system(config.caveats), {"task_id": group.task.id}, seen=seen)
    if isinstance(config.rubric, Rubric):
        proposal = Proposal(dataclasses.replace(config.rubric, task_id=group.task.id))
    else:
        memory = task_rubrics if task_rubrics is not None else TaskRubrics()
        proposal = await propose(asker, views, group.task.id, memory)
    rows: list[Graded] = []
    if proposal.failure:
        rows = [Graded((), proposal.failure) for _ in range(len(group))]
    else:
        rollouts = [Rollout(asker, views, g, proposal.rubric) for g in range(len(group))]
        rows = await together(r.grade() for r in rollouts)
    failures = tuple(r.failure for r in rows)
    return GradedGroup(
        group,
        proposal.rubric,
        tuple(r.row for r in rows),
        failures if any(failures) else (),
        _record(judge, config, views, asker, proposal, rows),
    )


def _record(
    judge: Judge,
    config: JudgeConfig,
    views: Views,
    asker: Asker,
    proposal: Proposal,
    rows: list[Graded],
) -> Mapping[str, Any]:
    """What explains the verdicts, as JSON values; lists have one entry per rollout."""
    full = [views.full(g) for g in range(len(rows))]
    record: dict[str, Any] = {
        "judge": judge.name,
        "prompt_version": PROMPT_VERSION,
        "nonce": config.nonce,
        "config": config.to_json(),
        "votes": config.votes,
        "seen": [round(r.seen, 4) for r in full],
        "seen_task": round(views.task.seen, 4),
        "clipped_steps": [list(r.cut_steps) for r in full],
        "injection": [_flags(p.flags) for p in views.prepared],
        "injection_task": list(views.prepared_task.flags.get(0, ())),
        **asker.account.to_json(),
        "invented_verdicts": sum(r.invented for r in rows),
        "dropped_citations": sum(j.dropped for r in rows for j in r.row if isinstance(j, Verdict)),
        "failed_judgements": sum(not isinstance(j, Verdict) for r in rows for j in r.row),
        "flags": _count(f for r in rows for j in r.row for f in j.flags),
        "evidence": [r.evidence for r in rows],
        "attribution": [r.attribution for r in rows],
        "attribution_failures": [r.attribution_failure for r in rows],
        **proposal.record,
    }
    if config.rubric == "dynamic":
        record["seen_union"] = [round(r.seen, 4) for r in views.union]
    if config.votes > 1:
        record["vote_labels"] = [r.votes for r in rows]
    return record


def _flags(flags: Mapping[int, tuple[str, ...]]) -> dict[str, list[str]]:
    return {str(step): list(kinds) for step, kinds in flags.items()}


def _count(flags: Iterable[str]) -> dict[str, int]:
    """How often each flag was set: "insufficient" is so counted apart from fail and N/A."""
    return dict(sorted(Counter(flags).items()))
