"""`rubricnb grade` and `credit` on real rollouts, over a real server, killed and resumed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rubricnb import files, grading, importers
from rubricnb.judge import EndpointJudge, JudgeConfig, Store
from rubricnb.judge.session import grade_file
from rubricnb.worlds import sample_pair
from tests.edges.loopback import Hang, Loopback, answering, completion, error

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-planted-0123456789"


def command(*args, key=KEY, **env):
    clean = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    clean.update(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1", RUBRICNB_API_KEY=key, **env)
    return [sys.executable, "-m", "rubricnb", *map(str, args)], {"env": clean, "cwd": ROOT}


def rubricnb(*args, **env):
    argv, options = command(*args, **env)
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, **options)


def grade(log, url, out, *more, **env):
    args = ("grade", log, "--base-url", url, "--model", "m", "-o", out, *more)
    return rubricnb(*args, **env)


@pytest.fixture(scope="session")
def tau_bench(shared_data):
    return shared_data / "tau_bench_v1" / "gpt-4o-airline.json"


@pytest.fixture
def some(tau_bench, tmp_path):
    """Six real groups of 4, in our own JSON lines."""
    path = tmp_path / "rollouts.jsonl"
    groups = files.group_by_task(importers.read(tau_bench))[:6]
    files.write_jsonl(path, [t for g in groups for t in g.trajectories])
    return path


def test_200_real_rollouts_through_the_whole_chain(tau_bench, tmp_path):
    out, credit = tmp_path / "graded.jsonl", tmp_path / "credit.jsonl"
    with Loopback(default=answering, keep=False) as server:
        done = grade(tau_bench, server.url, out, "--format", "tau-bench")
    assert done.returncode == 0, done.stderr
    assert server.served == 50 * (1 + 4 + 1 + 4 + 4)
    assert "50 groups written" in done.stderr
    assert "task_rubric" in done.stderr
    done = rubricnb("credit", out, "--rule", "draco", "-o", credit)
    assert done.returncode == 0, done.stderr
    rows = list(files.read_jsonl(credit))
    assert len(rows) == 200
    assert {r["unit"] for r in rows} == {"chars"}
    for r in rows:  # sum_j n_j a_j = A N
        n, a = np.array(r["tokens"]), np.array(r["credit"])
        assert abs((n * a).sum() - r["advantage"] * n.sum()) <= 1e-9 * max(1, n.sum())
        assert r["total"] == pytest.approx((n * a).sum())
    groups = {}
    for r in rows:
        groups.setdefault(r["task_id"], []).append(r)
    assert len(groups) == 50
    lively = [
        g
        for g in groups.values()
        if len({r["reward"] for r in g}) > 1
        and any(len({round(a, 9) for a in r["credit"]}) > 1 for r in g)
    ]
    assert len(lively) >= 40


def test_a_killed_run_goes_on_and_ends_the_same(some, tmp_path):
    killed_runs(some, tmp_path, kills=3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_kills(tau_bench, tmp_path):
    killed_runs(tau_bench, tmp_path, kills=20, seed=2)


def killed_runs(log, tmp_path, kills, seed):
    rng = random.Random(seed)
    out, whole = tmp_path / "killed.jsonl", tmp_path / "whole.jsonl"
    with Loopback(default=answering, latency=0.05) as server:
        for _ in range(kills):
            argv, options = command(
                "grade", log, "--base-url", server.url, "--model", "m", "-o", out,
                "--concurrency", 4,
            )  # fmt: skip
            before = server.served
            child = subprocess.Popen(
                argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options
            )
            stop = before + rng.randint(1, 25)
            while server.served < stop and child.poll() is None:
                time.sleep(0.005)
            time.sleep(rng.random() * 0.1)
            child.send_signal(signal.SIGKILL)
            child.wait()
        done = grade(log, server.url, out)
        assert done.returncode == 0, done.stderr
        asked = server.served
        groups = len(out.read_text().splitlines())
        assert asked - groups * 14 <= kills * 4  # no more than was in flight at the kills
        # No journalled call is repeated: each has one row.
        with Store(tmp_path / "killed.jsonl.judge.sqlite") as store:
            keys = [row.key for row in store.journal("grade")]
            nonce = store.run_record("grade")["config"]["nonce"]
        assert len(keys) == len(set(keys)) == groups * 14
        # The same run without a kill, with the same nonce, gives the same file.
        copy = Store(tmp_path / "whole.jsonl.judge.sqlite")
        with Store(tmp_path / "killed.jsonl.judge.sqlite") as store, copy:
            record = store.run_record("grade")
            copy.open_run("grade", record)
        assert grade(log, server.url, whole).returncode == 0
        assert server.served == asked + groups * 14
    assert whole.read_bytes() == out.read_bytes()
    assert json.loads(whole.read_text().splitlines()[0])["record"]["nonce"] == nonce


def test_replay_needs_no_server_and_gives_the_same_bytes(some, tmp_path):
    out, again = tmp_path / "graded.jsonl", tmp_path / "again.jsonl"
    with Loopback(default=answering) as server:
        assert grade(some, server.url, out, "--k", 3).returncode == 0
    recording = tmp_path / "graded.jsonl.judge.sqlite"
    before = recording.read_bytes()
    done = rubricnb("grade", some, "-o", again, "--replay", recording, key="")
    assert done.returncode == 0, done.stderr
    assert again.read_bytes() == out.read_bytes()
    assert recording.read_bytes() == before
    assert not list(tmp_path.glob("*-wal"))
    bill = json.loads((tmp_path / "again.jsonl.record.json").read_text())["this_session"]
    assert bill["total"]["calls"] == 0
    assert bill["total"]["replayed"] == 6 * (1 + 4 + 1 + 12 + 4)


def test_replay_of_other_rollouts_says_what_is_missing(some, tau_bench, tmp_path):
    out = tmp_path / "graded.jsonl"
    with Loopback(default=answering) as server:
        assert grade(some, server.url, out).returncode == 0
    done = rubricnb(
        "grade", tau_bench, "-o", tmp_path / "b.jsonl", "--replay", f"{out}.judge.sqlite"
    )
    assert done.returncode == 1
    assert "want a recorded reply to every call; got none for the task_rubric call" in done.stderr
    # What the recording does hold is in the file.
    assert (tmp_path / "b.jsonl").read_bytes() == out.read_bytes()


def test_a_second_run_does_nothing_and_another_setting_is_refused(some, tmp_path):
    out = tmp_path / "graded.jsonl"
    with Loopback(default=answering) as server:
        assert grade(some, server.url, out).returncode == 0
        served, text = server.served, out.read_bytes()
        done = grade(some, server.url, out)
        assert done.returncode == 0
        assert "0 groups written, 6 found finished" in done.stderr
        done = grade(some, server.url, out, "--k", 3)
        assert done.returncode == 1
        assert "want the settings that this run was begun with; got another votes" in done.stderr
        done = grade(some, server.url, out, "--temperature", 0.5)
        assert "another temperature: '0.5' instead of 'None'" in done.stderr
        assert server.served == served
    assert out.read_bytes() == text


def test_the_key_is_in_no_file(some, tmp_path):
    out = tmp_path / "graded.jsonl"

    def echoing(body, n):
        if n % 9 == 5:
            return error(500, f"your key {KEY} is tired")
        return answering(body)

    with Loopback(default=echoing, key=KEY) as server:
        done = grade(some, server.url, out, OPENAI_LOG="debug")
        assert done.returncode == 0, done.stderr
        wrong = grade(some, server.url, tmp_path / "w.jsonl", key=KEY[:-1] + "8")
    assert wrong.returncode == 1
    assert "the key is not accepted" in wrong.stderr
    assert KEY not in done.stderr + done.stdout
    assert KEY[:-1] not in wrong.stderr + wrong.stdout
    for path in tmp_path.iterdir():
        assert KEY.encode() not in path.read_bytes(), path


def test_ctrl_c_stops_cleanly_and_keeps_what_is_finished(some, tmp_path):
    out = tmp_path / "graded.jsonl"
    with Loopback(default=answering, latency=0.2) as server:
        argv, options = command(
            "grade", some, "--base-url", server.url, "--model", "m", "-o", out, "--concurrency", 2
        )
        child = subprocess.Popen(
            argv,
            stderr=subprocess.PIPE,
            text=True,
            # A shell in the background hands its children an ignored SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **options,
        )
        while server.served < 8:
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=20)
        assert child.returncode == 130
        assert "interrupted" in said
        assert "Traceback" not in said
        with Store(f"{out}.judge.sqlite") as store:
            kept = len(list(store.journal("grade")))
        assert kept >= server.served - 2
        before = server.served
        assert grade(some, server.url, out).returncode == 0
        assert server.served - before == 6 * 14 - kept


def test_a_token_budget_stops_the_run_and_more_lets_it_go_on(some, tmp_path):
    out = tmp_path / "graded.jsonl"
    with Loopback(default=answering) as server:
        done = grade(some, server.url, out, "--budget-tokens", 200_000, "--max-tokens", 4000)
        assert done.returncode == 1
        assert "want a call that fits the budget" in done.stderr
        bill = json.loads((tmp_path / "graded.jsonl.record.json").read_text())
        total = bill["whole_run"]["total"]
        assert 100_000 < total["prompt"] + total["completion"] <= 200_000
        done = grade(some, server.url, out, "--budget-tokens", 200_000, "--max-tokens", 4000)
        assert done.returncode == 1  # what the first part spent counts
        done = grade(some, server.url, out, "--budget-tokens", 9_000_000, "--max-tokens", 4000)
        assert done.returncode == 0, done.stderr
        assert server.served == 6 * 14
    tasks = [g.group.task.id for g in files.read_jsonl(out)]
    assert tasks == [g.task.id for g in files.read_groups(some)]


def test_a_dollar_budget_needs_a_price(some, tmp_path):
    out = tmp_path / "graded.jsonl"
    with Loopback(default=answering) as server:
        args = ("--budget-dollars", "0.5", "--max-tokens", "4000")
        done = grade(some, server.url, out, *args)
        assert done.returncode == 1
        assert "want a price for a budget in dollars" in done.stderr
        assert server.served == 0
        prices = tmp_path / "prices.yaml"
        prices.write_text(
            "date: 2026-11-01\nprices:\n"
            "- {base_url: 'http://127.0.0.1:*', model: m, prompt: 3, completion: 15}\n"
        )
        done = grade(some, server.url, out, *args, "--prices", prices)
        assert done.returncode == 1
        assert "dollars are left" in done.stderr or "of $0.5000 are left" in done.stderr
    total = json.loads((tmp_path / "graded.jsonl.record.json").read_text())["whole_run"]["total"]
    assert 0 < total["dollars"] <= 0.5


def test_a_dry_run_asks_nobody(some, tmp_path):
    done = rubricnb("grade", some, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "a group of 4: 14 calls when its task is first seen, 13 after" in done.stdout
    assert "scoring" in done.stdout
    assert "unknown" in done.stdout


def test_a_fixed_rubric_and_inline_attribution(some, tmp_path):
    rubric, out = tmp_path / "rubric.json", tmp_path / "graded.jsonl"
    rubric.write_text(json.dumps([{"title": "Asks before it acts", "instruction": "Pass if so."}]))
    with Loopback(default=answering) as server:
        done = grade(some, server.url, out, "--rubric", rubric)
        assert done.returncode == 0, done.stderr
        assert server.served == 6 * 8
    again = tmp_path / "again.jsonl"
    done = rubricnb("grade", some, "-o", again, "--replay", f"{out}.judge.sqlite")
    assert done.returncode == 0, done.stderr
    assert again.read_bytes() == out.read_bytes()


def _broken(path):
    path.write_text('{"rubricnb": 1, "kind": "trajectory", "id"\n')


def _single(path, some):
    path.write_text(some.read_text().splitlines()[0] + "\n")


@pytest.mark.parametrize(
    ("make", "args", "said"),
    [
        (lambda p, s: p.write_text(""), (), "want at least"),
        (lambda p, s: _broken(p), (), "line 1: want one JSON object; got broken JSON"),
        (
            lambda p, s: p.write_text(s.read_text() + '{"rubricnb": 1, "kin'),
            (),
            "line 25: want one JSON object; got broken JSON",
        ),
        (lambda p, s: p.write_text("hello\n"), (), "want one of the formats"),
        (lambda p, s: p.write_text(s.read_text()), ("--format", "x"), "want a format among"),
        (lambda p, s: _single(p, s), (), "want at least 2 rollouts of each task"),
        (lambda p, s: None, (), "got no file at"),
    ],
    ids=["empty", "broken", "broken tail", "unknown", "no such format", "group of one", "no file"],
)
def test_bad_input_is_said_before_anything_is_paid(some, tmp_path, make, args, said):
    log, out = tmp_path / "log.jsonl", tmp_path / "graded.jsonl"
    make(log, some)
    out.write_text("")
    with Loopback(default=answering) as server:
        done = grade(log, server.url, out, *args)
        assert server.served == 0
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "want --base-url for the judge; got none"),
        (("--base-url", "http://127.0.0.1:9/v1"), "want --model for the judge; got none"),
        (("--base-url", "nonsense", "--model", "m"), "want a base URL"),
        (("--base-url", "http://127.0.0.1:9/v1", "--model", "m"), "no connection"),
        (("--judge", "oracle"), "want a judge among"),
        (("--replay", "nowhere.sqlite"), "want a recording at nowhere.sqlite"),
    ],
)
def test_no_endpoint_is_said(some, tmp_path, args, said):
    done = rubricnb("grade", some, "-o", tmp_path / "graded.jsonl", *args)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_trouble_later_loses_nothing_written_before(some, tmp_path):
    out = tmp_path / "graded.jsonl"

    def quota(body, n):
        return answering(body) if n < 60 else error(429, "no", code="insufficient_quota")

    with Loopback(default=quota) as server:
        done = grade(some, server.url, out, "--concurrency", 4)
        assert done.returncode == 1
        assert "quota is used up" in done.stderr
        with Store(f"{out}.judge.sqlite") as store:
            kept = list(store.journal("grade"))
        assert len(kept) == 60
        server.default = answering
        before = server.served
        done = grade(some, server.url, out, "--concurrency", 4)
        assert done.returncode == 0, done.stderr
        assert server.served - before == 6 * 14 - 60


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--rule", "oracle"), "want a rule among"),
        (("--set", "nothing"), "want --set key=value"),
        (("--set", "colour=3"), "colour"),
        (("--tokenizer", "nowhere"), "want a tokenizer.json"),
        (("--rule", "triage"), "role_GS"),
    ],
)
def test_credit_says_what_it_wants(some, tmp_path, args, said):
    out = tmp_path / "graded.jsonl"
    with Loopback(default=answering) as server:
        assert grade(some, server.url, out).returncode == 0
    done = rubricnb("credit", out, "-o", tmp_path / "c.jsonl", *args)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "c.jsonl").exists()


def test_logs_of_the_bundled_world_are_graded_offline(tmp_path):
    pair = sample_pair()
    log, out = tmp_path / "log.jsonl", tmp_path / "graded.jsonl"
    files.write_jsonl(log, pair.group.trajectories)
    done = rubricnb("grade", log, "--judge", "offline", "-o", out, key="")
    assert done.returncode == 0, done.stderr
    [graded] = files.read_jsonl(out)
    assert graded.record["judge"] == "offline rule judge (bundled world)"
    assert {j.label.value for row in graded.judgements for j in row} == {"pass", "fail"}
    again = tmp_path / "again.jsonl"
    done = rubricnb("grade", log, "--replay", f"{out}.judge.sqlite", "-o", again)
    assert done.returncode == 0, done.stderr
    assert again.read_bytes() == out.read_bytes()


def test_credit_counts_by_a_tokenizer(some, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"x": 0}, unk_token="x"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    out, credit = tmp_path / "graded.jsonl", tmp_path / "credit.jsonl"
    with Loopback(default=answering) as server:
        assert grade(some, server.url, out).returncode == 0
    args = ("--tokenizer", tmp_path, "--set", "nocite=equal_step", "--set", "ddof=0")
    done = rubricnb("credit", out, "-o", credit, *args)
    assert done.returncode == 0, done.stderr
    steps = {t.id: t.steps for g in files.read_jsonl(out) for t in g.group.trajectories}
    for row in files.read_jsonl(credit):
        assert row["unit"] == "tokenizer"
        assert row["options"] == {"nocite": "equal_step", "ddof": 0}
        count = [len(words.encode(s.authored).ids) for s in steps[row["trajectory_id"]]]
        assert row["tokens"] == count
        assert row["total"] == pytest.approx(row["advantage"] * sum(count), abs=1e-9)


def test_what_a_server_refuses_is_in_the_record_and_known_next_time(some, tmp_path):
    def picky(body):
        if "temperature" in body:
            return error(400, "Unsupported value: 'temperature' must be 1", param="temperature")
        return answering(body)

    out = tmp_path / "graded.jsonl"
    args = ("--temperature", "0.5", "--concurrency", "1")
    with Loopback(default=picky) as server:
        done = grade(some, server.url, out, *args, "--budget-tokens", 60_000, "--max-tokens", 900)
        assert done.returncode == 1
        assert sum("temperature" in b for b in server.bodies) == 1
        record = json.loads((tmp_path / "graded.jsonl.record.json").read_text())
        assert record["quirks"] == {"temperature": ""}
        done = grade(some, server.url, out, *args, "--max-tokens", 900)
        assert done.returncode == 0, done.stderr
        assert sum("temperature" in b for b in server.bodies) == 1


CELLS = [
    "from rubricnb import files\nfrom rubricnb.judge import EndpointJudge, JudgeConfig, grade",
    "groups = list(files.read_groups(LOG))[:1]\njudge = EndpointJudge(URL, 'm')\njudge",
    "len(grade(groups, judge, JudgeConfig(nonce='n'))[0].rubric)",
    "len(grade(groups, judge, JudgeConfig(nonce='n'))[0].rubric)",
    "from rubricnb.judge import Call\n"
    "(await judge.complete(Call('scoring', ({'role': 'user', 'content': 'x'},)))).text[:2]",
]


def test_a_notebook_grades_twice_and_shows_no_key(some, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("RUBRICNB_API_KEY", KEY)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def plain(body):
        return answering(body) if len(body["messages"]) > 1 else completion(f"ok {KEY}")

    with Loopback(default=plain, key=KEY) as server:
        head = f"LOG, URL = {str(some)!r}, {server.url!r}"
        book = nbformat.v4.new_notebook()
        book.cells = [nbformat.v4.new_code_cell(c) for c in [head, *CELLS]]
        nbclient.NotebookClient(book, kernel_name="python3", timeout=120).execute()
    texts = [o["data"]["text/plain"] for c in book.cells for o in c.outputs if "data" in o]
    assert texts[0] == f"EndpointJudge('{server.url}', 'm')"
    assert texts[1] == texts[2]
    assert texts[3] == "'ok'"
    assert KEY not in nbformat.writes(book)


def test_a_call_that_hangs_fails_its_rollout_alone_and_is_replayed_so(some, tmp_path):
    groups = list(files.read_groups(some))[:2]
    texts = ["\n".join(s.authored for s in t.steps) for t in groups[0].trajectories]
    others = "".join(texts[:2] + texts[3:])
    marker = next(line for line in texts[2].split("\n") if len(line) > 40 and line not in others)

    def action(body):
        text = body["messages"][-1]["content"]
        if "JOB: SCORING" in text and marker in text:
            return Hang
        return answering(body)

    out, again = tmp_path / "graded.jsonl", tmp_path / "again.jsonl"
    config = JudgeConfig(retries=0)
    with Loopback(default=action, latency=0.2) as server:
        judge = EndpointJudge(server.url, "m", deadline=2.5, attempt_seconds=2.5, concurrency=3)
        grade_file(groups, out, judge, config)
    first, second = files.read_jsonl(out)
    assert [bool(f) for f in first.failures] == [False, False, True, False]
    assert "no answer within" in first.failures[2]
    assert not any(second.failures)
    rewards = grading.arrays(first, "chars").reward_G
    assert list(np.isnan(rewards)) == [False, False, True, False]
    grade_file(groups, again, replay=f"{out}.judge.sqlite")
    assert again.read_bytes() == out.read_bytes()
