"""One arm from start to folder: records, refusal, and a killed training that ends like another."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from rubricnb.errors import ConfigError
from rubricnb.experiments.records import RunKey, seal, verify
from rubricnb.train.arms import ARMS, arm
from rubricnb.train.evaluate import evaluate, tasks_of
from rubricnb.train.graders import ArmGrader
from rubricnb.train.run import train_arm
from rubricnb.train.settings import Settings, grpo_config
from rubricnb.trajectory import Group
from rubricnb.worlds import NOISY, OrdersDesk, as_task, as_trajectory, demonstrate

SMALL = {
    "steps": 4,
    "groups": 3,
    "group_size": 3,
    "checkpoints": [3, 4],
    "eval_runs": 1,
    "eval_scenarios": 1,
    "splits": ["dev"],
}


def groups(tasks=3, members=4):
    world = OrdersDesk()
    out = []
    for task in world.tasks("dev")[60 : 60 + tasks]:
        rollouts = []
        for k in range(members):
            episode = world.reset(task, k)
            demonstrate(episode, k, NOISY)
            rollouts.append(as_trajectory(episode, f"{task.id}/{k}"))
        out.append(Group(as_task(task), tuple(rollouts)))
    return out


def test_the_arms_have_names():
    assert set(ARMS) == {
        *("outcome", "random", "static", "static_credit", "dynamic", "draco"),
        *("draco_self_k3", "draco_self_k1"),
        *("triage", "trca", "triage_blind", "trca_blind", "trca_judged"),
        *("arco", "arco_frozen", "arco_no_rubric", "arco_no_adaptive", "arco_no_prefix"),
        *("arco_k1", "arco_k2", "arco_k4", "agentprm"),
    }
    with pytest.raises(ConfigError, match="'dracula'"):
        arm("dracula")


@pytest.mark.parametrize(
    ("name", "first", "later"), [("dynamic", 10, 9), ("draco", 14, 13), ("draco_self_k3", 22, 21)]
)
def test_judge_calls_a_group_are_those_of_the_procedure(name, first, later):
    """1 + G + 1 + kG (+ G) for G = 4; the task rubric is asked for once a task."""
    grader = ArmGrader(arm(name), 0)
    (group,) = groups(1)
    for calls in (first, later):
        grader.ledger.entries.clear()
        (graded,) = grader([group])
        asked = len(grader.ledger.entries) - sum(
            graded.record[k].get(p, 0) for k in ("retries", "repairs") for p in graded.record[k]
        )
        assert asked == calls
    again = ArmGrader(arm(name), 0)
    again.recall(json.loads(json.dumps(grader.memory())))
    again([group])
    assert "task_rubric" not in {e.phase for e in again.ledger.entries}


def test_outcome_and_coin_ask_no_judge():
    some = groups()
    outcome = ArmGrader(arm("outcome"), 0)(some)
    assert outcome == [[t.outcome for t in g.trajectories] for g in some]
    coin = [np.array(x) for x in ArmGrader(arm("random"), 0)(some)]
    assert set(np.concatenate(coin)) == {0.0, 1.0}
    assert not np.array_equal(coin, ArmGrader(arm("random"), 1)(some))
    assert ArmGrader(arm("random"), 0).record() is None


def test_a_judged_arm_says_that_its_judge_is_simulated():
    record = ArmGrader(arm("draco_self_k3"), 0).record()
    assert record["simulated"]
    assert "lenient" in record["name"]
    assert record["noise"]["false_pass"] > 0.2


def test_settings_refuse_what_they_do_not_know():
    with pytest.raises(ConfigError, match="'stepz'"):
        Settings.of({"stepz": 1})
    with pytest.raises(ConfigError, match="checkpoints"):
        Settings.of({"steps": 4, "checkpoints": [5]})
    assert Settings.of(SMALL).to_json()["splits"] == ["dev"]


def test_fewer_scenarios_are_spread_over_the_difficulties():
    assert {t.difficulty for t in tasks_of("test_normal", 6)} == {1, 2, 3}
    assert len(tasks_of("test_challenge")) == 417


def test_evaluation_luck_is_the_policy_s_own_business_only():
    from rubricnb.policy.warmup import open_policy

    policy, words = open_policy("main")
    a, b = (list(evaluate(policy, words, splits=["dev"], runs=2, scenarios=2)) for _ in range(2))
    assert a == b
    assert [r["run"] for r in a[:2]] == [0, 1]


ROOT = Path(__file__).resolve().parents[2]
COMMAND = """
import json, sys, warnings
warnings.filterwarnings("ignore")
from rubricnb.train.run import train_arm
train_arm("main", "draco", 0, sys.argv[1], json.loads(sys.argv[2]))
"""


def start(folder: Path, settings: dict, processes: int = 1) -> subprocess.Popen:
    """A training in a session of its own, so that all of its processes can be killed at once."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    script = folder.parent / "train.py"
    script.write_text(COMMAND)
    return subprocess.Popen(
        [sys.executable, *(torchrun if processes > 1 else []),
         str(script), str(folder), json.dumps(settings)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT),
             "ACCELERATE_USE_CPU": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip


def rows(folder: Path) -> list[dict]:
    path = folder / "train.jsonl"
    return [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []


def without_time(row: dict) -> dict:
    judge = {k: {**v, "seconds": 0} for k, v in row["judge"].items()}
    return {**row, "judge": judge}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    assert train_arm("main", "draco", 0, folder, SMALL) == {"global_step": 4}
    return folder


def test_a_run_folder_is_whole(unbroken):
    key = RunKey("main", "draco", 0)
    seal(unbroken, key, SMALL, global_step=4, seconds=1.0)
    run = verify(unbroken, key, SMALL)
    assert [r["step"] for r in run.rows("train.jsonl")] == [1, 2, 3, 4]
    assert {r["step"] for r in run.rows("eval.jsonl")} == {3, 4}
    kept = list(run.groups())
    assert {g.record["step"] for g in kept} == {1, 2, 3, 4}
    assert run.json("judge.json")["phases"]["union"]["calls"] == 12
    assert sorted(p.name for p in (unbroken / "adapters").iterdir()) == ["step-3", "step-4"]
    assert not (unbroken / "trainer").exists()


def test_another_configuration_is_refused(unbroken):
    with pytest.raises(ConfigError, match="another settings"):
        train_arm("main", "draco", 0, unbroken, {**SMALL, "lr": 0.5})
    with pytest.raises(ConfigError, match="another seed"):
        train_arm("main", "draco", 1, unbroken, SMALL)


def same(folder: Path, other: Path, steps: tuple[int, ...]) -> None:
    assert [without_time(r) for r in rows(folder)] == [without_time(r) for r in rows(other)]
    assert (folder / "eval.jsonl").read_text() == (other / "eval.jsonl").read_text()
    assert (folder / "groups.jsonl.gz").read_bytes() == (other / "groups.jsonl.gz").read_bytes()
    bills = [json.loads((f / "judge.json").read_text())["phases"] for f in (folder, other)]
    for phases in bills:
        for bill in phases.values():
            bill.pop("seconds")
    assert bills[0] == bills[1]
    for step in steps:
        a, b = (
            load_file(f / "adapters" / f"step-{step}" / "adapter_model.safetensors")
            for f in (folder, other)
        )
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize(("kills", "steps"), [(3, 5), pytest.param(20, 60, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_a_training_killed_at_random_points_ends_like_the_unbroken_one(kills, steps, tmp_path):
    """SIGKILL while starting, rolling out, judging, learning, saving, evaluating: as it falls."""
    settings = {**SMALL, "steps": steps, "checkpoints": [steps - 1, steps]}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    began = time.monotonic()
    process = start(whole, settings)
    saved(whole, 0, process)
    lasts = time.monotonic() - began  # to the end of the first step
    assert process.wait(600) == 0
    rng = np.random.default_rng(kills)
    done = 0
    for number in range(kills):
        process = start(broken, settings)
        last = number == kills - 1
        if number % 2 and not last:  # while it is being set up, or in its first steps
            wait(process, rng.uniform(0, lasts))
        else:  # some moments after a step was saved; at the end, while it is being evaluated
            before = steps - 1 if last else len(rows(broken))
            saved(broken, before, process)
            wait(process, rng.uniform(0, 0.5))
        done += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (broken / "eval.jsonl").exists():
            break  # whole before all kills were spent
    assert done >= kills - 1, "the training was over before it could be killed"
    assert start(broken, settings).wait(600) == 0
    same(broken, whole, (steps - 1, steps))
    print(f"killed {done} times of {kills}; {len(rows(broken))} steps")


def saved(folder: Path, more_than: int, process: subprocess.Popen) -> None:
    """Return once more steps are saved, or the process is over."""
    limit = time.monotonic() + 300
    while len(rows(folder)) <= more_than and process.poll() is None:
        assert time.monotonic() < limit
        time.sleep(0.01)


def wait(process: subprocess.Popen, seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def test_two_processes_killed_and_begun_again_write_what_one_writes(tmp_path):
    """Groups of four over processes of six rollouts: the second group lies on both."""
    settings = {**SMALL, "steps": 3, "group_size": 4, "checkpoints": [2, 3]}
    one, two = tmp_path / "one", tmp_path / "two"
    assert start(one, settings).wait(300) == 0
    killed = start(two, settings, processes=2)
    limit = time.monotonic() + 200
    while not rows(two):
        assert killed.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.02)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert len(rows(two)) < 3
    assert start(two, settings, processes=2).wait(300) == 0
    assert sorted(p.relative_to(two) for p in two.rglob("*")) == sorted(
        p.relative_to(one) for p in one.rglob("*")
    )
    assert (two / "groups.jsonl.gz").read_bytes() == (one / "groups.jsonl.gz").read_bytes()
    assert (two / "eval.jsonl").read_text() == (one / "eval.jsonl").read_text()
    bills = [json.loads((f / "judge.json").read_text()) for f in (one, two)]
    assert bills[0] == bills[1]  # the offline judge takes no time
    assert bills[0]["total"]["calls"] == sum(b["calls"] for b in bills[0]["phases"].values()) > 0
    for a, b in zip(rows(one), rows(two), strict=True):
        assert a.keys() == b.keys()
        for name in ("judge", "reward", "success", "turns"):
            assert a[name] == b[name]
        assert b["loss"] == pytest.approx(a["loss"], abs=1e-6)
    # Adam divides what is almost no gradient by almost nothing: not the 2e-5 of plain steps.
    a, b = (load_file(f / "adapters" / "step-3" / "adapter_model.safetensors") for f in (one, two))
    assert max(float(np.abs(a[k] - b[k]).max()) for k in a) < 2e-4


def test_processes_share_a_step_s_rollouts_evenly(monkeypatch, tmp_path):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="got 9 in all"):
        grpo_config(Settings.of(SMALL), 0, tmp_path)
