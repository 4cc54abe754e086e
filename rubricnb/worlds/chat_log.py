"""A log as a user would bring it: rollouts of the bundled desk in OpenAI's chat format."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..seeds import child_seed
from ..trajectory import Trajectory
from .demonstrator import NOISY, Faults, demonstrate
from .desk import OrdersDesk
from .transcript import as_trajectory

# What the demonstrator says beside a call: it acts without reasoning, and a log has some text.
SAYS = {
    "find": "Who is meant?",
    "finish": "That is all.",
    "orders": "What is there?",
    "cancel": "I cancel it.",
    "move": "I move it.",
    "refund": "I refund it.",
    "address": "I change the address.",
    "note": "I leave a note.",
}


def messages_of(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Return a trajectory as OpenAI chat messages with tool calls."""
    task = trajectory.task
    out: list[dict[str, Any]] = [
        {"role": "system", "content": task.system},
        {"role": "user", "content": task.prompt},
    ]
    for step in trajectory.steps:
        calls = [
            {
                "id": c.id,
                "type": "function",
                "function": {"name": c.name, "arguments": c.arguments},
            }
            for c in step.calls
        ]
        out.append({"role": "assistant", "content": step.text, "tool_calls": calls})
        out += [
            {"role": "tool", "tool_call_id": o.call_id, "content": o.text}
            for o in step.observations
        ]
    return out


def write_chat_log(
    path: str | os.PathLike[str],
    *,
    tasks: int = 3,
    rollouts: int = 6,
    seed: int = 0,
    faults: Faults = NOISY,
) -> Path:
    """Write rollouts of a demonstrator that errs at random, one a line, and return the path.

    Args:
        path: a ``.jsonl`` file; folders are made.
        tasks: how many tasks of the development pool.
        rollouts: rollouts of each.
        seed: of the rollouts.
        faults: how the demonstrator errs.
    """
    path, world = Path(path), OrdersDesk()
    path.parent.mkdir(parents=True, exist_ok=True)
    pool = world.tasks("dev")
    with open(path, "w", encoding="utf-8") as f:
        for task in pool[len(pool) // 2 :: max(1, len(pool) // (2 * tasks))][:tasks]:
            for k in range(rollouts):
                luck = child_seed(seed, "chat log", task.id, k)
                episode = world.reset(task, luck)
                demonstrate(episode, luck, faults)
                says = [SAYS.get(t.tool, "I look it up.") for t in episode.turns]
                t = as_trajectory(episode, f"{task.id}/{k}", thoughts=says, model="scripted")
                row = {"task_id": task.id, "id": t.id, "model": t.model, "outcome": t.outcome}
                f.write(json.dumps({**row, "messages": messages_of(t)}) + "\n")
    return path
