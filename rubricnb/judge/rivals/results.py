"""Rewarded: what a protocol that gives each rollout one number returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...trajectory import EMPTY, Group


@dataclass(frozen=True, slots=True)
class Rewarded:
    """A group with a reward a rollout.

    Args:
        group: the group.
        protocol: which protocol.
        rewards: a number, or None where there is none.
        failures: "" or why there is none.
        record: rubric, scorepads, matches and the account, as JSON values.
    """

    group: Group
    protocol: str
    rewards: tuple[float | None, ...]
    failures: tuple[str, ...]
    record: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    @property
    def reward_G(self) -> NDArray[np.float64]:
        """(G,) rewards as a trainer's grader returns them; NaN where there is none."""
        return np.array([np.nan if r is None else r for r in self.rewards], dtype=float)

    def to_json(self) -> dict[str, Any]:
        """Return the rewards as JSON values; null where there is none."""
        rows = [
            {"id": t.id, "reward": r, "failure": f}
            for t, r, f in zip(self.group.trajectories, self.rewards, self.failures, strict=True)
        ]
        return {
            "task_id": self.group.task.id,
            "protocol": self.protocol,
            "rollouts": rows,
            "record": dict(self.record),
        }
