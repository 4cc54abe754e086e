"""A judge behind any OpenAI-compatible endpoint.

All clients of a process live on the one background loop (``loop``), so that a judge works from a
script, a notebook, papermill, or any event loop of the caller's, as often as wanted. Retries are
ours and not the client's: a call has one deadline over all its attempts, waits as long as the
server asks if that fits, and stops at once where no retry can help.

The key is read from RUBRICNB_API_KEY, else OPENAI_API_KEY, else given; it is never in a repr, a
file, a log or an error.
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

import httpx2  # what the openai client speaks
import openai
import tenacity

from ..errors import CallError, ConfigError, JudgeError
from . import attempts, wire
from .attempts import (
    Admit,
    Again,
    Exchange,
    Note,
    Rates,
    Secret,
    Tried,
    admit_all,
    give_up,
    note_nothing,
    wait_of,
)
from .loop import background_loop
from .protocol import Call, Reply
from .quirks import Quirks

_SETTINGS = ("temperature", "top_p", "seed", "reasoning_effort", "frequency_penalty", "stop")
_LEARNED: dict[tuple[str, str], Quirks] = {}


class EndpointJudge:
    """Answers calls by an OpenAI-compatible chat endpoint.

    Args:
        base_url: such as "http://localhost:8000/v1".
        model: the model's name at that endpoint.
        key: None to read the environment; servers without keys take any.
        sampling: defaults such as {"temperature": 0.0, "seed": 1}; a Call's own values win.
        max_tokens: limit of a completion where a Call has none.
        structured: send the Call's JSON schema as ``response_format``. Off by default: some
            servers answer long transcripts with nothing under it, and plain text is read as well.
        concurrency: calls in flight at once.
        calls_per_minute, tokens_per_minute: rate limits; tokens are counted as characters / 4.
        deadline: seconds of one call over all its attempts, from when it leaves the queue.
        attempt_seconds: seconds of one attempt.
        extra: further fields of the request's body, as the server documents them.

    Raises:
        JudgeError: for a base URL that is none, or api.openai.com without a key.

    >>> EndpointJudge("http://localhost:8000/v1", "small", key="sk-planted")
    EndpointJudge('http://localhost:8000/v1', 'small')
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        key: str | None = None,
        *,
        sampling: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        structured: bool = False,
        concurrency: int = 64,
        calls_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        deadline: float = 600.0,
        attempt_seconds: float = 300.0,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.base_url, self.model, self.name = wire.normal_url(base_url), model, model
        self.sampling, self.extra = dict(sampling or {}), dict(extra or {})
        self.max_tokens, self.structured, self.concurrency = max_tokens, structured, concurrency
        self.deadline, self.attempt_seconds = deadline, attempt_seconds
        if unknown := sorted(set(self.sampling) - set(_SETTINGS)):
            raise ConfigError(f"want sampling settings among {_SETTINGS}; got {unknown[0]!r}")
        if not 1 <= concurrency <= 1000 or deadline <= 0 or attempt_seconds <= 0:
            raise ConfigError("want concurrency in 1..1000, deadline and attempt_seconds > 0")
        env = os.environ.get("RUBRICNB_API_KEY") or os.environ.get("OPENAI_API_KEY")
        key = (key or env or "").strip()
        if not key.isascii() or not key.isprintable() or " " in key:
            raise JudgeError("want a key of printable ASCII; got one with other characters")
        if not key and urlsplit(self.base_url).hostname == "api.openai.com":
            raise JudgeError("want a key in RUBRICNB_API_KEY or OPENAI_API_KEY; got none")
        self._key = Secret(key)
        self._per_minute = (calls_per_minute, tokens_per_minute)
        self._quirks = _LEARNED.setdefault((self.base_url, model), Quirks())
        self._home: asyncio.AbstractEventLoop | None = None
        self._resume_at, self._answers = 0.0, 0  # when to go on; replies so far

    def __repr__(self) -> str:
        return f"EndpointJudge({self.base_url!r}, {self.model!r})"

    @property
    def identity(self) -> dict[str, Any]:
        """What its answers depend on: base URL, model and sampling. The key is not in it."""
        return {
            "base_url": self.base_url,
            "model": self.model,
            "sampling": self.sampling,
            "max_tokens": self.max_tokens,
            "structured": self.structured,
            "extra": self.extra,
        }

    @property
    def quirks(self) -> dict[str, str]:
        """What the server refused, by parameter: the form used instead, "" where it is left out."""
        return dict(self._quirks.known)

    def recall(self, quirks: Mapping[str, str]) -> None:
        """Take over what an earlier run learned, as ``quirks`` gave it."""
        self._quirks.known.update(quirks)

    async def complete(self, call: Call) -> Reply:
        """Return the endpoint's answer; a 200 without usable text is a Reply that says why.

        Raises:
            QuotaError: at once, where the quota is used up.
            CallError: where this call gets no answer in time, but others did meanwhile.
            JudgeError: where the endpoint cannot or will not answer.
        """
        return (await self.exchange(call)).reply

    async def exchange(
        self, call: Call, note: Note = note_nothing, admit: Admit = admit_all
    ) -> Exchange:
        """Return the answer to a call, from whichever loop it is awaited on.

        Args:
            note: awaited with every body received (and its seconds) before the body is read.
            admit: entered around every attempt; may wait, or refuse by raising.
        """
        home = background_loop()
        if asyncio.get_running_loop() is home:
            return await self._exchange(call, note, admit)
        work = asyncio.run_coroutine_threadsafe(self._exchange(call, note, admit), home)
        return await asyncio.wrap_future(work)

    async def _exchange(self, call: Call, note: Note, admit: Admit) -> Exchange:
        self._settle_in(asyncio.get_running_loop())
        async with self._slots:
            answered = self._answers
            try:
                async with asyncio.timeout(self.deadline) as limit:
                    tried = Tried(limit)
                    retrying = tenacity.AsyncRetrying(
                        retry=tenacity.retry_if_exception_type(Again),
                        wait=wait_of,
                        stop=lambda state: give_up(state, tried, self._answers > 0),
                        sleep=attempts.sleep,
                        reraise=True,
                    )
                    return await retrying(self._attempt, call, note, admit, tried)
            except TimeoutError:
                error = CallError(f"no answer within the deadline of {self.deadline:g} s; {tried}")
            except Again as e:
                asked = f", which asks to wait {e.wait:g} s" if e.wait else ""
                error = CallError(f"want an answer; got {e.reason}{asked} ({tried})")
            except JudgeError as e:
                error = e
            except openai.OpenAIError as e:
                error = CallError(f"{type(e).__name__}: {e}")
        # Where others were answered in the meantime it is this call's own failure; else the
        # endpoint is down, and going on would only make failed judgements.
        down = isinstance(error, CallError) and self._answers == answered
        kind = JudgeError if down else type(error)
        where = f"{self.base_url}, model {self.model!r}"
        raise kind(self._key.clean(f"{where}: {error}")) from None

    def _settle_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make what belongs to a loop: once per process, again only in a forked child."""
        if self._home is loop:
            return
        self._client = openai.AsyncOpenAI(
            api_key=self._key.reveal() or "none",
            base_url=self.base_url,
            max_retries=0,
            timeout=openai.Timeout(self.attempt_seconds, connect=10.0),
        )
        # Left to the garbage collector, its sockets would close while the loop still watches their
        # numbers, and new connections that get these numbers would never be read.
        weakref.finalize(self, _retire, loop, self._client, os.getpid()).atexit = False
        self._slots = asyncio.Semaphore(self.concurrency)
        self._rates = Rates(*self._per_minute)
        self._home = loop

    async def _attempt(self, call: Call, note: Note, admit: Admit, tried: Tried) -> Exchange:
        await self._pause()
        async with AsyncExitStack() as stack:
            with tried.queued():
                await self._rates.wait(call)
                slot = await stack.enter_async_context(admit(call))
            tried.count += 1
            began = time.monotonic()
            try:
                async with asyncio.timeout(self.attempt_seconds):
                    body = await self._post(call)
            except (TimeoutError, openai.APITimeoutError):
                tried.last = f"no answer within {self.attempt_seconds:g} s"
                raise Again(tried.last, kind="timeout") from None  # may have been charged
            except openai.APIStatusError as e:
                slot.free()
                body = self._refused(e, tried)
            except openai.APIConnectionError as e:
                cause = _root(e)
                if type(cause).__name__ in ("ConnectError", "ConnectTimeout"):
                    slot.free()  # nothing was sent
                tried.last = f"no connection ({type(cause).__name__}: {cause})"[:200]
                raise Again(tried.last, kind="connection") from None
            seconds = time.monotonic() - began
            await note(body, seconds)
            try:
                reply = wire.read_body(body, seconds)
            except Again as e:
                slot.free()
                tried.last = e.reason
                raise
            slot.settle(reply.usage)
            self._answers += 1
            return Exchange(reply, tried.count - 1)

    def _refused(self, e: openai.APIStatusError, tried: Tried) -> str:
        """Return a refusal that is about this one call as a body; raise what another asks for."""
        error = e.body or e.message
        try:
            return self._key.clean(
                wire.refusal(e.status_code, e.response.headers, error, self._answers > 0)
            )
        except Again as again:
            tried.last = again.reason
            if again.wait is not None and again.wait < tried.left():
                self._resume_at = max(self._resume_at, time.monotonic() + again.wait)
            raise

    async def _pause(self) -> None:
        """Wait as long as the server has told any call to wait."""
        while (pause := self._resume_at - time.monotonic()) > 0:
            await attempts.sleep(pause)

    async def _post(self, call: Call) -> str:
        """Send one call, in the forms that the server takes, and return the body of its 200."""
        wanted = {**self.sampling, "max_tokens": call.max_tokens or self.max_tokens}
        if call.temperature is not None:
            wanted["temperature"] = call.temperature
        if self.structured and call.schema is not None:
            wanted["schema"] = call.schema
        while True:
            sent = self._quirks.apply(wanted)
            try:
                # The body as it came: ``chat.completions.create`` would build a model of it, and
                # of the request, for more than the rest of a call costs.
                asked = {"model": self.model, "messages": call.messages}
                got = await self._client.post(
                    "/chat/completions",
                    cast_to=httpx2.Response,
                    body={**asked, **sent, **self.extra, **call.extra},
                )
            except (openai.BadRequestError, openai.UnprocessableEntityError) as e:
                if not self._quirks.learn(e.body or e.message, sent):
                    raise
                continue
            return self._key.clean(got.text)


_RETIRING: set[asyncio.Task[None]] = set()  # a loop holds its tasks but weakly


def _retire(loop: asyncio.AbstractEventLoop, client: openai.AsyncOpenAI, owner: int) -> None:
    """Close a client on the loop that it has lived on."""

    def close() -> None:
        _RETIRING.add(task := loop.create_task(client.close()))
        task.add_done_callback(_RETIRING.discard)

    if os.getpid() == owner and not loop.is_closed():
        loop.call_soon_threadsafe(close)


def _root(error: BaseException) -> BaseException:
    """Return the first cause: "Connection error." alone says nothing."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
