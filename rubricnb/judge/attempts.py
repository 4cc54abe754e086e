"""How often and how long one call is tried: waits, limits, and a key that cannot be printed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

import tenacity
from aiolimiter import AsyncLimiter

from .protocol import Call, Reply, Usage

FIRST_TRIES = 3  # attempts at an endpoint that has never answered, or that sends web pages
MOST_TRIES = 30
_backoff = tenacity.wait_random_exponential(multiplier=0.5, max=30.0)


async def sleep(seconds: float) -> None:
    """Wait: every wait between attempts is here."""
    await asyncio.sleep(seconds)


class Again(Exception):
    """One attempt failed in a way that another may not; ``wait`` is what the server asked for."""

    def __init__(self, reason: str, wait: float | None = None, kind: str = "status") -> None:
        super().__init__(reason)
        self.reason, self.wait, self.kind = reason, wait, kind


@dataclass(slots=True)
class Tried:
    """The attempts of one call so far; its deadline stands still while it queues on our side."""

    limit: asyncio.Timeout
    count: int = 0
    last: str = ""
    began: float = field(default_factory=time.monotonic)

    @contextmanager
    def queued(self) -> Iterator[None]:
        """Stop the deadline's clock for as long as the call waits in our own queues."""
        left = self.left()
        self.limit.reschedule(None)
        try:
            yield
        finally:
            self.limit.reschedule(asyncio.get_running_loop().time() + left)

    def left(self) -> float:
        """Seconds until the deadline."""
        when = self.limit.when()
        return float("inf") if when is None else when - asyncio.get_running_loop().time()

    def __str__(self) -> str:
        last = f", the last: {self.last}" if self.last else ""
        return f"{self.count} attempts in {time.monotonic() - self.began:.1f} s{last}"


def wait_of(state: tenacity.RetryCallState) -> float:
    """Return what the server asked for, or else an exponential back-off with jitter."""
    error = state.outcome.exception()
    if error.wait is None:
        return _backoff(state)
    # A server that says 0 and refuses again must not be hammered.
    return error.wait + (_backoff(state) if state.attempt_number > 2 else 0.0)


def give_up(state: tenacity.RetryCallState, tried: Tried, answered: bool) -> bool:
    """Return whether another attempt is pointless or would begin after the deadline."""
    error = state.outcome.exception()
    few = error.kind == "not_json" or (error.kind == "connection" and not answered)
    if state.attempt_number >= (FIRST_TRIES if few else MOST_TRIES):
        return True
    return state.upcoming_sleep >= tried.left()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A received body as a Reply, and the attempts that were needed before it."""

    reply: Reply
    retries: int = 0


class Slot(Protocol):
    """What a budget gives for one attempt, to be told what the attempt used."""

    def settle(self, usage: Usage | None) -> None:
        """Replace the worst case; None is unknown and keeps it."""

    def free(self) -> None:
        """Nothing was charged."""


Note = Callable[[str, float], Awaitable[None]]
Admit = Callable[[Call], AbstractAsyncContextManager[Slot]]


class _NoSlot:
    def settle(self, usage: Usage | None) -> None: ...

    def free(self) -> None: ...


def admit_all(call: Call) -> AbstractAsyncContextManager[Slot]:
    return nullcontext(_NoSlot())


async def note_nothing(body: str, seconds: float) -> None: ...


class Rates:
    """At most so many calls and tokens a minute; tokens are counted as characters / 4."""

    def __init__(self, calls: float | None = None, tokens: float | None = None) -> None:
        burst = max(1.0, (calls or 0.0) / 60)  # one second's worth at once, not one minute's
        self._calls = AsyncLimiter(burst, 60 * burst / calls) if calls else None
        self._tokens = AsyncLimiter(tokens, 60) if tokens else None

    async def wait(self, call: Call) -> None:
        """Return when the call may be sent."""
        if self._calls is not None:
            await self._calls.acquire()
        if self._tokens is not None:
            size = sum(len(m["content"]) for m in call.messages) / 4
            await self._tokens.acquire(min(size, self._tokens.max_rate))


class Secret:
    """Text that repr, str, pickle and copies of it do not show.

    >>> Secret("sk-planted"), Secret("sk-planted").clean("got sk-planted!")
    (Secret(***), 'got [key]!')
    """

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text itself."""
        return self._value

    def clean(self, text: str) -> str:
        """Return the text with the secret taken out.

        Under 8 characters it is none, but a word such as "none" or "test" that local servers are
        given: taking it out would change what a model says.
        """
        return text.replace(self._value, "[key]") if len(self._value) >= 8 else text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __reduce__(self) -> tuple[type[Secret], tuple[()]]:
        return Secret, ()
