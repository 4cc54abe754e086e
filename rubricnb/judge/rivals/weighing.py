"""RaR: a weighted rubric written for the task alone, and one reward for the whole rollout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...credit.rar import WEIGHTS, rar_reward
from ...errors import ConfigError
from ...grading import arrays
from ...rubric import Criterion, Rubric
from ...trajectory import Group
from ..answers import as_text
from ..asking import together
from ..config import JudgeConfig
from ..messages import criterion_row, json_lines, template
from ..phases import grade_group
from ..protocol import Judge, Reply
from .common import Opened, once_a_task, over_groups, read_object
from .results import Rewarded

LEAST, MOST = 7, 20
MODES = ("explicit", "implicit")
SCALE = (1, 10)  # of the implicit score


@dataclass(frozen=True)
class _Weighted:
    criteria: tuple[Criterion, ...] = ()
    problem: str = ""
    cut: bool = False


@dataclass(frozen=True)
class _Score:
    score: int | None = None
    problem: str = ""
    cut: bool = False


def read_weighted(reply: Reply | str, weights: Mapping[str, float] = WEIGHTS) -> _Weighted:
    """Return criteria with the weight of their category; one without a known one is left out.

    >>> said = '{"criteria": [{"title": "a", "instruction": "b", "category": "Pitfall"}]}'
    >>> read_weighted(said).criteria[0].weight
    0.9
    """
    found = read_object(reply, "criteria")
    if found.value is None:
        return _Weighted(problem=found.problem, cut=found.cut)
    rows = found.value["criteria"]
    out: list[Criterion] = []
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or len(out) == MOST:
            continue
        category = as_text(row.get("category")).lower()
        title, instruction = as_text(row.get("title")), as_text(row.get("instruction"))
        if category in weights and title and instruction and title not in ("...", "…"):
            cid = f"C{len(out) + 1}"
            out.append(
                Criterion(cid, title, category, instruction, "task", weight=weights[category])
            )
    if not out:
        return _Weighted(problem=f"want criteria with a category of {tuple(weights)}; got none")
    return _Weighted(tuple(out), cut=found.cut)


def read_likert(reply: Reply | str, untrusted: str = "") -> _Score:
    """Return a whole number from 1 to 10, or the problem.

    >>> read_likert('{"score": 7}').score, read_likert('{"score": 11}').problem
    (7, 'want a whole number from 1 to 10; got 11')
    """
    found = read_object(reply, "score", untrusted)
    if found.value is None:
        return _Score(problem=found.problem, cut=found.cut)
    score = found.value["score"]
    if type(score) is not int or not SCALE[0] <= score <= SCALE[1]:
        problem = f"want a whole number from {SCALE[0]} to {SCALE[1]}; got {score!r}"
        return _Score(problem=problem[:120], cut=found.cut)
    return _Score(score, cut=found.cut)


async def _criteria(o: Opened, memory: MutableMapping[Any, Any]) -> _Weighted:
    given = o.asker.config.rubric
    if isinstance(given, Rubric):
        return _Weighted(given.criteria)
    prompt = template("weighted_rubric").render(least=LEAST, limit=MOST)
    return _Weighted(
        *await once_a_task(o, memory, "weighted_rubric", prompt, read_weighted, "criteria")
    )


async def _explicit(o: Opened, criteria: tuple[Criterion, ...]) -> Rewarded:
    rubric = Rubric(criteria, o.group.task.id)
    config = replace(o.asker.config, rubric=rubric, attribution="none")
    graded = await grade_group(o.group, o.asker.judge, config, seen=o.asker.seen)
    made = arrays(graded, tokens=len, dropout=False)
    value = rar_reward(made.verdict_GK, made.weight_K[None])
    # Nothing to weigh, or no reply at all: no reward, and not 0.
    told = (np.abs(np.nan_to_num(made.verdict_GK)) * made.weight_K).sum(axis=1) > 0
    rewards = tuple(float(v) if ok else None for v, ok in zip(value, told, strict=True))
    said = graded.failures or ("",) * len(rewards)
    why = tuple(
        "" if r is not None else f or "no criterion has a verdict"
        for r, f in zip(rewards, said, strict=True)
    )
    record = o.record("rar", mode="explicit", rubric=_rows(criteria), scoring=graded.record)
    return Rewarded(o.group, "rar", rewards, why, record)


def _rows(criteria: Iterable[Criterion]) -> list[dict[str, Any]]:
    return [{**criterion_row(c), "weight": c.weight} for c in criteria]


async def _implicit(o: Opened, criteria: tuple[Criterion, ...]) -> Rewarded:
    items = json_lines(_rows(criteria))
    scores = await together(
        o.asker.ask(
            "likert",
            o.views.shared(g),
            template("likert").render(items=items),
            lambda reply, g=g: read_likert(reply, o.views.untrusted(g)),
            trajectory_id=o.views.ids[g],
        )
        for g in range(len(o.group))
    )
    low, high = SCALE
    rewards = tuple(None if s.score is None else (s.score - low) / (high - low) for s in scores)
    record = o.record("rar", mode="implicit", rubric=_rows(criteria))
    return Rewarded(o.group, "rar", rewards, tuple(s.problem for s in scores), record)


async def _group(o: Opened, mode: str, memory: MutableMapping[Any, Any]) -> Rewarded:
    told = await _criteria(o, memory)
    if told.problem:
        n = len(o.group)
        why = (f"rubric: {told.problem}",) * n
        return Rewarded(o.group, "rar", (None,) * n, why, o.record("rar", mode=mode))
    return await (_explicit if mode == "explicit" else _implicit)(o, told.criteria)


def weighted(
    groups: Iterable[Group] | Group,
    judge: Judge,
    config: JudgeConfig | None = None,
    *,
    mode: str = "explicit",
    memory: MutableMapping[Any, Any] | None = None,
    in_flight: int = 16,
) -> list[Rewarded]:
    """Return a reward in [0, 1] a rollout on a weighted rubric: 1 call a task, 1 a rollout.

        explicit: sum of the weights of the criteria met / sum of all weights with a verdict
        implicit: (score - 1) / 9 of one overall score from 1 to 10

    Args:
        groups: groups, or one.
        judge: who answers, or any function of a Call.
        config: settings; a fixed Rubric there, with its weights, saves the call a task.
        mode: "explicit" or "implicit".
        memory: a mapping that keeps the rubric of each task for later calls, such as ``{}``.
        in_flight: groups worked on at once.
    Raises:
        ConfigError: another mode.
        JudgeError: where the judge cannot be called further.
    Reference: RaR (arXiv 2507.17746); its weights are quoted from memory and not verified, and
        how the implicit score is normalised is ours.
    """
    if mode not in MODES:
        raise ConfigError(f"want a mode of {MODES}; got {mode!r}")
    kept = {} if memory is None else memory
    return over_groups(lambda o: _group(o, mode, kept), groups, judge, config, in_flight)
