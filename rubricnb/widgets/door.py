"""From Python in three lines: load, grade, show."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import ConfigError, FormatError
from ..files import group_by_task, read_jsonl
from ..rubric import GradedGroup
from ..trajectory import Group, Trajectory


def load(
    path: str | os.PathLike[str], format: str | None = None
) -> list[GradedGroup] | list[Group]:
    """Return what a file holds: graded groups, or rollouts in groups by task.

    Args:
        path: our JSON lines, or a log in any format that ``rubricnb.importers`` reads.
        format: the log's format; None recognises it.
    Raises:
        FormatError: with file and line, for what cannot be read, or a file that mixes kinds.
    """
    path = Path(path)
    if format is None and path.is_file() and _is_ours(path):
        values = list(read_jsonl(path))
        if all(isinstance(v, GradedGroup) for v in values):
            return values
        for i, v in enumerate(values, start=1):
            if not isinstance(v, Trajectory):
                raise FormatError(
                    f"{path}, value {i}: want graded groups only or trajectories only; got both, "
                    "or credit, which holds no rollout"
                )
        return group_by_task(values)
    from ..importers import read

    return group_by_task(read(path, format))


def _is_ours(path: Path) -> bool:
    with open(path, encoding="utf-8", errors="replace") as f:
        first = next((line for line in f if line.strip()), "")
    return first.lstrip().startswith('{"rubricnb"')


def grade(
    groups: Group | Iterable[Group],
    judge: Any = None,
    config: Any = None,
    *,
    base_url: str = "",
    model: str = "",
    **options: Any,
) -> list[GradedGroup]:
    """Return the groups graded by a judge: rubric, verdicts and citations.

    Args:
        groups: one group or several.
        judge: a ``rubricnb.judge`` judge, a function from a call to the reply's text, or
            "offline": the rule judge of the bundled desks, which cannot read other worlds.
        config: the ``JudgeConfig``; None for its defaults.
        base_url, model: instead of a judge, an OpenAI-compatible endpoint; its key comes from
            the environment.
        options: passed on to ``rubricnb.judge.grade``.
    Raises:
        ConfigError: where neither a judge nor an endpoint is given, or both.
        JudgeError: where the judge cannot be called further.
    """
    from .. import judge as judges

    if (judge is None) == (not (base_url and model)):
        raise ConfigError(
            "want a judge, or base_url and model of an endpoint; got "
            + ("neither" if judge is None else "both")
        )
    if judge is None:
        judge = judges.EndpointJudge(base_url, model)
    judge = judge_of(judge)
    many = [groups] if isinstance(groups, Group) else list(groups)
    return judges.grade(many, judge, config, **options)


def judge_of(judge: Any) -> Any:
    """Return the judge that is meant: one, a function that answers, or "offline"."""
    from .. import judge as judges

    if isinstance(judge, str):
        if judge != "offline":
            raise ConfigError(f'want a judge, a function or "offline"; got {judge!r}')
        from ..worlds import offline_judge

        return offline_judge()
    if hasattr(judge, "complete"):
        return judge
    if not callable(judge):
        raise ConfigError(f"want a judge or a function; got {type(judge).__name__}")
    return judges.CallableJudge(judge, getattr(judge, "__name__", "function"))


def show(
    value: GradedGroup | Group, member: int = 0, rule: str | None = None, **options: Any
) -> Any:
    """Return the pictures of a group, one rollout of it in detail; it displays itself.

    A group without verdicts is shown by the credit that its recorded outcomes give.

    Args:
        value: a graded group, or a group.
        member: the rollout shown in detail, from 0.
        rule: the credit rule; default "draco", and for a group without verdicts "grpo".
        options: the rule's own.
    Raises:
        CreditError: where there is no such member, or a rule lacks the evidence that it needs.
    """
    from ..figures.coloured import transcript
    from ..figures.drawing import draw
    from ..figures.numbers import numbers_of
    from .display import Gallery
    from .state import ungraded

    if isinstance(value, Group):
        if all(t.outcome is None for t in value.trajectories):
            raise ConfigError(
                "want a graded group, or rollouts with outcomes; got neither: grade it first, "
                "or write criteria by hand with explore"
            )
        value = ungraded(value)
        options = {"base": "outcome", **options}
        rule = rule or "grpo"
    view = numbers_of(value, rule or "draco", **options)
    figures: dict[str, Any] = draw(view, member)
    trajectory = value.group.trajectories[member]
    figures["transcript"] = transcript(trajectory, view.row(member)[0])
    return Gallery(figures)
