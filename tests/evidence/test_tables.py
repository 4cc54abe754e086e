"""Tables from run folders alone: cells by hand, provenance, what they say of themselves."""

import csv
import dataclasses
import json
import re

import numpy as np
import pytest
from scipy import stats
from synthetic import RATE, STUDY, TINY, rollouts, write_run, write_study

from rubricnb.errors import ConfigError, RunError
from rubricnb.experiments import published
from rubricnb.experiments.profiles import ARMS, PROFILES
from rubricnb.experiments.profiles import STUDY as REAL_STUDY
from rubricnb.experiments.records import RunKey, verify
from rubricnb.experiments.scores import Evaluations
from rubricnb.experiments.writing import TABLES, finished, write_tables
from rubricnb.metrics import pass_hat_k, scenario_success


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    write_study(out)
    runs = finished(TINY, out, STUDY)
    files = write_tables(TINY, runs, out / "tables")
    return out, runs, files


def by_hand(out, policy, arm, split, k, sgc=False):
    """seed -> figure, from the raw lines of eval.jsonl."""
    figures = {}
    for seed in TINY.seeds:
        path = RunKey(policy, arm, seed).folder(out / "tiny") / "eval.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        per_step = []
        for step in sorted({r["step"] for r in rows}):
            mine = [r for r in rows if r["split"] == split and r["step"] == step]
            tasks = list(dict.fromkeys(r["task_id"] for r in mine))
            success = np.zeros((len(tasks), 3))
            for r in mine:
                success[tasks.index(r["task_id"]), r["run"]] = r["success"]
            if sgc:
                success, _ = scenario_success(success, [t.rsplit("_", 1)[0] for t in tasks])
            per_step.append(pass_hat_k(success, k))
        figures[seed] = float(np.mean(per_step))
    return figures


@pytest.mark.parametrize(("metric", "k"), [("TGC", 1), ("TGC", 3), ("SGC", 1), ("SGC", 2)])
def test_cells_of_the_main_table_equal_a_count_by_hand(written, metric, k):
    out, _, _ = written
    cells = json.loads((out / "tables/record.json").read_text())["tables"]["main"]["cells"]
    cell = next(
        c
        for c in cells
        if c["column"] == f"test_normal {metric}"
        and c["section"] == f"main policy: pass^{k}, percent"
        and c["row"].startswith("DRACO /")
    )
    want = by_hand(out, "main", "draco", "test_normal", k, metric == "SGC")
    assert cell["seeds"] == {str(s): pytest.approx(100 * v) for s, v in want.items()}
    values = [100 * v for v in want.values()]
    assert cell["value"] == pytest.approx(np.mean(values))
    ci = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert cell["over_seeds"]["low"] == pytest.approx(ci.low, abs=1e-5)
    assert cell["over_tasks"]["low"] <= cell["value"] <= cell["over_tasks"]["high"]
    assert cell["runs"] == ["main/draco/seed0", "main/draco/seed1"]
    assert cell["checkpoints"] == [1, 2]


def test_every_cell_of_ours_is_traced_to_trainings_whose_hashes_still_hold(written):
    out, _, _ = written
    record = json.loads((out / "tables/record.json").read_text())
    assert set(record["tables"]) == set(TABLES)
    n = 0
    for table in record["tables"].values():
        for cell in table["cells"]:
            if cell["kind"] == "ours":
                n += 1
                assert cell["runs"], cell
                assert set(cell["runs"]) <= set(record["runs"])
            else:
                assert cell["kind"] == "published"
                assert "as published" in cell["published_as"]
                assert cell["where"]
    assert n > 300
    for name, run in record["runs"].items():
        policy, arm, seed = name.split("/")
        key = RunKey(policy, arm, int(seed.removeprefix("seed")))
        assert verify(out / "tiny" / run["folder"], key).done["files"] == run["files"]
        assert run["versions"]["numpy"] == np.__version__


