"""All notebooks, headless and in order, at the quick size: what `make reproduce` does."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
PLOTLY = "application/vnd.plotly.v1+json"


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "rubricnb", "reproduce", "--profile", "quick", "--out", out]
    done = subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return out / "quick"


pytestmark = pytest.mark.timeout(1800)


def test_the_tables_stand_and_say_what_they_are(home):
    text = (home / "tables" / "main.md").read_text()
    assert "supports no claim" in text
    assert "as published" in text
    assert "simulated" in text
    for name in ("main", "ablation", "self_judge"):
        assert all((home / "tables" / f"{name}.{x}").stat().st_size for x in ("csv", "md", "html"))


def test_every_figure_of_ours_is_traced_to_a_sealed_training(home):
    record = json.loads((home / "tables" / "record.json").read_text())
    cells = [c for t in record["tables"].values() for c in t["cells"] if c["kind"] == "ours"]
    assert len(cells) > 300
    assert all(set(c["runs"]) <= set(record["runs"]) for c in cells)
    for name, run in record["runs"].items():
        done = json.loads((home / run["folder"] / "done.json").read_text())
        assert done["files"] == run["files"], name
        assert run["global_step"] == (0 if "/base/" in name else 6)


def test_executed_notebooks_show_every_figure_without_a_network(home):
    figures = 0
    for path in sorted((home / "notebooks").glob("*.ipynb")):
        book = nbformat.read(path, as_version=4)
        for cell in book.cells:
            for output in cell.get("outputs", []):
                data = output.get("data", {})
                if PLOTLY in data:
                    figures += 1
                    assert "Plotly" in data.get("text/html", ""), f"{path.name}: a blank figure"
                html = "".join(data.get("text/html", ""))
                assert not re.search(r"<script[^>]+src=[\"']?https?:", html), path.name
    assert figures >= 12


def test_a_second_run_runs_nothing_again(home):
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "rubricnb", "reproduce", "--profile", "quick"]
    done = subprocess.run(
        [*command, "--out", str(home.parent)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert "(0 run" in done.stdout, done.stdout[-500:]


@pytest.mark.slow
@pytest.mark.parametrize("number", ["11", "12"])
def test_notebooks_beyond_the_paper_run_at_the_quick_size(number, home, tmp_path):
    (path,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    made = tmp_path / path.name
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "-k", "python3"]
    command += [path, made, "-p", "profile", "quick", "-p", "runs", home.parent]
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for promise in nbformat.read(path, as_version=4).metadata["rubricnb"]["promises"]:
        assert list(home.glob(promise)), promise
