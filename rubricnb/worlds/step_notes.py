"""Local criteria and scores of every step of a rollout, by rule: what a rubric model starts from.

An annotator reads a whole rollout with its outcome and writes, step by step, short criteria for the
action at hand and how well the action meets each. The scores are then moved, as little as possible,
to where the steps' means sum to the outcome.

Reference: ARCO (arXiv 2606.21262), warm-up data; there a large model annotates, here it is rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..credit.arco import decompose
from ..errors import ConfigError, WorldError
from ..trajectory import Trajectory
from .desk_events import Event
from .desk_operators import transcript_of
from .desk_reader import Transcript
from .desk_roles import role_of
from .lexicon import vocabulary

MOST = 4  # criteria a step that the rules can write
BAR = "|"  # between two criteria of a step
# Words that criteria and their prompts use beside the desks' own.
NOTE_WORDS = (
    *("task", "step", "got", "left", "action", "criteria", BAR, "is", "asked", "for", "was"),
    *("shown", "before", "not", "made", "already", "adds", "what", "known", "call", "understood"),
    *("everything", "in", "place", "read", "back", "no", "part", "open", "right", "record", "true"),
    *("moves", "on", "nothing", "again", "and", "by"),
    *(str(n) for n in range(32)),
)
_WORTH = {"decisive": 1.0, "exploration": 0.5, "no_progress": -0.3, "regression": -1.0}


@dataclass(frozen=True, slots=True)
class StepNote:
    """One step's criteria and, beside each, its score in [-1, 1]."""

    criteria: tuple[str, ...]
    scores: tuple[float, ...]


Annotator = Callable[[Trajectory, int], tuple[StepNote, ...]]


def desk_words() -> tuple[str, ...]:
    """Every word of a desk rollout's prompts and criteria."""
    return tuple(dict.fromkeys((*vocabulary(), *NOTE_WORDS)))


def desk_notes(trajectory: Trajectory, criteria: int = 3) -> tuple[StepNote, ...]:
    """Return the notes of a desk rollout, one a step.

    Law: the means of the steps' scores sum to the outcome (to 1e-6).

    Args:
        trajectory: a rollout in the compact language, with its outcome.
        criteria: K, 1 to 4 a step.
    Raises:
        WorldError: it is no desk rollout, or its outcome is unknown.
        ConfigError: K is out of range.
    """
    read = transcript_of(trajectory)
    rows = []
    for step in range(1, len(trajectory) + 1):
        mine = [e for e in read.events if e.step == step]
        role = role_of(read, step, whole=True).role
        rows.append(_desk_step(read, mine[-1] if mine else None, role))
    return balanced(trajectory, rows, criteria)


def balanced(
    trajectory: Trajectory, rows: list[list[tuple[str, float]]], criteria: int
) -> tuple[StepNote, ...]:
    """Return notes of the first K criteria of each row, scores projected on the outcome."""
    if not 1 <= criteria <= MOST:
        raise ConfigError(f"want 1 to {MOST} criteria a step; got {criteria}")
    if trajectory.outcome is None:
        raise WorldError(f"want a rollout with an outcome; got none in {trajectory.id}")
    if not rows:
        return ()
    raw = np.array([[s for _, s in row[:criteria]] for row in rows])
    live = np.ones((1, raw.size), dtype=bool)
    total = np.clip(trajectory.outcome * criteria, -raw.size, raw.size)
    even = decompose(raw.reshape(1, -1), [total], live).reshape(raw.shape)
    return tuple(
        StepNote(tuple(c for c, _ in row[:criteria]), tuple(map(float, s)))
        for row, s in zip(rows, even, strict=True)
    )


def _desk_step(t: Transcript, e: Event | None, role: str) -> list[tuple[str, float]]:
    """Four criteria with raw scores: targeting, evidence, redundancy, progress."""
    worth = _WORTH[role]
    if e is None or not e.role:
        return [
            ("the call is understood", -1.0),
            ("what is asked for is known", -0.5),
            ("nothing is made again", 0.0),
            ("the call moves the task on", worth),
        ]
    if e.role == "finish":
        out = e.args.get("outcome", "done")
        checked = all(r.status in ("confirmed", "blocked") for r in t.records)
        return [
            (f"finish {out} is true", worth),
            ("everything was read back", 1.0 if checked else -0.5),
            ("no part of the task is open", worth),
            (f"finish {out} moves the task on", worth),
        ]
    tool, about = t.lex.tools[e.role], next(iter(e.args.values()), "nothing")
    key = next((v for k, v in e.args.items() if k.endswith("_id")), "")
    shown = not key or t.seen_at.get(key, 10**6) < e.step
    again = any(o.step < e.step and o.signature == e.signature and not o.error for o in t.events)
    fresh = not again or role != "regression"
    return [
        (f"{tool} {about} {key} is asked for".replace("  ", " "), worth),
        (f"{key or about} was shown before", 0.5 if shown else -1.0),
        (f"{tool} {about} is not made already", 0.3 if fresh else -1.0),
        (f"{tool} {about} moves the task on", worth),
    ]
