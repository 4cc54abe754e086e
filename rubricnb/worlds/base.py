"""The protocol that every world follows, ours or an adapter to somebody else's engine.

Two languages, one state: ``act`` takes the compact text that a tiny policy writes, ``call`` an
OpenAI-style function call. A world offers the one, the other or both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ..trajectory import EMPTY


@dataclass(frozen=True, slots=True)
class WorldTask:
    """One task of a world.

    Args:
        id: unique in the world: scenario id + "_" + variant number.
        scenario: tasks of one scenario succeed together or not (SGC).
        split: "train", "test_normal", "test_challenge", "dev", ...
        difficulty: 1 easy, 2 medium, 3 hard; 0 unknown.
        prompt: what the agent is told.
        spec: what the world needs to build the episode. Never shown to an agent or a judge.
    """

    id: str
    scenario: str
    split: str
    prompt: str
    difficulty: int = 0
    spec: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What the world answers to one action, and whether the episode is over."""

    text: str
    done: bool = False


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The world's own verdict: success, and the named checks behind it.

    Used for evaluation and for the outcome-reward arm only. No judge may see it.
    """

    success: bool
    checks: Mapping[str, bool] = field(default_factory=lambda: EMPTY)
    reason: str = ""


@runtime_checkable
class Episode(Protocol):
    """One attempt at one task."""

    task: WorldTask
    done: bool

    def act(self, action: str) -> StepResult: ...
    def call(self, name: str, arguments: Mapping[str, Any]) -> StepResult: ...
    def snapshot(self) -> Any: ...
    def restore(self, snapshot: Any) -> None: ...
    def evaluate(self) -> Evaluation: ...


@runtime_checkable
class World(Protocol):
    """A set of tasks and the way to attempt them."""

    name: str
    system: str
    max_turns: int

    def tasks(self, split: str) -> Sequence[WorldTask]: ...
    def tools(self) -> list[dict[str, Any]]: ...
    def reset(self, task: WorldTask, seed: int) -> Episode: ...
