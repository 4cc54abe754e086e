"""tau2-bench results: ``{"info", "tasks", "simulations"}``, or one simulation alone.

Messages of the user simulator may hold tool calls of its own; these and their results are
observations of the agent's step, not its calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..trajectory import Trajectory
from .dialects import is_message, messages, text_of
from .records import carry, finish, outcome_of, pick, rows_of, table
from .source import Row, Source
from .turns import Message, Turns

NAME = "tau2"
ENDS = {
    "user_stop": "finished",
    "agent_stop": "finished",
    "max_steps": "turn_limit",
    "timeout": "turn_limit",
    "too_many_errors": "error",
    "agent_error": "error",
    "user_error": "error",
    "infrastructure_error": "error",
}


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that these are tau2 results, and why."""
    head = source.head if source.kind == "json" else None
    if isinstance(head, dict):
        if isinstance(head.get("simulations"), list):
            return 0.95, "simulations"
        if isinstance(head.get("tasks"), list) and "environment_info" in table(head, "info"):
            return 0.9, "info of an environment, and tasks"
    rows = source.samples()
    if any(is_simulation(r) for r in rows):
        return 0.85, "simulations with messages and how they ended"
    return 0.0, "no simulations"


def is_simulation(raw: Any) -> bool:
    """Whether this is one simulation."""
    found = rows_of(raw, "messages")
    return "termination_reason" in (raw if isinstance(raw, dict) else {}) and any(
        is_message(m) for m in found
    )


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a simulation."""
    whole = source.kind == "json" and source.head_start() == "{"
    header = source.header("simulations") if whole else {}
    if is_simulation(header):
        whole, header = False, {}
    tasks = {
        pick(t, ("id", "task_id"), source.report): t
        for t in rows_of(header, "tasks")
        if isinstance(t, dict)
    }
    for row in source.items("simulations") if whole else source.rows():
        if not isinstance(row.value, dict) or not isinstance(row.value.get("messages"), list):
            source.report.damaged(row.place, "a simulation without messages")
            continue
        yield simulation(row, row.value, tasks, table(header, "info"), source)


def simulation(
    row: Row, raw: dict[str, Any], tasks: dict[str, Any], info: dict[str, Any], source: Source
) -> Trajectory:
    """Return one simulation as a trajectory."""
    report = source.report
    turns = Turns(report)
    policy = raw.get("policy") or table(info, "environment_info").get("policy")
    if isinstance(policy, str):
        turns.system.append(text_of(policy, report))
    first_user = ""
    for index, one in enumerate(rows_of(raw, "messages")):
        place = row.at(index, "messages")
        report.met()
        if row.is_cut("messages", index):
            report.drop(place, "the file is cut in this message")
            continue
        for m in unfold(one, place, source):
            first_user = first_user or (m.text if m.role == "user" else "")
            turns.add(m)
    task_id = pick(raw, ("task_id",), report)
    task = tasks.get(task_id, {})
    reason = pick(raw, ("termination_reason",), report)
    reward = table(raw, "reward_info").get("reward", raw.get("reward"))
    outcome = outcome_of(reward)
    if outcome is None:
        turns.warn(row.place, "a simulation without a reward in [0, 1]: its outcome is unknown")
    trial = pick(raw, ("trial",), report)
    skip = ("messages", "policy", "task_id", "ticks", "id", "effect_timeline")
    return finish(
        source,
        row,
        turns,
        NAME,
        id=f"{task_id}/{trial}" if task_id and trial else pick(raw, ("id",), report),
        task_id=task_id,
        prompt=pick(task, ("ticket",), report) or first_user,
        task_meta=carry(task, ("id",), report),
        outcome=outcome,
        termination=ENDS.get(reason, reason),
        model=pick(table(info, "agent_info"), ("llm", "implementation"), report),
        meta=carry(raw, skip, report),
    )


def unfold(raw: Any, place: str, source: Source) -> list[Message]:
    """Return the messages of one entry: a bundle of tool results is several."""
    report = source.report
    bundle = rows_of(raw, "tool_messages")
    report.met(max(len(bundle) - 1, 0))
    out = []
    for one in bundle or [raw]:
        for m in messages(one, place, report):
            if m.role == "tool":
                m.call_id = m.call_id or pick(one, ("id",), report)
                if isinstance(one, dict) and one.get("requestor") == "user":
                    m.role, m.text = "environment", f"[to the user] {m.text}"
            out.append(m)
    return out
