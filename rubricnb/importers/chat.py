"""Chat messages in the dialects that logs hold, as ``Message`` values; and outcomes as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..trajectory import ToolCall
from .report import Report
from .source import Row
from .text import as_json, clean, clean_value, flatten
from .turns import Message, Turns

ROLES = {
    "assistant": "assistant",
    "ai": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "agent": "assistant",
    "bot": "assistant",
    "aimessagechunk": "assistant",
    "user": "user",
    "human": "user",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
    "ipython": "tool",
    "observation": "tool",
    "tool_response": "tool",
    "environment": "environment",
    "env": "environment",
}
THINKING = ("reasoning_content", "reasoning", "thinking", "thinking_blocks")
OUTCOMES = ("outcome", "reward", "score", "success", "resolved", "passed", "is_correct", "correct")
TASK_IDS = (
    "task_id",
    "instance_id",
    "example_id",
    "problem_id",
    "question_id",
    "question_ID",
    "prompt_id",
    "task",
)
MODELS = ("model", "model_name", "model_name_or_path")


def tool_calls(raw: Any, report: Report) -> tuple[ToolCall, ...]:
    """Return the calls of a message; arguments stay the text that the agent wrote.

    >>> tool_calls([{"id": "a", "function": {"name": "f", "arguments": "{bad"}}], Report())
    (ToolCall(name='f', arguments='{bad', id='a'),)
    """
    out = []
    for call in raw if isinstance(raw, list) else [raw] if isinstance(raw, dict) else []:
        if not isinstance(call, dict):
            out.append(ToolCall(name="", arguments=clean(as_json(call), report)))
            continue
        inner = call.get("function")
        inner = inner if isinstance(inner, dict) else call
        name = first(inner, "name", "tool_name", "function", "function_name")
        arguments = first(inner, "arguments", "args", "input", "parameters", "kwargs")
        out.append(
            ToolCall(
                name=clean(as_json(name), report) if name is not None else "",
                arguments=as_arguments(arguments, report),
                id=text_of(first(call, "id", "call_id", "tool_call_id"), report),
            )
        )
    return tuple(out)


def as_arguments(arguments: Any, report: Report) -> str:
    """Return arguments as text: as they were written, or as JSON where they came decoded."""
    if arguments is None:
        return "{}"
    if isinstance(arguments, str):
        return clean(arguments, report)
    return as_json(clean_value(arguments, report))


def first(mapping: Mapping[str, Any], *names: str) -> Any:
    """Return the first of these members that is not null, else None."""
    for name in names:
        if (value := mapping.get(name)) is not None:
            return value
    return None


def text_of(value: Any, report: Report) -> str:
    """Return a name or id as clean text; "" for null."""
    return "" if value is None else clean(as_json(value), report)


def message(raw: Any, place: str, report: Report) -> Message | None:
    """Return a chat message of any dialect, or None (and a drop) for what is none."""
    if isinstance(raw, (list, tuple)) and len(raw) == 2 and isinstance(raw[0], str):
        raw = {"role": raw[0], "content": raw[1]}
    if not isinstance(raw, dict):
        report.drop(place, f"want a message; got {type(raw).__name__}")
        return None
    named = first(raw, "role", "type", "from")
    role = ROLES.get(str(named).lower())
    if role is None:
        report.drop(place, f"unknown role {str(named)[:40]!r}")
        return None
    text, thinking = flatten(first(raw, "content", "value", "text"), report)
    if isinstance(raw.get("refusal"), str) and not text:
        text = clean(raw["refusal"], report)
    for key in THINKING:
        if raw.get(key):
            thinking = flatten(raw[key], report)[0] or thinking
            break
    calls = tool_calls(raw.get("tool_calls"), report)
    legacy = raw.get("function_call")
    if legacy and not calls:
        calls = tool_calls(legacy, report)
    return Message(
        role=role,
        text=text,
        thinking=thinking,
        calls=calls if role == "assistant" else (),
        name=text_of(raw.get("name"), report),
        call_id=text_of(raw.get("tool_call_id"), report),
        place=place,
    )


def converse(raws: Iterable[Any], row: Row, key: str, report: Report) -> tuple[Turns, list[int]]:
    """Read a list of chat messages; return the turns and the step of each message (0: task).

    A message that the file is cut in, and one that is none, is dropped and has step -1.
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
        m = message(raw, place, report)
        steps.append(-1 if m is None else turns.add(m))
    if row.cut is not None:
        turns.warn("", f"the file is cut: {row.cut}")
    return turns, steps


def outcome_of(value: Any) -> float | None:
    """Return an outcome in [0, 1], or None for what is not a number in that range.

    >>> outcome_of(True), outcome_of("0.5"), outcome_of(7), outcome_of(None), outcome_of("C")
    (1.0, 0.5, None, None, 1.0)
    """
    words = {"c": 1.0, "correct": 1.0, "pass": 1.0, "passed": 1.0, "true": 1.0, "success": 1.0,
             "yes": 1.0, "i": 0.0, "incorrect": 0.0, "fail": 0.0, "failed": 0.0, "false": 0.0,
             "failure": 0.0, "no": 0.0, "p": 0.5, "partial": 0.5}  # fmt: skip
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        if value.strip().lower() in words:
            return words[value.strip().lower()]
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


def carry(raw: Mapping[str, Any], skip: Iterable[str], report: Report) -> dict[str, Any]:
    """Return the members of a record that are small enough to keep as meta, cleaned."""
    skip = set(skip)
    out = {}
    for key, value in raw.items():
        if key in skip or value is None or value in ("", [], {}):
            continue
        if len(as_json(value)) > 4000:
            report.fields[str(key)] += 1
            continue
        out[clean(str(key), report)] = clean_value(value, report)
    return out
