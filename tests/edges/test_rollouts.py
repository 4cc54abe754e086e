"""Evaluation at scale: concurrency, going on, failures, and the table."""

import math
import threading
import time
from dataclasses import replace

import pytest

from rubricnb.errors import CallError, ConfigError, FormatError, JudgeError, WorldError
from rubricnb.judge import EndpointJudge
from rubricnb.judge.prices import Price
from rubricnb.metrics import cluster_bootstrap, pass_at_k, pass_hat_k
from rubricnb.trajectory import Step, Task, Trajectory
from rubricnb.worlds.agent import play
from rubricnb.worlds.agent_model import EndpointModel
from rubricnb.worlds.rollouts import (
    Plan,
    read_rollouts,
    roll_out,
    seed_of,
    tasks_of,
)
from rubricnb.worlds.success_table import success_rows, success_table
from tests.edges.desk_player import QUIET, player
from tests.edges.loopback import Loopback, error

TASKS = tasks_of(QUIET, "dev", 9)
PLAN = Plan("orders", "dev", TASKS, 2, "tester", {"temperature": 0.0})


def won(task, id, seed, outcome=1.0):
    about = Task(task.id, task.prompt, meta={"scenario": task.scenario})
    return Trajectory(id, about, (Step("x"),), outcome)


def test_every_task_is_run_so_often_and_named_once(tmp_path):
    path = tmp_path / "out.jsonl"
    outcome = roll_out(PLAN, won, path)
    made = read_rollouts(path)
    assert (outcome.found, outcome.made, outcome.failed) == (0, 18, [])
    assert len({t.id for t in made}) == len({(t.task.id, t.meta["run"]) for t in made}) == 18
    again = roll_out(PLAN, won, path)
    assert (again.found, again.made) == (18, 0)
    more = roll_out(replace(PLAN, runs=3), won, path)
    assert (more.found, more.made) == (18, 9)


def test_a_cut_file_is_gone_on_with(tmp_path):
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    roll_out(PLAN, won, whole, concurrency=1)
    raw = whole.read_bytes()
    for size in (0, 10, len(raw) // 3, len(raw) - 1):
        cut.write_bytes(raw[:size])
        roll_out(PLAN, won, cut, concurrency=1)
        assert sorted(cut.read_bytes().splitlines()) == sorted(raw.splitlines())


def test_other_settings_are_refused_by_name_and_other_models_are_not(tmp_path):
    path = tmp_path / "out.jsonl"
    roll_out(PLAN, won, path)
    with pytest.raises(ConfigError, match=r"want temperature = 0\.0, .*; got 1\.0"):
        roll_out(replace(PLAN, settings={"temperature": 1.0}), won, path)
    other = replace(PLAN, model="other", settings={"temperature": 1.0})
    assert roll_out(other, won, path).made == 18
    moved = replace(PLAN, settings={"temperature": 0.0, "base_url": "http://elsewhere"})
    assert roll_out(moved, won, path).made == 0
    assert [r.model for r in success_rows(read_rollouts(path))] == ["tester", "other"]


def test_a_broken_line_is_named(tmp_path):
    path = tmp_path / "out.jsonl"
    roll_out(PLAN, won, path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"{broken\n", *lines[1:]]))
    with pytest.raises(FormatError, match="line 2"):
        roll_out(PLAN, won, path)
    path.write_text('{"rubricnb": 1, "kind": "credit"}\n')
    with pytest.raises(FormatError, match="line 1: want a rollout"):
        read_rollouts(path)


def test_a_failed_rollout_is_no_result_and_is_run_anew(tmp_path):
    path, bad = tmp_path / "out.jsonl", TASKS[4].id

    def failing(task, id, seed):
        if task.id == bad:
            raise CallError("no answer")
        return won(task, id, seed)

    outcome = roll_out(PLAN, failing, path)
    assert (outcome.made, outcome.failed) == (16, ["no answer"] * 2)
    assert bad not in {t.task.id for t in read_rollouts(path)}
    (row,) = success_rows(read_rollouts(path))
    assert (row.tasks, row.of) == (8, 9)
    assert roll_out(PLAN, won, path).made == 2


def test_too_many_failures_and_a_dead_endpoint_end_it_and_keep_what_is_done(tmp_path):
    path, stopped = tmp_path / "out.jsonl", []

    def engine(task, id, seed):
        raise WorldError("no engine")

    with pytest.raises(WorldError, match="want at most 2 failed rollouts"):
        roll_out(PLAN, engine, path, most_failures=3, stop=lambda: stopped.append(1))
    calls = []

    def down(task, id, seed):
        calls.append(id)
        if len(calls) > 3:
            raise JudgeError("down")
        return won(task, id, seed)

    with pytest.raises(JudgeError, match="down"):
        roll_out(PLAN, down, path, concurrency=1, stop=lambda: stopped.append(1))
    assert (len(stopped), len(read_rollouts(path))) == (2, 3)


def test_an_interrupt_stops_calls_in_flight(tmp_path):
    with Loopback(default=player(TASKS), latency=30) as server:
        chat = EndpointModel(EndpointJudge(server.url, "tester", key="sk-planted"))
        pool_open = threading.Event()

        def one(task, id, seed):
            pool_open.set()
            return play(QUIET, task, chat, id, seed=seed)

        def interrupt():
            pool_open.wait(10)
            time.sleep(0.3)
            chat.stop()

        threading.Thread(target=interrupt).start()
        began = time.monotonic()
        with pytest.raises(WorldError, match="stop from outside"):
            roll_out(PLAN, one, tmp_path / "out.jsonl", most_failures=2)
        assert time.monotonic() - began < 10


