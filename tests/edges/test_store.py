"""The judge's memory: journalled before it is read, cached once read, replayed to the byte."""

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import time

import pytest

from rubricnb import Criterion, GradedGroup, Group, Rubric, Step, Task, Trajectory, files
from rubricnb.errors import JudgeError, QuotaError, ReplayError
from rubricnb.judge import (
    Call,
    CallableJudge,
    EndpointJudge,
    JudgeConfig,
    Ledger,
    Reply,
    Store,
    Usage,
    grade,
    read_call,
)
from rubricnb.judge.address import call_key, split_parts
from rubricnb.judge.loop import run
from rubricnb.judge.recorded import RecordedJudge, ReplayJudge
from tests.edges.loopback import Hang, Loopback, Respond, completion, error

TASK = "===== BEGIN TASK a1 =====\n| x\n===== END TASK a1 =====\n\n"
LONG = TASK + "===== BEGIN ROLLOUT b2 =====\n| é\n"


def call(text="hello", **more):
    return Call("scoring", ({"role": "user", "content": text},), **more)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "judge.sqlite") as store:
        yield store


def endpoint(server, **options):
    return EndpointJudge(server.url, "m", **{"deadline": 10, **options})


def many(judge, calls):
    async def work():
        return await asyncio.gather(*(judge.complete(c) for c in calls))

    return run(work())


def test_a_second_run_of_the_same_calls_asks_nothing(store):
    with Loopback(default=lambda body, n: completion(f'{{"n": {n}}}')) as server:
        calls = [call(f"q{i}") for i in range(9)]
        first = many(RecordedJudge(endpoint(server), store), calls)
        again = many(RecordedJudge(endpoint(server), store), calls)
        assert server.served == 9
    assert [r.text for r in again] == [r.text for r in first]
    assert [r.usage for r in again] == [r.usage for r in first]
    assert [r.seconds for r in again] == [r.seconds for r in first]
    assert all(r.cached for r in again)
    assert not any(r.cached for r in first)


@pytest.mark.parametrize(
    "other",
    [
        call("other"),
        call(temperature=0.5),
        call(max_tokens=5),
        call(sample=1),
        call(schema={"type": "object"}),
        Call("scoring", ({"role": "system", "content": "hello"},)),
    ],
)
def test_the_address_depends_on_everything_that_is_sent(other):
    assert call_key({}, "1", call())[0] != call_key({}, "1", other)[0]


def test_the_address_depends_on_who_is_asked_and_not_on_what_about():
    a = EndpointJudge("http://localhost:1/v1", "m")
    same = EndpointJudge("HTTP://Localhost:1/v1/", "m", key="k")
    others = [
        EndpointJudge("http://localhost:2/v1", "m"),
        EndpointJudge("http://localhost:1/v1", "n"),
        EndpointJudge("http://localhost:1/v1", "m", sampling={"seed": 1}),
    ]
    key = call_key(a.identity, "1", call())[0]
    assert key == call_key(same.identity, "1", call(key={"task_id": "t"}))[0]
    assert key not in {call_key(o.identity, "1", call())[0] for o in others}
    assert key != call_key(a.identity, "2", call())[0]


@pytest.mark.parametrize("text", ["", "a", LONG, LONG + "\n\nJOB: UNION\nx", "JOB: \n===== BEGIN "])
def test_prompt_parts_join_to_the_prompt(text, store):
    assert "".join(split_parts(text)) == text
    judge = RecordedJudge(CallableJudge(lambda c: "{}", "f"), store)
    asked = call(text, key={"task_id": "t"}, temperature=0.5)
    run(judge.complete(asked))
    key, _ = call_key(judge.identity, "1", asked)
    assert store.call(key) == asked


def test_a_shared_rollout_is_kept_once(store):
    judge = RecordedJudge(CallableJudge(lambda c: "{}", "f"), store)
    rollout = "\n===== BEGIN ROLLOUT b2 =====\n" + "| x\n" * 1000
    many(judge, [call(rollout + f"\n\nJOB: UNION\n{i}") for i in range(5)])
    [(n,)] = store._read("SELECT COUNT(*) FROM texts")
    assert n == 1 + 1 + 5  # the line break before the fence, the rollout, the five jobs


