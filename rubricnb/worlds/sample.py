"""Two rollouts that reach the same end state: one in 3 steps, one through a bystander's order.

The pair that opens the first notebook. Both are played in the world by the calls below; nothing
about them is written down but what the agent says and does.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ..trajectory import Group, Trajectory
from .base import Evaluation, WorldTask
from .desk import OrdersDesk
from .engine import DeskEpisode, Noise
from .lexicon import ORDERS
from .shops import make_task
from .transcript import as_trajectory

SEED = 10


@dataclass(frozen=True)
class SamplePair:
    """The pair and what three ways of checking see.

    Args:
        group: the clean rollout, then the long one.
        same_end_state: whether the tables are equal at the end.
        end_state: per rollout, whether the end state is the one that was asked for.
        last_call: per rollout, whether its last call is ``finish done``.
        world: per rollout, the world's own evaluation, which also watches the way there.
    """

    group: Group
    same_end_state: bool
    end_state: tuple[bool, bool]
    last_call: tuple[bool, bool]
    world: tuple[Evaluation, Evaluation]


def sample_task() -> WorldTask:
    """One person, one change of address, a namesake in another city."""
    template = [[{"kind": "address", "latest": False, "stuck": False}]]
    return make_task(
        random.Random(SEED), ORDERS, template, id="sample_1", scenario="sample", split="sample"
    )


def _cast(task: WorldTask) -> dict[str, str]:
    """The words of the script: who is meant, who is not, and an order that is nobody's business."""
    who = task.spec["goals"][0]
    people, things = task.spec["people"], task.spec["things"]
    other = next(k for k, p in people.items() if p[0] == who["name"] and k != who["person"])
    key, (_, item, day, _, due, _) = next((k, t) for k, t in things.items() if t[0] == other)
    return {
        "name": who["name"],
        "right": f"{who['city']} {who['person']}",
        "wrong": f"{people[other][1]} {other}",
        "street": who["goals"][0]["value"],
        "order": f"{item} {day} {key}",
        "due": due,
        "later": "d12" if due != "d12" else "d11",
    }


_CLEAN = (
    ("Two people may share this name, so I look.", ("find {name}",)),
    (
        "The city settles it. I change the street and read it back.",
        ("address {name} {right} {street}", "customer {name} {right}"),
    ),
    ("The record shows the new street.", ("finish done",)),
)
_LONG = (
    ("I look for the customer.", ("find {name}",)),
    ("I take this one and see what is under way.", ("orders {name} {wrong}",)),
    ("An order is under way to the old street.", ("order {order}",)),
    ("I put it off until the move is over.", ("move {order} {later}",)),
    ("Did that work?", ("order {order}",)),
    ("Now the address of this customer.", ("customer {name} {wrong}",)),
    ("That is another city. Let me look again.", ("find {name}",)),
    ("This is the one.", ("customer {name} {right}",)),
    ("The order I put off was not theirs. I put it back.", ("move {order} {due}",)),
    ("It has its old day again.", ("order {order}",)),
    ("What does the right customer have under way?", ("orders {name} {right}",)),
    ("Nothing to do there. I change the street.", ("address {name} {right} {street}",)),
    ("I read it back.", ("customer {name} {right}",)),
    ("Done.", ("finish done",)),
)


def _play(task: WorldTask, script, name: str) -> tuple[DeskEpisode, Trajectory]:
    episode = OrdersDesk(noise=Noise(0.0, 0.0)).reset(task, 0)
    cast = _cast(task)
    for _, actions in script:
        for action in actions:
            episode.act(action.format(**cast))
    thoughts = [thought for thought, _ in script]
    calls = [len(actions) for _, actions in script]
    return episode, as_trajectory(episode, name, thoughts=thoughts, calls=calls, model="scripted")


def sample_pair() -> SamplePair:
    """Play both rollouts and check them in three ways.

    >>> pair = sample_pair()
    >>> [len(t) for t in pair.group.trajectories], pair.same_end_state, pair.last_call
    ([3, 14], True, (True, True))
    >>> pair.end_state, [w.success for w in pair.world]
    ((True, True), [True, False])
    """
    task = sample_task()
    played = [_play(task, _CLEAN, "clean"), _play(task, _LONG, "long")]
    episodes = [e for e, _ in played]
    worlds = tuple(e.evaluate() for e in episodes)
    return SamplePair(
        Group(played[0][1].task, tuple(t for _, t in played)),
        episodes[0].state() == episodes[1].state(),
        tuple(w.checks["goal 1"] and w.checks["nothing else changed"] for w in worlds),
        tuple(e.turns[-1].action == "finish done" for e in episodes),
        worlds,
    )
