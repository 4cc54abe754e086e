"""What a prompt shows, as values: for judges that are programs, and for tests.

A judge that is a program should know what a reader of the prompt could know and no more.
``read_call`` gives it exactly that: the inverse of the rendering, from the messages alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .protocol import Call

_FENCE = re.compile(r"^===== (BEGIN|END) ([A-Z]+) ([0-9a-f]{16}) =====$")
_HEAD = re.compile(r"^S(\d+) ([A-Z]+)(?: #(\d+))?(?: (.*))?$")
_CUT = re.compile(r"^(\d+) of (\d+) characters")


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """One block of a step: its kind ("AGENT", "CALL", "RESULT", "USER", ...), the number of the
    tool call that it is or answers (0: none), a name, its text, characters cut from it."""

    kind: str
    number: int = 0
    name: str = ""
    text: str = ""
    cut: int = 0


@dataclass(frozen=True, slots=True)
class ShownStep:
    """One step as shown, its number as printed (1-based)."""

    number: int
    blocks: tuple[ShownBlock, ...]

    @property
    def text(self) -> str:
        """What the agent wrote outside of calls."""
        return "\n".join(b.text for b in self.blocks if b.kind == "AGENT")

    @property
    def calls(self) -> tuple[ShownBlock, ...]:
        """Its tool calls; ``text`` holds the arguments."""
        return tuple(b for b in self.blocks if b.kind == "CALL")

    @property
    def observations(self) -> tuple[ShownBlock, ...]:
        """What came back."""
        return tuple(
            b for b in self.blocks if b.kind not in ("AGENT", "CALL", "THOUGHT", "EMPTY", "NOTE")
        )


@dataclass(frozen=True, slots=True)
class Shown:
    """All that a call's messages show.

    Args:
        phase: the call's phase.
        system: the agent's system prompt.
        prompt: the first user message.
        rollouts: the steps of each rollout shown.
        ends: why each of them ended, "" where it is not said.
        items: the JSON lines of the job: criteria, candidates, or criteria with verdicts.
    """

    phase: str
    system: str
    prompt: str
    rollouts: tuple[tuple[ShownStep, ...], ...]
    ends: tuple[str, ...]
    items: tuple[dict[str, Any], ...]


@lru_cache(maxsize=512)
def parse_rendered(text: str) -> tuple[ShownStep, ...]:
    """Return the steps of a rendered rollout, with or without its fence.

    >>> parse_rendered("S1 AGENT\\n| hello\\nS1 RESULT find\\n| a\\n| b")[0].observations[0].text
    'a\\nb'
    """
    steps: dict[int, list[list[Any]]] = {}
    block: list[Any] | None = None
    for line in text.split("\n"):
        if line.startswith("| "):
            if block is not None:
                block[3].append(line[2:])
            continue
        m = _HEAD.match(line)
        if m is None:
            block = None
            continue
        kind, rest = m[2], m[4] or ""
        if kind == "CUT":
            cut = _CUT.match(f"{rest}")
            if cut and block is not None:
                block[4] += int(cut[1])
        elif kind == "NOTE":
            block = None
        else:
            block = [kind, int(m[3] or 0), rest, [], 0]
            steps.setdefault(int(m[1]), []).append(block)
    return tuple(
        ShownStep(n, tuple(ShownBlock(k, i, name, "\n".join(t), c) for k, i, name, t, c in bs))
        for n, bs in sorted(steps.items())
    )


@lru_cache(maxsize=256)
def _task(body: str) -> tuple[str, str]:
    part: dict[str, list[str]] = {"TASK SYSTEM": [], "TASK PROMPT": []}
    lines: list[str] = []
    for line in body.split("\n"):
        if line.startswith("| "):
            lines.append(line[2:])
        elif line in part:
            lines = part[line]
    return "\n".join(part["TASK SYSTEM"]), "\n".join(part["TASK PROMPT"])


def _end(body: str) -> str:
    last = body.rsplit("\n", 1)[-1]
    return last[4:] if last.startswith("END ") else ""


def read_call(call: Call) -> Shown:
    """Return what the messages of a call show: task, rollouts step by step, and the items."""
    text = call.messages[-1]["content"]
    lines, task, rollouts, ends = text.split("\n"), ("", ""), [], []
    at, opened, kind, mark = 0, None, "", ""
    for i, line in enumerate(lines):
        if not line.startswith("===== "):
            continue
        m = _FENCE.match(line)
        if m is None:
            continue
        if m[1] == "BEGIN" and opened is None:
            opened, kind, mark = i + 1, m[2], m[3]
        elif m[1] == "END" and opened is not None and m[3] == mark:
            body = "\n".join(lines[opened:i])
            if kind == "TASK":
                task = _task(body)
            else:
                rollouts.append(parse_rendered(body))
                ends.append(_end(body))
            opened, at = None, i + 1
    items = tuple(json.loads(line) for line in lines[at:] if line.startswith('{"id": '))
    return Shown(call.phase, *task, tuple(rollouts), tuple(ends), items)
