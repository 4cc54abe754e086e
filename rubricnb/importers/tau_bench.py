"""tau-bench v1 results: a JSON array of runs ``{"task_id", "reward", "info", "traj", "trial"}``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..trajectory import Trajectory
from .chat import carry, converse, outcome_of, text_of
from .ids import Ids
from .source import Row, Source

NAME = "tau-bench"


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that these are tau-bench v1 results, and why."""
    rows = [r for r in source.samples() if isinstance(r, dict)]
    if rows and all(isinstance(r.get("traj"), list) and "task_id" in r for r in rows[:1]):
        return 0.97, "records with task_id and traj"
    if any(isinstance(r.get("traj"), list) for r in rows):
        return 0.7, "records with traj"
    return 0.0, "no traj"


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a run."""
    ids = Ids()
    for row in source.rows():
        raw = row.value
        if not isinstance(raw, dict) or not isinstance(raw.get("traj"), list):
            source.report.damaged(row.place, "a run without traj")
            continue
        yield run(row, raw, source, ids)


def run(row: Row, raw: dict[str, Any], source: Source, ids: Ids) -> Trajectory:
    """Return one run as a trajectory."""
    report = source.report
    turns, _ = converse(raw["traj"], row, "traj", report)
    info = raw["info"] if isinstance(raw.get("info"), dict) else {}
    goal = info["task"] if isinstance(info.get("task"), dict) else {}
    task_id = text_of(raw.get("task_id"), report)
    outcome = outcome_of(raw.get("reward"))
    if outcome is None:
        turns.warn(row.place, "a run without a reward in [0, 1]: its outcome is unknown")
    trial = text_of(raw.get("trial"), report)
    return Trajectory(
        id=ids.new(f"{task_id or '?'}/{trial or '?'}", row.line),
        task=turns.task(task_id, meta=carry(goal, (), report)),
        steps=turns.agents(row.place),
        outcome=outcome,
        termination="error" if info.get("error") else "",
        source={"format": NAME, "file": source.path.name, "line": row.line},
        warnings=tuple(turns.warnings),
        meta=carry({**info, **raw}, ("task", "traj", "info", "task_id"), report),
    )
