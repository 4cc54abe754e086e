"""Function calls between their three forms: Python text, values, and OpenAI schemas."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

Parsed = tuple[str, tuple[Any, ...], dict[str, Any]]

_TYPES = {"dict": "object", "float": "number", "tuple": "array", "long": "integer"}


def parse_calls(text: str) -> list[Parsed]:
    """Return the calls that a Python expression, or a list of them, consists of.

    Args:
        text: such as ``ls(a=True)`` or ``[cd(folder='x'), ls()]``.
    Returns:
        (name, positional arguments, named arguments) of each call.
    Raises:
        ValueError: for anything but calls of plain names with literal arguments.

    >>> parse_calls("[cd('docs'), ls(a=True)]")
    [('cd', ('docs',), {}), ('ls', (), {'a': True})]
    """
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as e:
        raise ValueError(f"want a Python call; got {text[:80]!r}") from e
    nodes = body.elts if isinstance(body, (ast.List, ast.Tuple)) else [body]
    return [_parsed(node, text) for node in nodes]


def _parsed(node: ast.expr, text: str) -> Parsed:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(f"want a Python call of a plain name; got {text[:80]!r}")
    try:
        args = tuple(ast.literal_eval(a) for a in node.args)
        kwargs = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
    except (ValueError, TypeError, SyntaxError, RecursionError) as e:
        raise ValueError(f"want literals as arguments; got {text[:80]!r}") from e
    if None in kwargs:
        raise ValueError(f"want named arguments without **; got {text[:80]!r}")
    return node.func.id, args, kwargs


def written(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return a call as Python text.

    >>> written("mv", ["a"], {"destination": "b"})
    "mv('a', destination='b')"
    """
    parts = [*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())]
    return f"{name}({', '.join(parts)})"


def function_schema(doc: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function's documentation as a tool in OpenAI's form."""
    about = doc["description"]
    if doc.get("response"):
        about += f" It returns: {json.dumps(doc['response'])}"
    function = {
        "name": doc["name"],
        "description": about,
        "parameters": json_schema(doc["parameters"]),
    }
    return {"type": "function", "function": function}


def json_schema(node: Any) -> Any:
    """Return a schema with Python's names of types replaced by those of JSON Schema.

    >>> json_schema({"type": "dict", "properties": {"type": {"type": "float"}}})
    {'type': 'object', 'properties': {'type': {'type': 'number'}}}
    """
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key == "type":
            kind = _TYPES.get(value, value)
            if kind != "any":
                out[key] = kind
        elif key == "properties":
            out[key] = {name: json_schema(inner) for name, inner in value.items()}
        elif key == "items" and isinstance(value, Mapping):
            out[key] = json_schema(value)
        elif key != "optional":
            out[key] = value
    return out
