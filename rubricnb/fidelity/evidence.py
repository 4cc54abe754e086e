"""What each credit rule reads of a desk rollout, all of it from the transcript.

Verdicts and citations, and TRIAGE's roles, come from the offline judge of the condition; TRCA's
operators from the bundled world's rules; states and actions from the log. It is the evidence that
the arms of the same names train on.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..credit import CreditBatch
from ..files import content_hash
from ..grading import arrays
from ..judge.config import JudgeConfig
from ..judge.protocol import Judge
from ..judge.rivals.roles import label_roles
from ..judge.run import grade
from ..rubric import GradedGroup, Rubric
from ..seeds import child_seed
from ..trajectory import Group, Trajectory
from ..worlds.desk_criteria import catalogue, normal
from ..worlds.desk_judge import offline_judge
from ..worlds.desk_operators import desk_operators
from ..worlds.desk_task import read_task
from .sizes import Condition


@dataclass(frozen=True, eq=False)
class Evidence:
    """One group as the rules read it.

    Args:
        batch: everything but TRCA's contexts; ``state_GS`` is what the agent can know before a
            step, its acknowledged changes and the last answer.
        context_GS: TRCA's context of each step, which stands in for the state there.
    """

    batch: CreditBatch
    context_GS: NDArray[np.str_]

    def of(self, rule: str) -> CreditBatch:
        """The batch that a rule reads."""
        if rule != "trca":
            return self.batch
        return dataclasses.replace(self.batch, state_GS=self.context_GS)


def _judge(condition: Condition, seed: int) -> Judge:
    noise = dataclasses.replace(condition.noise, seed=child_seed(seed, "fidelity judge"))
    return offline_judge(noise, condition.style)


def _config(seed: int) -> JudgeConfig:
    # Fixed by the seed, so that an interrupted run and an unbroken one are the same.
    return JudgeConfig(nonce=content_hash(["fidelity", seed])[:32])


def judged(groups: Sequence[Group], condition: Condition, seed: int = 0) -> list[GradedGroup]:
    """Return the groups graded by the offline judge of a condition.

    Args:
        groups: of the orders desk.
        condition: how it errs and cites; a biased rubric loses its blind kinds before scoring.
        seed: names the judge's errors.
    """
    graded = grade(groups, _judge(condition, seed), _config(seed), task_rubrics={})
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


def gather(
    groups: Sequence[Group],
    condition: Condition,
    seed: int = 0,
    memory: MutableMapping[Any, Any] | None = None,
) -> list[Evidence]:
    """Return desk groups as everything that a credit rule may read, under one condition.

    ``score_GS``, the process score that ARCO's model would learn, is here the judge's own:
    (passes - fails) / (passes + fails) of the criteria that cite the step, 0 where none does.

    Args:
        groups: of the orders desk.
        condition: how the judge errs and cites.
        seed: names the judge's errors.
        memory: keeps role labels and operators for conditions that share them.
    """
    memory = {} if memory is None else memory
    who = tuple(t.id for g in groups for t in g.trajectories)
    # Roles cite no step and follow no rubric: they depend on the error rates alone.
    key = (condition.noise, seed, who)
    if key not in memory:
        plain = dataclasses.replace(condition, style="flip", blind=())
        memory[key] = label_roles(groups, _judge(plain, seed), _config(seed))
    if who not in memory:
        memory[who] = desk_operators(groups)
    graded = judged(groups, condition, seed)
    return [
        _evidence(g, roles.batch(), operators.batch())
        for g, roles, operators in zip(graded, memory[key], memory[who], strict=True)
    ]


def _evidence(graded: GradedGroup, roles: CreditBatch, operators: CreditBatch) -> Evidence:
    batch = arrays(graded, "auto").batch()
    S = batch.tokens_GS.shape[1]
    keys = [log_keys(t) for t in graded.group.trajectories]
    whole = dataclasses.replace(
        batch,
        state_GS=padded([state for state, _ in keys], S),
        action_GS=padded([action for _, action in keys], S),
        role_GS=roles.role_GS,
        score_GS=process_score(batch),
        active_GSJ=operators.active_GSJ,
        item_GJ=operators.item_GJ,
    )
    return Evidence(whole, operators.state_GS)


def process_score(batch: CreditBatch) -> NDArray[np.float64]:
    """(G, S) in [-1, 1]: passes minus fails over all that cite the step; 0 where none does."""
    p, f = batch.need("pass_GS", "process score"), batch.need("fail_GS", "process score")
    return (p - f) / np.maximum(p + f, 1)


def padded(rows: Sequence[Sequence[str]], S: int) -> NDArray[np.str_]:
    """(G, S) texts, "" behind the last step."""
    return np.array([[*r, *[""] * (S - len(r))] for r in rows], dtype=str).reshape(len(rows), S)


def log_keys(trajectory: Trajectory) -> tuple[list[str], list[str]]:
    """Return state and action keys of the steps of any log.

    A state is the last results and the actions that came back with a bare "ok" so far (at a desk,
    the acknowledged changes); an action is what the agent wrote.
    """
    states, actions, last = [], [], ""
    done: set[str] = set()
    for step in trajectory.steps:
        states.append(content_hash([sorted(done), last])[:16])
        actions.append(content_hash(step.authored)[:16])
        if any(o.text == "ok" for o in step.observations):
            done.add(step.authored)
        last = json.dumps([o.text for o in step.observations])
    return states, actions