def test_the_papers_figures_stand_only_in_columns_that_say_so(written):
    _, _, files = written
    with open(files["main"].csv, newline="") as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        assert (row["kind"] == "published") == ("as published" in row["column"])
        assert bool(row["published_in"]) == (row["kind"] == "published")
    draco = [
        r
        for r in rows
        if r["row"] == "DRACO"
        and r["section"] == "main policy: pass^3, percent"
        and r["column"] == "TGC: Qwen3.6-27B, AppWorld test-normal, as published"
    ]
    figure = published().success("main/draco", "test_normal", "TGC", 3)
    assert float(draco[0]["value"]) == figure.value
    weak = [r for r in rows if r["section"].startswith("weaker") and r["kind"] == "published"]
    assert weak
    assert all("Qwen2.5-32B-Instruct" in r["column"] for r in weak)


def test_no_published_figure_is_typed_outside_of_its_data_file():
    from pathlib import Path

    import rubricnb.experiments as package

    figures = {
        f"{v:g}"
        for t in published().data["success"]
        for row in t["rows"].values()
        for split in row.values()
        for values in split.values()
        for v in values
        if v > 20
    }
    for path in Path(package.__file__).parent.glob("*.py"):
        code = re.sub(r">>>.*\n(?:.*Figure.*\n)?|43\.6.*\n", "", path.read_text())
        assert not figures & set(re.findall(r"\d+\.\d", code)), path


def test_tables_name_simulated_judges_and_say_what_few_seeds_support(written):
    _, _, files = written
    for name in ("main", "ablation", "self_judge"):
        for path in (files[name].markdown, files[name].html):
            text = path.read_text()
            assert "supports no claim: it has 2 training seed(s)" in text
            assert "made-up judge (simulated; correlation 0.5, false pass 0.1)" in text
            assert "no measurement of this package" in text
    text = files["ablation"].markdown.read_text()
    row = next(line for line in text.splitlines() if line.startswith("| DRACO "))
    assert "made-up judge (simulated)" in row
    assert "| 2 (0, 1) " in row


def test_five_seeds_drop_the_disclaimer_and_one_seed_has_no_interval(tmp_path):
    for n in (1, 5):
        profile = dataclasses.replace(TINY, name=f"p{n}", seeds=tuple(range(n)))
        study = {"main": ("base", "draco")}
        write_study(tmp_path, profile, study)
        files = write_tables(profile, finished(profile, tmp_path, study), tmp_path / f"t{n}")
        text = files["main"].markdown.read_text()
        assert ("supports no claim" in text) == (n == 1)
        row = next(r for r in text.splitlines() if r.startswith("| DRACO "))
        assert ("[" in row) == (n == 5)


def test_differences_are_paired_by_seed_and_find_the_better_arm(written):
    out, _, _ = written
    cells = json.loads((out / "tables/record.json").read_text())["tables"]["main"]["cells"]
    cell = next(
        c
        for c in cells
        if c["row"].startswith("DRACO over base") and c["column"] == "test_normal TGC"
    )
    draco = by_hand(out, "main", "draco", "test_normal", 1)
    base = by_hand(out, "main", "base", "test_normal", 1)
    want = 100 * np.mean([draco[s] - base[s] for s in TINY.seeds])
    assert cell["value"] == pytest.approx(want)
    assert 100 * (RATE["draco"] - RATE["base"]) == pytest.approx(cell["value"], abs=20)
    assert cell["runs"] == [f"main/{arm}/seed{s}" for arm in ("draco", "base") for s in TINY.seeds]


def test_the_stated_differences_agree_with_the_papers_own_table():
    paper = published()
    for d in paper.data["differences"]["rows"]:
        got = paper.difference(d["a"], d["b"], d["split"], d["metric"], d["k"])
        assert got.value == pytest.approx(d["value"], abs=0.051), d
    for t in paper.data["success"]:
        for name, row in t["rows"].items():
            if "average" not in row:
                continue
            for k in range(3):
                five = [v[k] for s in row if s != "average" for v in row[s].values()]
                assert len(five) == 5
                assert np.mean(five) == pytest.approx(row["average"]["AVG"][k], abs=0.06), name
    assert paper.at("turns", "main/none", "test_normal") is None
    assert paper.difference("main/random", "main/base", "transfer", "SR") is None
    with pytest.raises(ConfigError, match="want a policy"):
        paper.label("other", "test_normal")


