"""One question to a judge until its reply can be read, and the account of what was asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from ..errors import CallError
from .config import JudgeConfig
from .messages import messages
from .protocol import PHASES, Call, Judge, Reply

T = TypeVar("T")


class Readable(Protocol):
    """What a reading says of itself: ``problem`` is "" where it can be used."""

    problem: str
    cut: bool


R = TypeVar("R", bound=Readable)


@dataclass
class Account:
    """What was asked for one group, by phase."""

    calls: Counter = field(default_factory=Counter)
    retries: Counter = field(default_factory=Counter)
    repairs: Counter = field(default_factory=Counter)
    unreadable: Counter = field(default_factory=Counter)
    tokens: dict[str, Counter] = field(default_factory=dict)
    models: set[str] = field(default_factory=set)

    def add(self, phase: str, reply: Reply) -> None:
        """Count a reply's tokens; a reply that does not say them counts as unknown."""
        if reply.model:
            self.models.add(reply.model)
        row = self.tokens.setdefault(phase, Counter())
        if reply.usage is None:
            row["unknown"] += 1
        else:
            u = reply.usage
            row.update(prompt=u.prompt, cached=u.cached, completion=u.completion)

    def to_json(self) -> dict[str, Any]:
        """Return the account in the order of the phases, without what is zero."""
        out: dict[str, Any] = {}
        order = (*PHASES, *sorted({*self.calls} - {*PHASES}))
        for name in ("calls", "retries", "repairs", "unreadable"):
            counts = getattr(self, name)
            out[name] = {p: counts[p] for p in order if counts[p]}
        out["tokens"] = {p: dict(self.tokens[p]) for p in order if p in self.tokens}
        out["models"] = sorted(self.models)
        return out


@dataclass(frozen=True)
class Asker:
    """Puts questions about one group to a judge.

    Args:
        judge: who answers.
        config: settings.
        head: the system message.
        about: what every call's key says (task_id).
        seen: called after every reply.
    """

    judge: Judge
    config: JudgeConfig
    head: Mapping[str, str]
    about: Mapping[str, Any]
    account: Account = field(default_factory=Account)
    seen: Callable[[], None] | None = None

    async def ask(
        self,
        phase: str,
        shared: str,
        job: str,
        read: Callable[[Reply], R],
        *,
        schema: Mapping[str, Any] | None = None,
        sample: int = 0,
        repair: bool = False,
        **key: Any,
    ) -> R:
        """Return the first reading without a problem, else the last one.

        A reply that cannot be read, or that is cut, is asked for again, saying what was wrong
        and, after a cut, with twice the room. A repair is asked for once.

        Raises:
            JudgeError: where the judge cannot be called further. A CallError is this call's own
                failure and counts as a reply that cannot be read.
        """
        c, problem, limit, best = self.config, "", self.config.max_tokens, None
        about = {**self.about, **key, **({"repair": True} if repair else {})}
        if repair:
            self.account.repairs[phase] += 1
        for attempt in range(1 if repair else c.retries + 1):
            told = {**about, "retry": attempt} if attempt else about
            text = messages(self.head, shared, job, problem)
            # Another sample number: a cache must not give the unreadable reply again.
            number = sample + attempt * c.votes
            call = Call(phase, text, schema, limit, c.temperature, number, told)
            self.account.calls[phase] += 1
            self.account.retries[phase] += attempt > 0
            reading, problem = await self._once(call, read)
            if reading.cut and limit is not None:
                limit *= 2
            if not reading.problem:
                # Without a limit of ours a second try would be cut, too: a repair call asks
                # for the missing verdicts alone.
                if not reading.cut or (limit is None and phase in ("scoring", "attribution")):
                    return reading
                best = reading
                problem = "it was cut off before its end"
        if best is None:
            self.account.unreadable[phase] += 1
        return best or reading

    async def _once(self, call: Call, read: Callable[[Reply], R]) -> tuple[R, str]:
        """A reading, and what to tell the judge about it."""
        try:
            reply = await self.judge.complete(call)
        except CallError as e:
            failed = Reply("", finish_reason=f"error: {e}")
            return _explained(read(failed), failed), ""
        finally:
            if self.seen is not None:
                self.seen()
        self.account.add(call.phase, reply)
        reading = read(reply)
        return _explained(reading, reply), reading.problem


def _explained(reading: R, reply: Reply) -> R:
    """The reading, its problem followed by why the endpoint stopped, where that tells more."""
    if not reading.problem or reply.finish_reason in ("", "stop"):
        return reading
    return replace(reading, problem=f"{reading.problem} ({reply.finish_reason})")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of coroutines run side by side; when one fails, cancel the others.

    Unlike TaskGroup, the error that comes out is the first one itself.
    """
    tasks = [asyncio.ensure_future(w) for w in work]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for t in tasks:
            if t.done() and not t.cancelled() and t.exception() is not None:
                raise t.exception()
        return [t.result() for t in tasks]
    finally:
        for t in tasks:
            t.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
