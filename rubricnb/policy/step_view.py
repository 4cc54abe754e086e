"""What a judge of one action may see: everything before it, and the action. Never what it caused.

A view is made of tuples, so nothing that happens later can reach it: an evaluator that keeps the
live state of an episode sees the action and its result among the "past" as soon as it has run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..trajectory import Step, Trajectory


@dataclass(frozen=True, slots=True)
class StepView:
    """One action and the state that it was taken in.

    Args:
        task: what was asked.
        past: (action, answer) of every earlier step.
        left: actions that were left, this one included.
        action: the action, as the agent wrote it.
    """

    task: str
    past: tuple[tuple[str, str], ...]
    left: int
    action: str


def view_of(task: str, turns: Iterable[Sequence[str]], left: int, action: str) -> StepView:
    """Return the view of an action about to be taken; ``turns`` is copied, not kept."""
    return StepView(task, tuple((str(t[0]), str(t[1])) for t in turns), left, action)


def step_views(trajectory: Trajectory, budget: int = 24) -> tuple[StepView, ...]:
    """Return the view of each step of a rollout.

    Law: view t is the same whatever step t was answered and whatever came after it.

    Args:
        trajectory: M steps.
        budget: most actions of an episode.
    """
    turns = [(_action(s), " ".join(o.text for o in s.observations)) for s in trajectory.steps]
    return tuple(
        view_of(trajectory.task.prompt, turns[:t], max(budget - t, 0), turns[t][0])
        for t in range(len(turns))
    )


def _action(step: Step) -> str:
    return step.text or " ".join(f"{c.name} {c.arguments}" for c in step.calls)


def text_of(view: StepView, *, prefix: bool = True, window: int = 8) -> str:
    """The state as words: task, the last steps, actions left; the action comes apart.

    Args:
        view: the step.
        prefix: False leaves out everything but the task.
        window: earlier steps that are shown, the last ones.

    >>> text_of(StepView("find anna", (("find anna", "none"),), 3, "finish blocked"))
    'task find anna step find anna got none left 3'
    """
    if not prefix:
        return f"task {view.task}"
    past = view.past[len(view.past) - window :] if len(view.past) > window else view.past
    steps = "".join(f" step {a} got {o}" for a, o in past)
    return f"task {view.task}{steps} left {view.left}"
