"""``explore``: walk task -> rollout -> step, change the rubric by hand, and see the credit move."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..figures.drawing import draw
from ..figures.numbers import Numbers
from ..figures.verdicts import MARK, WORD, state
from ..files import write_jsonl
from ..rubric import GradedGroup, Label, Rubric
from ..trajectory import Group
from .display import Gallery, live
from .state import ExplorerState, Grader, changes, ungraded


def grader_of(judge: Any, config: Any = None) -> Grader:
    """Return a grader that asks a judge about a given rubric, blocking until it has answered."""
    import dataclasses

    from ..judge import JudgeConfig, grade
    from .door import judge_of

    judge = judge_of(judge)
    base = JudgeConfig() if config is None else config

    def grader(group: Group, rubric: Rubric) -> GradedGroup:
        return next(iter(grade([group], judge, dataclasses.replace(base, rubric=rubric))))

    return grader


class Explorer:
    """Graded groups under edit, with the rollout, step and rule that are looked at.

    Displays as controls in a live notebook and as figures and tables elsewhere. All that the
    controls do can be called: ``explorer.edit(...)``, ``.add(...)``, ``.drop(...)``,
    ``.merge(...)``, ``.judge(...)``, ``.regrade(...)``, ``.undo()``, ``.redo()``, ``.export(...)``.

    Args:
        groups: graded groups, or groups to be graded by hand.
        judge: a judge to re-grade with; None for by hand only.
        config: the judge's configuration; its rubric is replaced.
        rule, options: the credit rule that is shown.
        theme: "light" or "dark".
    """

    def __init__(
        self,
        groups: Iterable[GradedGroup | Group],
        *,
        judge: Any = None,
        config: Any = None,
        rule: str = "draco",
        theme: str = "light",
        **options: Any,
    ) -> None:
        graded = [g if isinstance(g, GradedGroup) else ungraded(g) for g in groups]
        graded = [g for g in graded if len(g.group)]
        if not graded:
            raise ConfigError("want at least one group with a rollout to explore; got none")
        self.states = [ExplorerState(g) for g in graded]
        self.judge_with, self.config = judge, config
        self.rule, self.theme = rule, theme
        self._options: dict[str, dict[str, Any]] = {rule: options}
        self.task, self.member, self.step = 0, 0, 1
        self.before: Numbers | None = None
        self.now: Numbers = self.states[0].numbers(rule, **options)
        self.watchers: list[Callable[[], None]] = []
        self._view: Any = None

    # Where we are

    @property
    def state(self) -> ExplorerState:
        """The state of the task that is looked at."""
        return self.states[self.task]

    @property
    def graded(self) -> GradedGroup:
        """The graded group that is looked at, with all edits."""
        return self.state.graded

    def go(self, *, task: int | None = None, member: int | None = None, step: int | None = None,
           rule: str | None = None) -> Explorer:  # fmt: skip
        """Look at another task, rollout (from 0), step (from 1) or rule."""
        at = self.task if task is None else task
        if not 0 <= at < len(self.states):
            raise ConfigError(f"want a task of 0..{len(self.states) - 1}; got {at}")
        group = self.states[at].graded.group
        who = (self.member if task is None else 0) if member is None else member
        if not 0 <= who < len(group):
            raise ConfigError(f"want a rollout of 0..{len(group) - 1}; got {who}")
        last = max(1, len(group.trajectories[who]))
        where = min(self.step, last) if step is None else step
        if not 1 <= where <= last:
            raise ConfigError(f"want a step of 1..{last}; got {where}")
        name = self.rule if rule is None else rule
        moved = task is not None or name != self.rule
        now = self.states[at].numbers(name, **self._options.get(name, {})) if moved else self.now
        self.task, self.member, self.step, self.rule, self.now = at, who, where, name, now
        self.before = None if moved else self.before
        return self._changed()

    def _changed(self) -> Explorer:
        for watcher in self.watchers:
            watcher()
        return self

    def become(self, new: ExplorerState) -> Explorer:
        """Take a new state of this task and show what it changed."""
        after = new.numbers(self.rule, **self._options.get(self.rule, {}))
        self.before, self.now = self.now, after
        self.states[self.task] = new
        return self._changed()

    # What the controls do

    def edit(self, criterion_id: str, **words: str) -> Explorer:
        """Reword a criterion (title, description, instruction)."""
        return self.become(self.state.edit(criterion_id, **words))

    def add(self, title: str, instruction: str = "", description: str = "") -> Explorer:
        """Add a criterion written by hand; grade it with ``judge`` or ``regrade``."""
        return self.become(self.state.add(title, instruction, description))

    def drop(self, criterion_id: str) -> Explorer:
        """Leave a criterion out."""
        return self.become(self.state.drop(criterion_id))

    def merge(self, *ids: str, title: str = "") -> Explorer:
        """Let one criterion stand for several."""
        return self.become(self.state.merge(ids, title))

    def judge(
        self,
        criterion_id: str,
        label: Label | str,
        steps: Iterable[int] = (),
        reason: str = "",
        member: int | None = None,
    ) -> Explorer:
        """Set one verdict by hand, of the rollout looked at unless another is named."""
        who = self.member if member is None else member
        return self.become(self.state.judge(who, criterion_id, label, tuple(steps), reason))

    def regrade(self, *ids: str) -> Explorer:
        """Let the judge grade these criteria again (none named: all).

        Raises:
            ConfigError: where the explorer has no judge.
        """
        if self.judge_with is None:
            raise ConfigError(
                "want a judge to grade with: explore(group, judge=...); got none "
                "(set verdicts by hand with .judge)"
            )
        grader = grader_of(self.judge_with, self.config)
        return self.become(self.state.regrade(grader, ids or None))

    def undo(self) -> Explorer:
        """Take the last edit back."""
        return self.become(self.state.undo())

    def redo(self) -> Explorer:
        """Make the edit again that was taken back last."""
        return self.become(self.state.redo())

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write all tasks, with their edits, as graded JSON lines and return the path."""
        write_jsonl(path, [s.graded for s in self.states])
        return Path(path)

    # What is shown

    def changes(self) -> dict[str, list[Any]]:
        """What the last edit did to R, A and credit; equal columns before any."""
        return changes(self.before or self.now, self.now)

    def rollouts(self) -> dict[str, list[Any]]:
        """The group's rollouts with R, A and what the world said, as columns."""
        members = self.graded.group.trajectories
        return {
            "rollout": [t.id for t in members],
            "steps": [len(t) for t in members],
            "R": self.now.reward_G.tolist(),
            "A": self.now.shown_G.tolist(),
            "outcome": [t.outcome for t in members],
            "ended": [t.termination for t in members],
        }

    def criteria(self) -> dict[str, list[Any]]:
        """The criteria with this rollout's verdicts, as columns."""
        row = self.graded.judgements[self.member]
        return {
            "verdict": [f"{MARK[state(j)]} {WORD[state(j)]}" for j in row],
            "id": list(self.graded.rubric.ids()),
            "criterion": [c.title for c in self.graded.rubric.criteria],
            "kept": ["yes" if k else "no" for k in self.now.arrays.keep_K],
            "steps": [" ".join(f"S{s}" for s in getattr(j, "steps", ())) for j in row],
            "reason": [j.reason for j in row],
            "flags": [", ".join(j.flags) for j in row],
        }

    def gallery(self) -> Gallery:
        """All figures of the rollout looked at, and the tables beside them."""
        group = self.graded.group
        heading = f"{group.task.id}: {group.trajectories[self.member].id}"
        tables = {f"Rollouts of {group.task.id} ({self.rule})": self.rollouts()}
        if self.before is not None:
            tables["What the last edit did"] = self.changes()
        if len(self.graded.rubric):
            tables[f"Criteria on {heading}"] = self.criteria()
        return Gallery(draw(self.now, self.member), tables)

    @property
    def widget(self) -> Any:
        """The ipywidgets view, built on first use."""
        if self._view is None:
            from .explorer_view import ExplorerView

            self._view = ExplorerView(self)
        return self._view.root

    @property
    def view(self) -> Any:
        """The view's controls, for tests and for programs that drive them."""
        return self.widget and self._view

    def __repr__(self) -> str:
        return (
            f"Explorer of {len(self.states)} tasks, at {self.graded.group.task.id!r}, "
            f"{len(self.graded.group)} rollouts on {len(self.graded.rubric)} criteria"
        )

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.widget if live() else self.gallery())


def explore(
    graded: GradedGroup | Group | Iterable[GradedGroup | Group], judge: Any = None, **options: Any
) -> Explorer:
    """Return an explorer of graded groups: controls in a notebook, figures and tables elsewhere.

    Args:
        graded: a graded group, a group to grade by hand, or several.
        judge: what ``rubricnb.grade`` takes as a judge, to re-grade with; None for by hand only.
        options: the :class:`Explorer`'s (config, rule, theme) and the rule's own.
    Raises:
        ConfigError: where there is nothing to explore.
    """
    single = isinstance(graded, (GradedGroup, Group))
    many = [graded] if single else list(graded) if isinstance(graded, Iterable) else [graded]
    for one in many:
        if not isinstance(one, (GradedGroup, Group)):
            raise ConfigError(
                f"want groups to explore (rubricnb.load reads a file); got {type(one).__name__}"
            )
    return Explorer(many, judge=judge, **options)
