"""One raw chat message of any dialect as ``Message`` values.

Dialects differ in names (role, type, from), in where calls are (tool_calls, function_call, content
parts, Gemini parts) and in how results come back (a tool message, parts of a user message). One raw
message that holds several tool results becomes several messages, each met and placed on its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..trajectory import ToolCall
from .pull import BrokenJSON, decode
from .report import Report
from .text import as_json, clean, clean_value, flatten
from .turns import Message

ROLES = {
    "assistant": "assistant",
    "ai": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "agent": "assistant",
    "bot": "assistant",
    "user": "user",
    "human": "user",
    "humanmessage": "user",
    "system": "system",
    "systemmessage": "system",
    "developer": "system",
    "tool": "tool",
    "toolmessage": "tool",
    "function": "tool",
    "functionmessage": "tool",
    "ipython": "tool",
    "observation": "tool",
    "tool_response": "tool",
    "environment": "environment",
    "env": "environment",
}
THINKING = ("reasoning_content", "reasoning", "thinking", "thinking_blocks")
CALL_PARTS = {"tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "tool-call", "toolCall"}
RESULT_PARTS = {"tool_call_response", "tool-result", "toolResult"}


def first(mapping: Mapping[str, Any], *names: str) -> Any:
    """Return the first of these members that is not null, else None."""
    for name in names:
        if (value := mapping.get(name)) is not None:
            return value
    return None


def text_of(value: Any, report: Report) -> str:
    """Return a name or id as clean text; "" for null."""
    return "" if value is None else clean(as_json(value), report)


def tool_calls(raw: Any, report: Report) -> tuple[ToolCall, ...]:
    """Return the calls of a message; arguments stay the text that the agent wrote.

    >>> tool_calls([{"id": "a", "function": {"name": "f", "arguments": "{bad"}}], Report())
    (ToolCall(name='f', arguments='{bad', id='a'),)
    """
    listed = raw if isinstance(raw, list) else [] if raw is None else [raw]
    return tuple(tool_call(call, report) for call in listed if call is not None)


def tool_call(call: Any, report: Report) -> ToolCall:
    """Return one call of any dialect."""
    if isinstance(call, str) and call.lstrip()[:1] == "{":  # some loggers keep each call as text
        call = _decoded(call)
    if not isinstance(call, dict):
        return ToolCall(name="", arguments=clean(as_json(call), report))
    inner = first(call, "function", "functionCall", "function_call")
    inner = inner if isinstance(inner, dict) else call
    name = first(inner, "name", "tool_name", "toolName", "function_name", "function")
    arguments = first(inner, "arguments", "args", "input", "parameters", "kwargs")
    return ToolCall(
        name=text_of(name, report),
        arguments=as_arguments(arguments, report),
        id=text_of(first(call, "id", "call_id", "tool_call_id", "toolCallId"), report),
    )


def _decoded(text: str) -> Any:
    try:
        found = decode(text)
    except BrokenJSON:
        return text
    return found if isinstance(found, dict) and {"function", "name", "id"} & set(found) else text


def as_arguments(arguments: Any, report: Report) -> str:
    """Return arguments as text: as they were written, or as JSON where they came decoded."""
    if arguments is None:
        return "{}"
    if isinstance(arguments, str):
        return clean(arguments, report)
    return as_json(clean_value(arguments, report))


def unwrap(raw: Any) -> Any:
    """Return the plain form of a message that a library wrapped: pairs, LangChain's two forms."""
    if isinstance(raw, (list, tuple)) and len(raw) == 2 and isinstance(raw[0], str):
        return {"role": raw[0], "content": raw[1]}
    if not isinstance(raw, dict):
        return raw
    if raw.get("type") == "constructor" and isinstance(raw.get("kwargs"), dict):
        path = raw.get("id")
        kind = path[-1] if isinstance(path, list) and path else ""
        return {"type": str(kind), **raw["kwargs"]}
    if (
        isinstance(raw.get("data"), dict)
        and str(raw.get("type")).lower() in ROLES
        and "content" not in raw
    ):
        return {**raw["data"], "type": raw["type"]}
    return raw


