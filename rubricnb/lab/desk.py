"""Rollouts of the bundled desk with everything known: side effects, repetition, the error step.

They are played by the scripted noisy agent at several strengths, which stand in for several
models. Labels come from the world's state, which no judge sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ..errors import WorldError
from ..seeds import child_seed
from ..trajectory import Trajectory
from ..worlds import CLEAN, NOISY, DeskEpisode, Noise, OrdersDesk, WorldTask, as_trajectory
from ..worlds.demonstrator import Faults, demonstrate, scaled
from .logs import Logs, logs_of

AGENTS: Mapping[str, Faults] = MappingProxyType(
    {
        "scripted, careful": scaled(NOISY, 0.5),
        "scripted, noisy": NOISY,
        "scripted, reckless": scaled(NOISY, 1.6),
    }
)
SOURCE = "bundled desk, scripted agents"
# What a scripted agent says beside a call, where an LLM would reason.
_SAYS = {
    "find": "I look up who this is.",
    "person": "I look at the record.",
    "list": "I see what is there.",
    "thing": "I look at this one.",
    "bill": "I look up the bill.",
    "notes": "I read the notes.",
    "finish": "I close the work.",
}


def desk_logs(
    n: int = 600,
    *,
    seed: int = 0,
    split: str = "train",
    agents: Mapping[str, Faults] | None = None,
    chat: bool = False,
) -> Logs:
    """Return n labelled rollouts of the orders desk, tasks in turn, agents in turn.

    Each has ``labels``: "error_step" (first change of a bystander; else the closing step of a
    failed rollout; 0 for a success), "side_effect", "repetition" (booleans), "optimality" (4 the
    shortest way, 3 a third longer, 2 twice as long, 1 more), "claim" and "checks".

    Args:
        n: rollouts, >= 1.
        seed: of the agents' faults and the world's luck.
        split: of the desk's tasks.
        agents: name -> faults; None for ``AGENTS``.
        chat: tasks in sentences and a remark beside each call, as an LLM's log has.
    Raises:
        WorldError: for n < 1.
    """
    if n < 1:
        raise WorldError(f"want at least one rollout; got {n}")
    return logs_of(_play(n, seed, split, dict(agents or AGENTS), chat), SOURCE)


def _play(
    n: int, seed: int, split: str, agents: Mapping[str, Faults], chat: bool
) -> Iterator[Trajectory]:
    world = OrdersDesk()
    tasks, names = world.tasks(split), list(agents)
    for i in range(n):
        # All rollouts of a task come together, so that groups are large when n is.
        task, run = tasks[i % len(tasks)], i // len(tasks)
        name = names[run % len(names)]
        luck = child_seed(seed, "lab", task.id, run)
        episode = world.reset(task, luck)
        demonstrate(episode, child_seed(luck, "faults"), agents[name])
        thoughts = [_says(episode, t.tool) for t in episode.turns] if chat else None
        about = {"family": family(task)}
        made = as_trajectory(episode, f"{task.id}/{run}", thoughts=thoughts, model=name, meta=about)
        yield _labelled(made, episode, world, luck)


def family(task: WorldTask) -> str:
    """What a task mostly asks for, by its goals: "refund", "move", ..."""
    kinds = [g["kind"] for who in task.spec["goals"] for g in who["goals"]]
    return min(kinds, key=lambda k: (-kinds.count(k), k))


def _says(episode: DeskEpisode, tool: str) -> str:
    return _SAYS.get(episode.lexicon.roles.get(tool, ""), "I make the change.")


def _labelled(made: Trajectory, episode: DeskEpisode, world: OrdersDesk, luck: int) -> Trajectory:
    from dataclasses import replace

    verdict = episode.evaluate()
    touched = _first_touch(episode, world, luck) if episode.touched else 0
    failed = len(episode.turns) if not verdict.success else 0
    labels: dict[str, Any] = {
        "error_step": touched or failed,
        "side_effect": bool(episode.touched),
        "repetition": _repeats(episode),
        "optimality": _optimality(len(episode.turns), episode.task),
        "claim": episode.claim,
        "checks": dict(verdict.checks),
    }
    return replace(made, labels=labels)


def _first_touch(episode: DeskEpisode, world: OrdersDesk, luck: int) -> int:
    """The first step that changed something outside of the task: the episode is played again."""
    again = world.reset(episode.task, luck)
    for number, turn in enumerate(episode.turns, start=1):
        again.act(turn.action)
        if again.touched:
            return number
    raise WorldError(f"want a replay that touches what the episode touched; got none: {luck}")


def _repeats(episode: DeskEpisode) -> bool:
    """Whether a look-up was made again with the same answer and no change in between."""
    seen: set[tuple[str, str]] = set()
    for turn in episode.turns:
        if turn.answer == "ok":
            seen.clear()
        elif (turn.action, turn.answer) in seen:
            return True
        else:
            seen.add((turn.action, turn.answer))
    return False


@lru_cache(maxsize=4096)
def _shortest(task_id: str, split: str) -> int:
    """Turns of the clean agent where nothing goes wrong."""
    world = OrdersDesk(noise=Noise(0.0, 0.0))
    task = next(t for t in world.tasks(split) if t.id == task_id)
    episode = world.reset(task, 0)
    demonstrate(episode, 0, CLEAN)
    return len(episode.turns)


def _optimality(turns: int, task: WorldTask) -> int:
    longer = turns / _shortest(task.id, task.split)
    return 4 if longer <= 1 else 3 if longer <= 4 / 3 else 2 if longer <= 2 else 1
