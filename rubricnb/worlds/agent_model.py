"""Chat models that can act: any OpenAI-compatible endpoint, called with tools."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import CallError
from ..judge.client import EndpointJudge
from ..judge.loop import background_loop
from ..judge.protocol import Call, Usage
from ..judge.wire import TOO_LONG_WORDS
from ..trajectory import ToolCall

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Said:
    """One assistant turn.

    Args:
        text: what was written outside of calls.
        calls: the calls, arguments as written.
        thinking: reasoning that the endpoint keeps apart.
        usage: tokens; None where unknown.
        finish: "stop", "tool_calls", "length", "too_long" (the prompt did not fit), ...
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    thinking: str = ""
    usage: Usage | None = None
    finish: str = "stop"


class ChatModel(Protocol):
    """Anything that answers a conversation; called from several threads at once."""

    name: str
    identity: Mapping[str, Any]

    def reply(self, messages: Messages, tools: Sequence[Mapping[str, Any]]) -> Said:
        """Return the next assistant turn. Raises JudgeError where none can be had."""
        ...


class EndpointModel:
    """A chat model behind an OpenAI-compatible endpoint.

    Retries, deadlines, rate limits and refused parameters are the judge client's.

    Args:
        endpoint: the endpoint; its sampling settings and token limit are the agent's.
    """

    def __init__(self, endpoint: EndpointJudge) -> None:
        self.endpoint, self.name = endpoint, endpoint.model
        self._lock, self._flying, self._stopped = threading.Lock(), set[Future](), False

    @property
    def identity(self) -> dict[str, Any]:
        """What its answers depend on; the key is not in it."""
        return self.endpoint.identity

    def reply(self, messages: Messages, tools: Sequence[Mapping[str, Any]]) -> Said:
        """Return the endpoint's next turn.

        Raises:
            JudgeError: where the endpoint cannot answer; CallError where it is this call only.
        """
        bodies: list[str] = []

        async def note(body: str, seconds: float) -> None:
            bodies.append(body)

        extra = {"tools": list(tools)} if tools else {}
        call = Call("agent", tuple(messages), max_tokens=self.endpoint.max_tokens, extra=extra)
        work = self.endpoint.exchange(call, note)
        with self._lock:
            if self._stopped:
                work.close()
                raise CallError(f"{self.name}: want a reply; got a stop from outside")
            future = asyncio.run_coroutine_threadsafe(work, background_loop())
            self._flying.add(future)
        try:
            reply = future.result().reply
        except CancelledError:
            raise CallError(f"{self.name}: want a reply; got a stop from outside") from None
        finally:
            with self._lock:
                self._flying.discard(future)
        if reply.finish_reason.startswith("error"):
            if any(w in reply.finish_reason.lower() for w in TOO_LONG_WORDS):
                return Said(usage=reply.usage, finish="too_long")
            raise CallError(f"{self.name}: want a reply; got {reply.finish_reason}")
        calls, finish = read_calls(bodies[-1]), reply.finish_reason
        if calls and finish.startswith("malformed"):
            finish = "tool_calls"
        return Said(reply.text, calls, reply.thinking, reply.usage, finish)

    def stop(self) -> None:
        """Cancel the calls in flight and refuse more."""
        with self._lock:
            self._stopped, flying = True, list(self._flying)
        for future in flying:
            future.cancel()


def read_calls(body: str) -> tuple[ToolCall, ...]:
    """Return the function calls in a chat completion's body; what is no call is left out.

    >>> read_calls('{"choices": [{"message": {"tool_calls": [{"id": "a", "function": '
    ...            '{"name": "find", "arguments": "{}"}}]}}]}')
    (ToolCall(name='find', arguments='{}', id='a'),)
    """
    try:
        found = json.loads(body)["choices"][0]["message"].get("tool_calls") or []
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return ()
    out = []
    for row in found if isinstance(found, list) else ():
        function = row.get("function") if isinstance(row, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            continue
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = json.dumps({} if arguments is None else arguments)
        id = row.get("id") if isinstance(row.get("id"), str) and row["id"] else f"call_{len(out)}"
        out.append(ToolCall(function["name"], arguments, id))
    return tuple(out)
