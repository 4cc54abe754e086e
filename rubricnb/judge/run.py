"""Many groups at once: in order, streaming, from a script or from a notebook."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, MutableMapping, Sized
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tqdm.std import tqdm

from ..errors import ConfigError
from ..rubric import GradedGroup
from ..trajectory import Group
from .config import JudgeConfig
from .loop import iterate, run
from .phases import grade_group, settled
from .protocol import Judge, as_judge
from .rubrics import TaskRubrics


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: groups graded, groups in all (None: unknown), replies so far."""

    groups: int
    of: int | None
    replies: int


Watch = Callable[[Progress], None]


async def grade_stream(
    groups: Iterable[Group],
    judge: Judge,
    config: JudgeConfig | None = None,
    *,
    in_flight: int = 16,
    task_rubrics: MutableMapping[Any, Any] | None = None,
    progress: Watch | bool | None = None,
) -> AsyncIterator[GradedGroup]:
    """Yield graded groups in the order given, at most ``in_flight`` of them being worked on.

    When one group fails for good, the groups that are finished by then are yielded first and the
    others cancelled; then the error is raised.

    Args: as ``grade``.
    """
    if not isinstance(in_flight, int) or in_flight < 1:
        raise ConfigError(f"want in_flight >= 1; got {in_flight!r}")
    config, judge = settled(config), as_judge(judge)
    memory = TaskRubrics({} if task_rubrics is None else task_rubrics)
    watch = _Watch(progress, len(groups) if isinstance(groups, Sized) else None)
    source, tasks = iter(groups), deque()

    def fill() -> None:
        while len(tasks) < in_flight:
            group = next(source, None)
            if group is None:
                return
            work = grade_group(group, judge, config, task_rubrics=memory, seen=watch.reply)
            tasks.append(asyncio.ensure_future(work))

    try:
        fill()
        while tasks:
            await _head_or_failure(tasks)
            if any(_failed(t) for t in tasks):
                break
            graded = tasks.popleft().result()
            fill()
            watch.group()
            yield graded
        for t in tasks:
            if t.done() and not _failed(t):
                watch.group()
                yield t.result()
        for t in tasks:
            if _failed(t):
                t.result()
    finally:
        for t in tasks:
            t.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        watch.close()


def _failed(task: asyncio.Future) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _head_or_failure(tasks: deque) -> None:
    """Wait until the first task is done, or any has failed."""
    while not tasks[0].done() and not any(_failed(t) for t in tasks):
        pending = [t for t in tasks if not t.done()]
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)


def grade_iter(
    groups: Iterable[Group], judge: Judge, config: JudgeConfig | None = None, **options: Any
) -> Iterator[GradedGroup]:
    """Yield what ``grade_stream`` yields, for code that is not async: see ``grade``."""
    return iterate(grade_stream(groups, judge, config, **options))


def grade(
    groups: Iterable[Group] | Group,
    judge: Judge,
    config: JudgeConfig | None = None,
    *,
    in_flight: int = 16,
    task_rubrics: MutableMapping[Any, Any] | None = None,
    progress: Watch | bool | None = None,
) -> list[GradedGroup]:
    """Return the groups graded, in order; works in a script, in a notebook, twice in a row.

    Args:
        groups: the groups, or one.
        judge: who answers the calls, or a function ``fn(call) -> text``, plain or async.
        config: settings; None for DRACO's procedure with one vote.
        in_flight: groups worked on at once. How many calls are in flight is the judge's to limit.
        task_rubrics: a mapping that keeps task rubrics for later calls, such as ``{}``.
        progress: True for a bar, or a function of a Progress.
    Raises:
        JudgeError: where the judge cannot be called further. Whatever is raised, ``error.graded``
            holds the groups that were finished by then.

    >>> from rubricnb import Criterion, Group, Rubric, Step, Task, Trajectory
    >>> from rubricnb.judge import CallableJudge, JudgeConfig
    >>> task = Task("t", "Say hello")
    >>> group = Group(task, (Trajectory("a", task, (Step("hello"),)),))
    >>> reply = '{"verdicts": [{"id": "C1", "reason": "r", "steps": [1], "verdict": "pass"}]}'
    >>> rubric = Rubric((Criterion("C1", "Says hello", instruction="Pass if it greets."),))
    >>> graded = grade(group, CallableJudge(lambda call: reply), JudgeConfig(rubric=rubric))
    >>> graded[0].judgements[0][0].steps
    (1,)
    """
    groups = [groups] if isinstance(groups, Group) else groups
    done: list[GradedGroup] = []

    async def work() -> None:
        async for graded in grade_stream(
            groups,
            judge,
            config,
            in_flight=in_flight,
            task_rubrics=task_rubrics,
            progress=progress,
        ):
            done.append(graded)

    try:
        run(work())
    except BaseException as e:  # an error of the user's own function, or Ctrl-C, as well
        with suppress(AttributeError):
            e.graded = tuple(done)
        raise
    return done


class _Watch:
    """Counts, and tells whoever watches."""

    def __init__(self, watch: Watch | bool | None, of: int | None) -> None:
        self.watch = watch if callable(watch) else None
        self.of, self.groups, self.replies = of, 0, 0
        # tqdm.std and not tqdm.auto: the notebook bar freezes in saved text.
        self.bar = tqdm(total=of, unit="group", desc="grading") if watch is True else None

    def reply(self) -> None:
        self.replies += 1
        if self.bar is not None:
            self.bar.set_postfix(replies=self.replies, refresh=False)
            self.bar.update(0)
        if self.watch is not None:
            self.watch(Progress(self.groups, self.of, self.replies))

    def group(self) -> None:
        self.groups += 1
        if self.bar is not None:
            self.bar.update(1)
        if self.watch is not None:
            self.watch(Progress(self.groups, self.of, self.replies))

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