def role_of(raw: Any) -> str | None:
    """Return our role of a raw message, None where it has none that we know."""
    raw = unwrap(raw)
    if not isinstance(raw, dict):
        return None
    for key in ("role", "from", "type"):
        if isinstance(raw.get(key), str) and (role := ROLES.get(raw[key].lower())):
            return role
    return None


def is_message(raw: Any) -> bool:
    """Whether this is one chat message: a known role, and something said, called or left empty."""
    raw = unwrap(raw)
    said = ("content", "value", "tool_calls", "function_call", "parts")
    return role_of(raw) is not None and any(k in raw for k in said)


def messages(raw: Any, place: str, report: Report) -> list[Message]:
    """Return the messages that one raw message holds; none, and a drop, for what is no message.

    The raw message itself must have been met already; further ones inside it are met here.
    """
    raw = unwrap(raw)
    if isinstance(raw, dict) and first(raw, "role", "from") == "function_call":
        called = first(raw, "value", "content")
        raw = {"role": "assistant", "content": None, "tool_calls": [called]}
    role = role_of(raw)
    if role is None:
        kind = first(raw, "role", "type", "from") if isinstance(raw, dict) else None
        said = f"unknown role {kind!r:.60}" if kind is not None else "no role"
        report.drop(place, f"no chat message: {said}" if isinstance(raw, dict) else "no object")
        return []
    content = first(raw, "content", "value", "parts", "text")
    calls, results, rest = split(content, report)
    text, thinking = flatten(rest, report)
    if isinstance(raw.get("refusal"), str) and not text:
        text = clean(raw["refusal"], report)
    for key in THINKING:
        if raw.get(key):
            said, inner = flatten(raw[key], report)
            thinking = said or inner or thinking
            break
    found = [*calls, *tool_calls(raw.get("tool_calls"), report)] if not calls else list(calls)
    found += tool_calls(raw.get("invalid_tool_calls"), report)
    if not found:
        found += tool_calls(raw.get("function_call"), report)
    name = text_of(raw.get("name") or raw.get("agent_name"), report)
    call_id = text_of(first(raw, "tool_call_id", "call_id", "toolCallId"), report)
    answers = [
        Message("tool", *flat, name=n, call_id=i, place=place)
        for i, n, flat in ((r[0], r[1], flatten(r[2], report)) for r in results)
    ]
    if answers and not (text or thinking or found):
        report.met(len(answers) - 1)
        return answers
    report.met(len(answers))
    own = Message(role, text, thinking, (), name, call_id, place=place)
    if role == "assistant":
        own.calls = tuple(found)
    elif found:
        # A simulated user may call tools of its own; they are not the agent's.
        own.text = "\n".join([text, *(f"[{role} calls {c.name} {c.arguments}]" for c in found)])
        own.text = own.text.strip()
    return [own, *answers] if role == "assistant" else [*answers, own]


def split(content: Any, report: Report) -> tuple[list[ToolCall], list[tuple[str, str, Any]], Any]:
    """Return (calls, (id, name, content) of results, what is left) of a message's content."""
    if not isinstance(content, list):
        return [], [], content
    calls, results, rest = [], [], []
    for part in content:
        kind = str(part.get("type") or "") if isinstance(part, dict) else ""
        if isinstance(part, dict) and (kind in CALL_PARTS or "functionCall" in part):
            calls.append(tool_call(part, report))
        elif isinstance(part, dict) and (kind in RESULT_PARTS or kind.endswith("tool_result")):
            results.append(result(part, report))
        elif isinstance(part, dict) and isinstance(part.get("functionResponse"), dict):
            results.append(result(part["functionResponse"], report))
        else:
            rest.append(part)
    return calls, results, rest


def result(part: Mapping[str, Any], report: Report) -> tuple[str, str, Any]:
    """Return (call id, name, content) of a part that holds a tool's result."""
    call_id = first(part, "tool_use_id", "tool_call_id", "toolCallId", "id")
    name = first(part, "name", "toolName")
    content = first(part, "content", "result", "response", "output")
    if isinstance(content, dict) and "value" in content and "type" in content:
        content = content["value"]
    if part.get("is_error") is True and not content:
        content = "[error without text]"
    return text_of(call_id, report), text_of(name, report), content
