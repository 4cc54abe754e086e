"""An OpenAI-compatible server's answers that play the bundled desk through function calls.

What it does is what the package's demonstrator does on a desk without noise; it reads the task
from the conversation and counts its own turns there, as a model without a memory would.
"""

from __future__ import annotations

from typing import Any

from rubricnb.worlds import Noise, OrdersDesk, as_trajectory, demonstrate
from tests.edges.loopback import Respond, completion

QUIET = OrdersDesk(noise=Noise(0.0, 0.0))
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def tool_turn(*calls: tuple[str, str], text: str = "", usage: Any = USAGE) -> Respond:
    """Return a completion that makes these calls: (name, arguments as text)."""
    rows = [
        {"id": f"c{i}", "type": "function", "function": {"name": n, "arguments": a}}
        for i, (n, a) in enumerate(calls)
    ]
    return completion(text or None, finish="tool_calls", usage=usage, tool_calls=rows)


def player(tasks, wrong=()):
    """Return a script that solves the tasks, except those in ``wrong``, which it gives up on."""
    plans = {}
    for task in tasks:
        episode = QUIET.reset(task, 0)
        demonstrate(episode, 0)
        steps = as_trajectory(episode, task.id, thoughts=[""] * len(episode.turns)).steps
        calls = [(c.name, c.arguments) for s in steps for c in s.calls]
        if task.id in wrong:
            calls = [("finish", '{"outcome": "done", "message": "all done"}')]
        plans[QUIET.chat_prompt(task)] = calls

    def answer(body: dict[str, Any]) -> Respond:
        assert {t["function"]["name"] for t in body["tools"]} == {
            t["function"]["name"] for t in QUIET.tools()
        }
        told = next(m["content"] for m in body["messages"] if m["role"] == "user")
        turn = sum(m["role"] == "assistant" for m in body["messages"])
        return tool_turn(plans[told][turn])

    return answer
