"""The background loop: twice in a row, inside a running loop, interrupted, streamed."""

import asyncio
import threading
import time

import pytest

from rubricnb.errors import JudgeError
from rubricnb.judge import Call, CallableJudge, Judge, Reply
from rubricnb.judge.loop import background_loop, iterate, run

CALL = Call("scoring", ({"role": "user", "content": "?"},))


def test_runs_twice_on_one_loop_and_inside_a_running_loop():
    async def where():
        return asyncio.get_running_loop()

    first, second = run(where()), run(where())

    async def kernel():
        return run(where())

    assert first is second is background_loop() is asyncio.run(kernel())


def test_an_error_of_the_work_comes_out_as_it_is():
    async def fails():
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        run(fails())


def test_a_blocking_call_from_inside_the_loop_is_refused():
    async def inner():
        return 1

    async def outer():
        return run(inner())

    with pytest.raises(RuntimeError, match="inside it"):
        run(outer())


def test_an_interrupt_cancels_the_work_and_waits_for_its_cleanup(monkeypatch):
    from concurrent.futures import Future

    cleaned = threading.Event()

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            cleaned.set()

    def interrupted(self, timeout=None):
        time.sleep(0.05)
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(work())
    assert cleaned.is_set()


def test_iterate_streams_and_closes():
    closed = threading.Event()

    async def numbers():
        try:
            for i in range(10):
                await asyncio.sleep(0)
                yield i
        finally:
            closed.set()

    it = iterate(numbers())
    assert [next(it), next(it)] == [0, 1]
    it.close()
    assert closed.is_set()
    assert list(iterate(numbers())) == list(range(10))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_callable_judge(asynchronous):
    if asynchronous:

        async def fn(call):
            return Reply(call.phase, model="m")
    else:

        def fn(call):
            return call.phase

    judge = CallableJudge(fn, "j")
    assert isinstance(judge, Judge)
    assert run(judge.complete(CALL)).text == "scoring"
    with pytest.raises(JudgeError, match="want text or a Reply; got int"):
        run(CallableJudge(lambda call: 3).complete(CALL))