def test_only_parsed_replies_are_cached_and_all_are_journalled(store):
    script = [
        completion('{"a": 1}'),
        completion("Sorry, no."),
        completion('{"a": ', finish="length"),
        Respond(200, {"choices": []}),
        completion('{"a": 2}', usage=None),
    ]
    with Loopback(script) as server:
        judge = RecordedJudge(endpoint(server), store, run="r1")
        for i in range(5):
            run(judge.complete(call(f"q{i}")))
        # The same run asks none of them again, another run those that could not be read.
        again = RecordedJudge(endpoint(server), store, run="r1")
        assert [r.finish_reason for r in many(again, [call(f"q{i}") for i in range(5)])] == [
            "stop",
            "stop",
            "length",
            "malformed: no choices",
            "stop",
        ]
        assert server.served == 5
        other = RecordedJudge(endpoint(server), store, run="r2")
        many(other, [call(f"q{i}") for i in range(5)])
        assert server.served == 8
    assert len(list(store.journal("r1"))) == 5
    assert len(list(store.journal("r2"))) == 3


def test_what_asks_for_another_try_is_journalled_and_tried_again(store):
    busy = Respond(200, {"error": {"message": "busy", "code": 503}})
    with Loopback([busy], completion("{}")) as server:
        ledger = Ledger()
        run(RecordedJudge(endpoint(server), store, ledger=ledger).complete(call()))
    rows = list(store.journal("default"))
    assert ["busy" in r.body for r in rows] == [True, False]
    assert ledger.bill().retries == 1


def test_a_quota_error_is_booked_and_passed_on(store):
    out = error(429, "x", code="insufficient_quota")
    with Loopback(default=out) as server:
        ledger = Ledger()
        with pytest.raises(QuotaError):
            run(RecordedJudge(endpoint(server), store, ledger=ledger).complete(call()))
    bill = ledger.bill()
    assert (bill.calls, bill.failed, bill.unknown) == (1, 1, 1)


def test_the_same_question_twice_at_once_is_asked_once(store):
    with Loopback(default=lambda body, n: completion(str(n)), latency=0.1) as server:
        replies = many(RecordedJudge(endpoint(server), store), [call()] * 4)
        assert server.served == 1
    assert {r.text for r in replies} == {"0"}


def test_a_cancelled_question_is_asked_by_the_one_who_waits(store):
    with Loopback([Hang], completion("{}")) as server:
        judge = RecordedJudge(endpoint(server), store)

        async def work():
            first = asyncio.ensure_future(judge.complete(call()))
            while not server.served:
                await asyncio.sleep(0.01)
            second = asyncio.ensure_future(judge.complete(call()))
            await asyncio.sleep(0.05)
            first.cancel()
            return await second

        assert run(work()).text == "{}"


