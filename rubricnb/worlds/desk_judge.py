"""The offline rule judge of the bundled desks: the five phases, from the messages alone.

The phases of the other protocols are answered in ``desk_rivals``.

It gets the very messages that an LLM judge gets, reads them back with ``read_call`` and answers
in the wire format that the prompts ask for. It never sees a task's spec, an episode or a state,
so what the transcript hides (a change that was acknowledged and lost) it cannot know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import ConfigError, JudgeError
from ..judge.protocol import Call, CallableJudge
from ..judge.shown import Shown, read_call
from . import desk_rivals
from .desk_criteria import Key, catalogue, keys, normal, rule_of, write
from .desk_findings import STYLES, Finding
from .desk_kinds import KINDS, ORDER
from .desk_noise import LENIENT, STRICT, JudgeNoise
from .desk_reader import Transcript, read_transcript
from .desk_task import Asked, read_task, task_name

NAME = "offline rule judge (bundled world)"
LENIENT_NAME = "lenient offline rule judge (bundled world)"
WORDS = {1: "pass", -1: "fail", 0: "not_applicable"}
VALUES = {word: value for value, word in WORDS.items()}
REVISED = {
    1: "On balance the transcript supports it.",
    -1: "The transcript does not support it.",
    0: "The rollout hardly touches this.",
}


@dataclass
class Reader:
    """Findings of one call's rollouts, computed once each."""

    shown: Shown
    asked: Asked
    transcripts: tuple[Transcript, ...]
    cache: dict[tuple[int, Key], Finding] = field(default_factory=dict)

    def finding(self, g: int, key: Key) -> Finding:
        if (g, key) not in self.cache:
            self.cache[g, key] = rule_of(key)(self.transcripts[g], key.index)
        return self.cache[g, key]


def _open(call: Call, reader: type[Reader]) -> Reader:
    shown = read_call(call)
    asked = read_task(shown.prompt)
    if asked is None:
        raise JudgeError(
            f"{NAME}: want a task of a bundled desk; got a prompt that starts {shown.prompt[:60]!r}"
        )
    transcripts = tuple(read_transcript(shown.prompt, steps) for steps in shown.rollouts)
    return reader(shown, asked, transcripts)  # type: ignore[arg-type]


def _key(asked: Asked, item: Mapping[str, Any]) -> Key | None:
    """Which criterion an item is, by its instruction or its title; None where it is foreign."""
    known = catalogue(asked)
    for name in ("instruction", "title"):
        key = known.get(normal(str(item.get(name, ""))))
        if key is not None:
            return key
    return None


def _row(asked: Asked, key: Key, wording: int, **more: Any) -> dict[str, Any]:
    title, description, instruction = write(asked, key, wording)
    return {"title": title, "description": description, "instruction": instruction, **more}


