"""Who&When: failed multi-agent runs with the human label of the decisive mistake.

One entry of ``history`` is one step, whoever speaks, so that ``mistake_step`` (an index from 0,
kept as text) is step ``mistake_step + 1`` here. A run is one JSON file; a folder holds many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..trajectory import Trajectory
from .dialects import text_of
from .records import carry, finish, outcome_of, pick, rows_of
from .source import Row, Source
from .text import clean, flatten
from .turns import Message, Turns

NAME = "who-and-when"
MISTAKES = ("mistake_agent", "mistake_step", "mistake_reason")


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that this is a run of Who&When, and why."""
    rows = [r for r in source.samples() if isinstance(r, dict)]
    if any("history" in r and any(k in r for k in MISTAKES) for r in rows):
        return 0.97, "a history with a labelled mistake"
    if any("history" in r and ("question_ID" in r or "is_correct" in r) for r in rows):
        return 0.8, "a history with a question and whether it was answered"
    return 0.0, "no labelled history"


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a run."""
    for row in source.rows():
        if not isinstance(row.value, dict) or not isinstance(row.value.get("history"), list):
            source.report.damaged(row.place, "a run without history")
            continue
        yield run(row, row.value, source)


def run(row: Row, raw: dict[str, Any], source: Source) -> Trajectory:
    """Return one run as a trajectory."""
    report = source.report
    turns = Turns(report)
    for index, entry in enumerate(rows_of(raw, "history")):
        place = row.at(index, "history")
        report.met()
        if row.is_cut("history", index):
            # Kept, empty: the numbers of later steps and of the label hang on it.
            turns.warn(place, "the file is cut in this entry")
        if not isinstance(entry, dict):
            entry = {"content": entry}
        text, thinking = flatten(entry.get("content"), report)
        agent = text_of(entry.get("name") or entry.get("role"), report)
        turns.add(Message("assistant", text, thinking, name=agent, place=place))
    labels = carry({k: raw.get(k) for k in MISTAKES}, (), report)
    mistake(labels, turns, row)
    outcome = outcome_of(raw.get("is_correct", raw.get("is_corrected")))
    question = clean(raw["question"], report) if isinstance(raw.get("question"), str) else ""
    own = pick(raw, ("question_ID", "question_id"), report)
    return finish(
        source,
        row,
        turns,
        NAME,
        id=source.path.stem if own and source.shared else own,
        task_id=own,
        prompt=question,
        task_meta=carry({k: raw.get(k) for k in ("ground_truth", "level")}, (), report),
        outcome=outcome,
        labels=labels,
        meta=carry(raw, ("history", "question", "ground_truth", "level", *MISTAKES), report),
    )


def mistake(labels: dict[str, Any], turns: Turns, row: Row) -> None:
    """Turn the mistake's index into a step number; flag labels that do not fit the history."""
    said = labels.pop("mistake_step", None)
    text = str(said).strip()
    if said is None:
        return
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        turns.warn(row.place, f"mistake_step is no index: {text:.20}")
        return
    step = int(text) + 1
    if step > len(turns):
        turns.warn(row.place, f"mistake_step {text} is outside the history")
        return
    labels["mistake_step"] = step
    speaker = turns.steps()[step - 1].agent
    agent = str(labels.get("mistake_agent", ""))
    if agent and speaker and agent.lower() not in speaker.lower():
        labels["agent_and_step_disagree"] = True
        turns.warn(row.place, f"mistake_agent is {agent:.40} but {speaker:.40} speaks there")
