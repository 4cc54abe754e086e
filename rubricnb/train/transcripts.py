"""What trl hands a reward function as our values: prompt and completion become a Trajectory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..files import content_hash
from ..trajectory import Observation, Step, Task, ToolCall, Trajectory

Message = Mapping[str, Any]


def trajectory_of(prompt: str | Sequence[Message], completion: Any, index: int) -> Trajectory:
    """Return the trajectory of one completion; one assistant message is one step.

    Args:
        prompt: a text, or chat messages.
        completion: a text (one step), or the chat messages that followed the prompt.
        index: position in the batch; with the prompt's hash it names the rollout.
    """
    if isinstance(prompt, str):
        system, asked = "", prompt
    else:
        system = "\n\n".join(_text(m) for m in prompt if m["role"] == "system")
        asked = "\n\n".join(_text(m) for m in prompt if m["role"] != "system")
    task = Task(content_hash([system, asked])[:16], asked, system)
    messages = (
        [{"role": "assistant", "content": completion}]
        if isinstance(completion, str)
        else completion
    )
    return Trajectory(f"{task.id}/{index}", task, tuple(_steps(messages)))


def _steps(messages: Sequence[Message]) -> list[Step]:
    steps: list[Step] = []
    for m in messages:
        if m["role"] == "assistant":
            steps.append(
                Step(
                    _text(m),
                    tuple(_call(c) for c in m.get("tool_calls") or ()),
                    thinking=m.get("reasoning_content") or m.get("thinking") or "",
                )
            )
        elif steps:
            last = steps[-1]
            seen = Observation(
                _text(m), m["role"], m.get("name") or "", m.get("tool_call_id") or ""
            )
            steps[-1] = Step(
                last.text, last.calls, (*last.observations, seen), thinking=last.thinking
            )
    return steps


def _call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function", call)
    arguments = function.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(function.get("name", ""), text, call.get("id") or "")


def _text(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content or ()
    return "".join(p.get("text", "") if p.get("type") == "text" else "[image]" for p in parts)
