"""tau-bench v1 results: a JSON array of runs ``{"task_id", "reward", "info", "traj", "trial"}``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..trajectory import Trajectory
from .records import carry, converse, finish, outcome_of, pick, rows_of, table
from .source import Row, Source

NAME = "tau-bench"


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that these are tau-bench v1 results, and why."""
    rows = [r for r in source.samples() if isinstance(r, dict)]
    if any("traj" in r and "task_id" in r for r in rows):
        return 0.95, "runs with task_id and traj"
    if any(isinstance(r.get("traj"), list) for r in rows):
        return 0.7, "runs with traj"
    return 0.0, "no traj"


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a run."""
    for row in source.rows():
        raw = row.value
        if not isinstance(raw, dict) or not isinstance(raw.get("traj", 0), list | None):
            source.report.damaged(row.place, "a run without traj")
            continue
        yield run(row, raw, source)


def run(row: Row, raw: dict[str, Any], source: Source) -> Trajectory:
    """Return one run as a trajectory."""
    report = source.report
    turns, _ = converse(rows_of(raw, "traj"), row, "traj", report)
    info = table(raw, "info")
    task_id = pick(raw, ("task_id",), report)
    outcome = outcome_of(raw.get("reward"))
    if outcome is None:
        turns.warn(row.place, "a run without a reward in [0, 1]: its outcome is unknown")
    trial = pick(raw, ("trial",), report)
    return finish(
        source,
        row,
        turns,
        NAME,
        id=f"{task_id or '?'}/{trial or '?'}",
        task_id=task_id,
        task_meta=carry(table(info, "task"), (), report),
        outcome=outcome,
        termination="error" if info.get("error") else "",
        meta=carry({**info, **raw}, ("task", "traj", "info", "task_id"), report),
    )
