"""A rule-based baseline that reads tool calls alone: do they parse, fit the schema, and work?

It knows nothing of the task. Where the tools' schemas are not given they are learned from the log
itself: the argument names and types that a tool's calls have in common.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from ..errors import FormatError
from ..trajectory import Step, ToolCall, Trajectory

LEAST = 8  # calls of a tool from which a schema is learned
COMMON = 0.95  # share of calls that hold an argument that is taken for required
_ERROR = re.compile(r"^\W*(error|exception|traceback|invalid|failed|unknown)\b", re.I)
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array",
          dict: "object", type(None): "null"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CallScore:
    """What the calls of one rollout are like: shares in [0, 1], NaN without a call.

    Args:
        calls: tool calls made.
        parsed: share whose arguments are a JSON object.
        known: share of tools that the schemas have.
        valid: share whose arguments fit the schema.
        worked: share whose result does not say error.
        last_worked: whether the last call that has a result worked.
    """

    calls: int
    parsed: float
    known: float
    valid: float
    worked: float
    last_worked: bool

    @property
    def passed(self) -> float:
        """1.0 where every call is well-formed and the last one worked, else 0.0; NaN: no call."""
        if not self.calls:
            return float("nan")
        return float(self.valid == 1.0 and self.last_worked)


def schemas_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return name -> JSON schema from OpenAI-style tool definitions.

    Raises:
        FormatError: for a definition without a name, or parameters that are no JSON schema.
    """
    out = {}
    for i, tool in enumerate(tools):
        about = tool.get("function", tool)
        name, schema = about.get("name"), about.get("parameters") or {"type": "object"}
        if not name:
            raise FormatError(f"want a tool with a name; got none at {i}")
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as e:
            raise FormatError(f"want a JSON schema for tool {name!r}; got {e.message}") from e
        out[str(name)] = dict(schema)
    return out


def learned_schemas(trajectories: Sequence[Trajectory]) -> dict[str, dict[str, Any]]:
    """Return name -> JSON schema that most calls of each tool fit; {} of rules for rare tools.

    A tool that was called fewer than ``LEAST`` times gets no rules but its name.
    """
    seen: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for t in trajectories:
        for step in t.steps:
            for call in step.calls:
                found = arguments_of(call)
                seen[call.name] += [found] if found is not None else []
    return {name: _learn(rows) for name, rows in seen.items() if rows}


def _learn(rows: list[dict[str, Any]]) -> dict[str, Any]:
    if len(rows) < LEAST:
        return {"type": "object"}
    held = Counter(k for r in rows for k in r)
    properties = {}
    for key in held:
        types = Counter(_TYPES.get(type(r[key]), "string") for r in rows if key in r)
        common = [t for t, n in types.items() if n >= 0.05 * held[key]]
        properties[key] = {"type": sorted(common)}
    required = sorted(k for k, n in held.items() if n >= COMMON * len(rows))
    return {"type": "object", "properties": properties, "required": required}


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """Return a call's arguments, None where they are no JSON object."""
    try:
        found = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def score_calls(
    trajectories: Sequence[Trajectory], tools: Sequence[Mapping[str, Any]] | None = None
) -> list[CallScore]:
    """Return the call scores of each rollout.

    Args:
        trajectories: the rollouts.
        tools: OpenAI-style definitions; None learns schemas from these rollouts.
    """
    schemas = learned_schemas(trajectories) if tools is None else schemas_of(tools)
    checks = {name: Draft202012Validator(s) for name, s in schemas.items()}
    return [_score(t, checks) for t in trajectories]


def _score(trajectory: Trajectory, checks: Mapping[str, Draft202012Validator]) -> CallScore:
    parsed = known = valid = worked = results = calls = 0
    last = True
    for step in trajectory.steps:
        for i, call in enumerate(step.calls):
            calls += 1
            found = arguments_of(call)
            parsed += found is not None
            known += call.name in checks
            valid += found is not None and call.name in checks and checks[call.name].is_valid(found)
            said = _result(step, i, call)
            if said is not None:
                results += 1
                last = not _ERROR.search(said[:200])
                worked += last
    nan = float("nan")
    return CallScore(
        calls,
        parsed / calls if calls else nan,
        known / calls if calls else nan,
        valid / calls if calls else nan,
        worked / results if results else nan,
        last,
    )


def _result(step: Step, i: int, call: ToolCall) -> str | None:
    """What the call returned: by its id, else the tool result at its place."""
    if call.id:
        named = next((o.text for o in step.observations if o.call_id == call.id), None)
        if named is not None:
            return named
    tools = [o for o in step.observations if o.role == "tool"]
    return tools[i].text if i < len(tools) else None