def test_the_judges_bill_is_summed_and_a_missing_price_stays_unknown(written):
    _, _, files = written
    with open(files["costs"].csv, newline="") as f:
        rows = list(csv.DictReader(f))
    draco = [r for r in rows if r["row"] == "DRACO" and r["section"].startswith("main")]
    value = {r["column"]: float(r["value"]) for r in draco if not r["phase"]}
    assert value["judge calls a step"] == 14
    assert value["judge tokens a step"] == (2800 + 100 + 280) / 2
    assert "judge dollars a training" not in value
    phases = {(r["phase"], r["column"]): float(r["value"]) for r in draco if r["phase"]}
    assert phases["scoring", "prompt"] == 2400
    assert "no price" in files["costs"].markdown.read_text()


def test_smaller_tables_hold_their_sums(written):
    _, runs, files = written
    ev = Evaluations.read(runs)
    arm = ("main", "draco")
    shares = ev.endings(arm, "transfer")
    assert sum(s.value for s in shares.values()) == pytest.approx(1)
    levels = [ev.score(arm, "test_normal", "TGC", difficulty=d).value for d in (1, 2, 3)]
    assert np.mean(levels) == pytest.approx(ev.score(arm, "test_normal", "TGC").value)
    turns = ev.mean(arm, "test_normal", "turns")
    rows = ev.rows[arm]
    assert turns.value == pytest.approx(rows[rows["split"] == "test_normal"]["turns"].mean())
    assert ev.mean(arm, "test_normal", "absent") is None
    assert ev.score(arm, "train", "TGC") is None
    text = files["consistency"].markdown.read_text()
    assert "pass^3 / pass^1" in text


def test_a_later_call_keeps_the_other_tables_of_the_same_trainings(written, tmp_path):
    _, runs, _ = written
    write_tables(TINY, runs, tmp_path, ["main"])
    write_tables(TINY, runs, tmp_path, ["ablation"])
    record = json.loads((tmp_path / "record.json").read_text())
    assert set(record["tables"]) == {"main", "ablation"}
    write_tables(TINY, runs[:1], tmp_path, ["main"])
    assert set(json.loads((tmp_path / "record.json").read_text())["tables"]) == {"main"}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda rows: [], "want evaluated rollouts"),
        (lambda rows: [{**rows[0], "split": "dev"}], "want evaluated rollouts"),
        (lambda rows: rows[:-1], "want as many runs of every task"),
        (lambda rows: [*rows, rows[-1]], "want each run of a task once"),
        (lambda rows: [*rows[:-1], {**rows[-1], "turns": None}], "want turns in every row"),
    ],
)
def test_records_that_would_bend_a_figure_are_refused(tmp_path, spoil, message):
    key = RunKey("main", "draco", 0)
    rows = spoil(rollouts(key, (1,)))
    write_run(tmp_path / "r", key, rows=rows)
    with pytest.raises(RunError, match=message):
        TABLES["main"](Evaluations.read([verify(tmp_path / "r", key)]))


def test_missing_trainings_are_named_or_left_out_on_request(written):
    out, _, _ = written
    with pytest.raises(RunError, match="main/random/seed0"):
        finished(TINY, out)
    assert len(finished(TINY, out, partial=True)) == 18
    with pytest.raises(RunError, match="at least one finished training"):
        finished(dataclasses.replace(TINY, name="none"), out, partial=True)


def test_profiles_are_what_the_study_promises():
    assert PROFILES["small"].minutes <= 20
    assert len(PROFILES["small"].seeds) >= 2
    assert PROFILES["full"].minutes <= 60
    assert len(PROFILES["full"].seeds) >= 5
    assert PROFILES["quick"].minutes <= 5
    assert set(REAL_STUDY["main"]) == set(ARMS)
    for p in PROFILES.values():
        assert p.workers == 2
        assert max(p.checkpoints) == p.steps
        with pytest.raises(dataclasses.FrozenInstanceError):
            p.steps = 1
