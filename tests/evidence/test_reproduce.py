"""Headless notebooks: what is refused, what is promised, what is reused; and the command."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from typer.testing import CliRunner

from rubricnb.cli import app
from rubricnb.errors import RunError
from rubricnb.experiments.notebooks import check, ordered, parameter_cell
from rubricnb.experiments.profiles import PROFILES
from rubricnb.experiments.reproduce import notebooks_folder, reproduce, summary

HERE = Path(__file__).parent
QUICK = PROFILES["quick"]
PARAMETERS = 'profile = "quick"\nruns = "runs"'
WRITE = """
from pathlib import Path
home = Path(runs) / profile
(home / "tables").mkdir(parents=True, exist_ok=True)
print("a line from a cell", flush=True)
(home / "tables/a.md").write_text("| a |")
"""


def notebook(folder, name="01_one.ipynb", *, parameters=PARAMETERS, code=WRITE, **about):
    cell = new_code_cell(parameters)
    cell.metadata["tags"] = about.pop("tags", ["parameters"])
    book = new_notebook(cells=[new_markdown_cell("# Why"), cell, new_code_cell(code)])
    spec = {"name": about.pop("kernel", "python3"), "display_name": "P", "language": "python"}
    book.metadata["kernelspec"] = spec
    meta = {"promises": about.pop("promises", ["tables/*.md"]), **about}
    book.metadata["rubricnb"] = meta
    folder.mkdir(exist_ok=True)
    nbformat.write(book, folder / name)
    return folder / name


def go(tmp_path, **more):
    lines = []
    done = reproduce(QUICK, tmp_path / "runs", notebooks=tmp_path / "nb", say=lines.append, **more)
    return done, "\n".join(lines)


def test_notebooks_run_in_order_pass_on_what_they_print_and_are_reused(tmp_path):
    notebook(tmp_path / "nb")
    second = WRITE.replace("a.md", "b.md").replace(
        "home = ", "assert Path(runs, profile, 'tables/a.md').exists()\nhome = "
    )
    notebook(tmp_path / "nb", "02_two.ipynb", code=second)
    done, text = go(tmp_path)
    assert "  a line from a cell" in text
    assert text.index("[1/2] 01_one") < text.index("[2/2] 02_two")
    home = (tmp_path / "runs/quick").resolve()
    assert (home / "notebooks/02_two.ipynb").exists()
    assert [f.name for f in done[1].files] == ["a.md", "b.md"]
    closing = summary(done, home, 3.0)
    assert str(home / "tables/a.md") in closing
    assert str(home / "notebooks/01_one.ipynb") in closing
    again, text = go(tmp_path)
    assert all(d.reused for d in again)
    assert "not run again" in text
    account = json.loads((home / "reproduce.json").read_text())
    assert account["notebooks"]["01_one.ipynb"]["reused"] is True


def test_a_notebook_runs_again_when_its_files_text_or_trainings_change(tmp_path):
    notebook(tmp_path / "nb")
    notebook(tmp_path / "nb", "02_two.ipynb", code=WRITE.replace("a.md", "b.md"), trainings=False)
    go(tmp_path)
    home = tmp_path / "runs/quick"
    (home / "tables/a.md").write_text("tampered")
    done, _ = go(tmp_path)
    assert [d.reused for d in done] == [False, True]  # the first wrote it again as it was
    folder = home / "arms/main/base/seed0"
    folder.mkdir(parents=True)
    (folder / "done.json").write_text("{}")
    assert [d.reused for d in go(tmp_path)[0]] == [False, True]
    notebook(tmp_path / "nb", "02_two.ipynb", code="# more\n" + WRITE.replace("a.md", "b.md"))
    assert [d.reused for d in go(tmp_path)[0]][1] is False


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"tags": []}, "one code cell tagged parameters; got 0"),
        ({"kernel": "other"}, "want kernelspec python3"),
        ({"parameters": PARAMETERS + "\nx = 2 * 3"}, "literals only in the parameter cell"),
        ({"parameters": PARAMETERS + "\nimport os"}, "literals only in the parameter cell"),
        ({"parameters": PARAMETERS + "\nx: int"}, "literals only in the parameter cell"),
        ({"parameters": "profile = ("}, "literals only in the parameter cell"),
        ({"parameters": 'profile: str = "quick"'}, r"want parameters of \['profile'\]; got 'runs'"),
        ({"promises": []}, "want the files that it leaves"),
        ({"promises": None}, "want the files that it leaves"),
    ],
)
def test_what_papermill_lets_pass_is_refused_before_anything_runs(tmp_path, about, message):
    notebook(tmp_path / "nb", "01_good.ipynb")
    notebook(tmp_path / "nb", "02_bad.ipynb", **about)
    with pytest.raises(RunError, match=message):
        go(tmp_path)
    assert not (tmp_path / "runs/quick/tables").exists()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("1 / 0", r"want every cell to run; got ZeroDivisionError: division by zero in cell 3"),
        ("pass", "as it promises; got no such file"),
        (WRITE.replace('"| a |"', '""'), "as it promises; got no such file"),
    ],
)
def test_a_cell_that_raises_and_a_broken_promise_fail_the_run(tmp_path, code, message):
    notebook(tmp_path / "nb", code=code)
    with pytest.raises(RunError, match=message):
        go(tmp_path)


def test_a_file_of_an_earlier_run_keeps_no_promise(tmp_path):
    notebook(tmp_path / "nb", code="pass")
    old = tmp_path / "runs/quick/tables/a.md"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    os.utime(old, (time.time() - 60,) * 2)
    with pytest.raises(RunError, match="got an old file"):
        go(tmp_path)


def test_the_order_wants_numbers_that_differ(tmp_path):
    with pytest.raises(RunError, match="got none"):
        ordered(tmp_path)
    notebook(tmp_path / "nb", "01_a.ipynb")
    notebook(tmp_path / "nb", "01_b.ipynb")
    with pytest.raises(RunError, match="got 01 twice"):
        ordered(tmp_path / "nb")


def test_the_shipped_notebooks_take_what_the_command_gives():
    try:
        paths = ordered(notebooks_folder())
    except RunError:
        pytest.skip("no notebooks beside this installation")
    for path in paths:
        assert {"profile", "runs"} <= set(parameter_cell(path))
        assert check(path, {"profile": "quick", "runs": "runs"})


def test_the_command_runs_a_study_and_says_where_things_are(tmp_path):
    notebook(tmp_path / "nb")
    args = ["reproduce", "--profile", "quick", "--out", str(tmp_path / "runs")]
    result = CliRunner().invoke(app, [*args, "--notebooks", str(tmp_path / "nb")])
    assert result.exit_code == 0, result.output
    assert "1 notebooks (1 run, 0 as before)" in result.output
    assert "tables/a.md" in result.output.replace("\n", "")


def test_the_command_refuses_an_unknown_profile_in_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "rubricnb", "reproduce", "--profile", "huge"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "rubricnb: want a profile of ['quick', 'small', 'full']; got 'huge'"
    ]


TRAINING = """
import sys
sys.path.insert(0, {here!r})
import dataclasses
from pathlib import Path
from test_runner import FAST, STUDY, TRAIN
from rubricnb.experiments.runner import train_all
slow = dataclasses.replace(FAST, name=profile, steps=12, checkpoints=(11, 12), pause=0.2)
trained = train_all(slow, runs, study=STUDY, train=TRAIN)
(Path(runs) / profile / "tables").mkdir(exist_ok=True)
(Path(runs) / profile / "tables/a.md").write_text(str(len(trained)))
"""


def test_ctrl_c_in_the_middle_of_a_notebooks_training_loses_no_finished_step(tmp_path):
    notebook(tmp_path / "nb", code=TRAINING.format(here=str(HERE)))
    command = [sys.executable, "-m", "rubricnb", "reproduce", "--profile", "quick"]
    command += ["--out", str(tmp_path / "runs"), "--notebooks", str(tmp_path / "nb")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])])}
    first = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    steps = tmp_path / "runs/quick/arms/main/draco/seed0/train.jsonl"
    deadline = time.monotonic() + 90
    while not steps.exists() or steps.read_text().count("\n") < 3:
        assert time.monotonic() < deadline
        assert first.poll() is None
        time.sleep(0.1)
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 130
    assert "interrupted; what was finished is kept" in err, err
    time.sleep(2.5)
    at = steps.read_text().count("\n")
    time.sleep(0.6)
    assert steps.read_text().count("\n") == at < 12, "the training outlived the command"
    second = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert second.returncode == 0, second.stderr
    assert "main/draco/seed0: done" in second.stdout
    assert steps.read_text().count("\n") == 12
    starts = (steps.parent / "starts.txt").read_text().splitlines()
    assert [s.split()[0] for s in starts] == ["0", str(at)]


def test_profiles_in_the_help_are_those_of_the_study():
    text = CliRunner().invoke(app, ["reproduce", "--help"], env={"COLUMNS": "200"}).output
    for p in PROFILES.values():
        assert f"{p.name}: {len(p.seeds)} seed(s)" in text
        assert dataclasses.asdict(p)["name"] == p.name


def test_a_notebook_with_a_command_of_its_own_is_named_and_left_to_it(tmp_path):
    notebook(tmp_path / "nb")
    notebook(tmp_path / "nb", "02_more.ipynb", code="raise SystemExit", command="rubricnb fidelity")
    done, said = go(tmp_path)
    assert [d.source.name for d in done] == ["01_one.ipynb"]
    assert "02_more.ipynb: not of the paper's study; see `rubricnb fidelity --help`" in said