class DeskJudge:
    """``judge(call) -> str``: the function behind ``offline_judge``.

    Args:
        noise: how it errs.
        style: which steps it cites, one of "flip", "root", "all", "last".
    """

    reader = Reader

    def __init__(self, noise: JudgeNoise = STRICT, style: str = "flip") -> None:
        if style not in STYLES:
            raise ConfigError(f"want a citation style of {STYLES}; got {style!r}")
        self.noise, self.style = noise, style
        self._phases: Mapping[str, Callable[[Call, Reader], Mapping[str, Any]]] = {
            "task_rubric": self._task_rubric,
            "rollout_rubric": self._rollout_rubric,
            "union": self._union,
            "scoring": self._scoring,
            "attribution": self._attribution,
            **{phase: partial(answer, self) for phase, answer in desk_rivals.PHASES.items()},
        }

    def __call__(self, call: Call) -> str:
        """Answer one call of any phase.

        Raises:
            JudgeError: where the task is not one of a bundled desk.
        """
        return json.dumps(self._phases[call.phase](call, _open(call, self.reader)))

    def _task_rubric(self, call: Call, r: Reader) -> dict[str, Any]:
        rows = [
            _row(r.asked, key, 0, evidence="the task's own words")
            for key in keys(r.asked, "task")
            if self.noise.draw("overlook", task_name(r.asked), key) >= self.noise.overlook
        ]
        return {"criteria": rows[:15]}

    def _rollout_rubric(self, call: Call, r: Reader) -> dict[str, Any]:
        t, rows = r.transcripts[0], []
        for key in keys(r.asked):
            f = r.finding(0, key)
            known = KINDS[key.kind].stage == "task"
            chance = self.noise.paraphrase if known else 1.0
            name = (t.digest, key)
            if f.value >= 0 or self.noise.draw("again", *name) >= chance:
                continue
            if self.noise.draw("overlook", *name) >= self.noise.overlook:
                step = f.steps("flip", t.last)[0]
                rows.append(_row(r.asked, key, int(known), evidence=f"S{step}: {f.reason}"))
        return {"criteria": rows[:10]}

    def _union(self, call: Call, r: Reader) -> dict[str, Any]:
        merged: dict[Key, list[str]] = {}
        for item in r.shown.items:
            key = _key(r.asked, item)
            if key is not None and key.index >= 0:
                merged.setdefault(key, []).append(str(item["id"]))
        rank = sorted(merged, key=lambda k: (ORDER.index(k.kind), k.index))
        group = "".join(t.digest for t in r.transcripts)
        kept = [
            key
            for key in rank
            if any(r.finding(g, key).value < 0 for g in range(len(r.transcripts)))
            or self.noise.draw("keep", group, key) < self.noise.keep
        ]
        # An empty rubric would read as a failed union: one idle criterion says "nothing failed".
        kept = kept or rank[:1]
        return {"criteria": [_row(r.asked, k, 0, merges=merged[k]) for k in kept[:24]]}

    def _verdict(self, call: Call, asked: str, t: Transcript, key: Key, f: Finding) -> int | None:
        n, name = self.noise, (t.digest, key)
        # A repair asks for the missing ones alone, so it is another draw.
        if n.draw("missing", call.sample, asked, *name) < n.missing:
            return None
        value = f.value
        wrong = {-1: n.false_pass, 1: n.false_fail, 0: 0.0}[value]
        if n.voted(call.sample, "flip", *name) < wrong:
            value = -value
        if n.voted(call.sample, "hesitate", *name) < n.hesitate:
            value = 0 if value else -1
        return value

    def _scoring(self, call: Call, r: Reader) -> dict[str, Any]:
        t, rows = r.transcripts[0], []
        everything = " ".join(str(item["id"]) for item in r.shown.items)
        for item in r.shown.items:
            key = _key(r.asked, item)
            if key is None:
                continue  # a criterion in foreign words: no verdict, rather than a guess
            f = r.finding(0, key)
            value = self._verdict(call, everything, t, key, f)
            if value is None:
                continue
            spot = t.at.get(f.steps("flip", t.last)[0])
            row = {
                "id": item["id"],
                "reason": f.reason if value == f.value else REVISED[value],
                "evidence": spot.quote[:200] if spot is not None and value else "",
                "steps": list(self._cite(t, key, f)) if value else [],
                "verdict": WORDS[value],
            }
            rows.append(row)
        return {"verdicts": rows}

    def _cite(self, t: Transcript, key: Key, f: Finding) -> tuple[int, ...]:
        n, name = self.noise, (t.digest, key)
        if t.numbers and n.draw("miscite", *name) < n.miscite:
            return (t.numbers[int(n.draw("where", *name) * len(t.numbers))],)
        return f.steps(self.style, t.last)

    def _attribution(self, call: Call, r: Reader) -> dict[str, Any]:
        t, rows = r.transcripts[0], []
        for item in r.shown.items:
            key, verdict = _key(r.asked, item), str(item.get("verdict", ""))
            f = None if key is None else r.finding(0, key)
            steps = () if key is None or f is None else self._cite(t, key, f)
            if verdict == "not_applicable":
                steps = ()
            reason = f.reason if f is not None and WORDS[f.value] == verdict else "As graded."
            rows.append(
                {"id": item["id"], "reason": reason, "steps": list(steps), "verdict": verdict}
            )
        return {"verdicts": rows}


def offline_judge(
    noise: JudgeNoise = STRICT, style: str = "flip", name: str = NAME
) -> CallableJudge:
    """A judge for desk rollouts that needs no model: fixed rules with stated noise.

    Args:
        noise: error rates; ``EXACT`` for none.
        style: citation style: "flip" (what the prompts ask for), "root", "all" or "last".
        name: how results are labelled.

    >>> offline_judge().name
    'offline rule judge (bundled world)'
    """
    return CallableJudge(DeskJudge(noise, style), name)


def lenient_judge(noise: JudgeNoise = LENIENT, style: str = "flip") -> CallableJudge:
    """The same rules at a self-judge's measured rates: it passes 3 of 10 failures."""
    return CallableJudge(DeskJudge(noise, style), LENIENT_NAME)
