"""What the rival protocols share: groups in order, one opened group, a reply's JSON object."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ...errors import ConfigError
from ...files import content_hash
from ...trajectory import Group
from ..asking import Asker, together
from ..config import JudgeConfig
from ..loop import run
from ..messages import PROMPT_VERSION, prefix, system
from ..phases import settled
from ..protocol import Judge, Reply, as_judge
from ..render import Prepared, Rendered, render
from ..replies import NotJSON, Pairs, final_text, find_values, repair, was_cut
from ..views import Views

T = TypeVar("T")


@dataclass(frozen=True)
class Opened:
    """A group with the texts that its prompts show and the asker that keeps the account."""

    group: Group
    views: Views
    asker: Asker

    def record(self, protocol: str, **more: Any) -> dict[str, Any]:
        """What explains the answers, as JSON values."""
        return {
            "protocol": protocol,
            "judge": self.asker.judge.name,
            "prompt_version": PROMPT_VERSION,
            "nonce": self.asker.config.nonce,
            **self.asker.account.to_json(),
            **more,
        }


async def once_a_task(
    o: Opened,
    memory: MutableMapping[Any, Any],
    phase: str,
    prompt: str,
    read: Callable[[Reply], Any],
    part: str,
) -> tuple[tuple[Any, ...], str]:
    """Return what a reading of the task alone found, and its problem; asked once a task.

    Args:
        o: the opened group.
        memory: (task id, content of the task) -> what was found; a problem is not kept.
        phase, prompt: of the call; the task goes before the prompt.
        read: from a reply to a reading.
        part: the reading's field with what it found.
    """
    key = (o.group.task.id, content_hash(o.views.prepared_task.identity))
    if key not in memory:
        reading = await o.asker.ask(phase, prefix(o.views.task), prompt, read)
        if reading.problem:
            return (), reading.problem
        memory[key] = getattr(reading, part)
    return tuple(memory[key]), ""


def over_groups(
    one: Callable[[Opened], Awaitable[T]],
    groups: Iterable[Group] | Group,
    judge: Judge,
    config: JudgeConfig | None,
    in_flight: int,
    **settings: Any,
) -> list[T]:
    """Return ``one`` of every group, in order, at most ``in_flight`` of them worked on at once.

    Raises:
        JudgeError: where the judge cannot be called further; the others are cancelled.
    """
    if not isinstance(in_flight, int) or in_flight < 1:
        raise ConfigError(f"want in_flight >= 1; got {in_flight!r}")
    config, judge = replace(settled(config), **settings), as_judge(judge)
    rows = [groups] if isinstance(groups, Group) else list(groups)

    async def work() -> list[T]:
        room = asyncio.Semaphore(in_flight)
        head = system(config.caveats)

        async def single(group: Group) -> T:
            async with room:
                asker = Asker(judge, config, head, {"task_id": group.task.id})
                return await one(Opened(group, Views(group, config), asker))

        return await together(single(g) for g in rows)

    return run(work())


@dataclass(frozen=True)
class Object:
    """The one JSON object of a reply, or why there is none."""

    value: Mapping[str, Any] | None = None
    problem: str = ""
    cut: bool = False


def read_object(reply: Reply | str, key: str, untrusted: str = "") -> Object:
    """Return the object that holds ``key``: strict JSON first, repaired only where that fails.

    Two objects that differ are no answer; one that stands in ``untrusted`` word for word is a
    quotation.

    >>> read_object('I think: {"role": "decisive"}', "role").value
    {'role': 'decisive'}
    >>> read_object("Sorry!", "role").problem
    'want "role" in the reply; got none'
    """
    cut = was_cut(reply)
    try:
        found = find_values(final_text(reply), cut=cut)
    except NotJSON as e:
        return Object(problem=str(e), cut=cut)
    own = [
        v
        for v, span in zip(found.values, found.spans, strict=True)
        if isinstance(v, dict) and key in v and not (untrusted and span in untrusted)
    ]
    if not own and found.rest and not found.cut:
        guess = repair(found.rest)
        own = [guess] if isinstance(guess, dict) and key in guess else []
    if not own:
        said = "the reply is cut before its end" if found.cut else f'want "{key}" in the reply; got'
        return Object(problem=said if found.cut else f"{said} none", cut=found.cut)
    if any(v != own[0] for v in own):
        return Object(problem="want one answer; got answers that differ", cut=found.cut)
    twice = _twice(own[0])
    if twice:
        return Object(problem=f"want each key once; got {twice!r} twice", cut=found.cut)
    return Object(own[0], cut=found.cut)


def _twice(value: Any) -> str:
    """A key that is given twice with different values anywhere inside, else ""."""
    if isinstance(value, Pairs) and value.twice:
        return min(value.twice)
    inside = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)):
        return ""
    return next((key for v in inside if (key := _twice(v))), "")


def number_in(value: Any, low: float, high: float) -> float | None:
    """A number in the range, None for anything else: never clamped, never read from text.

    >>> number_in(1, 0, 1), number_in(True, 0, 1), number_in(1.2, 0, 1), number_in("1", 0, 1)
    (1.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if low <= value <= high else None


def excerpt(p: Prepared, first: int, last: int, config: JudgeConfig, room: int | None) -> Rendered:
    """Return steps ``first`` to ``last`` of a rollout, under their own numbers and its own code.

    How the rollout ended is shown only where its last step is.
    """
    blocks = tuple(b for b in p.blocks if b.step == 0 or first <= b.step <= last)
    part = replace(p, blocks=blocks, end=p.end if last >= p.n_steps else "")
    return render(
        part,
        config.nonce,
        observation_chars=config.observation_chars,
        budget=room,
        count=config.count,
    )
