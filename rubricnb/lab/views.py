"""What a judge is shown of a rollout: all of it, or less on purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from ..trajectory import Step, Trajectory
from .rewrites import is_message


def _steps(t: Trajectory, change: Callable[[Step], Step]) -> Trajectory:
    return replace(t, steps=tuple(change(s) for s in t.steps))


def _no_reasoning(t: Trajectory) -> Trajectory:
    return _steps(t, lambda s: replace(s, thinking="", text=s.text if is_message(s) else ""))


def _actions(t: Trajectory) -> Trajectory:
    """Calls and what came back; no word of the agent's own."""
    return _steps(t, lambda s: replace(s, thinking="", text=""))


def _last(t: Trajectory) -> int:
    """The number of steps before the closing one: the last with a message or a call."""
    for i in reversed(range(len(t))):
        if t.steps[i].text.strip() or t.steps[i].calls:
            return i
    return len(t)


def _closing_only(t: Trajectory) -> Trajectory:
    return replace(t, steps=t.steps[_last(t) :])


def _no_closing(t: Trajectory) -> Trajectory:
    return replace(t, steps=t.steps[: _last(t)], termination="")


VIEWS: Mapping[str, Callable[[Trajectory], Trajectory]] = MappingProxyType(
    {
        "full": lambda t: t,
        "no reasoning": _no_reasoning,
        "actions and observations": _actions,
        "closing only": _closing_only,
        "no closing": _no_closing,
    }
)
