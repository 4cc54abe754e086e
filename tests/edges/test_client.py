"""The endpoint judge against a real server on the loopback that misbehaves in every known way."""

import asyncio
import email.utils
import logging
import pickle
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest

from rubricnb.errors import CallError, JudgeError, QuotaError
from rubricnb.judge import Call, RecordedJudge, Store, Usage
from rubricnb.judge.client import _LEARNED, EndpointJudge
from rubricnb.judge.loop import run
from tests.edges.loopback import (
    Disconnect,
    Drip,
    Hang,
    Loopback,
    Respond,
    completion,
    error,
)

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-planted-0123456789"
SCHEMA = {"title": "reply", "type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    _LEARNED.clear()
    for name in ("RUBRICNB_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def call(text="hello", **more):
    return Call("scoring", ({"role": "user", "content": text},), **more)


def ask(server, c=None, **options):
    judge = EndpointJudge(server.url, "m", **{"deadline": 20, **options})
    return run(judge.complete(c or call()))


def test_a_plain_answer():
    with Loopback([completion("yes")]) as server:
        reply = ask(server, call("hi", temperature=0.0, max_tokens=7))
    assert (reply.text, reply.finish_reason, reply.usage) == ("yes", "stop", Usage(10, 0, 5))
    assert reply.model == "loopback"
    assert reply.seconds > 0
    [body] = server.bodies
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.0,
        "max_tokens": 7,
    }


# What a 200 can hold instead of an answer: (body, begin of the finish reason, text, thinking).
ODD = {
    "empty choices": ({"choices": []}, "malformed: no choices", "", ""),
    "null choices": ({"choices": None}, "malformed: no choices", "", ""),
    "no choices": ({"object": "x"}, "malformed: no choices", "", ""),
    "a list": ([1], "malformed: not an object", "", ""),
    "null choice": ({"choices": [None]}, "malformed: no choices", "", ""),
    "null message": ({"choices": [{"message": None}]}, "malformed: no message", "", ""),
    "null content": (completion(None).body, "malformed: no content", "", ""),
    "number content": (completion(7).body, "malformed: no content", "", ""),
    "empty content": (completion("").body, "malformed: no content", "", ""),
    "cut before content": (completion("", finish="length").body, "length", "", ""),
    "filtered": (completion(None, finish="content_filter").body, "content_filter", "", ""),
    "refusal": (completion(None, refusal="I will not").body, "refusal: I will not", "", ""),
    "error object": ({"error": {"message": "bad things"}}, "error: bad things", "", ""),
    "error text": ({"error": "bad things"}, "error: bad things", "", ""),
    "choice error": (
        {"choices": [{"error": {"message": "provider died", "code": 400}, "message": None}]},
        "error: provider died",
        "",
        "",
    ),
    "parts": (
        completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]).body,
        "stop",
        "ab",
        "",
    ),
    "thinking part": (
        completion([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "b"}]).body,
        "stop",
        "b",
        "hm",
    ),
    "reasoning_content": (completion("b", reasoning_content="hm").body, "stop", "b", "hm"),
    "reasoning": (completion("b", reasoning="hm").body, "stop", "b", "hm"),
    "only reasoning": (
        completion(None, reasoning="pass").body,
        "malformed: no content",
        "",
        "pass",
    ),
    "null finish": (completion("b", finish=None).body, "stop", "b", ""),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_200_is_a_reply_that_says_why(name):
    body, finish, text, thinking = ODD[name]
    with Loopback([Respond(200, body)]) as server:
        reply = ask(server)
    assert reply.finish_reason.startswith(finish)
    assert (reply.text, reply.thinking) == (text, thinking)
    assert server.served == 1


@pytest.mark.parametrize(
    ("usage", "want"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": "7", "completion_tokens": 1}, None),
        ({"prompt_tokens": 7, "completion_tokens": None}, None),
        ({"prompt_tokens": 7, "completion_tokens": 1}, Usage(7, 0, 1)),
        (
            {
                "prompt_tokens": 7,
                "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 4},
            },
            Usage(7, 4, 1),
        ),
        (
            {"prompt_tokens": 7, "completion_tokens": 1, "prompt_tokens_details": None},
            Usage(7, 0, 1),
        ),
        (
            {"prompt_tokens": 7, "completion_tokens": 1, "prompt_cache_hit_tokens": 3},
            Usage(7, 3, 1),
        ),
    ],
)
def test_usage_is_unknown_and_never_zero_where_it_is_not_given(usage, want):
    with Loopback([completion("x", usage=usage)]) as server:
        assert ask(server).usage == want


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"retry-after": "0"}, 0.0, 1.5),
        ({"retry-after": "1"}, 0.99, 2.0),
        ({"retry-after-ms": "300"}, 0.29, 1.5),
        ({"retry-after": "soon"}, 0.0, 1.5),
        ({"retry-after": "-5"}, 0.0, 1.5),
        ({"retry-after": "inf"}, 0.0, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0, 1.5),
        ({"retry-after": "Wed, 99 Nov 99999999 07:28:00 GMT"}, 0.0, 1.5),
        ({}, 0.0, 1.5),
    ],
)
def test_429_waits_as_it_is_asked_to(headers, least, most):
    with Loopback([error(429, "slow down", headers)], completion("yes")) as server:
        start = time.monotonic()
        assert ask(server).text == "yes"
        assert least <= time.monotonic() - start <= most
    assert server.served == 2


