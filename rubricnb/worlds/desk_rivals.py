"""How the offline rule judge answers the protocols beside the five phases: roles, items, scores.

As in ``desk_judge`` everything is read from the call's messages. Its errors are those of the same
``JudgeNoise``: a harmful step is not noticed with chance ``false_pass``, a useful one with chance
``false_fail``; an answer is left out with chance ``missing``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import JudgeError
from ..judge.protocol import Call
from .desk_operators import desk_items, fired_of
from .desk_roles import role_of

if TYPE_CHECKING:
    from .desk_judge import DeskJudge, _Reader

Answer = Callable[["DeskJudge", Call, "_Reader"], Mapping[str, Any]]
_TARGET = re.compile(r"which role step S(\d+) plays")
_SHOWN = re.compile(r"S1 to S(\d+); shown are S(\d+) to S(\d+)")


def _job(call: Call) -> str:
    """What follows the material."""
    return call.messages[-1]["content"].rsplit("\n===== END ", 1)[-1]


def roles(judge: DeskJudge, call: Call, r: _Reader) -> Mapping[str, Any]:
    """One step's role."""
    job = _job(call)
    target, shown = _TARGET.search(job), _SHOWN.search(job)
    if target is None or shown is None:
        raise JudgeError("want a job that names the step to label; got another text")
    step, (n, first, last) = int(target[1]), map(int, shown.groups())
    t = r.transcripts[0]
    said = role_of(t, step, whole=first == 1 and last == n)
    noise, name = judge.noise, (t.digest, step)
    role = said.role
    if noise.draw("missing role", call.sample, *name) < noise.missing:
        return {"reason": "Hard to say."}
    if role == "regression" and noise.draw("role", *name) < noise.false_pass:
        role = "exploration"
    elif role in ("decisive", "exploration") and noise.draw("role", *name) < noise.false_fail:
        role = "no_progress"
    return {
        "reason": said.reason,
        "changed_state": said.changed,
        "new_information": said.new,
        "confidence": 0.9 if role == said.role else 0.5,
        "role": role,
    }


def transition_items(judge: DeskJudge, call: Call, r: _Reader) -> Mapping[str, Any]:
    """The items of the desks' own transition rubric, those of the first parts where many."""
    items = desk_items(r.asked)
    kept = [i for i in items if i.category == "Inv"]
    kept = [i for i in items if i.category != "Inv"][: 16 - len(kept)] + kept
    keys = ("title", "instruction", "category")
    return {"items": [{k: getattr(i, k) for k in keys} for i in kept]}


def transitions(judge: DeskJudge, call: Call, r: _Reader) -> Mapping[str, Any]:
    """Which items each step sets off."""
    t = r.transcripts[0]
    told = {str(i.get("title")): str(i["id"]) for i in r.shown.items}
    ours = {i.id: told[i.title] for i in desk_items(r.asked) if i.title in told}
    rows = []
    for s, ids in enumerate(fired_of(t, t.last), start=1):
        named = sorted(
            ours[i]
            for i in ids
            if i in ours and judge.noise.draw("item", t.digest, s, i) >= judge.noise.false_fail
        )
        if named:
            rows.append({"step": s, "reason": "As the results show.", "items": named})
    return {"steps": rows}


PHASES: Mapping[str, Answer] = {
    "roles": roles,
    "transition_items": transition_items,
    "transitions": transitions,
}
