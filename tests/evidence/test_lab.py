"""The judge lab as a whole: on real rollouts, on the bundled desk, and from the shell."""

import json
import re
import subprocess
import sys

import pytest

from rubricnb.errors import ConfigError
from rubricnb.lab import LabConfig, desk_lab, read_logs, run_lab, write_lab
from rubricnb.lab.run import SECTIONS

QUICK = LabConfig(resamples=50)


@pytest.fixture(scope="module")
def desk():
    return desk_lab(120, QUICK, false_successes_at=240)


def test_real_rollouts_get_an_answer_to_every_question_their_labels_allow(shared_data, tmp_path):
    logs = read_logs(shared_data / "tau_bench_v1" / "gpt-4o-airline.json")
    sections = run_lab(logs, QUICK)
    assert [s.name for s in sections if s.skipped] == ["cascade"]  # one judge only
    text = {s.name: s.paragraph for s in sections}
    assert "Of 116 failed rollouts" in text["false_success"]
    assert "200 labelled, 42 % good" in text["judge"]
    assert "no dollars" in text["cost"]
    write_lab(sections, tmp_path, logs.source)
    assert (tmp_path / "answers.md").stat().st_size > 500
    page = (tmp_path / "figures" / "index.html").read_text()
    assert not re.search(r"<script[^>]+src=", page)
    assert not list(tmp_path.rglob("*.pkl"))


def test_step_labelled_rollouts_are_read_too(shared_data):
    logs = read_logs(shared_data / "agent_process_bench" / "hotpotqa.jsonl")
    (section,) = run_lab(logs, LabConfig(only=("judge",), resamples=20))
    assert not section.skipped


def test_simulated_judges_are_called_that_in_every_title_and_file(desk, tmp_path):
    assert {s.name for s in desk} == set(SECTIONS) - {"worth", "people"}
    judged = next(s for s in desk if s.name == "judge")
    assert "simulated" in judged.paragraph
    paths = write_lab(desk, tmp_path, "rollouts of the bundled desk, simulated judges")
    assert paths
    assert "simulated" in (tmp_path / "answers.md").read_text()


def test_unknown_sections_and_missing_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="'judges'"):
        LabConfig(only=("judges",))
    done = subprocess.run(
        [sys.executable, "-m", "rubricnb", "lab", "-o", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "want a file of rollouts or --desk N" in done.stderr


def test_text_of_a_log_is_escaped_in_answers(tmp_path):
    rows = [
        {
            "task_id": f"<img src=x onerror=alert({t})>",
            "outcome": float(k),
            "messages": [
                {"role": "user", "content": "<script>alert(1)</script>"},
                {"role": "assistant", "content": "I have completed it. <script>alert(2)</script>"},
            ],
        }
        for t in range(6)
        for k in (0, 1)
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    sections = run_lab(read_logs(path), LabConfig(only=("judge", "false_success"), resamples=20))
    write_lab(sections, tmp_path / "out", "a log")
    for file in (tmp_path / "out").rglob("*"):
        if file.suffix in (".html", ".md"):
            assert "<img src=x onerror=alert" not in file.read_text(), file
