"""The scheduler of trainings: order, reuse, corruption, failures and interruption."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from synthetic import TINY, write_run

from rubricnb.errors import ConfigError, RunError
from rubricnb.experiments.profiles import Profile, profile
from rubricnb.experiments.progress import Progress
from rubricnb.experiments.records import RunKey, file_hash, seal, verify
from rubricnb.experiments.runner import keys, train_all

HERE = Path(__file__).parent
STUDY = {"main": ("base", "draco"), "weak": ("base",)}
TRAIN = "madeup_trainer:train_arm"


@dataclasses.dataclass(frozen=True)
class Steered(Profile):
    """A profile that also tells the made-up trainer how to behave."""

    pause: float = 0.0
    fail: str = ""

    @property
    def settings(self):
        return {**super().settings, "pause": self.pause, "fail": self.fail}


FAST = Steered("tiny", (0,), 2, (1, 2), 1)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parents[1])]))


def run(out, chosen=FAST, study=STUDY):
    lines = []
    runs = train_all(chosen, out, study=study, train=TRAIN, say=lines.append)
    return runs, "\n".join(lines)


def test_all_trainings_end_sealed_and_a_second_call_trains_nothing(tmp_path):
    runs, text = run(tmp_path)
    assert [str(r.key) for r in runs] == ["main/base/seed0", "main/draco/seed0", "weak/base/seed0"]
    assert "3 trainings: 0 finished and verified, 3 to do" in text
    assert "(3 of 3)" in text
    assert runs[1].done["global_step"] == 2
    assert runs[1].done["files"]["judge.json"] == file_hash(runs[1].path / "judge.json")
    again, text = run(tmp_path)
    assert "3 finished and verified, 0 to do" in text
    assert [r.done for r in again] == [r.done for r in runs]
    for r in again:
        assert len((r.path / "starts.txt").read_text().splitlines()) == 1


def test_a_policys_first_training_ends_before_its_others_start(tmp_path):
    slow = dataclasses.replace(FAST, pause=0.05, seeds=(0, 1))
    runs, _ = run(tmp_path, slow)
    sealed = (runs[0].path / "done.json").stat().st_mtime
    assert str(runs[0].key) == "main/base/seed0"
    for r in runs:
        if r.key.policy == "main" and r.key != runs[0].key:
            start = float((r.path / "starts.txt").read_text().split()[1])
            assert start >= sealed - 0.1


@pytest.mark.parametrize("name", ["eval.jsonl", "done.json", "judge.json"])
def test_a_corrupt_folder_is_said_set_aside_and_trained_again(tmp_path, name):
    runs, _ = run(tmp_path)
    path = runs[1].path / name
    path.write_text(path.read_text()[:-20])
    again, text = run(tmp_path)
    assert name in text
    assert "kept as seed0.aside1 and trained again" in text
    assert (runs[1].path.with_name("seed0.aside1") / name).exists()
    assert len(again) == 3
    assert verify(again[1].path, again[1].key).done["global_step"] == 2


def test_a_training_with_other_settings_is_not_mixed_in(tmp_path):
    run(tmp_path)
    longer = dataclasses.replace(FAST, steps=3, checkpoints=(2, 3))
    runs, text = run(tmp_path, longer)
    assert "other ['steps', 'checkpoints']" in text
    assert runs[1].done["global_step"] == 3
    (runs[1].path / "done.json").unlink()  # now unfinished, with settings that do not fit
    _, text = run(tmp_path)
    assert "unfinished with other settings" in text


def test_one_failed_arm_leaves_the_others_done_and_says_why(tmp_path):
    with pytest.raises(RunError, match=r"(?s)1 of 3 trainings failed.*fails on purpose"):
        run(tmp_path, dataclasses.replace(FAST, fail="draco"))
    assert (tmp_path / "tiny/arms/weak/base/seed0/done.json").exists()
    assert not (tmp_path / "tiny/arms/main/draco/seed0/done.json").exists()


DRIVER = """
import sys
sys.path.insert(0, {here!r})
from test_runner import FAST, STUDY, TRAIN, dataclasses, train_all
slow = dataclasses.replace(FAST, steps=30, checkpoints=(29, 30), pause=0.2)
train_all(slow, sys.argv[1], study=STUDY, train=TRAIN, say=print)
"""


def steps(folder):
    path = folder / "train.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_trainings_stop_and_go_on_where_they_were(tmp_path, how):
    folder = tmp_path / "tiny/arms/main/draco/seed0"
    command = [sys.executable, "-c", DRIVER.format(here=str(HERE)), str(tmp_path)]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while steps(folder) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    driver.send_signal(how)
    driver.wait(timeout=30)
    time.sleep(2.5)  # the worker looks for its parent once a second
    at = steps(folder)
    time.sleep(0.6)
    assert steps(folder) == at < 30, "the training outlived the command"
    slow = dataclasses.replace(FAST, steps=30, checkpoints=(29, 30), pause=0.2)
    (folder / "job.json").write_text(
        json.dumps({**json.loads((folder / "job.json").read_text()), "settings": slow.settings})
    )
    runs, _ = run(tmp_path, slow)
    assert (folder / "starts.txt").read_text().splitlines()[1].split()[0] == str(at)
    assert runs[1].done["global_step"] == 30
    assert steps(folder) == 30


def test_one_command_at_a_time_holds_a_profiles_folder(tmp_path):
    import fcntl

    (tmp_path / "tiny").mkdir()
    with open(tmp_path / "tiny/.lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="in use"):
            run(tmp_path)


def test_sealing_wants_the_files_that_tables_need(tmp_path):
    with pytest.raises(RunError, match=r"want config.json from a finished training"):
        seal(tmp_path, RunKey("main", "draco", 0), {}, global_step=1, seconds=0)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "done.json").unlink(), "no done.json"),
        (lambda f: (f / "done.json").write_text("{"), "want the record of a finished training"),
        (lambda f: (f / "done.json").write_text("[]"), "want the record of a finished training"),
        (lambda f: (f / "eval.jsonl").unlink(), r"want eval.jsonl as it was sealed"),
        (lambda f: (f / "train.jsonl").write_text("x"), r"want train.jsonl as it was sealed"),
    ],
)
def test_verification_refuses_and_names_the_file(tmp_path, spoil, message):
    key = RunKey("main", "draco", 0)
    folder = write_run(tmp_path / "r", key)
    assert verify(folder, key, TINY.settings).key == key
    with pytest.raises(RunError, match="want the record of weak/draco/seed0"):
        verify(folder, RunKey("weak", "draco", 0))
    spoil(folder)
    with pytest.raises(RunError, match=message):
        verify(folder, key)


def test_a_base_run_has_no_judge_no_steps_and_no_groups(tmp_path):
    key = RunKey("main", "base", 0)
    done = verify(write_run(tmp_path / "r", key), key)
    assert done.json("judge.json") == {}
    assert done.rows("train.jsonl") == []
    assert list(done.groups()) == []


def test_keys_go_seed_by_seed_and_an_empty_study_is_refused(tmp_path):
    assert [
        str(k) for k in keys(dataclasses.replace(FAST, seeds=(0, 1)), {"main": ("base", "x")})
    ] == [
        "main/base/seed0",
        "main/x/seed0",
        "main/base/seed1",
        "main/x/seed1",
    ]
    with pytest.raises(ConfigError, match="at least one arm"):
        run(tmp_path, study={})
    with pytest.raises(ConfigError, match="want a profile of"):
        profile("huge")


def test_progress_says_how_long_the_rest_may_take(monkeypatch):
    lines, now = [], [0.0]
    monkeypatch.setattr("rubricnb.experiments.progress.time.monotonic", lambda: now[0])
    with Progress(lines.append) as p:
        p.start(4, 1, 10)
        p.tick({"a": 0})
        assert len(lines) == 1
        now[0] = 20
        p.tick({"a": 2})
        assert lines[-1].endswith("time left not known yet")
        now[0] = 100
        p.finished("a", 100)
        p.tick({"b": 0})
        assert lines[-1] == "b step 0/10; about 3:20 left"
