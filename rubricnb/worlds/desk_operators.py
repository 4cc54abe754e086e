"""TRCA's transition rubric of the bundled desks, by rule: no judge is asked.

Per part of the task: its record is found (Ev), its change is acknowledged on the right record
(Ev), it is read back (Ev), or the desk is shown to refuse it (Ev); the person is looked up, a
timed-out change is tried again, a lost one made again (Ex). Invalid is a call that the desk does
not understand, a look-up repeated for nothing, a change on a wrong record, a false closing.

The rules read what a transcript shows and never a world's state, as the offline judge does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from ..errors import WorldError
from ..judge.render import prepare, render
from ..judge.rivals.transitions import Fired, Item, Operators
from ..judge.shown import parse_rendered
from ..trajectory import Group, Trajectory
from . import desk_findings as rules
from .desk_reader import Record, Transcript, read_transcript
from .desk_task import Asked, read_task

GOAL_ITEMS: Mapping[str, tuple[str, str, str]] = {
    "found": (
        "Ev",
        "Part {n}: record found",
        'A result first shows the record that "{words}" is about.',
    ),
    "done": (
        "Ev",
        "Part {n}: acknowledged",
        'The desk acknowledges "{words}" on the right record.',
    ),
    "shown": ("Ev", "Part {n}: read back", 'A look after the change shows "{words}" in place.'),
    "refused": ("Ev", "Part {n}: refused", 'The desk shows that it refuses "{words}".'),
    "again": ("Ex", "Part {n}: again", 'After a timeout or a loss "{words}" is tried again.'),
}
PERSON_ITEM = (
    "Ex",
    "{who}: looked up",
    "The record or the list of {who} is looked at with success.",
)
TASK_ITEMS: Mapping[str, tuple[str, str, str]] = {
    "honest": ("Ev", "Closing is true", "The closing claims what the rollout shows."),
    "false": ("Inv", "Closing is false", "The closing claims what the rollout does not show."),
    "misunderstood": ("Inv", "Not understood", "The desk cannot make sense of the call."),
    "repeated": ("Inv", "Look repeated", "The same look is taken again for nothing."),
    "wrong": ("Inv", "Wrong record", "A change goes to a record that nobody asked for."),
}


@lru_cache(maxsize=4096)
def desk_items(asked: Asked) -> tuple[Item, ...]:
    """The items of a task, in a fixed order; ids are I1, I2, ..."""
    rows = []
    for n, goal in enumerate(asked.goals, start=1):
        for category, title, when in GOAL_ITEMS.values():
            rows.append((category, title.format(n=n), when.format(words=goal.words)))
    category, title, when = PERSON_ITEM
    for name, city in asked.people:
        who = f"{name} of {city}"
        rows.append((category, title.format(who=who), when.format(who=who)))
    rows += TASK_ITEMS.values()
    return tuple(Item(f"I{j}", *row) for j, row in enumerate(rows, start=1))


def _goal(t: Transcript, r: Record) -> tuple[list[int], ...]:
    """Steps that set off each of a goal's items."""
    ok = r.acked[:1] if not r.missing else r.acked  # a change made again after a loss counts
    tries = sorted({*r.tried})
    bad = {*r.timeouts, *r.missing}
    again = [s for s in tries if any(b < s for b in bad)][:1] if bad else []
    return ([r.known_at] if r.known_at else [], ok, r.confirmed, r.refused, again)


def fired_steps(t: Transcript) -> list[list[int]]:
    """Steps that set off each item, in the order of ``desk_items``."""
    out = [steps for r in t.records for steps in _goal(t, r)]
    for who in t.asked.people:
        key = t.person_id(who)
        looks = [
            e.step
            for e in t.events
            if e.role in ("person", "list") and e.args.get("person_id") == key and not e.error
        ]
        out.append(looks if key else [])
    close, loop, call = rules.honest_close(t), rules.no_loop(t), rules.understood(t)
    at = [t.claim_at] if t.claim else []
    out.append(at if close.value > 0 else [])
    out.append(at if close.value < 0 else [])
    out.append(list(call.flip) if call.value < 0 else [])
    out.append(list(loop.flip) if loop.value < 0 else [])
    out.append(sorted({s for r in t.records for s in r.wrong}))
    return out


def fired_of(t: Transcript, n_steps: int) -> Fired:
    """Per step the ids of the items that it sets off."""
    sets: list[set[str]] = [set() for _ in range(n_steps)]
    for item, steps in zip(desk_items(t.asked), fired_steps(t), strict=True):
        for s in steps:
            if 1 <= s <= n_steps:
                sets[s - 1].add(item.id)
    return tuple(frozenset(s) for s in sets)


def transcript_of(trajectory: Trajectory) -> Transcript:
    """The rollout as a careful reader of its transcript knows it.

    Raises:
        WorldError: where the task is not one of a bundled desk.
    """
    shown = parse_rendered(render(prepare(trajectory), "").text)
    t = read_transcript(trajectory.task.prompt, shown)
    if t is None:
        raise WorldError(
            f"want a task of a bundled desk; got the prompt {trajectory.task.prompt[:60]!r}"
        )
    return t


def desk_operators(groups: Iterable[Group] | Group) -> list[Operators]:
    """Return the transition rubric of desk groups, filled in by rule.

    Raises:
        WorldError: where a task is not one of a bundled desk.
    """
    out = []
    for group in [groups] if isinstance(groups, Group) else groups:
        asked = read_task(group.task.prompt)
        if asked is None:
            raise WorldError(f"want a task of a bundled desk; got {group.task.prompt[:60]!r}")
        fired = tuple(fired_of(transcript_of(t), len(t)) for t in group.trajectories)
        record = {"protocol": "trca", "judge": "none: rules of the bundled desks"}
        out.append(Operators(group, desk_items(asked), fired, ("",) * len(fired), record))
    return out
