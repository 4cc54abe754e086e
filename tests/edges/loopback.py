"""A real OpenAI-compatible HTTP server on the loopback, whose behaviour can be scripted.

``with Loopback(script) as server: ... server.url`` runs it in a thread of its own; ``python
-m tests.edges.loopback --latency 0.5`` runs it as a process and prints its URL. It speaks
HTTP/1.1 over asyncio streams, so that 64 calls in flight cost next to nothing.

A script is a list of actions, used up in order by the calls that come in, then ``default`` is
used. An action is a value below or a function of the request's body (and, if it takes two, of
the number of the call) that returns one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.edges.answers import answer


@dataclass
class Respond:
    """Send this status, these headers and this body (JSON types or text), after a delay."""

    status: int = 200
    body: Any = ""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


class Hang:
    """Accept the call and never answer."""


class Disconnect:
    """Close the connection without a byte."""


@dataclass
class Drip:
    """Send the headers at once and then one byte of the body a ``pause``, for ever."""

    pause: float = 0.05


def completion(text: Any, *, usage: Any = ..., finish: str = "stop", **message: Any) -> Respond:
    """Return a well-formed completion with this content."""
    if usage is ...:
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    message = {"role": "assistant", "content": text, **message}
    return Respond(
        body={
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": "loopback",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": usage,
        }
    )


def error(status: int, message: str, headers: dict[str, str] | None = None, **more: Any) -> Respond:
    """Return an error in OpenAI's form."""
    return Respond(status, {"error": {"message": message, **more}}, headers or {})


def answering(body: dict[str, Any]) -> Respond:
    """Return a well-formed answer to whichever phase the messages are of, from what they say."""
    text = answer(body["messages"])
    prompt = sum(len(m["content"]) for m in body["messages"]) // 4
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": len(text) // 4,
        "total_tokens": prompt + len(text) // 4,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    return completion(text, usage=usage)


class Loopback:
    """The server; ``requests`` holds each call's body, headers and time of arrival."""

    def __init__(
        self,
        script: Iterable[Any] = (),
        default: Any = None,
        *,
        latency: float = 0.0,
        key: str | None = None,
        keep: bool = True,
        port: int = 0,
    ) -> None:
        self.script, self.default = list(script), default or completion("ok")
        self.latency, self.key, self.keep, self.port = latency, key, keep, port
        self.requests: list[dict[str, Any]] = []
        self.served, self.in_flight, self.most_in_flight = 0, 0, 0
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [r["body"] for r in self.requests]

    def __enter__(self) -> Loopback:
        self._loop = asyncio.new_event_loop()
        threading.Thread(
            target=self._loop.run_until_complete, args=(self.serve(),), daemon=True
        ).start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    async def serve(self) -> None:
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task] = set()
        server = await asyncio.start_server(self._client, "127.0.0.1", self.port, limit=1 << 26)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(task := asyncio.current_task())
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.lower(): v for k, _, v in (h.partition(": ") for h in head[1:] if h)}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        body = json.loads(raw) if raw else {}
        number, self.served = self.served, self.served + 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if self.keep:
            self.requests.append({"body": body, "headers": headers, "at": time.monotonic()})
        try:
            action = self._action(body, headers, number)
            if self.latency:
                await asyncio.sleep(self.latency)
            return await self._act(action, writer)
        finally:
            self.in_flight -= 1

    def _action(self, body: dict[str, Any], headers: dict[str, str], number: int) -> Any:
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            return error(401, f"Incorrect API key provided: {headers.get('authorization')}")
        action = self.script.pop(0) if self.script else self.default
        while isinstance(action, Callable) and not isinstance(action, type):
            wants_number = action.__code__.co_argcount == 2
            action = action(body, number) if wants_number else action(body)
        return action

    async def _act(self, action: Any, writer: asyncio.StreamWriter) -> bool:
        if isinstance(action, Hang) or action is Hang:
            await asyncio.sleep(3600)
        if isinstance(action, Disconnect) or action is Disconnect:
            return False
        if isinstance(action, Drip):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(action.pause)
        if action.delay:
            await asyncio.sleep(action.delay)
        is_text = isinstance(action.body, str)
        data = (action.body if is_text else json.dumps(action.body)).encode()
        kind = "text/html" if is_text else "application/json"
        headers = {"content-type": kind, "content-length": str(len(data)), **action.headers}
        lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        writer.write(f"HTTP/1.1 {action.status} X\r\n{lines}\r\n".encode() + data)
        await writer.drain()
        return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--answering", action="store_true")
    args = parser.parse_args()
    server = Loopback(
        default=answering if args.answering else completion("ok"),
        latency=args.latency,
        keep=False,
        port=args.port,
    )

    async def announce() -> None:
        task = asyncio.ensure_future(server.serve())
        while not server._ready.is_set():
            await asyncio.sleep(0.01)
        print(server.url, flush=True)
        await task

    asyncio.run(announce())