def test_replay_needs_no_server_and_no_key(store, monkeypatch):
    calls = [call(f"q{i}", sample=i % 2) for i in range(6)]
    with Loopback(default=lambda body, n: completion(f'{{"n": {n}}}')) as server:
        first = many(RecordedJudge(endpoint(server, key="k"), store), calls)
    for name in ("RUBRICNB_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    ledger = Ledger()
    again = many(ReplayJudge(store, ledger=ledger), calls)
    assert [(r.text, r.usage, r.seconds) for r in again] == [
        (r.text, r.usage, r.seconds) for r in first
    ]
    assert (ledger.bill().calls, ledger.bill().replayed) == (0, 6)


def test_replay_says_what_is_missing(store, tmp_path):
    judge = RecordedJudge(CallableJudge(lambda c: "{}", "f"), store)
    run(judge.complete(call()))
    with pytest.raises(ReplayError, match=r"scoring call, task_id t7, trajectory_id r1, sample 2"):
        run(
            ReplayJudge(store).complete(
                call("else", sample=2, key={"task_id": "t7", "trajectory_id": "r1"})
            )
        )
    with pytest.raises(ReplayError, match=r"want one of the runs \['default'\]; got 'b'"):
        ReplayJudge(store, run="b")
    RecordedJudge(CallableJudge(lambda c: "{}", "f"), store, run="two")
    with pytest.raises(ReplayError, match=r"\['default', 'two'\]; got None"):
        ReplayJudge(store)
    with pytest.raises(JudgeError, match="no such file"):
        ReplayJudge(tmp_path / "none.sqlite")


def test_any_judge_gets_a_memory(store):
    asked = []

    def judge(c):
        asked.append(c)
        return Reply("{}", usage=Usage(3, 1, 2), seconds=0.25)

    recorded = RecordedJudge(CallableJudge(judge, "mine"), store)
    first = run(recorded.complete(call()))
    assert run(recorded.complete(call())).usage == first.usage == Usage(3, 1, 2)
    assert len(asked) == 1
    assert run(ReplayJudge(store).complete(call())).seconds == 0.25


def test_a_file_that_is_none_of_ours_is_refused(tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_text("not a database, not at all, " * 100)
    with pytest.raises(JudgeError, match="want a judge's memory"):
        Store(path)


def _write(path, name, n):
    with Store(path) as store:
        judge = RecordedJudge(CallableJudge(lambda c: "{}", "f"), store, run=name)
        many(judge, [call(f"q{i}", key={"by": name}) for i in range(n)])


def test_several_processes_share_one_file(tmp_path):
    path = tmp_path / "judge.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(path, f"p{i}", 60)) for i in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join(60)
    assert [w.exitcode for w in workers] == [0, 0, 0]
    with Store(path) as store:
        assert sorted(store.runs()) == ["p0", "p1", "p2"]
        [(n,)] = store._read("SELECT COUNT(*) FROM cache")
    assert n == 60
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _endless(path, url):
    with Store(path) as store:
        judge = RecordedJudge(EndpointJudge(url, "m", concurrency=4), store)
        many(judge, [call(f"q{i}") for i in range(400)])


def test_killed_it_repeats_only_what_was_not_journalled(tmp_path):
    path = tmp_path / "judge.sqlite"
    context = multiprocessing.get_context("spawn")
    with Loopback(default=completion("{}"), latency=0.02) as server:
        for served in (10, 60, 150):
            worker = context.Process(target=_endless, args=(path, server.url))
            worker.start()
            while server.served < served:
                time.sleep(0.005)
            os.kill(worker.pid, signal.SIGKILL)
            worker.join()
        _endless(path, server.url)
        asked = [b["messages"][0]["content"] for b in server.bodies]
    with Store(path) as store:
        texts = [store.call(r.key).messages[0]["content"] for r in store.journal("default")]
    assert sorted(texts) == sorted(f"q{i}" for i in range(400))  # each journalled once
    # What was asked more often was in flight at a kill: at most 4 of each.
    assert len(asked) - 400 <= 3 * 4


def test_rollouts_with_openings_of_their_own_keep_them():
    task, other = Task("t", "Hello"), Task("t", "Good day")
    group = Group(task, (Trajectory("a", task, ()), Trajectory("b", other, ())))
    graded = GradedGroup(group, Rubric(()), ((), ()))
    assert files.decode(files.encode(graded)) == graded


def test_a_judge_reads_each_rollouts_own_opening(store):
    task, other = Task("t", "Hello"), Task("t", "Good day, I leave at 3pm")
    rollouts = (Trajectory("a", task, (Step("x"),)), Trajectory("b", other, (Step("y"),)))
    asked = []

    def judge(c):
        asked.append(c)
        return '{"verdicts": [{"id": "C1", "reason": "r", "steps": [1], "verdict": "pass"}]}'

    rubric = Rubric((Criterion("C1", "Greets", instruction="Pass if it does."),))
    grade(Group(task, rollouts), CallableJudge(judge), JudgeConfig(rubric=rubric))
    about = {c.key["trajectory_id"]: c.messages[-1]["content"] for c in asked}
    assert "OPENING\n| Good day, I leave at 3pm\nS1 AGENT\n| y" in about["b"]
    assert "OPENING" not in about["a"]
    assert [len(s) for c in asked for s in read_call(c).rollouts] == [1] * 4
