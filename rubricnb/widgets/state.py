"""The explorer's state: a graded group that is edited by hand, with undo, as immutable values.

No widget is imported here. Every edit returns a new state; what a criterion asks and what was
judged stay honest: a criterion added or reworded by hand has no verdict of the new wording, so a
new one starts with a failed judgement (flag "ungraded") and a reworded one carries the flag
"stale" until it is graded again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..figures.numbers import Numbers, numbers_of
from ..rubric import Criterion, FailedJudgement, GradedGroup, Judgement, Label, Rubric, Verdict
from ..trajectory import Group

Grader = Callable[[Group, Rubric], GradedGroup]
UNGRADED, STALE = "ungraded", "stale"
WORDING = ("title", "description", "instruction")


def ungraded(group: Group) -> GradedGroup:
    """Return a group with an empty rubric, to write criteria for by hand."""
    return GradedGroup(group, Rubric((), group.task.id), tuple(() for _ in group.trajectories))


def merged(row: Sequence[Judgement], id: str) -> Judgement:
    """Return the judgement of a criterion that stands for several.

        any fail -> fail, citing all steps that the fails cite;  else any failed judgement ->
        failed judgement;  else any pass -> pass, citing theirs;  else not applicable

    >>> merged([Verdict("a", Label.PASS, steps=(1,)), Verdict("b", Label.FAIL, steps=(3,))], "ab")
    Verdict(criterion_id='ab', label=<Label.FAIL: 'fail'>, reason='', steps=(3,), dropped=0, \
flags=('merged',))
    """
    failed = [j for j in row if isinstance(j, FailedJudgement)]
    for label in (Label.FAIL, Label.PASS, Label.NOT_APPLICABLE):
        if label is Label.PASS and failed:
            return FailedJudgement(id, failed[0].reason, ("merged", *failed[0].flags))
        of = [j for j in row if isinstance(j, Verdict) and j.label is label]
        if of:
            steps = tuple(sorted({s for j in of for s in j.steps}))
            reason = "; ".join(dict.fromkeys(j.reason for j in of if j.reason))
            return Verdict(id, label, reason, steps, flags=("merged",))
    raise ConfigError("want at least one judgement to merge; got none")


@dataclass(frozen=True)
class ExplorerState:
    """A graded group under edit.

    Args:
        graded: as it is now.
        past, future: earlier and undone versions, nearest last.
        notes: what each edit since the start was, in words.
    """

    graded: GradedGroup
    past: tuple[tuple[GradedGroup, tuple[str, ...]], ...] = ()
    future: tuple[tuple[GradedGroup, tuple[str, ...]], ...] = ()
    notes: tuple[str, ...] = field(default=())

    # Looking

    def index(self, criterion_id: str) -> int:
        """The place of a criterion; ConfigError, naming what there is, where there is none."""
        ids = self.graded.rubric.ids()
        if criterion_id not in ids:
            raise ConfigError(f"want a criterion among {ids}; got {criterion_id!r}")
        return ids.index(criterion_id)

    def criterion(self, criterion_id: str) -> Criterion:
        """The criterion of that id."""
        return self.graded.rubric.criteria[self.index(criterion_id)]

    def numbers(self, rule: str = "draco", **options: Any) -> Numbers:
        """R, A and step credit as they are now."""
        return numbers_of(self.graded, rule, **options)

    # Editing

    def _next(
        self,
        criteria: Iterable[Criterion],
        rows: Iterable[Iterable[Judgement]],
        note: str,
        failures: tuple[str, ...] | None = None,
    ) -> ExplorerState:
        notes = (*self.notes, note)
        graded = dataclasses.replace(
            self.graded,
            rubric=Rubric(tuple(criteria), self.graded.rubric.task_id),
            judgements=tuple(tuple(r) for r in rows),
            failures=self.graded.failures if failures is None else failures,
            record={**self.graded.record, "edits": list(notes)},
        )
        return ExplorerState(graded, (*self.past, (self.graded, self.notes)), (), notes)

    def edit(self, criterion_id: str, **changes: str) -> ExplorerState:
        """Reword a criterion; its verdicts stay, flagged "stale", where the wording changed."""
        unknown = set(changes) - set(WORDING)
        if unknown:
            raise ConfigError(f"want changes of {WORDING}; got {sorted(unknown)}")
        k, old = self.index(criterion_id), self.criterion(criterion_id)
        if "title" in changes and not changes["title"].strip():
            raise ConfigError("want a title for the criterion; got none")
        new = dataclasses.replace(old, **changes)
        if new == old:
            return self
        criteria = list(self.graded.rubric.criteria)
        criteria[k] = dataclasses.replace(new, source="hand")
        rows = [[*r[:k], _flag(r[k], STALE), *r[k + 1 :]] for r in self.graded.judgements]
        return self._next(criteria, rows, f"reworded {criterion_id}")

    def add(self, title: str, instruction: str = "", description: str = "") -> ExplorerState:
        """Add a criterion that is written by hand; it is not graded yet."""
        if not title.strip():
            raise ConfigError("want a title for the criterion; got none")
        taken = set(self.graded.rubric.ids())
        id = next(f"hand{i}" for i in range(1, len(taken) + 2) if f"hand{i}" not in taken)
        new = Criterion(id, title, description, instruction or title)
        missing = FailedJudgement(id, "not graded yet", (UNGRADED,))
        rows = [[*r, missing] for r in self.graded.judgements]
        return self._next([*self.graded.rubric.criteria, new], rows, f"added {id}")

    def drop(self, criterion_id: str) -> ExplorerState:
        """Leave a criterion out."""
        k = self.index(criterion_id)
        criteria = [c for i, c in enumerate(self.graded.rubric.criteria) if i != k]
        rows = [[*r[:k], *r[k + 1 :]] for r in self.graded.judgements]
        return self._next(criteria, rows, f"dropped {criterion_id}")

    def merge(self, ids: Sequence[str], title: str = "") -> ExplorerState:
        """Let one criterion stand for several, with their verdicts joined by :func:`merged`.

        It takes the place, id and wording of the first; the others' instructions are appended.
        """
        ids = list(dict.fromkeys(ids))
        if len(ids) < 2:
            raise ConfigError(f"want at least two criteria to merge; got {ids}")
        places = [self.index(i) for i in ids]
        parts = [self.graded.rubric.criteria[k] for k in places]
        one = dataclasses.replace(
            parts[0],
            title=title or parts[0].title,
            description=" ".join(dict.fromkeys(c.description for c in parts if c.description)),
            instruction=" ".join(dict.fromkeys(c.instruction for c in parts if c.instruction)),
            source="hand",
        )
        gone = set(places[1:])
        criteria = [
            one if k == places[0] else c
            for k, c in enumerate(self.graded.rubric.criteria)
            if k not in gone
        ]
        rows = [
            [
                merged([r[p] for p in places], one.id) if k == places[0] else j
                for k, j in enumerate(r)
                if k not in gone
            ]
            for r in self.graded.judgements
        ]
        return self._next(criteria, rows, f"merged {' + '.join(ids)}")

    def judge(
        self,
        member: int,
        criterion_id: str,
        label: Label | str,
        steps: Sequence[int] = (),
        reason: str = "",
    ) -> ExplorerState:
        """Set one verdict by hand."""
        if not 0 <= member < len(self.graded.group):
            raise ConfigError(f"want a member of 0..{len(self.graded.group) - 1}; got {member}")
        if label not in [*Label]:
            raise ConfigError(f"want a label of {[v.value for v in Label]}; got {label!r}")
        k, label = self.index(criterion_id), Label(label)
        last = len(self.graded.group.trajectories[member])
        wrong = [s for s in steps if not 1 <= s <= last]
        if wrong:
            raise ConfigError(f"want cited steps in 1..{last}; got {wrong}")
        cited = () if label is Label.NOT_APPLICABLE else tuple(sorted(set(steps)))
        new = Verdict(criterion_id, label, reason, cited, flags=("hand",))
        rows = [list(r) for r in self.graded.judgements]
        rows[member][k] = new
        return self._next(
            self.graded.rubric.criteria,
            rows,
            f"judged {criterion_id} of rollout {member + 1}",
            failures=_cleared(self.graded.failures, [member]),
        )

    def regrade(self, grader: Grader, ids: Sequence[str] | None = None) -> ExplorerState:
        """Let a judge grade some criteria again (default: all); the others keep their verdicts.

        Args:
            grader: takes the group and a rubric, and returns them graded.
            ids: which criteria.
        """
        ids = list(self.graded.rubric.ids() if ids is None else ids)
        places = [self.index(i) for i in ids]
        if not places:
            raise ConfigError("want at least one criterion to grade; got none")
        criteria = self.graded.rubric.criteria
        wanted = Rubric(tuple(criteria[k] for k in places), self.graded.rubric.task_id)
        new = grader(self.graded.group, wanted)
        if new.rubric.ids() != wanted.ids():
            raise ConfigError(f"want {wanted.ids()} graded; got {new.rubric.ids()}")
        rows = [list(r) for r in self.graded.judgements]
        for row, fresh in zip(rows, new.judgements, strict=True):
            for k, j in zip(places, fresh, strict=True):
                row[k] = j
        failures = new.failures
        if len(places) < len(criteria):
            answered = [g for g in range(len(rows)) if not (new.failures and new.failures[g])]
            failures = _cleared(self.graded.failures, answered)
        return self._next(criteria, rows, f"graded {', '.join(ids)} again", failures=failures)

    # Going back

    def undo(self) -> ExplorerState:
        """The state before the last edit; itself where there is none."""
        if not self.past:
            return self
        graded, notes = self.past[-1]
        return ExplorerState(
            graded, self.past[:-1], (*self.future, (self.graded, self.notes)), notes
        )

    def redo(self) -> ExplorerState:
        """The state that the last undo left; itself where there is none."""
        if not self.future:
            return self
        graded, notes = self.future[-1]
        return ExplorerState(
            graded, (*self.past, (self.graded, self.notes)), self.future[:-1], notes
        )


def _cleared(failures: tuple[str, ...], members: Iterable[int]) -> tuple[str, ...]:
    """The failures of whole rollouts without those of the given members, who now have a grade."""
    out = list(failures)
    for g in members if out else ():
        out[g] = ""
    return tuple(out) if any(out) else ()


def _flag(j: Judgement, flag: str) -> Judgement:
    return j if flag in j.flags else dataclasses.replace(j, flags=(*j.flags, flag))


def changes(before: Numbers, after: Numbers) -> dict[str, list[Any]]:
    """Return what an edit did, one row a rollout: R and A before and after, and credit moved.

    "moved" is half of the summed change of the step totals: the push that went elsewhere, up to
    the change of the whole.
    """
    both = zip(before.total_GS, after.total_GS, strict=True)
    return {
        "rollout": [t.id for t in after.graded.group.trajectories],
        "R before": before.reward_G.tolist(),
        "R after": after.reward_G.tolist(),
        "A before": before.advantage_G.tolist(),
        "A after": after.advantage_G.tolist(),
        "credit moved": [float(np.abs(b - a).sum() / 2) for b, a in both],
    }
