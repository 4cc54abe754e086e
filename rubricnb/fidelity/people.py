"""The same scores against labels that people gave: two public sets, judges above, floors below.

AgentProcessBench labels every assistant message -1, 0 or +1; rollouts come in groups of five.
Who&When names the decisive mistake of a failed run; there is one run a task, so that A = -1 is set
by hand, and a step is an entry of the history. A label stands for A* here; it has no error bar.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..credit import RULES, CreditBatch, stack
from ..errors import CreditError
from ..files import group_by_task
from ..grading import arrays
from ..importers import read
from ..metrics import Interval, cluster_bootstrap
from ..rubric import Criterion, GradedGroup, Judgement, Label, Rubric, Verdict
from ..trajectory import Group, Trajectory
from .evidence import log_keys, padded, process_score
from .scores import Scorer, Truth

Array = NDArray[np.float64]
ROLE = {1: "decisive", 0: "no_progress", -1: "regression"}
ERROR = re.compile(
    r"\b(error|exception|traceback|fail(ed|ure)?|not found|invalid)\b", re.IGNORECASE
)
PERFECT, BLAME = "perfect labels", "perfect labels, blame alone"


@dataclass(frozen=True)
class DataSet:
    """Labelled rollouts in groups.

    Args:
        name: of the data.
        groups: rollouts of one task together.
        label: trajectory -> step number -> -1, 0 or +1; a step without label is left out.
        single: rollouts stand alone and failed: A = -1.
    """

    name: str
    groups: tuple[Group, ...]
    label: Callable[[Trajectory], Mapping[int, int]]
    single: bool = False


@dataclass(frozen=True)
class PeopleRow:
    """Scores of one rule or floor on one data set; ``judge`` is "" for a floor."""

    data: str
    judge: str
    rule: str
    scores: Mapping[str, Interval]
    headline: str = "within"
    titles: Mapping[str, str] = field(default_factory=dict)


def step_labels(trajectory: Trajectory) -> dict[int, int]:
    """Return AgentProcessBench's labels by step number."""
    return {int(k): int(v) for k, v in trajectory.labels.get("steps", {}).items()}


def mistake_labels(trajectory: Trajectory) -> dict[int, int]:
    """Return -1 at Who&When's decisive mistake and 0 elsewhere; {} where it is not known."""
    step = trajectory.labels.get("mistake_step")
    if not isinstance(step, int):
        return {}
    return {j: -1 if j == step else 0 for j in range(1, len(trajectory) + 1)}


def data_sets(folder: str | os.PathLike[str] | None) -> list[DataSet]:
    """Return the labelled sets that a folder holds; [] where there is none.

    Args:
        folder: holds ``agent_process_bench/*.jsonl`` and ``who_and_when/<set>/``.
    """
    out: list[DataSet] = []
    home = Path(folder) if folder else None
    if home is None:
        return out
    rollouts = [t for p in sorted(home.glob("agent_process_bench/*.jsonl")) for t in read(p)]
    if rollouts:
        groups = tuple(group_by_task(rollouts))
        out.append(DataSet("AgentProcessBench", groups, step_labels))
    runs = [
        t
        for p in sorted(home.glob("who_and_when/*"))
        if p.is_dir()
        for t in read(p, "who-and-when")
        if mistake_labels(t)
    ]
    if runs:
        single = tuple(Group(t.task, (t,)) for t in runs)
        out.append(DataSet("Who&When", single, mistake_labels, single=True))
    return out


def perfect(group: Group, label: Callable[[Trajectory], Mapping[int, int]]) -> GradedGroup:
    """Return a group graded by its labels: one criterion a step position, and one on the outcome.

    A step labelled +1 passes its criterion, -1 fails it, 0 is not applicable; in single runs with
    a decisive mistake all other steps pass.
    """
    longest = max(len(t) for t in group.trajectories)
    criteria = [Criterion("answer", "The final answer is right")]
    criteria += [Criterion(f"step{j}", f"Step {j} helps") for j in range(1, longest + 1)]
    rows = tuple(_perfect_row(t, label(t), longest) for t in group.trajectories)
    return GradedGroup(group, Rubric(tuple(criteria), group.task.id), rows)


def _perfect_row(t: Trajectory, label: Mapping[int, int], longest: int) -> tuple[Judgement, ...]:
    decisive = "mistake_step" in t.labels
    right = t.outcome is not None and t.outcome > 0.5
    out: list[Judgement] = [Verdict("answer", Label.PASS if right else Label.FAIL)]
    if decisive or t.outcome is None:
        out = [Verdict("answer", Label.NOT_APPLICABLE)]
    for j in range(1, longest + 1):
        said = label.get(j, 0)
        if decisive and j <= len(t):
            said = said or 1
        word = {1: Label.PASS, -1: Label.FAIL, 0: Label.NOT_APPLICABLE}[said]
        out.append(Verdict(f"step{j}", word, steps=(j,) if said else ()))
    return tuple(out)


def blame_alone(group: Group, label: Callable[[Trajectory], Mapping[int, int]]) -> GradedGroup:
    """Return a group graded by one criterion alone, which fails at the steps labelled -1."""
    rows = []
    for t in group.trajectories:
        bad = tuple(j for j, v in sorted(label(t).items()) if v < 0)
        word = Label.FAIL if bad else Label.PASS
        rows.append((Verdict("C1", word, steps=bad or (len(t),)),))
    return GradedGroup(group, Rubric((Criterion("C1", "Makes no mistake"),)), tuple(rows))


