"""`rubricnb credit` destroys no paid verdict, and says in one line what is wrong."""

import subprocess
import sys

import pytest

from rubricnb import Criterion, Group, Rubric, Step, Task, Trajectory, files
from rubricnb.judge import JudgeConfig, grade

REPLY = '{"verdicts": [{"id": "C1", "reason": "r", "steps": [1], "verdict": "fail"}]}'


@pytest.fixture
def graded(tmp_path):
    task = Task("t", "Say hello")
    group = Group(task, tuple(Trajectory(f"t-{i}", task, (Step("hi"),)) for i in range(2)))
    rubric = Rubric((Criterion("C1", "Says hello", instruction="Pass if it greets."),))
    path = tmp_path / "graded.jsonl"
    config = JudgeConfig(rubric=rubric, nonce="n")
    files.write_jsonl(path, grade(group, lambda call: REPLY, config))
    return path


def credit(*args):
    command = [sys.executable, "-m", "rubricnb", "credit", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_graded_file_is_not_written_over(graded):
    before = graded.read_bytes()
    done = credit(graded, "-o", graded.parent / "." / graded.name)
    assert done.returncode == 1
    assert "want -o another file" in done.stderr
    assert graded.read_bytes() == before


@pytest.mark.parametrize(
    ("where", "more", "said"),
    [
        ("no/such/folder/credit.jsonl", (), "want a file in a folder that exists"),
        ("credit.jsonl", ("--set", "eps=abc"), "want eps a finite number in [0, inf]; got 'abc'"),
    ],
)
def test_trouble_is_one_line(graded, where, more, said):
    done = credit(graded, "-o", graded.parent / where, *more)
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
