"""The role of one desk step by rule, from the window that a judge is shown."""

from __future__ import annotations

from dataclasses import dataclass

from .desk_events import Event
from .desk_findings import honest_close
from .desk_reader import Transcript


@dataclass(frozen=True, slots=True)
class StepRole:
    """A role with what it rests on."""

    role: str
    reason: str
    changed: bool = False
    new: bool = False


def role_of(t: Transcript, step: int, *, whole: bool) -> StepRole:
    """Return the role of a step, judged by its last call.

    Args:
        t: the window, read against the task.
        step: which step.
        whole: whether the window is the whole rollout, so that a closing can be checked.
    """
    mine = [e for e in t.events if e.step == step]
    if not mine:
        return StepRole("no_progress", "The step makes no call.")
    e = mine[-1]
    if e.role == "finish":
        return _closing(t, e, whole)
    return _change(t, e) if e.change else _look(t, e)


def _closing(t: Transcript, e: Event, whole: bool) -> StepRole:
    if e.answer != "end":
        return StepRole("no_progress", "The closing was not taken.")
    shaken = any(r.status in ("lost", "other", "twice") or r.timeouts for r in t.records)
    false = honest_close(t).value < 0 if whole else shaken and e.args.get("outcome") == "done"
    if false:
        return StepRole("regression", "The closing claims what the transcript does not show.")
    return StepRole("decisive", "It closes the task with a true claim.", changed=True)


def _change(t: Transcript, e: Event) -> StepRole:
    again = any(o.signature == e.signature and o.answer == e.answer for o in _before(t, e))
    if e.error == t.lex.stuck and not again:
        return StepRole("exploration", "It learns that the desk refuses this.", new=True)
    if e.error:
        role = "regression" if again and e.error != "timeout" else "no_progress"
        return StepRole(role, f"The change came back with {e.error}.")
    record = t.record_of(e)
    wanted = False
    for g, r in zip(t.asked.goals, t.records, strict=True):
        value = t.value_of(e)
        if g.kind != e.role or value not in ("", g.value):
            continue
        # In a window that does not show whose record it is, the change gets the benefit of doubt.
        if r.target in ("", record) and t.names.get(t.holder(e), g.who) == g.who:
            wanted = True
            lost = any(r.acked[0] < m < e.step for m in r.missing) if r.acked else False
            if e.step in r.acked[1:] and not lost:
                return StepRole("regression", "It was in place already.", changed=True)
    if wanted:
        return StepRole("decisive", "A part of the task is acknowledged.", changed=True)
    return StepRole("regression", "Nobody asked for this change.", changed=True)


def _look(t: Transcript, e: Event) -> StepRole:
    if e.role == "" or e.error in ("unknown", "syntax"):
        return StepRole("no_progress", "The desk could not make sense of it.")
    for o in reversed(_before(t, e)):
        if o.change and not o.error:
            break
        if o.signature == e.signature and o.answer == e.answer:
            return StepRole("regression", "The same look was taken before, for nothing.")
    if e.error:
        return StepRole("no_progress", f"The look came back with {e.error}.")
    return StepRole("exploration", "The result shows something new.", new=True)


def _before(t: Transcript, e: Event) -> list[Event]:
    return [o for o in t.events if o.step < e.step]
