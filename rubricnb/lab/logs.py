"""The rollouts that the lab works on: any log or graded file, with the labels that it has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..errors import FormatError
from ..files import group_by_task
from ..rubric import GradedGroup
from ..trajectory import Group, Trajectory

CHARS_PER_TOKEN = 4.0


@dataclass(frozen=True)
class Logs:
    """Rollouts in groups by task, and their gradings where they have any.

    Args:
        source: what they are, in words, for titles.
        groups: every group; for a graded file, the groups inside.
        graded: the graded groups, () for bare rollouts.
    """

    source: str
    groups: tuple[Group, ...]
    graded: tuple[GradedGroup, ...] = ()

    @cached_property
    def trajectories(self) -> tuple[Trajectory, ...]:
        """All rollouts, group after group."""
        return tuple(t for g in self.groups for t in g.trajectories)

    @cached_property
    def success_N(self) -> np.ndarray:
        """(N,) 1 where the outcome is full success, 0 where it is less, NaN where unknown."""
        return np.array([success(t) for t in self.trajectories])

    @cached_property
    def task_N(self) -> tuple[str, ...]:
        """(N,) task ids: the clusters of every interval."""
        return tuple(t.task.id for t in self.trajectories)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are named, in order of first appearance."""
        return tuple(dict.fromkeys(t.model for t in self.trajectories if t.model))

    @property
    def labelled(self) -> bool:
        """Whether both successes and failures are there."""
        known = self.success_N[np.isfinite(self.success_N)]
        return bool(known.size and 0 < known.mean() < 1)


def success(trajectory: Trajectory) -> float:
    """Return 1.0 for an outcome of 1, 0.0 for less, NaN for an unknown one."""
    if trajectory.outcome is None:
        return float("nan")
    return float(trajectory.outcome >= 1 - 1e-9)


def logs_of(
    values: Iterable[Trajectory | Group | GradedGroup], source: str = "the given rollouts"
) -> Logs:
    """Return Logs of trajectories, groups or graded groups (one kind).

    Raises:
        FormatError: for no values, or kinds that are mixed.
    """
    rows = list(values)
    if rows and all(isinstance(r, GradedGroup) for r in rows):
        return Logs(source, tuple(r.group for r in rows), tuple(rows))
    if rows and all(isinstance(r, Group) for r in rows):
        return Logs(source, tuple(rows))
    if rows and all(isinstance(r, Trajectory) for r in rows):
        return Logs(source, tuple(group_by_task(rows)))
    kinds = sorted({type(r).__name__ for r in rows}) or ["nothing"]
    raise FormatError(f"want rollouts, groups or graded groups, one kind; got {', '.join(kinds)}")


def read_logs(path: str | os.PathLike[str], format: str | None = None) -> Logs:
    """Return the rollouts of a file: our JSON lines, graded or not, or a log of a known format.

    Raises:
        FormatError: with file and line, for what cannot be read.
    """
    from ..widgets.door import load

    if not Path(path).exists():
        raise FormatError(f"{path}: want a file of rollouts; got none")
    return logs_of(load(path, format), Path(path).name)


def read_chars(trajectory: Trajectory) -> int:
    """Return how many characters a judge that reads everything has to read."""
    seen = sum(len(o.text) for s in trajectory.steps for o in s.observations)
    return seen + sum(len(s.authored) for s in trajectory.steps)


def token_means(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return mean tokens per rollout, to be read and to be generated, and how they are known.

    Characters over ``CHARS_PER_TOKEN`` stand in where a step's tokens are not recorded; "exact"
    is 1 where every generated token was counted.
    """
    if not trajectories:
        raise FormatError("want at least one rollout; got none")
    counted = all(s.tokens is not None for t in trajectories for s in t.steps)
    written = [
        sum(s.tokens if counted else len(s.authored) / CHARS_PER_TOKEN for s in t.steps)
        for t in trajectories
    ]
    task = np.mean([len(t.task.system + t.task.prompt) for t in trajectories]) / CHARS_PER_TOKEN
    return {
        # A prompt that shows a rollout shows its task, too.
        "trajectory": float(
            np.mean([read_chars(t) for t in trajectories]) / CHARS_PER_TOKEN + task
        ),
        "policy": float(np.mean(written)),
        "task": float(task),
        "exact": float(counted),
    }
