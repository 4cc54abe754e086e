"""LangSmith run trees and LangGraph messages.

A run tree repeats the conversation at every level. It is read from the root run's output, or from
the model runs, each message once, where the root does not hold it; the runs are then dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..trajectory import Trajectory
from .dialects import as_arguments, first, is_message, messages, role_of, unwrap
from .records import carry, finish, outcome_of, pick, rows_of, table
from .report import Report
from .source import Row, Source
from .spans import Span, assemble
from .text import flatten
from .turns import Turns

NAME = "langsmith"
RUNS = ("run_type", "dotted_order", "child_runs", "parent_run_id")
TYPES = {"human", "ai", "tool", "system", "AIMessageChunk", "constructor"}


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that these are LangSmith runs or LangChain messages, and why."""
    rows = source.samples()
    runs = [r for r in rows if isinstance(r, dict) and sum(k in r for k in RUNS) > 1]
    if runs:
        return 0.95, "runs with run_type and parents or children"
    if rows and all(is_langchain(r) for r in rows):
        return 0.85, "messages of LangChain's types human, ai and tool"
    held = [m for r in rows for m in state(r)]
    if held and all(is_langchain(m) for m in held):
        return 0.8, "a state with LangChain messages"
    return 0.0, "no runs"


def is_langchain(raw: Any) -> bool:
    """Whether this is a message in one of LangChain's serialised forms."""
    return isinstance(raw, dict) and str(raw.get("type")) in TYPES and is_message(raw)


def state(raw: Any) -> list[Any]:
    """Return the messages of a graph's state or of a run's inputs or outputs."""
    for keys in (("messages",), ("output", "messages"), ("input", "messages"), ("output",)):
        found = table(raw, *keys[:-1]).get(keys[-1])
        if isinstance(found, list) and len(found) == 1 and isinstance(found[0], list):
            found = found[0] if any(is_message(m) for m in found[0]) else found
        if is_message(found):
            return [found]
        if isinstance(found, list) and any(is_message(m) for m in found):
            return found
    return []


def generated(raw: Any) -> list[Any]:
    """Return the message that a model run's outputs hold."""
    found = rows_of(raw, "generations")
    while found and isinstance(found[0], list):
        found = found[0]
    if found and isinstance(found[0], dict):
        message = found[0].get("message")
        return [message if message is not None else {"role": "ai", "content": found[0].get("text")}]
    choices = rows_of(raw, "choices")
    return [choices[0].get("message")] if choices and isinstance(choices[0], dict) else state(raw)