def batch_of(
    data: DataSet, graded: Sequence[GradedGroup], *, dropout: bool, roles: bool
) -> CreditBatch:
    """Return all groups as one batch; where runs stand alone A is -1 for each."""
    parts = []
    for g in graded:
        batch = arrays(g, "auto", dropout=dropout).batch()
        S = batch.tokens_GS.shape[1]
        keys = [log_keys(t) for t in g.group.trajectories]
        more = {
            "state_GS": padded([state for state, _ in keys], S),
            "action_GS": padded([action for _, action in keys], S),
            "score_GS": process_score(batch),
        }
        if roles:
            said = [data.label(t) for t in g.group.trajectories]
            named = [
                [ROLE[x.get(j, 0)] for j in range(1, len(t) + 1)]
                for x, t in zip(said, g.group.trajectories, strict=True)
            ]
            more["role_GS"] = padded(named, S)
        if data.single:
            more["advantage_G"] = -np.ones(len(g.group))
        # A step that says nothing still counts: length 1 at least, where there is a step.
        steps = np.arange(S) < np.array([[len(t)] for t in g.group.trajectories])
        tokens = np.where(steps, np.maximum(batch.tokens_GS, 1), 0)
        parts.append(dataclasses.replace(batch, tokens_GS=tokens, **more))
    return stack(parts)


def floors(data: DataSet, batch: CreditBatch) -> dict[str, Array]:
    """Return cheap credit: the whole advantage of a rollout on its last, longest or first bad step.

    The advantage is the outcome's within the group, or -1 where runs stand alone.
    """
    trajectories = [t for g in data.groups for t in g.trajectories]
    A = batch.advantage_G if data.single else batch.advantage(base="outcome")
    pick = {
        "last step": lambda t: len(t) - 1,
        "longest step": lambda t: int(np.argmax([len(s.authored) for s in t.steps])),
        "first error": _first_error,
    }
    out = {}
    for name, choose in pick.items():
        credit = np.zeros(batch.tokens_GS.shape)
        for i, t in enumerate(trajectories):
            credit[i, choose(t)] = A[i]
        out[name] = credit
    return {**out, "uniform": np.where(batch.live_GS, A[:, None], 0.0)}


def _first_error(t: Trajectory) -> int:
    """The first step that an error follows, or that speaks of one; else the last."""
    for j, s in enumerate(t.steps):
        if any(ERROR.search(x) for x in (*(o.text for o in s.observations), s.text)):
            return j
    return len(t) - 1


def score_people(
    data: DataSet,
    judges: Mapping[str, Sequence[GradedGroup]] | None = None,
    *,
    resamples: int = 400,
) -> list[PeopleRow]:
    """Return every rule's scores against the labels: under perfect labels, under judges, floors.

    Args:
        data: the labelled rollouts.
        judges: name -> graded groups, in the data's order, of any judge.
        resamples: of the bootstrap over tasks.
    """
    made = {
        PERFECT: ([perfect(g, data.label) for g in data.groups], False, True),
        BLAME: ([blame_alone(g, data.label) for g in data.groups], True, False),
        **{name: (list(rows), True, False) for name, rows in (judges or {}).items()},
    }
    out: list[PeopleRow] = []
    for judge, (graded, dropout, roles) in made.items():
        batch = batch_of(data, graded, dropout=dropout, roles=roles)
        score = _scorer(data, batch, resamples)
        if not out:
            out += [PeopleRow(data.name, "", n, *score(c)) for n, c in floors(data, batch).items()]
        for rule in RULES:
            credit = _credit(rule, batch, data.single)
            if credit is not None:
                out.append(PeopleRow(data.name, judge, rule, *score(credit)))
    return out


def _credit(rule: str, batch: CreditBatch, single: bool) -> Array | None:
    """A rule's credit; None where it has no evidence, or gives none to runs that stand alone."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "groups with fewer than 2")  # runs that stand alone
            takes = "base" in inspect.signature(RULES[rule]).parameters
            credit = RULES[rule](batch, **({"base": "rubric"} if single and takes else {}))
    except CreditError:
        return None
    return credit if np.any(credit) else None


def _scorer(data: DataSet, batch: CreditBatch, resamples: int) -> Callable:
    """credit (G, S) -> (scores, headline, titles), on labelled steps alone."""
    trajectories = [t for g in data.groups for t in g.trajectories]
    at = [(i, j - 1, v) for i, t in enumerate(trajectories) for j, v in data.label(t).items()]
    rows, columns, label = (np.array(x) for x in zip(*at, strict=True))
    task = [trajectories[i].task.id for i in rows]
    truth = Truth(
        label.astype(float),
        np.zeros(len(label)),
        rows.tolist(),
        task,
        tokens_N=batch.tokens_GS[rows, columns],
        large=0.5,
    )
    scorer = Scorer(truth, resamples)

    def score(credit: Array) -> tuple[dict[str, Interval], str, dict[str, str]]:
        found = scorer(credit[rows, columns])
        if not data.single:
            keep = ("within", "push", "pearson", "spearman", "sign", "harmful", "decisive")
            titles = {"harmful": "blame on steps labelled -1", "decisive": "praise on +1"}
            return {k: found[k] for k in keep}, "push", titles
        hit = [_hit(credit[i], trajectories[i], data.label) for i in range(len(trajectories))]
        top = cluster_bootstrap(hit, [t.task.id for t in trajectories], resamples=resamples)
        scores = {"hit": top, "harmful": found["harmful"], "within": found["within"]}
        titles = {"hit": "most blame on the mistake", "harmful": "share of blame on the mistake"}
        return scores, "hit", titles

    return score


def _hit(credit_S: Array, t: Trajectory, label: Callable) -> float:
    """1 where the mistake alone has the most blame; ties share it."""
    own = credit_S[: len(t)]
    most = np.flatnonzero(own <= own.min() + 1e-12)
    bad = [j - 1 for j, v in label(t).items() if v < 0]
    return float(np.isin(bad, most).sum() / len(most))
