"""Task, Step, Trajectory and Group: what a judge reads and what credit is given to.

A step is one assistant turn with everything that came back before the next one. Steps are
numbered from 1, everywhere: in prompts ("S1"), in citations, in figures and in files.

Four words keep four meanings. The *outcome* is the world's own verdict and is used for
evaluation (and by the outcome-reward arm) only. *Reward*, *advantage* and *credit* are computed
from a rubric and never stored in these values.
"""

from __future__ import annotations

import copyreg
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

EMPTY: Mapping[str, Any] = MappingProxyType({})
# Values cross processes in a training on several GPUs, and a read-only mapping has no pickle.
copyreg.pickle(MappingProxyType, lambda m: (_read_only, (dict(m),)))


def _read_only(values: dict[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(values)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the agent made: the tool's name and its arguments as the agent wrote them.

    ``arguments`` is text, because malformed JSON is evidence and must survive import.
    """

    name: str
    arguments: str = "{}"
    id: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """What came back after a step: a tool's result, a user's message, a system notice.

    ``role`` is "tool", "user", "system" or "environment"; ``call_id`` names the ToolCall that it
    answers, if any.
    """

    text: str
    role: str = "tool"
    name: str = ""
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One assistant turn and the observations that followed it.

    Args:
        text: what the agent wrote outside of tool calls; may be empty.
        calls: its tool calls, in order.
        observations: what came back before the next assistant turn.
        thinking: reasoning text that was logged apart from the answer.
        agent: the speaker's name where several agents share a trajectory, else "".
        tokens: number of policy tokens (n_j), where it is known from sampled ids; else None.
        meta: anything else that the source said about this turn (JSON values only).
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    observations: tuple[Observation, ...] = ()
    thinking: str = ""
    agent: str = ""
    tokens: int | None = None
    meta: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    @property
    def authored(self) -> str:
        """All text that the agent wrote in this step, for counting n_j without sampled ids."""
        return self.thinking + self.text + "".join(c.name + c.arguments for c in self.calls)

    @property
    def kind(self) -> str:
        """The step's type for diagnostics: its tools' names joined by "+", or "message"."""
        return "+".join(c.name for c in self.calls) or "message"


@dataclass(frozen=True, slots=True)
class Task:
    """What the agent was asked: an id, the first user message and the system prompt."""

    id: str
    prompt: str
    system: str = ""
    meta: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One rollout of one task.

    Args:
        id: unique within a file.
        task: the task that it attempts.
        steps: its steps; step j of the papers is ``steps[j - 1]``.
        outcome: the world's verdict in [0, 1], None where it is unknown. Never a reward.
        termination: why it ended: "finished", "turn_limit", "length", "error" or "" (unknown).
        labels: human labels, kept apart from everything computed (JSON values only).
        source: format, file and line that it was read from.
        warnings: what the reader had to mend or leave out, in words.
        meta: anything else that the source said (JSON values only).
    """

    id: str
    task: Task
    steps: tuple[Step, ...]
    outcome: float | None = None
    termination: str = ""
    model: str = ""
    labels: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    source: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    warnings: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, slots=True)
class Group:
    """The rollouts of one task that are compared with one another (GRPO's group)."""

    task: Task
    trajectories: tuple[Trajectory, ...]

    def __post_init__(self) -> None:
        for t in self.trajectories:
            if t.task.id != self.task.id:
                raise ValueError(
                    f"want every rollout of group {self.task.id!r} to attempt that task; "
                    f"got rollout {t.id!r} of task {t.task.id!r}"
                )

    def __len__(self) -> int:
        return len(self.trajectories)
