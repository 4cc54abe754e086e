"""A budget in tokens or dollars that is never exceeded.

Each attempt reserves its worst case before it is sent: a token is at least one byte of text, and
a completion has a limit. When the reply says what was used, the reservation shrinks to it. A
call that does not fit waits while others are in flight, since theirs will shrink, too; when none
is left, the run stops. A call whose use stays unknown keeps its worst case.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from ..errors import BudgetError
from .prices import Price
from .protocol import Call, Usage

_MESSAGE = 16  # tokens of a chat template around one message, generously
_REPLY = 16


class Slot:
    """One attempt's part of a budget."""

    def __init__(self, worst: Usage) -> None:
        self.usage = worst

    def settle(self, usage: Usage | None) -> None:
        """Replace the worst case by what was used; None (unknown) keeps it."""
        if usage is not None:
            self.usage = usage

    def free(self) -> None:
        """Nothing was charged."""
        self.usage = Usage()


def worst_case(call: Call, max_tokens: int | None) -> Usage:
    """Return the most tokens that one attempt at a call can use.

    Raises:
        BudgetError: where the completion has no limit.
    """
    if not max_tokens:
        raise BudgetError(
            f"want max_tokens (--max-tokens) with a budget; got a {call.phase} call without a limit"
        )
    size = sum(len(m["content"].encode("utf-8", "replace")) + _MESSAGE for m in call.messages)
    return Usage(size + _REPLY, 0, max_tokens)


class Budget:
    """At most this many tokens, dollars, or both, over everything that asks it.

    Args:
        tokens: prompt (cached or not) and completion tokens.
        dollars: needs ``price``.
        spent: what earlier parts of the same run used; None where a call's use is unknown.

    Raises:
        BudgetError: for a dollar budget without a known price, and for no limit at all.

    >>> Budget(dollars=1.0)
    Traceback (most recent call last):
    rubricnb.errors.BudgetError: want a price for a budget in dollars; got an endpoint ...
    """

    def __init__(
        self,
        *,
        tokens: int | None = None,
        dollars: float | None = None,
        price: Price | None = None,
        spent: Iterable[Usage] = (),
    ) -> None:
        if tokens is None and dollars is None:
            raise BudgetError("want a budget in tokens or dollars; got neither")
        if dollars is not None and price is None:
            raise BudgetError(
                "want a price for a budget in dollars; got an endpoint and model that no price "
                "table knows (name one with --prices, or set a budget in tokens)"
            )
        self.tokens, self.dollars, self.price = tokens, dollars, price
        self.spent_tokens, self.spent_dollars = 0, 0.0
        self._open: set[Slot] = set()
        self._closed = ""  # why nothing more is sent
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        for usage in spent:
            self._spend(usage)

    def _spend(self, usage: Usage) -> None:
        self.spent_tokens += usage.prompt + usage.completion
        self.spent_dollars += self.price.of(usage) if self.price else 0.0

    def _fits(self, usages: Iterable[Usage]) -> bool:
        usages = list(usages)
        tokens = self.spent_tokens + sum(u.prompt + u.completion for u in usages)
        if self.tokens is not None and tokens > self.tokens:
            return False
        if self.dollars is None:
            return True
        return self.spent_dollars + sum(map(self.price.of, usages)) <= self.dollars

    @asynccontextmanager
    async def reserve(self, call: Call, max_tokens: int | None) -> AsyncIterator[Slot]:
        """Hold the worst case of one attempt while it runs; wait, or refuse, where it is too much.

        Raises:
            BudgetError: where nothing is in flight and the worst case still does not fit.
        """
        slot = Slot(worst_case(call, max_tokens))
        while self._closed or not self._fits([slot.usage, *(s.usage for s in self._open)]):
            if not self._open:
                # From here on nothing is sent: a call that still fits would be paid for and then
                # cancelled by the error of this one.
                self._closed = self._closed or self._refusal(call, slot.usage)
                raise BudgetError(self._closed)
            loop = asyncio.get_running_loop()
            self._waiting.append((loop, waiter := loop.create_future()))
            await waiter
        self._open.add(slot)
        try:
            yield slot
        finally:
            self._open.discard(slot)
            self._spend(slot.usage)
            for loop, waiter in self._waiting:
                loop.call_soon_threadsafe(_wake, waiter)
            self._waiting.clear()

    def _refusal(self, call: Call, worst: Usage) -> str:
        size = worst.prompt + worst.completion
        parts = []
        if self.tokens is not None:
            left = self.tokens - self.spent_tokens
            parts.append(f"{left:,} of {self.tokens:,} tokens are left")
        if self.dollars is not None:
            left = self.dollars - self.spent_dollars
            parts.append(f"${left:,.4f} of ${self.dollars:,.4f} are left")
        about = "".join(f", {k} {v}" for k, v in call.key.items() if k.endswith("_id"))
        return (
            f"want a call that fits the budget; got one of up to {size:,} tokens ({call.phase}"
            f"{about}) while {' and '.join(parts)}"
        )


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
