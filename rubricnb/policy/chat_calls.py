"""Read the tool calls of a chat model's reply: the formats that models write, and near misses."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection
from typing import Any

from ..trajectory import ToolCall

_THINK = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.DOTALL)
_MARKED = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_XML = re.compile(r"<function=([^>\s]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?(?:</parameter>|\Z)", re.DOTALL)
_PYTHON = re.compile(r"\b([A-Za-z_]\w*)\(([^()\n]*)\)")


def split_thinking(text: str) -> tuple[str, str]:
    """Return the thinking and the rest of a reply; an opening mark in the prompt may be missing.

    >>> split_thinking("<think>hm</think>Yes.")
    ('hm', 'Yes.')
    >>> split_thinking("hm</think>Yes.")
    ('hm', 'Yes.')
    """
    if "</think>" in text and "<think>" not in text.partition("</think>")[0]:
        text = "<think>" + text
    thoughts = [m.strip() for m in _THINK.findall(text)]
    return "\n".join(t for t in thoughts if t), _THINK.sub("", text).strip()


def read_calls(
    text: str, names: Collection[str], *, lenient: bool = True
) -> tuple[str, tuple[ToolCall, ...]]:
    """Return a reply's prose and its tool calls, in order.

    Read are JSON in <tool_call> marks, Qwen's <function=...> marks, and, if lenient, where none of
    these is found: any JSON object that names a known tool, then ``tool(name="value")``.

    Args:
        text: without thinking.
        names: the tools there are; a marked call of another tool is kept, for the world to refuse.
        lenient: also read calls outside of marks.

    >>> read_calls('So: {"name": "find", "parameters": {"name": "ann"}}', ["find"])[1][0].arguments
    '{"name": "ann"}'
    """
    calls: list[ToolCall] = []
    for inner in _MARKED.findall(text):
        found = _xml(inner) or [c for o in _objects(inner) if (c := _call(o)) is not None]
        calls += found or [ToolCall("invalid", json.dumps({"text": inner}))]
    prose = _MARKED.sub("", text)
    if not calls:
        calls, prose = _xml(text), _XML.sub("", text)
    if not calls and lenient:
        prose = text
        calls = [c for o in _objects(text) if (c := _call(o)) is not None and c.name in names]
        calls = calls or _python(text, names)
    numbered = tuple(ToolCall(c.name, c.arguments, f"call_{i}") for i, c in enumerate(calls, 1))
    return prose.strip(), numbered


def _objects(text: str) -> list[Any]:
    """Every JSON object in a text, outermost ones only."""
    decoder, at, out = json.JSONDecoder(), 0, []
    while (at := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            at += 1
        else:
            out.append(value)
    return out


def _call(value: Any) -> ToolCall | None:
    inner = value.get("function", value)
    value = inner if isinstance(inner, dict) else value
    name = value.get("name")
    if not isinstance(name, str):
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(name, text)


def _xml(text: str) -> list[ToolCall]:
    return [
        ToolCall(name, json.dumps(dict(_PARAMETER.findall(body)), ensure_ascii=False))
        for name, body in _XML.findall(text)
    ]


def _python(text: str, names: Collection[str]) -> list[ToolCall]:
    out = []
    for name, inside in _PYTHON.findall(text):
        if name not in names:
            continue
        try:
            made = ast.parse(f"f({inside})", mode="eval").body
            arguments = {k.arg: ast.literal_eval(k.value) for k in made.keywords if k.arg}
        except (SyntaxError, ValueError):
            continue
        if arguments or not inside.strip():
            out.append(ToolCall(name, json.dumps(arguments, default=str, ensure_ascii=False)))
    return out
