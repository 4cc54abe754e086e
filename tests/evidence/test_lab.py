"""The judge lab as a whole: on real rollouts, on the bundled desk, and from the shell."""

import json
import re
import subprocess
import sys

import pytest

from rubricnb import files
from rubricnb.errors import ConfigError
from rubricnb.lab import LabConfig, desk_lab, desk_logs, read_logs, run_lab, write_lab
from rubricnb.lab.run import SECTIONS
from rubricnb.lab.section import SIMULATED

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


def names_simulated(fig):
    """Whether a judge with drawn errors is in what a figure shows, its title apart."""
    shown = [fig.to_plotly_json()["data"], fig.layout.meta["table"]]
    return SIMULATED in json.dumps(shown, default=str)


def check_named(sections, folder):
    """Every table and figure file with a simulated judge is named so, and no other is."""
    write_lab(sections, folder, "x")
    for s in sections:
        for fig in s.figures.values():
            if names_simulated(fig):
                assert "simulated" in fig.layout.title.text, (s.name, fig.layout.title.text)
    tables, figures = list(folder.glob("*.csv")), list((folder / "figures").glob("*.csv"))
    assert tables
    assert figures
    for path in tables:
        assert (SIMULATED in path.read_text()) == ("simulated" in path.stem), path
    for path in figures:
        assert "simulated" in path.stem or SIMULATED not in path.read_text(), path
        titled = SIMULATED in path.with_suffix(".txt").read_text().splitlines()[0]
        assert titled == ("simulated" in path.stem), path
    for text in (folder / "answers.md").read_text().split("\n## ")[1:]:
        head, _, body = text.partition("\n")
        if SIMULATED in body:
            assert "simulated" in head, head
    return [p.stem for p in [*tables, *figures] if "simulated" in p.stem]


def test_every_file_and_title_of_a_simulated_judge_says_so(desk, tmp_path):
    marked = check_named(desk, tmp_path)
    for stem in ("judge_quality", "gaming_credit", "gaming_defences", "early_online_audit"):
        assert any(m.startswith(stem) for m in marked), (stem, marked)
    # What rests on no such judge is not marked.
    assert not any(m.startswith(("cost_", "recipe_", "false_success_rates")) for m in marked)


def test_a_file_that_the_bundled_judge_graded_says_so_too(tmp_path):
    groups = [g for g in desk_logs(300, seed=2).groups if len(g) > 2][:40]
    path = tmp_path / "logs.jsonl"
    files.write_jsonl(path, [t for g in groups for t in g.trajectories])
    graded = tmp_path / "graded.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "rubricnb", "grade", str(path), "--judge", "offline",
         "-o", str(graded)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    logs = read_logs(graded)
    assert logs.graded
    some = LabConfig(resamples=50, only=("judge", "false_success", "cascade", "cost"))
    sections = run_lab(logs, some)
    marked = check_named(sections, tmp_path / "out")
    for stem in ("judge_quality", "cost_ledger", "false_success_detector_claims"):
        assert any(m.startswith(stem) for m in marked), (stem, marked)


@pytest.mark.slow
def test_the_detector_at_ten_thousand_rollouts_of_the_desk():
    """Task words separate where tasks are shared; on new tasks the desk's closings say little."""
    config = LabConfig(resamples=200, only=("false_success",), judge_seconds=1.0)
    (section,) = desk_lab(10_000, config)
    table = section.tables["detector_claims"]
    rows = {w: i for i, w in enumerate(table["score"])}
    assert table["rollouts"][0] > 8000
    unseen, shared = (
        rows[k] for k in ("words and tools", "words and tools, model unseen, tasks shared")
    )
    assert table["high"][unseen] - table["low"][unseen] < 0.1
    assert table["low"][shared] > table["high"][unseen] + 0.2
    assert table["AUROC"][rows["last message only"]] == pytest.approx(0.5, abs=0.02)
    assert section.values["latency_ratio"] > 1000
