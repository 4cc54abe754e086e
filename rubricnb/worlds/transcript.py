"""An episode's transcript as our values: what the trainer, the explorer and a judge all read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..trajectory import EMPTY, Observation, Step, Task, ToolCall, Trajectory
from .base import WorldTask
from .engine import DeskEpisode, Turn
from .lexicon import LEXICONS, Lexicon
from .schemas import chat_prompt, kinds_of, system_prompt


@lru_cache(maxsize=4)
def _system(desk: str) -> str:
    return system_prompt(LEXICONS[desk])


@lru_cache(maxsize=64)
def _names(desk: str, tool: str) -> tuple[str, ...]:
    lex = LEXICONS[desk]
    return tuple(kinds_of(lex, lex.roles[tool]))


def as_task(task: WorldTask, *, chat: bool = False) -> Task:
    """The task as a judge sees it: prompt and system prompt, nothing of the spec."""
    prompt = chat_prompt(task) if chat else task.prompt
    meta = {"scenario": task.scenario, "split": task.split, "difficulty": task.difficulty}
    return Task(task.id, prompt, _system(task.spec["desk"]), meta)


def _call(lexicon: Lexicon, turn: Turn) -> ToolCall:
    if not turn.tool:
        return ToolCall("invalid", json.dumps({"text": turn.action}))
    names = _names(lexicon.name, turn.tool)
    arguments = dict(zip(names, turn.arguments.values(), strict=True))
    return ToolCall(turn.tool, json.dumps(arguments))


def as_trajectory(
    episode: DeskEpisode,
    id: str,
    *,
    tokens: Sequence[int] | None = None,
    thoughts: Sequence[str] | None = None,
    model: str = "",
    meta: Mapping[str, Any] = EMPTY,
    evaluate: bool = True,
) -> Trajectory:
    """The episode so far as a trajectory, one turn a step.

    Args:
        id: the rollout's name.
        tokens: n_j per turn where the policy's tokens were counted.
        thoughts: what an LLM wrote beside each call; then the task is given in sentences and a
            step's text is the thought. Without it a step's text is the compact call.
        model: who acted.
        meta: kept as it is.
        evaluate: store the world's verdict as ``outcome``; no judge reads it.
    """
    steps = tuple(
        Step(
            text=turn.action if thoughts is None else thoughts[i],
            calls=(_call(episode.lexicon, turn),),
            observations=(Observation(turn.answer, name=turn.tool),),
            tokens=None if tokens is None else int(tokens[i]),
        )
        for i, turn in enumerate(episode.turns)
    )
    outcome = float(episode.evaluate().success) if evaluate else None
    task = as_task(episode.task, chat=thoughts is not None)
    return Trajectory(
        id, task, steps, outcome, episode.termination, model, source={"format": "desk"}, meta=meta
    )
