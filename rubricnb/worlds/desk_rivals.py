"""How the offline rule judge answers the protocols beside the five phases: roles, items, scores.

As in ``desk_judge`` everything is read from the call's messages. Its errors are those of the same
``JudgeNoise``: a harmful step is not noticed with chance ``false_pass``, a useful one with chance
``false_fail``; an answer is left out with chance ``missing``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import JudgeError
from ..judge.protocol import Call
from .desk_criteria import Key, catalogue, keys, normal, write
from .desk_kinds import KINDS
from .desk_operators import desk_items, fired_of
from .desk_reader import read_transcript
from .desk_roles import role_of

if TYPE_CHECKING:
    from .desk_judge import DeskJudge, Reader

Answer = Callable[["DeskJudge", Call, "Reader"], Mapping[str, Any]]
_TARGET = re.compile(r"which role step S(\d+) plays")
_SHOWN = re.compile(r"S1 to S(\d+); shown are S(\d+) to S(\d+)")

_COMMON = re.compile(r"begin with the same steps S1 to S(\d+),")


def _job(call: Call) -> str:
    """What follows the material."""
    return call.messages[-1]["content"].rsplit("\n===== END ", 1)[-1]


def roles(judge: DeskJudge, call: Call, r: Reader) -> Mapping[str, Any]:
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


def transition_items(judge: DeskJudge, call: Call, r: Reader) -> Mapping[str, Any]:
    """The items of the desks' own transition rubric, those of the first parts where many."""
    items = desk_items(r.asked)
    kept = [i for i in items if i.category == "Inv"]
    kept = [i for i in items if i.category != "Inv"][: 16 - len(kept)] + kept
    keys = ("title", "instruction", "category")
    return {"items": [{k: getattr(i, k) for k in keys} for i in kept]}


def transitions(judge: DeskJudge, call: Call, r: Reader) -> Mapping[str, Any]:
    """Which items each step sets off."""
    t = r.transcripts[0]
    told = {str(i.get("title")): str(i["id"]) for i in r.shown.items}
    items = [i for i in desk_items(r.asked) if i.title in told]
    ours = {i.id: told[i.title] for i in items}
    miss = {
        i.id: judge.noise.false_pass if i.category == "Inv" else judge.noise.false_fail
        for i in items
    }
    rows = []
    for s, ids in enumerate(fired_of(t, t.last), start=1):
        named = sorted(
            ours[i]
            for i in ids
            if i in ours and judge.noise.draw("item", t.digest, s, i) >= miss[i]
        )
        if named:
            rows.append({"step": s, "reason": "As the results show.", "items": named})
    return {"steps": rows}


def group_rubric(judge: DeskJudge, call: Call, r: Reader) -> Mapping[str, Any]:
    """What the task asks, then what some rollout got wrong: at most 8, at least one."""
    shown = range(len(r.transcripts))
    first = keys(r.asked, "task")
    more = [k for k in keys(r.asked) if k not in first]
    told = [k for k in more if any(r.finding(g, k).value < 0 for g in shown)]
    return {"criteria": [_criterion(r, k) for k in [*first, *told][:8]]}


def _criterion(r: Reader, key: Key, **more: Any) -> dict[str, Any]:
    title, description, instruction = write(r.asked, key, 0)
    return {"title": title, "description": description, "instruction": instruction, **more}


def _value(judge: DeskJudge, r: Reader, g: int, key: Key) -> int:
    """The verdict on one rollout, with the errors of the noise; the same in every call."""
    value = r.finding(g, key).value
    wrong = {-1: judge.noise.false_pass, 1: judge.noise.false_fail, 0: 0.0}[value]
    return -value if judge.noise.draw("flip", r.transcripts[g].digest, key) < wrong else value


def match(judge: DeskJudge, call: Call, r: Reader) -> Mapping[str, Any]:
    """The scorepad of one rollout or two: 2 where met, 1 where it does not apply, else 0."""
    known = catalogue(r.asked)
    pads: dict[str, dict[str, int]] = {}
    for g, name in zip(range(len(r.transcripts)), "AB", strict=False):
        pads[name] = {}
        for item in r.shown.items:
            key = known.get(normal(str(item.get("instruction", ""))))
            if key is not None:  # foreign words get no score, rather than a guess
                pads[name][str(item["id"])] = _value(judge, r, g, key) + 1
    total = [sum(pad.values()) for pad in pads.values()]
    out: dict[str, Any] = {"evidence": "", "scorepad": pads}
    if len(total) == 2:
        out["winner"] = "tie" if total[0] == total[1] else "AB"[total[1] > total[0]]
    return out


def _share(judge: DeskJudge, r: Reader, g: int) -> float:
    """Share of the criteria that apply which a rollout meets; the parts of the task count."""
    said = [_value(judge, r, g, k) for k in keys(r.asked, "task")]
    decided = [v for v in said if v]
    return sum(v > 0 for v in decided) / len(decided) if decided else 0.0


def ranking(judge: DeskJudge, call: Call, r: Reader) -> Mapping[str, Any]:
    """A score a rollout: the share of the task's own criteria that it meets."""
    common = _COMMON.search(_job(call))
    if common:  # what is shown once belongs to all of them
        head = tuple(s for s in r.shown.rollouts[0] if s.number <= int(common[1]))
        rows = [r.shown.rollouts[0], *(head + steps for steps in r.shown.rollouts[1:])]
        r = replace(
            r, transcripts=tuple(read_transcript(r.shown.prompt, x) for x in rows), cache={}
        )
    scores = [_share(judge, r, g) for g in range(len(r.transcripts))]
    return {
        "scores": [
            {"rollout": g, "reason": "By the parts in place.", "score": round(s, 4)}
            for g, s in enumerate(scores, start=1)
        ]
    }


def weighted_rubric(judge: DeskJudge, call: Call, r: Reader) -> Mapping[str, Any]:
    """Every criterion that the desks know, the parts of the task as essential."""
    rows = []
    for key in keys(r.asked):
        if key.kind == "reached":
            category = "essential"
        else:
            category = "important" if KINDS[key.kind].stage == "task" else "pitfall"
        rows.append(_criterion(r, key, category=category))
    return {"criteria": rows[:20]}


def likert(judge: DeskJudge, call: Call, r: Reader) -> Mapping[str, Any]:
    """1 to 10 by the share of the task's own criteria that are met."""
    return {"reason": "By the parts in place.", "score": 1 + round(9 * _share(judge, r, 0))}


PHASES: Mapping[str, Answer] = {
    "group_rubric": group_rubric,
    "match": match,
    "scorepad": match,
    "ranking": ranking,
    "weighted_rubric": weighted_rubric,
    "likert": likert,
    "roles": roles,
    "transition_items": transition_items,
    "transitions": transitions,
}
