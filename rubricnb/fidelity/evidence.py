"""What each credit rule reads of a desk rollout: a judge's verdicts, and the world's own traces.

Verdicts and citations come from the offline judge of the condition. Step types, states, actions,
process roles and rule-based operators are read from the rollout played again, so that rules that
ask for them are scored on the same rollouts. Role labels err at the condition's error rates.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..credit import CreditBatch
from ..errors import ConfigError
from ..files import content_hash
from ..grading import arrays
from ..judge.config import JudgeConfig
from ..judge.run import grade
from ..rubric import GradedGroup, Rubric
from ..seeds import child_seed
from ..trajectory import Group, Trajectory
from ..worlds.desk import OrdersDesk
from ..worlds.desk_criteria import catalogue, normal
from ..worlds.desk_judge import offline_judge
from ..worlds.desk_task import read_task
from ..worlds.lexicon import CHANGES
from .sizes import Condition

GOOD, BAD = "decisive", "regression"
# TRCA's rule-based operators at a desk, and the category of each.
OPERATORS: Mapping[str, str] = {
    "a change was answered": "Ev",
    "a changed record was looked at": "Ev",
    "a search for a person": "Ex",
    "a new look-up": "Ex",
    "a call that the desk could not read": "Inv",
    "a call repeated for nothing": "Inv",
}


@dataclass(frozen=True, eq=False)
class Traces:
    """What the world shows of one rollout's M steps.

    Args:
        state: key of what the agent can know before each step: the changes that were acknowledged
            so far and the last answer.
        action: the call.
        role: TRIAGE's role, from what the step did to the tables: progress on a goal or an
            honest close is decisive, a new answer exploration, damage, a false close or an empty
            repetition regression, the rest no progress.
        active_SJ: which of ``OPERATORS`` fired.
    """

    state: tuple[str, ...]
    action: tuple[str, ...]
    role: tuple[str, ...]
    active_SJ: NDArray[np.bool_]


@lru_cache(maxsize=8)
def _tasks(pool: str) -> Mapping[str, Any]:
    return {t.id: t for t in OrdersDesk().tasks(pool)}


def traces(trajectory: Trajectory, seed: int) -> Traces:
    """Return what the world shows of a rollout, by playing it again.

    Raises:
        ConfigError: a rollout of no task of the orders desk.
    """
    pool = str(trajectory.task.meta.get("split", ""))
    if pool not in OrdersDesk.splits or trajectory.task.id not in _tasks(pool):
        raise ConfigError(f"want a rollout of the orders desk; got task {trajectory.task.id!r}")
    episode = OrdersDesk().reset(_tasks(pool)[trajectory.task.id], seed)
    roles, operators, keys, last = [], [], [], ""
    seen: set[tuple[str, str]] = set()
    acknowledged: set[str] = set()
    changed = False
    for step in trajectory.steps:
        before, tables = _standing(episode), episode.state()
        keys.append(content_hash([sorted(acknowledged), last])[:16])
        answer = episode.act(step.text).text
        turn = episode.turns[-1]
        tool = episode.lexicon.roles.get(turn.tool, "")
        change, again = tool in CHANGES, (step.text, answer) in seen
        if episode.state() != tables:
            seen.clear()
        seen.add((step.text, answer))
        unread = answer in ("error unknown", "error syntax")
        look = bool(tool) and not change and answer != "end" and not unread
        roles.append(_role(episode, before, _standing(episode), answer, look, again))
        operators.append(
            [
                change and not unread and answer != "error timeout",
                look and tool != "find" and changed and not again,
                look and tool == "find" and not again,
                look and tool != "find" and not changed and not again,
                unread,
                again,
            ]
        )
        if change and answer == "ok":
            acknowledged.add(step.text)
        changed, last = changed or change, answer
    active = np.array(operators, dtype=bool).reshape(-1, len(OPERATORS))
    return Traces(tuple(keys), tuple(s.text for s in trajectory.steps), tuple(roles), active)


def _standing(episode: Any) -> tuple[int, int]:
    """How many goals are in place, and how much is damaged."""
    checks = episode.evaluate().checks
    goals = sum(ok for name, ok in checks.items() if name.startswith("goal"))
    return goals, len(episode.touched) + (not checks["nothing else changed"])


def _role(episode, before, after, answer: str, look: bool, again: bool) -> str:
    if answer == "end":
        return GOOD if episode.evaluate().checks["honest claim"] else BAD
    if after[1] > before[1] or after[0] < before[0]:
        return BAD
    if after[0] > before[0]:
        return GOOD
    if again:
        return BAD
    return "exploration" if look else "no_progress"


def noisy_roles(found: Traces, condition: Condition, name: str) -> tuple[str, ...]:
    """Return the roles as a judge of the condition reports them.

    A regression passes for decisive at the rate of false passes, and the other way at the other's.
    """
    n, out = condition.noise, []
    for j, role in enumerate(found.role, start=1):
        rate = {BAD: n.false_pass, GOOD: n.false_fail}.get(role, 0.0)
        flipped = n.draw("role", name, j) < rate
        out.append({BAD: GOOD, GOOD: BAD}[role] if flipped else role)
    return tuple(out)


def judged(groups: Sequence[Group], condition: Condition, seed: int = 0) -> list[GradedGroup]:
    """Return the groups graded by the offline judge of a condition.

    Args:
        groups: of the orders desk.
        condition: how it errs and cites; a biased rubric loses its blind kinds before scoring.
        seed: names the judge's errors.
    """
    noise = dataclasses.replace(condition.noise, seed=child_seed(seed, "fidelity judge"))
    judge = offline_judge(noise, condition.style)
    nonce = content_hash(["fidelity", seed])[:32]
    graded = grade(groups, judge, JudgeConfig(nonce=nonce), task_rubrics={})
    return [without(g, condition.blind) for g in graded] if condition.blind else graded


def without(graded: GradedGroup, kinds: Sequence[str]) -> GradedGroup:
    """Return a graded desk group as if criteria of these kinds had never been written.

    Criteria are scored one by one, so leaving one out afterwards is leaving it out before.
    """
    asked = read_task(graded.group.task.prompt)
    known = catalogue(asked) if asked is not None else {}
    keep = []
    for k, criterion in enumerate(graded.rubric.criteria):
        key = known.get(normal(criterion.instruction)) or known.get(normal(criterion.title))
        if key is None or key.kind not in kinds:
            keep.append(k)
    rubric = Rubric(tuple(graded.rubric.criteria[k] for k in keep), graded.rubric.task_id)
    rows = tuple(tuple(row[k] for k in keep) if row else row for row in graded.judgements)
    return dataclasses.replace(graded, rubric=rubric, judgements=rows)


def evidence(
    graded: GradedGroup, found: Sequence[Traces], condition: Condition | None = None
) -> CreditBatch:
    """Return a graded desk group as everything that a credit rule may read.

    ``score_GS``, the process score that ARCO's model would learn, is here the judge's own:
    (passes - fails) / (passes + fails) of the criteria that cite the step, 0 where none does.

    Args:
        graded: the group and its verdicts.
        found: the traces of its rollouts.
        condition: whose errors the role labels have; None for none.
    """
    batch = arrays(graded, "auto").batch()
    S = batch.tokens_GS.shape[1]
    roles = [
        f.role if condition is None else noisy_roles(f, condition, t.id)
        for f, t in zip(found, graded.group.trajectories, strict=True)
    ]
    active = np.zeros((len(found), S, len(OPERATORS)), dtype=bool)
    for g, f in enumerate(found):
        active[g, : len(f.active_SJ)] = f.active_SJ
    return dataclasses.replace(
        batch,
        state_GS=padded([f.state for f in found], S),
        action_GS=padded([f.action for f in found], S),
        role_GS=padded(roles, S),
        score_GS=process_score(batch),
        active_GSJ=active,
        item_GJ=np.tile(np.array(list(OPERATORS.values())), (len(found), 1)),
    )


def process_score(batch: CreditBatch) -> NDArray[np.float64]:
    """(G, S) in [-1, 1]: passes minus fails over all that cite the step; 0 where none does."""
    p, f = batch.need("pass_GS", "process score"), batch.need("fail_GS", "process score")
    return (p - f) / np.maximum(p + f, 1)


def padded(rows: Sequence[Sequence[str]], S: int) -> NDArray[np.str_]:
    """(G, S) texts, "" behind the last step."""
    return np.array([[*r, *[""] * (S - len(r))] for r in rows], dtype=str).reshape(len(rows), S)


def log_traces(trajectory: Trajectory) -> dict[str, list[str]]:
    """Return state and action keys of any log: what came back last, and what the agent wrote."""
    state, last = [], ""
    for step in trajectory.steps:
        state.append(content_hash(last)[:16])
        last = json.dumps([o.text for o in step.observations])
    return {"state": state, "action": [content_hash(s.authored)[:16] for s in trajectory.steps]}
