"""Well-formed answers to each of the five phases, for the loopback server.

They depend on what the prompt says and on nothing else: on the tools that a rollout used, on
errors that it met, and, where that would make all rollouts alike, on a hash of its text.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from rubricnb.judge import Call, read_call

# Job line of each phase's prompt -> the phase's name.
JOBS = {
    "JOB: TASK RUBRIC": "task_rubric",
    "JOB: ROLLOUT RUBRIC": "rollout_rubric",
    "JOB: UNION": "union",
    "JOB: SCORING": "scoring",
    "JOB: ATTRIBUTION": "attribution",
}
TOPICS = (
    "Asks before it acts",
    "Reads a record back",
    "Names the right person",
    "Keeps to the policy",
    "Wastes no call",
    "Ends when it is done",
    "Says only what is true",
    "Recovers from an error",
)


def number(*parts: Any) -> int:
    """A whole number that depends on the parts."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:4], "big")


def phase_of(messages: list[dict[str, str]]) -> str:
    """The phase of a prompt, from its job line; lines of material start with "| "."""
    lines = messages[-1]["content"].splitlines()
    return next(JOBS[line] for line in reversed(lines) if line in JOBS)


def answer(messages: list[dict[str, str]]) -> str:
    """The reply to a prompt of any phase."""
    phase = phase_of(messages)
    shown = read_call(Call(phase, tuple(messages)))
    return json.dumps(globals()[f"_{phase}"](shown), ensure_ascii=False)


def _criterion(title: str, **more: Any) -> dict[str, Any]:
    text = f"Pass if the rollout {title[0].lower()}{title[1:]}; fail if it does not."
    return {"title": title, "description": "", "instruction": text, **more}


def _task_rubric(shown) -> dict[str, Any]:
    start = number(shown.prompt) % len(TOPICS)
    titles = [TOPICS[(start + i) % len(TOPICS)] for i in range(5)]
    return {"criteria": [_criterion(t, evidence="the task") for t in titles]}


def _rollout_rubric(shown) -> dict[str, Any]:
    [steps] = shown.rollouts
    tools = sorted({c.name for s in steps for c in s.calls}) or ["nothing"]
    picked = tools[number(_text(steps)) % len(tools)]
    return {"criteria": [_criterion(f"Uses {picked} no more often than needed", evidence="S1")]}


def _union(shown) -> dict[str, Any]:
    merged: dict[str, list[str]] = {}
    for item in shown.items:
        merged.setdefault(item["title"], []).append(item["id"])
    return {"criteria": [_criterion(title, merges=ids) for title, ids in merged.items()]}


def _scoring(shown) -> dict[str, Any]:
    [steps] = shown.rollouts
    text = _text(steps)
    quote = next((b.text for s in steps for b in s.blocks if b.text.strip()), "")[:60]
    rows = []
    for item in shown.items:
        title = item["title"]
        draw = number(title, text) % 10
        verdict = "fail" if draw < 4 else "not_applicable" if draw == 9 else "pass"
        if title.startswith("Uses "):
            calls = sum(c.name == title.split()[1] for s in steps for c in s.calls)
            verdict = "pass" if calls <= 2 else "fail"
        elif title.startswith("Recovers") and "rror" not in text:
            verdict = "not_applicable"
        rows.append(
            {"id": item["id"], "reason": f"See {title}.", "evidence": quote, "verdict": verdict}
        )
    return {"verdicts": rows}


def _attribution(shown) -> dict[str, Any]:
    [steps] = shown.rollouts
    numbers = [s.number for s in steps]
    text = _text(steps)
    rows = []
    for item in shown.items:
        seed = number(item["id"], text)
        cited = sorted({numbers[seed % len(numbers)], numbers[(seed // 7) % len(numbers)]})
        rows.append(
            {
                "id": item["id"],
                "reason": "These steps decide it.",
                "steps": [] if item["verdict"] == "not_applicable" else cited,
                "verdict": item["verdict"],
            }
        )
    return {"verdicts": rows}


def _text(steps) -> str:
    return "\n".join(b.name + b.text for s in steps for b in s.blocks)