def test_429_with_a_date_ahead_waits_until_then():
    date = email.utils.formatdate(time.time() + 3, usegmt=True)
    with Loopback([error(429, "slow down", {"retry-after": date})], completion("yes")) as server:
        start = time.monotonic()
        assert ask(server).text == "yes"
        assert 1.5 <= time.monotonic() - start <= 4.5


def test_retry_after_180_within_the_deadline_is_honoured(monkeypatch):
    waited = []

    async def skip(seconds):
        waited.append(round(seconds))
        judge._resume_at = 0.0  # as if the time had passed

    with Loopback([error(429, "slow", {"retry-after": "180"})], completion("yes")) as server:
        judge = EndpointJudge(server.url, "m", deadline=600)
        monkeypatch.setattr("rubricnb.judge.attempts.sleep", skip)
        assert run(judge.complete(call())).text == "yes"
    assert waited == [180]


def test_retry_after_past_the_deadline_fails_at_once():
    start = time.monotonic()
    with (
        Loopback([error(429, "slow", {"retry-after": "180"})]) as server,
        pytest.raises(JudgeError, match=r"slow, which asks to wait 180 s"),
    ):
        ask(server, deadline=5)
    assert time.monotonic() - start < 2
    assert server.served == 1


def test_a_wait_that_one_call_was_told_holds_for_all():
    script = [error(429, "slow", {"retry-after": "1"})]
    with Loopback(script, completion("yes")) as server:
        judge = EndpointJudge(server.url, "m", deadline=20)

        async def both():
            first = asyncio.ensure_future(judge.complete(call("a")))
            await asyncio.sleep(0.3)
            await asyncio.gather(first, *(judge.complete(call(f"b{i}")) for i in range(5)))

        run(both())
    at = [r["at"] for r in server.requests]
    assert min(at[1:]) - at[0] >= 0.95


@pytest.mark.parametrize(
    "action",
    [
        error(429, "You exceeded your current quota", code="insufficient_quota"),
        error(402, "Payment Required"),
        error(429, "x", type="insufficient_quota"),
        error(403, "Your credit balance is too low"),
        Respond(200, {"error": {"message": "Insufficient credits", "code": 402}}),
    ],
)
def test_a_used_up_quota_stops_at_once(action):
    with Loopback(default=action) as server, pytest.raises(QuotaError, match="quota is used up"):
        ask(server)
    assert server.served == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_key_is_said_at_once(status):
    with (
        Loopback(default=error(status, "no")) as server,
        pytest.raises(JudgeError, match=r"key is not accepted.*RUBRICNB_API_KEY"),
    ):
        ask(server)
    assert server.served == 1


def test_an_unknown_model_is_said_at_once():
    with (
        Loopback(default=error(404, "The model `m` does not exist")) as server,
        pytest.raises(JudgeError, match=r"model 'm'.*does not exist"),
    ):
        ask(server)
    assert server.served == 1


@pytest.mark.parametrize(
    "bad",
    [
        error(500, "oops"),
        error(503, "busy"),
        error(408, "late"),
        Respond(200, {"error": {"message": "rate limited", "code": 429}}),
        Respond(200, {"error": {"message": "over", "code": 502}}),
        Respond(200, "<html><body>gateway</body></html>"),
        Respond(502, "<html>bad gateway</html>"),
        Disconnect,
    ],
)
def test_a_passing_trouble_is_survived(bad):
    with Loopback([bad], completion("yes")) as server:
        assert ask(server).text == "yes"
    assert server.served == 2


def test_web_pages_only_are_refused():
    page = Respond(200, "<!doctype html><html>welcome</html>")
    with Loopback(default=page) as server, pytest.raises(JudgeError, match="a web page"):
        ask(server)
    assert server.served == 3


def test_no_server_is_said_soon():
    with Loopback() as server:
        pass
    time.sleep(0.1)
    start = time.monotonic()
    with pytest.raises(JudgeError, match="no connection"):
        ask(server)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("bad", [Hang, Drip()])
