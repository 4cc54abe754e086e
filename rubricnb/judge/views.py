"""What each call of a group reads: every rollout rendered once, within the budget."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ..trajectory import Group
from .config import JudgeConfig
from .messages import prefix
from .render import Rendered, prepare, prepare_task, render

SUMMARY_CHARS = 400  # of one observation, in the view that attribution may read


class Views:
    """The fenced texts of one group, made when first needed and then kept.

    All prompts that read rollout g start with ``shared(g)``, byte for byte.
    """

    def __init__(self, group: Group, config: JudgeConfig) -> None:
        self.config = config
        self.ids = tuple(t.id for t in group.trajectories)
        self.prepared = [prepare(t, group.task) for t in group.trajectories]
        self.prepared_task = prepare_task(group.task)
        third = None if config.budget is None else config.budget // 3
        self.task = render(self.prepared_task, config.nonce, budget=third, count=config.count)
        self._full: list[Rendered | None] = [None] * len(self.prepared)
        self._shared: list[str | None] = [None] * len(self.prepared)

    @property
    def _room(self) -> int | None:
        """What the task leaves of the budget."""
        budget = self.config.budget
        return None if budget is None else budget - self.config.count(self.task.text)

    def _render(self, g: int, budget: int | None, observation_chars: int | None) -> Rendered:
        return render(
            self.prepared[g],
            self.config.nonce,
            observation_chars=observation_chars,
            budget=budget,
            count=self.config.count,
        )

    def full(self, g: int) -> Rendered:
        """Rollout g, as rollout rubric, scoring and (by default) attribution read it."""
        if self._full[g] is None:
            self._full[g] = self._render(g, self._room, self.config.observation_chars)
        return self._full[g]

    def shared(self, g: int) -> str:
        """The start of every prompt that reads rollout g alone: task, then rollout."""
        if self._shared[g] is None:
            self._shared[g] = prefix(self.task, [self.full(g)])
        return self._shared[g]

    def summary(self, g: int) -> str:
        """The start of an attribution prompt that reads a summary of rollout g."""
        limit = self.config.observation_chars
        limit = SUMMARY_CHARS if limit is None else min(limit, SUMMARY_CHARS)
        return prefix(self.task, [self._render(g, self._room, limit)])

    @cached_property
    def union(self) -> tuple[Rendered, ...]:
        """All rollouts within one budget: the long ones are clipped to an equal share."""
        full = [self.full(g) for g in range(len(self.prepared))]
        if self._room is None:
            return tuple(full)
        limits = shares([self.config.count(r.text) for r in full], self._room)
        return tuple(
            r if limit is None else self._render(g, limit, self.config.observation_chars)
            for g, (r, limit) in enumerate(zip(full, limits, strict=True))
        )

    def untrusted(self, g: int) -> str:
        """The text of rollout g where it holds what looks like a verdict, else ""."""
        p = self.prepared[g]
        if not any("verdict" in kinds for kinds in p.flags.values()):
            return ""
        return "\n".join(b.text for b in p.blocks)


def shares(sizes: Sequence[int], room: int) -> list[int | None]:
    """Return per size None where it may stay, else the equal share that is left for it.

    >>> shares([10, 50, 90], 100)
    [None, 45, 45]
    >>> shares([10, 20], 100)
    [None, None]
    """
    out: list[int | None] = [None] * len(sizes)
    left, order = room, sorted(range(len(sizes)), key=lambda i: sizes[i])
    for place, i in enumerate(order):
        share = left // (len(order) - place)
        if sizes[i] > share:
            for j in order[place:]:
                out[j] = max(share, 1)
            break
        left -= sizes[i]
    return out
