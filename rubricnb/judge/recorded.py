"""Judges with a memory: one that records another, and one that replays a recording.

``RecordedJudge`` fits around any judge. It answers from the run's journal, then from the cache,
and only then asks; it books every call in a ledger and asks a budget first. ``ReplayJudge``
answers from a recording alone, without network or key.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import CallError, JudgeError, ReplayError
from . import wire
from .address import call_key, reply_from_json, reply_to_json
from .attempts import Again
from .budget import Budget, Slot
from .ledger import Ledger
from .messages import PROMPT_VERSION
from .protocol import Call, Judge, Reply, Usage, as_judge
from .replies import NotJSON, final_text, find_values
from .store import Row, Store


def identity_of(judge: Any) -> dict[str, Any]:
    """Return what a judge's answers depend on, as JSON types."""
    return dict(getattr(judge, "identity", None) or {"name": judge.name})


def readable(reply: Reply) -> bool:
    """Return whether a reply is whole and holds JSON, so that it may be cached.

    >>> readable(Reply('{"verdicts": []}')), readable(Reply("Sorry!"))
    (True, False)
    """
    if reply.finish_reason not in ("stop", "end_turn", "eos"):
        return False
    try:
        found = find_values(final_text(reply))
    except NotJSON:
        return False
    return bool(found.values) and not found.cut


def read_row(row: Row) -> Reply | None:
    """Return the reply that a journalled body holds, None where it asked for another try."""
    if row.form == "failed":
        return None
    if row.form == "reply":
        return reply_from_json(row.body)
    try:
        reply = wire.read_body(row.body, row.seconds)
    except (Again, JudgeError):
        return None
    return replace(reply, cached=True)


class RecordedJudge:
    """Any judge, with a journal, a cache, a ledger and a budget, each optional.

    Args:
        inner: the judge that is asked.
        store: where replies are kept; None for no memory.
        run: the run whose journal is written and, on resuming, read.
        ledger: books every call, also those answered from memory.
        budget: asked before every attempt; it waits or raises BudgetError.
        keep_prompts: keep what was sent as well, so that the run can be put to another judge.

    >>> from rubricnb.judge import CallableJudge
    >>> RecordedJudge(CallableJudge(lambda call: "{}", "fixed")).name
    'fixed'
    """

    def __init__(
        self,
        inner: Judge,
        store: Store | None = None,
        *,
        run: str = "default",
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        keep_prompts: bool = True,
    ) -> None:
        inner = as_judge(inner)
        self.inner, self.store, self.run, self.name = inner, store, run, inner.name
        self.ledger, self.budget, self.keep_prompts = ledger, budget, keep_prompts
        self.identity = identity_of(inner)
        self._flying: dict[str, asyncio.Event] = {}
        if store is not None:
            store.open_run(run, {"identity": self.identity, "prompt_version": PROMPT_VERSION})

    @property
    def quirks(self) -> dict[str, str]:
        """What the endpoint was found not to take; {} for other judges."""
        return getattr(self.inner, "quirks", {})

    async def complete(self, call: Call) -> Reply:
        """Return the answer from memory, or else the inner judge's, recorded."""
        if self.store is None:
            return await self._ask(call, "")
        key, parts = call_key(self.identity, PROMPT_VERSION, call)
        # The same question twice at once is asked once: a replay could not tell them apart.
        while (other := self._flying.get(key)) is not None:
            await other.wait()
        found = self._find(key)
        if found is not None:
            if self.ledger is not None:
                self.ledger.add(call, found.usage, found.seconds, replayed=True)
            return found
        self._flying[key] = event = asyncio.Event()
        try:
            if self.keep_prompts:
                self.store.keep_prompt(key, parts, call)
            reply = await self._ask(call, key)
            if readable(reply):
                self.store.remember(key, reply)
            return reply
        finally:
            del self._flying[key]
            event.set()

    def _find(self, key: str) -> Reply | None:
        row = self.store.journalled(self.run, key)
        found = read_row(row) if row is not None else None
        return found if found is not None else self.store.cached(key)

    async def _ask(self, call: Call, key: str) -> Reply:
        """Ask the inner judge; what happened is booked whatever happens."""
        attempts, reply = 0, None

        async def note(body: str, seconds: float, form: str = "http") -> None:
            if self.store is not None:
                await self.store.note(self.run, key, call, form, body, seconds)

        @asynccontextmanager
        async def admit(_: Call) -> AsyncIterator[Slot]:
            nonlocal attempts
            most = call.max_tokens or getattr(self.inner, "max_tokens", None)
            free = nullcontext(Slot(Usage()))
            async with self.budget.reserve(call, most) if self.budget else free as slot:
                attempts += 1
                yield slot

        try:
            if hasattr(self.inner, "exchange"):
                reply = (await self.inner.exchange(call, note, admit)).reply
            else:
                async with admit(call) as slot:
                    reply = await self.inner.complete(call)
                    await note(reply_to_json(reply), reply.seconds, "reply")
                    slot.settle(reply.usage)
            return reply
        except CallError as e:
            await note(str(e), 0.0, "failed")
            raise
        finally:
            if self.ledger is not None and attempts:
                usage, seconds = (reply.usage, reply.seconds) if reply else (None, 0.0)
                retries, failed = attempts - 1, reply is None
                self.ledger.add(call, usage, seconds, retries=retries, failed=failed)


class ReplayJudge:
    """Answers from a recorded run alone: no network, no key, the same replies to the byte.

    Args:
        store: the recording, or its path.
        run: which of its runs; by default the only one.
        ledger: books every call as answered from memory.

    Raises:
        ReplayError: for a file with no such run, or with several and none named.
    """

    def __init__(
        self, store: Store | str | Path, *, run: str | None = None, ledger: Ledger | None = None
    ) -> None:
        self.store = store if isinstance(store, Store) else Store(store, must_exist=True)
        runs = self.store.runs()
        if (run is None and len(runs) != 1) or (run is not None and run not in runs):
            raise ReplayError(f"{self.store.path}: want one of the runs {runs}; got {run!r}")
        self.run = run or runs[0]
        self.record = self.store.run_record(self.run)
        self.identity = self.record["identity"]
        self.version = self.record["prompt_version"]
        self.name = str(self.identity.get("model") or self.identity.get("name"))
        self.quirks = self.record.get("quirks", {})
        self.ledger = ledger

    async def complete(self, call: Call) -> Reply:
        """Return the recorded reply.

        Raises:
            ReplayError: naming the call that the recording does not hold.
            CallError: where the recorded call failed.
        """
        key, _ = call_key(self.identity, self.version, call)
        row = self.store.journalled(self.run, key)
        if row is not None and row.form == "failed":
            raise CallError(row.body)
        reply = read_row(row) if row is not None else None
        reply = reply if reply is not None else self.store.cached(key)
        if reply is None:
            about = "".join(f", {k} {v}" for k, v in call.key.items())
            raise ReplayError(
                f"{self.store.path}: want a recorded reply to every call; got none for the "
                f"{call.phase} call{about}, sample {call.sample} (address {key[:12]})"
            )
        if self.ledger is not None:
            self.ledger.add(call, reply.usage, reply.seconds, replayed=True)
        return reply
