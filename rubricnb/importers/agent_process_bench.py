"""AgentProcessBench: chat rollouts with a human label for every assistant message.

``step_labels`` maps a message's index to -1, 0 or +1; here the labels are kept by step number, as
``labels["steps"]``, beside ``labels["final_label"]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..trajectory import Trajectory
from .records import carry, converse, finish, pick, rows_of, table
from .source import Row, Source
from .turns import Turns

NAME = "agent-process-bench"


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that these are labelled rollouts of AgentProcessBench, and why."""
    rows = [r for r in source.samples() if isinstance(r, dict)]
    if any("step_labels" in r and "messages" in r for r in rows):
        return 0.95, "records with messages and step_labels"
    if any("final_label" in r and "messages" in r for r in rows):
        return 0.8, "records with messages and final_label"
    return 0.0, "no step_labels"


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a rollout."""
    for row in source.rows():
        if not isinstance(row.value, dict) or not rows_of(row.value, "messages"):
            source.report.damaged(row.place, "a record without messages")
            continue
        yield rollout(row, row.value, source)


def rollout(row: Row, raw: dict[str, Any], source: Source) -> Trajectory:
    """Return one rollout as a trajectory, its labels by step."""
    report = source.report
    found = rows_of(raw, "messages")
    turns, step_of = converse(found, row, "messages", report)
    labels: dict[str, Any] = {"steps": step_labels(raw, found, step_of, turns, row)}
    final = raw.get("final_label")
    if final is not None:
        labels["final_label"] = final if isinstance(final, int) else str(final)[:100]
    query = pick(raw, ("query_index", "task_id"), report)
    subset = pick(raw, ("data_source",), report)
    sample = pick(raw, ("sample_index",), report)
    task_id = f"{subset}/{query}".strip("/") if query else ""
    return finish(
        source,
        row,
        turns,
        NAME,
        id=f"{task_id}/{sample}" if task_id and sample else "",
        task_id=task_id,
        task_meta=carry({k: raw.get(k) for k in ("question", "ground_truth", "tools")}, (), report),
        # The label says whether the final answer is right: it is the outcome, judged by people.
        outcome={1: 1.0, -1: 0.0}.get(final) if isinstance(final, int) else None,
        labels=labels,
        meta=carry(
            raw,
            ("messages", "step_labels", "final_label", "tools", "question", "ground_truth"),
            report,
        ),
    )


def step_labels(
    raw: dict[str, Any], found: list[Any], step_of: list[int], turns: Turns, row: Row
) -> dict[str, int]:
    """Return the labels by step number; one that names no assistant message is left out."""
    out: dict[str, int] = {}
    for key, label in table(raw, "step_labels").items():
        index = int(key) if str(key).isascii() and str(key).isdecimal() else -1
        said = found[index] if 0 <= index < len(found) and len(str(key)) < 9 else None
        place = f"{row.place}, step_labels[{str(key)[:20]}]"
        if not isinstance(said, dict) or said.get("role") != "assistant" or step_of[index] < 1:
            turns.warn(place, "a label that names no assistant message is left out")
        elif isinstance(label, bool) or label not in (-1, 0, 1):
            turns.warn(place, "a label that is not -1, 0 or +1 is left out")
        else:
            out[str(step_of[index])] = int(label)
    return out