def flatten_runs(run: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a run and all below it, however deep."""
    waiting = [run]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed([c for c in rows_of(one, "child_runs") if isinstance(c, dict)])


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a trace (or one for loose messages)."""
    report = source.report
    traces: dict[str, list[tuple[Row, dict[str, Any]]]] = {}
    root_of: dict[str, str] = {}
    loose: list[Row] = []
    for row in source.rows():
        raw = row.value
        if is_message(raw) and not (isinstance(raw, dict) and "run_type" in raw):
            loose.append(row)
        elif isinstance(raw, list) or (state(raw) and not any(k in raw for k in RUNS)):
            turns = talk(raw if isinstance(raw, list) else state(raw), row, source)
            yield finish(source, row, turns, NAME)
        elif isinstance(raw, dict) and any(k in raw for k in (*RUNS, "outputs", "inputs")):
            name = pick(raw, ("trace_id",), report)
            own = pick(raw, ("id",), report)
            parent = pick(raw, ("parent_run_id",), report)
            name = name or root_of.get(parent, parent) or own
            if not parent and rows_of(raw, "child_runs"):
                yield trace(name, [(row, raw)], source)  # a whole tree: nothing to wait for
                continue
            root_of[own] = name
            traces.setdefault(name, []).append((row, raw))
        else:
            report.damaged(row.place, "no run and no message")
    for name, held in traces.items():
        yield trace(name, held, source)
    if loose:
        turns = Turns(report)
        for row in loose:
            report.met()
            for m in messages(row.value, row.place, report):
                turns.add(m)
        yield finish(source, loose[0], turns, NAME)


def talk(found: list[Any], row: Row, source: Source) -> Turns:
    """Read a list of messages."""
    turns = Turns(source.report)
    for index, one in enumerate(found):
        source.report.met()
        place = f"{row.place}, messages[{index}]"
        for m in messages(one, place, source.report):
            turns.add(m)
    return turns


def trace(name: str, held: list[tuple[Row, dict[str, Any]]], source: Source) -> Trajectory:
    """Return one trace as a trajectory."""
    report = source.report
    runs = [(row, run) for row, top in held for run in flatten_runs(top)]
    roots = [(row, r) for row, r in runs if not r.get("parent_run_id")] or runs[:1]
    row, root = roots[0]
    found = state(root.get("outputs"))
    if not any(role_of(m) == "assistant" for m in found):
        found = spoken_in(runs)
    elif role_of(unwrap(found[0])) == "assistant":
        found = [*state(root.get("inputs")), *found]
    report.met(len(runs))
    if found or not any(r.get("run_type") == "tool" for _, r in runs):
        turns = talk(found, row, source)
        leave_out(runs, found, report)
    else:
        turns = assemble([span(w, r, source) for w, r in runs], report)
    if not found:
        turns.warn(row.place, "no run of this trace holds messages")
    if row.cut is not None:
        turns.warn("", f"the file is cut at line {row.cut.line}")
    metadata = table(root, "extra", "metadata")
    feedback = table(root, "feedback_stats")
    return finish(
        source,
        row,
        turns,
        NAME,
        id=name,
        task_id=pick(root, ("reference_example_id",), report)
        or pick(metadata, ("task_id",), report),
        outcome=outcome_of(first(metadata, "outcome", "reward")),
        termination="error" if root.get("error") else "",
        model=pick(metadata, ("ls_model_name",), report),
        labels=carry({"feedback": feedback} if feedback else {}, (), report),
        meta=carry({k: root.get(k) for k in ("name", "session_name", "tags", "error")}, (), report),
    )


def span(row: Row, run: dict[str, Any], source: Source) -> Span:
    """Return a run as a span, for a trace whose runs hold no messages."""
    report = source.report
    kind = pick(run, ("run_type",), report)
    role = {"tool": "tool", "llm": "model", "chat_model": "model"}.get(kind, "other")
    outputs = run.get("outputs")
    said = first(outputs, "output", "result", "content") if isinstance(outputs, dict) else outputs
    if said is None:
        said = outputs or pick(run, ("error",), report) or None
    return Span(
        id=pick(run, ("id",), report),
        parent=pick(run, ("parent_run_id",), report),
        start=pick(run, ("dotted_order", "start_time"), report),
        role=role,
        name=pick(run, ("name",), report),
        place=row.place,
        arguments=as_arguments(run.get("inputs"), report),
        result=None if said is None else flatten(said, report)[0],
        why=f"run of type {kind:.40}: it holds no message",
    )


def model_runs(runs: list[tuple[Row, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the model runs in the order in which they ran."""
    models = [r for _, r in runs if r.get("run_type") in ("llm", "chat_model")]
    return sorted(models, key=lambda r: str(first(r, "dotted_order", "start_time") or ""))


def spoken_in(runs: list[tuple[Row, dict[str, Any]]]) -> list[Any]:
    """Return the messages of the model runs in order, each once.

    A run repeats what earlier runs of its conversation were sent and said, so of equal messages
    only as many are taken as any one run holds. Agents of a team hold conversations of their own.
    """
    out: list[Any] = []
    seen: Counter[str] = Counter()
    for run in model_runs(runs):
        here: Counter[str] = Counter()
        for raw in [*state(run.get("inputs")), *generated(run.get("outputs"))]:
            key = gist(raw)
            here[key] += 1
            if here[key] > seen[key]:
                seen[key] += 1
                out.append(raw)
    return out


def gist(raw: Any) -> str:
    """Return what a message says, whatever form it was kept in."""
    said = messages(raw, "", Report())
    return repr([(m.role, m.text, m.calls, m.call_id) for m in said])


def leave_out(runs: list[tuple[Row, dict[str, Any]]], found: list[Any], report: Report) -> None:
    """Drop the runs of a trace whose conversation was read; say where one holds more than that."""
    known = {gist(m) for m in found}
    models = {id(r) for r in model_runs(runs)}
    for where, run in runs:
        said = generated(run.get("outputs")) if id(run) in models else []
        if all(gist(m) in known for m in said):
            why = "a run: what it holds is in the conversation that was read"
        else:
            why = "a model run whose words the conversation of the root run lacks"
        report.drop(where.place, why)
