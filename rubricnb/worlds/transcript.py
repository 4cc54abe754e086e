"""An episode's transcript as our values: what the trainer, the explorer and a judge all read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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


def _call(lexicon: Lexicon, turn: Turn, id: str = "") -> ToolCall:
    if not turn.tool:
        return ToolCall("invalid", json.dumps({"text": turn.action}), id)
    names = _names(lexicon.name, turn.tool)
    arguments = dict(zip(names, turn.arguments.values(), strict=True))
    return ToolCall(turn.tool, json.dumps(arguments), id)


def _chat_steps(
    episode: DeskEpisode, thoughts: Sequence[str], calls: Sequence[int]
) -> Iterator[tuple[str, tuple[ToolCall, ...], tuple[Observation, ...]]]:
    at = 0
    for thought, count in zip(thoughts, calls, strict=True):
        turns = list(enumerate(episode.turns[at : at + count], start=at + 1))
        at += count
        yield (
            thought,
            tuple(_call(episode.lexicon, t, f"call_{n}") for n, t in turns),
            tuple(Observation(t.answer, name=t.tool, call_id=f"call_{n}") for n, t in turns),
        )


def as_trajectory(
    episode: DeskEpisode,
    id: str,
    *,
    tokens: Sequence[int] | None = None,
    thoughts: Sequence[str] | None = None,
    calls: Sequence[int] | None = None,
    model: str = "",
    meta: Mapping[str, Any] = EMPTY,
    evaluate: bool = True,
) -> Trajectory:
    """The episode so far as a trajectory.

    Args:
        id: the rollout's name.
        tokens: n_j per step where the policy's tokens were counted.
        thoughts: what an LLM wrote beside its calls, one text a turn; then the task is given in
            sentences and a step's text is the thought. Without it a step's text is the compact
            call.
        calls: how many calls each of an LLM's turns made; one each where it is left out.
        model: who acted.
        meta: kept as it is.
        evaluate: store the world's verdict as ``outcome``; no judge reads it.

    Raises:
        ValueError: where thoughts or tokens do not match the steps.
    """
    if thoughts is None:
        rows = (
            (t.action, (_call(episode.lexicon, t),), (Observation(t.answer, name=t.tool),))
            for t in episode.turns
        )
    else:
        rows = _chat_steps(episode, thoughts, calls or [1] * len(episode.turns))
    steps = [Step(text, made, answers) for text, made, answers in rows]
    if tokens is not None:
        steps = [replace(s, tokens=int(n)) for s, n in zip(steps, tokens, strict=True)]
    outcome = float(episode.evaluate().success) if evaluate else None
    task = as_task(episode.task, chat=thoughts is not None)
    source = {"format": "desk"}
    return Trajectory(
        id, task, tuple(steps), outcome, episode.termination, model, source=source, meta=meta
    )
