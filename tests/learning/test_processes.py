"""Two processes train as one does: torchrun on the CPU with gloo, on recorded rollouts."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from rubricnb.train.graders import summed

SCRIPT = Path(__file__).with_name("two_processes.py")
ROOT = SCRIPT.parents[2]


def run(out, case, processes, limit=240):
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--standalone"]
    env = {
        **{k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")},
        "ACCELERATE_USE_CPU": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(
        [*start, str(SCRIPT), str(out), case],
        capture_output=True, text=True, env=env, timeout=limit, cwd=out.parent,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(case, processes) -> the folder of that training, made once."""
    made = {}

    def of(case, processes):
        if (case, processes) not in made:
            out = tmp_path_factory.mktemp("processes") / f"{case}{processes}"
            done = run(out, case, processes)
            assert done.returncode == 0, done.stderr[-3000:]
            made[case, processes] = out
        return made[case, processes]

    return of


def read(folder, name):
    return json.loads((folder / name).read_text())


def apart(a, b):
    x, y = load_file(a / "model.safetensors"), load_file(b / "model.safetensors")
    return max(float(np.abs(x[k] - y[k]).max()) for k in x)


@pytest.mark.parametrize("case", ["aligned", "straddling"])
def test_two_processes_end_with_the_parameters_of_one(trained, case):
    one, two = trained(case, 1), trained(case, 2)
    assert apart(one, two) <= 2e-5
    # The training did move, so that this is no comparison of two starts.
    from tests.learning.two_processes import policy

    start = {k: v.numpy() for k, v in policy().state_dict().items()}
    end = load_file(one / "model.safetensors")
    assert max(float(np.abs(start[k] - end[k]).max()) for k in end) > 1e-3


@pytest.mark.parametrize("case", ["aligned", "straddling"])
def test_every_group_is_judged_once_whichever_processes_it_lies_on(trained, case):
    one, two = trained(case, 1), trained(case, 2)
    alone = sorted(read(one, "asked0.json"))
    shared = [read(two, f"asked{r}.json") for r in (0, 1)]
    assert sorted(shared[0] + shared[1]) == alone
    assert shared[0]
    assert shared[1]
    size = 4 if case == "straddling" else 3
    assert all(len(ids) == 1 + size for ids in alone)
    # A task always meets the same process, so that its rubric is written once in all.
    assert not {a[0] for a in shared[0]} & {b[0] for b in shared[1]}


@pytest.mark.parametrize("case", ["aligned", "straddling"])
def test_the_observer_sees_the_whole_batch_and_every_bill_once(trained, case):
    one, two = trained(case, 1), trained(case, 2)
    alone, seen = read(one, "seen0.json"), read(two, "seen0.json")
    assert read(two, "seen1.json") == []  # the main process alone
    assert [s["groups"] for s in seen] == [s["groups"] for s in alone]
    for a, b in zip(alone, seen, strict=True):
        np.testing.assert_allclose(a["credit"], b["credit"], atol=1e-6)
        assert (len(a["bills"]), len(b["bills"])) == (1, 2)
        assert summed(a["bills"]) == summed(b["bills"])
    tasks = {ids[0].split("/")[0] for s in alone for ids in s["groups"]}
    calls = summed(bill for s in seen for bill in s["bills"])
    assert calls["task_rubric"]["calls"] == len(tasks)


def test_metrics_are_those_of_the_global_batch(trained):
    one, two = (read(trained("straddling", n), "logs.json") for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        for name in a:
            assert b[name] == pytest.approx(a[name], abs=2e-5), name


def test_a_judge_that_fails_in_one_process_costs_its_groups_and_nobody_hangs(trained):
    two = trained("raises", 2)
    errors = [s["errors"] for s in read(two, "seen0.json")]
    assert any(errors)
    assert all("the judge is away" in e for some in errors for e in some.values())
    for s in read(two, "seen0.json"):
        for at in map(int, s["errors"]):
            rows = s["credit"][3 * at : 3 * at + 3]
            assert not np.any(rows)


def test_a_slow_process_is_waited_for(trained):
    assert apart(trained("aligned", 1), trained("slow", 2)) <= 2e-5


def test_an_error_that_ends_the_training_ends_every_process(tmp_path):
    start = time.monotonic()
    done = run(tmp_path / "fatal", "fatal", 2)
    assert done.returncode != 0
    assert "the grader cannot go on: ConfigError: want a key; got none" in done.stderr
    assert time.monotonic() - start < 120
