"""One background event loop for every blocking call into a judge.

A client that has lived on one event loop cannot be used on another, and ``asyncio.run`` refuses
to start inside a notebook, whose kernel already runs a loop. So one daemon thread owns one loop
for the life of the process, and blocking functions hand their coroutines to it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
_owner = 0  # process id: a forked child has the loop but not its thread


def background_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of this process's background thread, started on first use."""
    global _loop, _owner, _thread
    with _lock:
        alive = _thread is not None and _thread.is_alive()
        if _loop is None or _loop.is_closed() or _owner != os.getpid() or not alive:
            _loop, _owner = asyncio.new_event_loop(), os.getpid()
            _thread = threading.Thread(target=_loop.run_forever, name="rubricnb-judge", daemon=True)
            _thread.start()
        return _loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return the coroutine's result, run on the background loop; works in a notebook, too.

    Ctrl-C cancels the coroutine, waits for its clean-up and is raised again.

    Raises:
        RuntimeError: when called from the background loop itself, where it would wait for ever.

    >>> async def double(x):
    ...     return 2 * x
    >>> run(double(4)), run(double(5))
    (8, 10)
    """
    loop = background_loop()
    try:
        inside = asyncio.get_running_loop() is loop
    except RuntimeError:
        inside = False
    if inside:
        work.close()
        raise RuntimeError("want a blocking call from outside the judge's loop; got one inside it")
    settled = threading.Event()
    future = asyncio.run_coroutine_threadsafe(_announced(work, settled), loop)
    try:
        return future.result()
    except BaseException:
        if future.cancel():  # not done: an interrupt of this thread, not the work's own error
            settled.wait(10)
        raise


async def _announced(work: Coroutine[Any, Any, T], settled: threading.Event) -> T:
    """Await the work and say when it is over, its clean-up included."""
    try:
        return await work
    finally:
        settled.set()


async def _next(source: AsyncIterator[T]) -> T:
    return await anext(source)


def iterate(source: AsyncIterator[T]) -> Iterator[T]:
    """Yield what an async iterator yields, driving it on the background loop.

    Closing the generator closes the async iterator, which cancels what it has in flight.
    """
    try:
        while True:
            try:
                yield run(_next(source))
            except StopAsyncIteration:
                return
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            run(close())
