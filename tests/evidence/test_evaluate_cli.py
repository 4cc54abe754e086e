"""`rubricnb evaluate` from the command line: an endpoint and a tiny policy in one table."""

import json
import os
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from rubricnb.cli import app
from rubricnb.errors import ConfigError, RunError
from rubricnb.worlds import OrdersDesk
from rubricnb.worlds.registry import WORLDS, open_world
from rubricnb.worlds.rollouts import read_rollouts, tasks_of
from tests.edges.desk_player import player
from tests.edges.loopback import Loopback, error

TASKS = tasks_of(OrdersDesk(), "dev", 9)
run = CliRunner()
MAIN = "from rubricnb.cli import main; main()"


def words(server, out, *more):
    where = ["--base-url", server.url, "--model", "tester", "--tasks", "9"]
    return ["evaluate", "orders", "--split", "dev", "-o", str(out), *where, *more]


def test_an_endpoint_and_a_policy_land_in_one_table(tmp_path):
    out, table = tmp_path / "out.jsonl", tmp_path / "table.json"
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        'version: "1"\ndate: 2026-01-01\nprices:\n'
        '  - {base_url: "http://127.0.0.1:*", model: tester, prompt: 1.0, completion: 2.0}\n'
    )
    wrong = {TASKS[0].id}
    with Loopback(default=player(TASKS, wrong)) as server:
        more = ["--runs", "2", "--prices", str(prices)]
        done = run.invoke(app, words(server, out, *more))
        assert done.exit_code == 0, done.output
        calls = server.served
    small = ["--checkpoint", "weak", "--runs", "2", "--tasks", "9", "--table", str(table)]
    command = ["evaluate", "orders", "--split", "dev", "-o", str(out), *small]
    done = run.invoke(app, [*command, "--prices", str(prices)])
    assert done.exit_code == 0, done.output
    first, second = json.loads(table.read_text())
    assert (first["model"], second["model"]) == ("tester", "weak")
    assert first["tasks"] == second["tasks"] == len(TASKS)
    assert first["dollars"] == pytest.approx(calls * (100 * 1.0 + 20 * 2.0) / 1e6)
    assert second["dollars"] is None
    assert second["tokens"] > 0
    assert 0 < first["p1"]["mean"] < 1
    assert "tester" in done.stdout
    again = run.invoke(app, command)
    assert f"{2 * len(TASKS)} rollouts found, 0 made" in again.output
    assert len(read_rollouts(out)) == 4 * len(TASKS)


def test_a_policy_is_the_same_as_in_training(tmp_path):
    from rubricnb.policy.warmup import open_policy
    from rubricnb.train.evaluate import evaluate

    out = tmp_path / "out.jsonl"
    small = ["--checkpoint", "weak", "--runs", "2", "--tasks", "9"]
    done = run.invoke(app, ["evaluate", "orders", "--split", "dev", "-o", str(out), *small])
    assert done.exit_code == 0, done.output
    model, vocabulary = open_policy("weak")
    count = len({t.scenario for t in TASKS})
    theirs = evaluate(model, vocabulary, splits=("dev",), runs=2, scenarios=count)
    expected = {(r["task_id"], r["run"]): (r["turns"], r["tokens"], r["checks"]) for r in theirs}
    made = {
        (t.task.id, t.meta["run"]): (len(t), sum(s.tokens for s in t.steps), t.meta["checks"])
        for t in read_rollouts(out)
    }
    assert made == expected


def test_failures_end_with_an_error_after_the_table(tmp_path):
    answer, count = player(TASKS), [0]

    def sometimes(body):
        count[0] += 1
        return error(422, "cannot do that") if count[0] == 40 else answer(body)

    with Loopback(default=sometimes) as server:
        done = run.invoke(app, words(server, tmp_path / "o.jsonl", "--runs", "1"))
        assert isinstance(done.exception, RunError)
        assert "got 1 that failed" in str(done.exception)
        assert f"{len(TASKS) - 1} of {len(TASKS)}" in done.stdout
        done = run.invoke(app, words(server, tmp_path / "o.jsonl", "--runs", "1"))
        assert done.exit_code == 0, done.output


def test_a_killed_evaluation_goes_on(tmp_path):
    out = tmp_path / "out.jsonl"
    with Loopback(default=player(TASKS), latency=0.03) as server:
        command = [sys.executable, "-c", MAIN, *words(server, out, "--runs", "2")]
        child = subprocess.Popen(
            [*command, "--concurrency", "2"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        until = time.monotonic() + 60
        while time.monotonic() < until and (not out.exists() or out.stat().st_size < 20_000):
            time.sleep(0.05)
        child.kill()
        child.wait()
        had = len(read_rollouts(out))
        assert 0 < had < 2 * len(TASKS)
        done = run.invoke(app, words(server, out, "--runs", "2"))
    assert done.exit_code == 0, done.output
    assert f"{had} rollouts found, {2 * len(TASKS) - had} made" in done.output
    assert len({t.id for t in read_rollouts(out)}) == 2 * len(TASKS)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ([], "want --base-url and --model, or --checkpoint; got neither"),
        (["--checkpoint", "main", "--model", "m"], "got both"),
        (["--option", "max_turns"], "want --option key=value; got 'max_turns'"),
        (["--option", "nothing=1"], "want options that the world orders has"),
    ],
)
def test_what_is_asked_for_is_checked(tmp_path, more, text):
    out = str(tmp_path / "o.jsonl")
    done = run.invoke(app, ["evaluate", "orders", "--split", "dev", "-o", out, *more])
    assert isinstance(done.exception, ConfigError)
    assert text in str(done.exception)


def test_worlds_open_by_name_and_options_reach_them():
    assert open_world("textworld", quest_length=6, show_commands=True).games.quest_length == 6
    assert open_world("orders", max_turns=5).max_turns == 5
    assert open_world("bfcl").name == "bfcl"
    with pytest.raises(ConfigError, match="want a world among"):
        open_world("nothing")
    assert set(WORLDS) >= {"orders", "library", "bfcl", "textworld", "appworld", "tau2"}
