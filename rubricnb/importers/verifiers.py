"""verifiers and prime-rl rollouts: JSON lines of ``{"prompt", "completion", "reward", ...}``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..trajectory import Trajectory
from .dialects import is_message, messages
from .pull import BrokenJSON, decode
from .records import carry, finish, outcome_of, pick, rows_of, table
from .report import Report
from .source import Row, Source
from .turns import Turns

NAME = "verifiers"
KNOWN = {"reward", "example_id", "answer", "info", "metrics", "is_completed", "advantage", "task"}


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that these are rollouts of verifiers, and why."""
    rows = [r for r in source.samples() if isinstance(r, dict)]
    paired = [r for r in rows if talk(r, "completion") and ("prompt" in r or "reward" in r)]
    if paired and any(KNOWN & set(r) for r in paired):
        return 0.93, "prompt and completion messages with a reward"
    if paired:
        return 0.7, "prompt and completion messages"
    if any(talk(r, "completion", "in", "trajectory") for r in rows):
        return 0.7, "a trajectory of completions"
    return 0.0, "no prompt and completion"


def talk(raw: Any, *path: str) -> bool:
    """Whether this member is messages, or text."""
    if len(path) == 3:
        return any(talk(t, path[0]) for t in rows_of(raw, path[2]))
    found = raw.get(path[0]) if isinstance(raw, dict) else None
    listed = isinstance(found, list) and any(is_message(m) for m in found)
    return listed or (isinstance(found, str) and "prompt" in raw)


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a rollout."""
    model = model_beside(source)
    for row in source.rows():
        raw = row.value
        if not isinstance(raw, dict) or not ("completion" in raw or rows_of(raw, "trajectory")):
            source.report.damaged(row.place, "a rollout without completion")
            continue
        yield rollout(row, raw, model, source)


def rollout(row: Row, raw: dict[str, Any], model: str, source: Source) -> Trajectory:
    """Return one rollout as a trajectory."""
    report = source.report
    turns_log = [t for t in rows_of(raw, "trajectory") if isinstance(t, dict)]
    turns = spoken(row, raw, turns_log, source)
    if turns_log and raw.get("completion") is not None:
        report.fields["trajectory (the same turns as completion)"] += 1
        if len(turns_log) != len(turns):
            turns.warn(row.place, "trajectory and completion differ in their number of turns")
    outcome = outcome_of(raw.get("reward"))
    if outcome is None:
        turns.warn(row.place, "a rollout without a reward in [0, 1]: its outcome is unknown")
    response = table(turns_log[0], "response") if turns_log else {}
    return finish(
        source,
        row,
        turns,
        NAME,
        id=pick(turns_log[0], ("trajectory_id",), report) if turns_log else "",
        task_id=task_id(raw, report),
        task_meta=carry(
            {k: raw.get(k) for k in ("answer", "info", "task", "tool_defs")}, (), report
        ),
        outcome=outcome,
        termination=ending(raw),
        model=pick(raw, ("model",), report) or pick(response, ("model",), report) or model,
        meta=carry(
            raw,
            ("prompt", "completion", "trajectory", "tool_defs", "answer", "info", "task"),
            report,
        ),
    )


def task_id(raw: dict[str, Any], report: Report) -> str:
    """Return the id of a rollout's task; numbers of examples begin at 0 in every environment."""
    own = pick(raw, ("example_id", "task_id", "problem_id"), report)
    environment = pick(raw, ("env_name", "env_id", "task"), report)
    named = own.isdecimal() and environment not in ("", "default") and len(environment) < 80
    return f"{environment}/{own}" if named else own


def spoken(row: Row, raw: dict[str, Any], turns_log: list[dict[str, Any]], source: Source) -> Turns:
    """Read the prompt and the completion, messages or text."""
    report = source.report
    turns = Turns(report)
    prompt, completion = raw.get("prompt"), raw.get("completion")
    if completion is None and turns_log:
        # The last turn's prompt repeats all before it.
        prompt, completion = turns_log[-1].get("prompt"), turns_log[-1].get("completion")
    counts = token_counts(turns_log)
    for key, role, found in (("prompt", "user", prompt), ("completion", "assistant", completion)):
        listed = found if isinstance(found, list) else [] if found is None else [found]
        for index, one in enumerate(listed):
            place = row.at(index, key)
            report.met()
            if row.is_cut(key, index):
                report.drop(place, "the file is cut in this message")
                continue
            body = {"role": role, "content": one} if isinstance(one, str) else one
            for m in messages(body, place, report):
                if m.role == "assistant" and len(turns) < len(counts):
                    m.tokens = counts[len(turns)]
                turns.add(m)
    return turns


def token_counts(turns_log: list[dict[str, Any]]) -> list[int | None]:
    """Return the number of sampled tokens of each turn, None where ids are not there."""
    ids = [rows_of(t, "tokens", "completion_ids") for t in turns_log]
    return [len(i) or None for i in ids]


def ending(raw: dict[str, Any]) -> str:
    """Return how a rollout ended."""
    if raw.get("error"):
        return "error"
    if raw.get("is_truncated") is True:
        return "length"
    condition = str(raw.get("stop_condition") or "")
    if "max" in condition and "turn" in condition:
        return "turn_limit"
    return "finished" if raw.get("is_completed") is True else ""


def model_beside(source: Source) -> str:
    """Return the model that an eval run's metadata.json beside the rollouts names."""
    path = Source(source.path.parent).inner("metadata.json")
    if path is None or path.stat().st_size > 1 << 20:
        return ""
    try:
        return pick(decode(path.read_text("utf-8", "replace")), ("model",), source.report)
    except BrokenJSON:
        return ""