def test_one_deadline_covers_all_attempts(bad):
    start = time.monotonic()
    with Loopback(default=bad) as server, pytest.raises(JudgeError, match="no answer within"):
        ask(server, deadline=2, attempt_seconds=0.4)
    assert time.monotonic() - start < 3
    assert server.served >= 2


def test_a_slow_answer_within_the_deadline_is_taken():
    slow = completion("yes")
    slow.delay = 1.0
    with Loopback([slow]) as server:
        assert ask(server).seconds >= 1.0


def refuses(*names):
    """A server that refuses bodies holding any of these parameters, naming the first."""

    def action(body):
        for name in names:
            if name in body:
                return error(400, f"Unsupported parameter: '{name}'", param=name)
        return completion("yes")

    return action


def test_refused_parameters_are_swapped_or_dropped_once_and_remembered():
    with Loopback(default=refuses("temperature", "max_tokens", "response_format")) as server:
        judge = EndpointJudge(server.url, "m", structured=True)
        c = call(temperature=0.0, max_tokens=9, schema=SCHEMA)
        assert run(judge.complete(c)).text == "yes"
        first = server.served
        assert run(judge.complete(c)).text == "yes"
        again = EndpointJudge(server.url, "m", structured=True)
        assert run(again.complete(c)).text == "yes"
    assert first == 5  # temperature, max_tokens, json_schema, json_object
    assert server.served == first + 2
    assert server.bodies[-1]["max_completion_tokens"] == 9
    assert not {"temperature", "max_tokens", "response_format"} & set(server.bodies[-1])
    assert again.quirks == {
        "temperature": "",
        "max_tokens": "max_completion_tokens",
        "response_format": "",
    }


def test_one_kind_of_response_format_may_be_taken():
    def action(body):
        if body.get("response_format", {}).get("type") == "json_schema":
            return error(400, "response_format: want one of text, json_object")
        return completion("{}")

    with Loopback(default=action) as server:
        judge = EndpointJudge(server.url, "m", structured=True)
        assert run(judge.complete(call(schema=SCHEMA))).text == "{}"
    assert server.bodies[-1]["response_format"] == {"type": "json_object"}
    assert server.served == 2


def test_a_refusal_without_a_name_leads_to_plain_text():
    def action(body):
        return error(400, "bad request") if set(body) - {"model", "messages"} else completion("y")

    with Loopback(default=action) as server:
        judge = EndpointJudge(server.url, "m", structured=True, sampling={"seed": 3})
        assert run(judge.complete(call(schema=SCHEMA, temperature=1.0, max_tokens=5))).text == "y"
    assert server.served == 2


def test_many_calls_at_once_learn_the_same():
    with Loopback(default=refuses("temperature", "max_tokens")) as server:
        judge = EndpointJudge(server.url, "m")

        async def many():
            return await asyncio.gather(
                *(judge.complete(call(str(i), temperature=0.5, max_tokens=9)) for i in range(20))
            )

        assert {r.text for r in run(many())} == {"yes"}
    assert judge.quirks == {"temperature": "", "max_tokens": "max_completion_tokens"}


def test_a_prompt_that_is_too_long_fails_that_call_alone():
    long = error(400, "maximum context length is 8192 tokens", code="context_length_exceeded")
    with Loopback([long], completion("yes")) as server:
        reply = ask(server, call(temperature=0.0, max_tokens=5))
        assert reply.text == ""
        assert reply.finish_reason.startswith("error: status 400: maximum context length")
        assert ask(server).text == "yes"
    assert server.served == 2


def test_a_call_refused_by_a_server_that_has_answered_fails_alone():
    def action(body):
        bad = "poison" in body["messages"][0]["content"]
        return error(400, "content policy") if bad else completion("yes")

    with Loopback(default=action) as server:
        judge = EndpointJudge(server.url, "m")
        assert run(judge.complete(call())).text == "yes"
        assert run(judge.complete(call("poison"))).finish_reason.startswith("error: status 400")
    with Loopback(default=error(400, "who are you")) as server, pytest.raises(JudgeError):
        ask(server)


def test_concurrency_is_limited():
    with Loopback(latency=0.05) as server:
        judge = EndpointJudge(server.url, "m", concurrency=3)

        async def many():
            await asyncio.gather(*(judge.complete(call(str(i))) for i in range(12)))

        run(many())
    assert server.most_in_flight == 3


def test_waiting_for_a_rate_limit_is_not_held_against_the_deadline():
    with Loopback() as server:  # a burst of 2, then a call each half second
        judge = EndpointJudge(server.url, "m", calls_per_minute=120, deadline=0.9)

        async def many():
            await asyncio.gather(*(judge.complete(call(str(i))) for i in range(6)))

        run(many())
    assert server.requests[-1]["at"] - server.requests[0]["at"] > 1.5


