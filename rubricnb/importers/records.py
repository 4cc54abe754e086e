"""What every importer does with a record: read its messages, name its task, carry the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..trajectory import EMPTY, Trajectory
from .dialects import messages, text_of
from .report import Report
from .source import Row, Source
from .text import as_json, clean, clean_value
from .turns import Turns

OUTCOMES = ("outcome", "reward", "score", "success", "resolved", "passed", "is_correct", "correct")
TASK_IDS = (
    "task_id",
    "instance_id",
    "example_id",
    "problem_id",
    "question_id",
    "question_ID",
    "prompt_id",
)
MODELS = ("model", "model_name", "model_name_or_path")
GRADES = {
    "c": 1.0,
    "correct": 1.0,
    "pass": 1.0,
    "passed": 1.0,
    "true": 1.0,
    "success": 1.0,
    "yes": 1.0,
    "p": 0.5,
    "partial": 0.5,
    "i": 0.0,
    "n": 0.0,
    "incorrect": 0.0,
    "fail": 0.0,
    "failed": 0.0,
    "failure": 0.0,
    "false": 0.0,
    "no": 0.0,
}
LARGEST_META = 4000


def converse(raws: Iterable[Any], row: Row, key: str, report: Report) -> tuple[Turns, list[int]]:
    """Read a list of chat messages; return the turns and the step of each raw message.

    The step is 0 for a message in the task and -1 for one that is dropped, also where the file is
    cut inside it.
    """
    turns = Turns(report)
    steps = []
    for index, raw in enumerate(raws):
        place = row.at(index, key)
        report.met()
        if row.is_cut(key, index):
            report.drop(place, "the file is cut in this message")
            steps.append(-1)
            continue
        placed = [turns.add(m) for m in messages(raw, place, report)]
        steps.append(placed[0] if placed else -1)
    if row.cut is not None:
        turns.warn("", f"the file is cut at line {row.cut.line}")
    return turns, steps


def finish(
    source: Source,
    row: Row,
    turns: Turns,
    format: str,
    *,
    id: str = "",
    task_id: str = "",
    prompt: str = "",
    task_meta: Mapping[str, Any] = EMPTY,
    outcome: float | None = None,
    termination: str = "",
    model: str = "",
    labels: Mapping[str, Any] = EMPTY,
    meta: Mapping[str, Any] = EMPTY,
) -> Trajectory:
    """Return the trajectory of one record; a task that says nothing is told apart by its source."""
    report = source.report
    fallback = f"{source.path.stem}#{row.line}" if source.shared else source.path.stem
    task = turns.task(task_id, fallback=id or fallback, prompt=prompt, meta=task_meta)
    steps = turns.steps_checked(row.place)
    return Trajectory(
        id=source.ids.new(id or f"{task.id}", row.line),
        task=task,
        steps=steps,
        outcome=outcome,
        termination=termination,
        model=model,
        labels=labels,
        source={
            "format": format,
            "file": clean(source.path.name, report),
            "line": row.line,
        },
        warnings=tuple(turns.warnings),
        meta=meta,
    )


def outcome_of(value: Any) -> float | None:
    """Return an outcome in [0, 1], or None for what is none.

    >>> outcome_of(True), outcome_of("0.5"), outcome_of(7), outcome_of(None), outcome_of("C")
    (1.0, 0.5, None, None, 1.0)
    """
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        if value.strip().lower() in GRADES:
            return GRADES[value.strip().lower()]
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, (int, float)) and 0 <= value <= 1:
        return float(value)
    return None


def find_outcome(raw: Mapping[str, Any], turns: Turns, place: str) -> float | None:
    """Return the outcome that a record states under one of the usual names."""
    for name in OUTCOMES:
        if raw.get(name) is not None and not isinstance(raw[name], (dict, list)):
            value = outcome_of(raw[name])
            if value is None:
                turns.warn(place, f"{name} is no outcome in [0, 1]; it is kept in meta only")
            return value
    return None


def pick(raw: Any, names: Iterable[str], report: Report) -> str:
    """Return the first of these members as text; a nested object is no name."""
    if isinstance(raw, dict):
        for name in names:
            value = raw.get(name)
            if value not in (None, "") and not isinstance(value, (dict, list)):
                return text_of(value, report)
    return ""


def table(raw: Any, *keys: str) -> dict[str, Any]:
    """Return the object under these keys, {} where any is missing or something else."""
    for key in keys:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw if isinstance(raw, dict) else {}


def rows_of(raw: Any, *keys: str) -> list[Any]:
    """Return the array under these keys, [] where any is missing or something else."""
    found = table(raw, *keys[:-1]).get(keys[-1]) if keys else raw
    return found if isinstance(found, list) else []


def carry(raw: Any, skip: Iterable[str], report: Report) -> dict[str, Any]:
    """Return the members of a record that are small enough to keep as meta, cleaned."""
    skip = set(skip)
    out = {}
    for key, value in raw.items() if isinstance(raw, dict) else ():
        if key in skip or value is None or value in ("", [], {}):
            continue
        if len(as_json(value)) > LARGEST_META:
            report.fields[report.scrub(clean(str(key), report))] += 1
            continue
        out[clean(str(key), report)] = clean_value(value, report)
    return out