def test_rollouts_run_side_by_side_against_one_endpoint(tmp_path):
    wrong = {TASKS[0].id, TASKS[4].id}
    with Loopback(default=player(TASKS, wrong), latency=0.02) as server:
        chat = EndpointModel(EndpointJudge(server.url, "tester", key="sk-planted", concurrency=6))

        def one(task, id, seed):
            return play(QUIET, task, chat, id, seed=seed)

        path = tmp_path / "out.jsonl"
        roll_out(PLAN, one, path, concurrency=6)
        assert 3 <= server.most_in_flight <= 6
    made = read_rollouts(path)
    assert {t.task.id for t in made if not t.outcome} == wrong
    assert all(t.meta["seed"] == seed_of(_task(t), t.meta["run"]) for t in made)


def _task(t):
    return next(task for task in TASKS if task.id == t.task.id)


def test_one_server_error_is_survived(tmp_path):
    with Loopback([error(500, "oops")], default=player(TASKS)) as server:
        chat = EndpointModel(EndpointJudge(server.url, "tester", key="sk-planted"))
        plan = replace(PLAN, tasks=TASKS[:1], runs=1)
        outcome = roll_out(plan, lambda t, i, s: play(QUIET, t, chat, i), tmp_path / "o.jsonl")
    assert (outcome.made, outcome.failed) == (1, [])


USAGE = {"prompt": 1000, "cached": 400, "completion": 50, "calls": 2, "unknown": 0}


def recorded(tmp_path, outcomes, usage=USAGE):
    """Rollouts of three tasks in two scenarios: outcomes[task][run]."""
    tasks = [replace(TASKS[i], id=f"s{i // 2}_{i}", scenario=f"s{i // 2}") for i in range(3)]
    runs = len(outcomes[0])
    settings = {"base_url": "http://x/v1", "model": "m"}
    plan = Plan("orders", "dev", tuple(tasks), runs, "m", settings)

    def run(task, id, seed):
        i = next(i for i, t in enumerate(tasks) if t.id == task.id)
        r = next(r for r in range(runs) if seed_of(task, r) == seed)
        made = won(task, id, seed, float(outcomes[i][r]))
        return replace(made, meta={"usage": usage})

    path = tmp_path / "r.jsonl"
    roll_out(plan, run, path)
    return read_rollouts(path)


OUTCOMES = [[1, 1, 0], [1, 0, 1], [0, 0, 0]]


def test_rates_are_those_of_the_metrics(tmp_path):
    (row,) = success_rows(recorded(tmp_path, OUTCOMES), k=2)
    assert row.p1.mean == pytest.approx(4 / 9)
    assert row.pass_hat_k.mean == pytest.approx(pass_hat_k(OUTCOMES, 2))
    assert row.pass_at_k.mean == pytest.approx(pass_at_k(OUTCOMES, 2))
    assert row.sgc.mean == pytest.approx(1 / 6)  # scenario s0 holds in run 0 only
    assert (row.p1.low, row.p1.high) == (
        (b := cluster_bootstrap([2 / 3, 2 / 3, 0], ["s0", "s0", "s1"])).low,
        b.high,
    )
    assert (row.k, row.runs, row.tasks, row.turns, row.tokens) == (2, 3, 3, 1.0, 1050.0)


def test_dollars_come_from_a_price_only_and_unknown_is_at_least(tmp_path):
    made = recorded(tmp_path, OUTCOMES)
    assert success_rows(made)[0].dollars is None
    assert "unknown" in success_table(success_rows(made))
    price = Price(2.0, 0.5, 8.0)
    rows = success_rows(made, price_of=lambda url, model: price)
    assert rows[0].dollars == pytest.approx(9 * (600 * 2 + 400 * 0.5 + 50 * 8) / 1e6)
    part = recorded(tmp_path / "b", OUTCOMES, {**USAGE, "unknown": 1})
    text = success_table(success_rows(part, price_of=lambda url, model: price))
    assert ">= 1,050" in text
    assert ">= 0.0162" in text
    none = recorded(tmp_path / "c", OUTCOMES, {**USAGE, "unknown": 2})
    (row,) = success_rows(none, price_of=lambda url, model: price)
    assert (row.tokens, row.dollars) == (None, None)


def test_a_run_that_is_there_twice_is_refused(tmp_path):
    made = recorded(tmp_path, OUTCOMES)
    with pytest.raises(FormatError, match="want one rollout a run"):
        success_rows([*made, replace(made[0])])


def test_rows_are_json_without_nan(tmp_path):
    one = [t for t in recorded(tmp_path, OUTCOMES) if t.task.id == "s1_2"]
    (row,) = success_rows(one)
    assert math.isnan(row.p1.low)
    assert row.to_json()["p1"]["low"] is None


def test_a_part_of_a_split_is_whole_scenarios():
    tasks = tasks_of(QUIET, "dev", 10)
    scenarios = {t.scenario for t in tasks}
    assert len(tasks) == len([t for t in QUIET.tasks("dev") if t.scenario in scenarios])
    assert 7 <= len(tasks) <= 12
    assert len({t.difficulty for t in tasks_of(QUIET, "dev", 40)}) == 3
    assert tasks_of(QUIET, "dev", 10_000) == QUIET.tasks("dev")