def test_works_from_any_loop_as_often_as_wanted():
    with Loopback() as server:
        judge = EndpointJudge(server.url, "m")
        assert asyncio.run(judge.complete(call())).text == "ok"
        assert asyncio.run(judge.complete(call())).text == "ok"
        assert run(judge.complete(call())).text == "ok"


def test_a_cancelled_call_frees_its_place():
    with Loopback([Hang, Hang], completion("yes")) as server:
        judge = EndpointJudge(server.url, "m", concurrency=2)

        async def work():
            stuck = [asyncio.ensure_future(judge.complete(call())) for _ in range(2)]
            while server.served < 2:
                await asyncio.sleep(0.01)
            for s in stuck:
                s.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)
            return await judge.complete(call())

        assert run(work()).text == "yes"


def test_the_key_is_sent_and_never_shown(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    log = logging.FileHandler(tmp_path / "log.txt")
    logging.getLogger().addHandler(log)
    echo = error(400, f"what is {KEY}?")
    seen = []
    try:
        with Loopback(
            [completion("x"), completion(f"I saw {KEY}"), echo, error(500, KEY), error(401, KEY)],
            key=KEY,
        ) as server:
            judge = EndpointJudge(server.url, "m", key=KEY)
            for _ in range(4):
                try:
                    seen.append(repr(run(judge.complete(call()))))
                except JudgeError:
                    seen.append(traceback.format_exc())
            for wrong in (KEY + "x", KEY + "\nx"):
                with pytest.raises(JudgeError) as caught:
                    run(EndpointJudge(server.url, "m", key=wrong).complete(call()))
                seen.append("".join(traceback.format_exception(caught.value)))
    finally:
        logging.getLogger().removeHandler(log)
    assert "not accepted" in "".join(seen)
    seen += [repr(judge), str(judge.identity), repr(vars(judge)), caplog.text]
    seen += [(tmp_path / "log.txt").read_text()]
    assert "I saw [key]" in seen[1]
    assert KEY not in "".join(seen)
    assert KEY.encode() not in pickle.dumps(judge._key)


def test_the_key_comes_from_the_environment(monkeypatch):
    with Loopback(key="k1") as server:
        monkeypatch.setenv("OPENAI_API_KEY", "other")
        monkeypatch.setenv("RUBRICNB_API_KEY", "k1")
        assert ask(server).text == "ok"
    monkeypatch.delenv("RUBRICNB_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(JudgeError, match="want a key in RUBRICNB_API_KEY"):
        EndpointJudge("https://api.openai.com/v1", "m")


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://x/v1", "http://"])
def test_a_base_url_that_is_none_is_refused(url):
    with pytest.raises(JudgeError, match="want a base URL"):
        EndpointJudge(url, "m")


def test_one_call_that_hangs_is_its_own_failure_and_a_dead_server_is_not():
    def action(body):
        return Hang if "stuck" in body["messages"][0]["content"] else completion("yes")

    with Loopback(default=action) as server:
        judge = EndpointJudge(server.url, "m", deadline=0.6, attempt_seconds=0.6)

        async def work():
            stuck = asyncio.ensure_future(judge.complete(call("stuck")))
            await asyncio.sleep(0.1)
            await judge.complete(call("fine"))
            return await stuck

        with pytest.raises(CallError, match="no answer within"):
            run(work())
        with pytest.raises(JudgeError, match="no answer within") as caught:
            run(judge.complete(call("stuck")))
        assert not isinstance(caught.value, CallError)


def test_a_token_rate_holds_calls_back_and_refuses_none():
    with Loopback() as server:
        judge = EndpointJudge(server.url, "m", tokens_per_minute=600)  # 10 a second

        async def work():
            await judge.complete(call("x" * 9600))  # more than a minute's worth
            await judge.complete(call("x" * 40))

        start = time.monotonic()
        run(work())
    assert time.monotonic() - start >= 0.9


def test_judges_that_come_and_go_leave_the_loop_able_to_read(tmp_path):
    def use(url, i):
        with Store(tmp_path / f"{i}.sqlite") as store:
            judge = RecordedJudge(EndpointJudge(url, "m", deadline=6), store)

            async def many():
                slots = asyncio.Semaphore(64)

                async def one(j):
                    async with slots:
                        await judge.complete(call(f"{i} {j} " + "word " * 800))

                await asyncio.gather(*(one(j) for j in range(200)))

            run(many())

    # A server in a process of its own, so that new connections get the numbers of old ones.
    argv = [sys.executable, "-m", "tests.edges.loopback", "--latency", "0.05"]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        url = server.stdout.readline().strip()
        for i in range(6):
            use(url, i)
    finally:
        server.kill()
