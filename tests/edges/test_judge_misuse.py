"""What a stranger's function, file or address does to a judge: an error that says so, no hang."""

import sqlite3
import threading

import pytest

from rubricnb import Criterion, Group, Rubric, Step, Task, Trajectory
from rubricnb.errors import ConfigError, JudgeError
from rubricnb.judge import CallableJudge, JudgeConfig, ReplayJudge, grade, wire
from rubricnb.judge.attempts import Again
from rubricnb.judge.loop import background_loop, run
from rubricnb.judge.session import grade_file

FIXED = JudgeConfig(
    rubric=Rubric((Criterion("C1", "Says hello", instruction="Pass if it greets."),)), nonce="n"
)
REPLY = '{"verdicts": [{"id": "C1", "reason": "r", "steps": [1], "verdict": "pass"}]}'


def group(task_id="t"):
    task = Task(task_id, "Say hello")
    return Group(task, tuple(Trajectory(f"{task_id}-{i}", task, (Step("hi"),)) for i in range(2)))


def soon(work):
    """What the work raises, or its result; a failure where it never ends."""
    out = []

    def job():
        try:
            out.append(work())
        except BaseException as e:
            out.append(e)

    thread = threading.Thread(target=job, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return out[0]


@pytest.mark.parametrize("wish", [SystemExit, KeyboardInterrupt])
def test_a_function_that_wants_to_leave_does_not_take_the_loop_along(wish):
    def leave(call):
        raise wish

    error = soon(lambda: grade(group(), CallableJudge(leave), FIXED))
    assert isinstance(error, JudgeError)
    assert wish.__name__ in str(error)
    assert len(soon(lambda: grade(group(), CallableJudge(lambda call: REPLY), FIXED))) == 1


def test_a_dead_loop_is_replaced():
    dead = background_loop()
    dead.call_soon_threadsafe(dead.stop)
    for thread in threading.enumerate():
        if thread.name == "rubricnb-judge":
            thread.join(10)

    async def double(x):
        return 2 * x

    assert soon(lambda: run(double(4))) == 8


def test_a_plain_function_is_a_judge(tmp_path):
    def says_pass(call):
        return REPLY

    assert grade(group(), says_pass, FIXED)[0].record["judge"] == "says_pass"
    assert grade_file([group()], tmp_path / "g.jsonl", says_pass, FIXED).written == 1
    with pytest.raises(ConfigError, match="want a judge, or a function of a Call; got int"):
        grade(group(), 3, FIXED)


def test_an_error_of_the_function_brings_what_was_finished():
    def fails_later(call):
        if call.key["task_id"] == "t1":
            raise ZeroDivisionError
        return REPLY

    with pytest.raises(ZeroDivisionError) as caught:
        grade([group("t0"), group("t1")], fails_later, FIXED, in_flight=1)
    assert [g.group.task.id for g in caught.value.graded] == ["t0"]


@pytest.mark.parametrize("content", [b"one line without an end", b'{"rubricnb": 1, "kind": "tra'])
def test_a_file_that_is_none_of_ours_is_not_shortened(tmp_path, content):
    out = tmp_path / "notes.txt"
    out.write_bytes(content)
    with pytest.raises(ConfigError, match="want graded groups to continue"):
        grade_file([group()], out, lambda call: REPLY, FIXED)
    assert out.read_bytes() == content


@pytest.mark.parametrize("junk", [b"junk\n", b""])
def test_a_recording_that_is_none_is_refused(tmp_path, junk):
    path = tmp_path / "junk.sqlite"
    path.write_bytes(junk)
    with pytest.raises(JudgeError, match=r"junk\.sqlite"):
        ReplayJudge(path)


def test_a_recording_that_is_damaged_further_in_is_refused(tmp_path):
    out = tmp_path / "g.jsonl"
    grade_file([group(f"t{i}") for i in range(30)], out, lambda call: REPLY, FIXED)
    path = tmp_path / "g.jsonl.judge.sqlite"
    sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    body = bytearray(path.read_bytes())
    body[4096:] = b"\xff" * (len(body) - 4096)
    path.write_bytes(body)
    with pytest.raises(JudgeError, match=r"judge\.sqlite"):
        grade_file([group()], tmp_path / "h.jsonl", replay=path)


@pytest.mark.parametrize("url", ["http://h:99999/v1", "http://[::1/v1", "ftp://u:sk-planted@h/"])
def test_an_address_that_is_none_is_said_without_its_credentials(url):
    with pytest.raises(JudgeError, match="want a base URL") as caught:
        wire.normal_url(url)
    assert "sk-planted" not in str(caught.value)


def test_a_body_of_brackets_is_no_answer_and_no_crash():
    with pytest.raises(Again, match="no JSON"):
        wire.read_body("[" * 200_000)


def test_a_byte_order_mark_before_a_body_is_skipped():
    assert wire.read_body('\ufeff{"choices": []}').finish_reason == "malformed: no choices"
