"""The notebook on judging, on one real group over a real server: phases, ledger, replay, key."""

import json
import os

import nbformat
import pytest

from rubricnb import files
from rubricnb.experiments.notebooks import run_notebook
from rubricnb.experiments.reproduce import notebooks_folder
from tests.edges.loopback import Loopback, answering

KEY = "sk-planted-in-a-notebook-0123456789"


@pytest.mark.timeout(600)
def test_one_real_group_goes_through_all_phases_with_its_ledger(shared_data, tmp_path, monkeypatch):
    log = shared_data / "tau_bench_v1" / "gpt-4o-airline.json"
    monkeypatch.setenv("RUBRICNB_API_KEY", KEY)
    root = str(notebooks_folder().parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
    path = notebooks_folder() / "09_judging_one_group.ipynb"
    home = tmp_path / "quick"
    with Loopback(default=answering, key=KEY) as server:
        told = {"profile": "quick", "runs": str(tmp_path), "log": str(log)}
        run_notebook(path, home, {**told, "base_url": server.url, "model": "loopback"})
    (graded,) = files.read_jsonl(home / "judging" / "graded.jsonl")
    assert len(graded.group) == 4
    assert len(graded.rubric) > 1
    phases = json.loads((home / "judging" / "ledger.json").read_text())["phases"]
    assert {p: b["calls"] for p, b in phases.items()} == {
        "task_rubric": 1,
        "rollout_rubric": 4,
        "union": 1,
        "scoring": 4,
        "attribution": 4,
    }
    assert all(b["prompt"] > 0 for b in phases.values())
    text = nbformat.writes(nbformat.read(home / "notebooks" / path.name, as_version=4))
    assert "the replay gives the same rubric" in text
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
