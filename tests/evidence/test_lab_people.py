"""Labelling sheets: drawn, filled in by a real browser, imported, and compared with the judge."""

import json
from pathlib import Path

import numpy as np
import pytest
from planted import EVIL

from rubricnb import Criterion, FailedJudgement, GradedGroup, Label, Rubric, Verdict
from rubricnb.errors import FormatError
from rubricnb.lab import export_sheet, save, with_people
from rubricnb.lab.section import SIMULATED
from rubricnb.lab.sheet import citation_overlap, read_answers, read_key
from rubricnb.trajectory import Group, Step, Task, ToolCall, Trajectory
from rubricnb.worlds import NAME

P, F, N = Label.PASS, Label.FAIL, Label.NOT_APPLICABLE
CHROMIUM = Path("/usr/bin/chromium")


def one(task, label, steps=(1,), *, judge="a judge", words="I look."):
    """A task of one rollout of three steps, one criterion, one verdict (or a failed one)."""
    t = Task(task, f"Do {words}")
    run = Trajectory(f"{task}/0", t, tuple(Step(words, (ToolCall("look"),)) for _ in range(3)))
    said = Verdict("c", label, "why", steps) if label else FailedJudgement("c", "cut")
    return GradedGroup(
        Group(t, (run,)), Rubric((Criterion("c", f"Is {words}"),)), ((said,),),
        record={"judge": judge},
    )  # fmt: skip


def answers(folder, said, *, sheet=None, name="Ann", steps=None):
    """A file as the page downloads it."""
    key = json.loads((folder / "key.json").read_text())
    rows = [
        {"id": i["id"], "verdict": said(i), "steps": (steps or (lambda _: [1]))(i), "note": ""}
        for i in key["items"]
    ]
    path = folder / f"{name}.json"
    out = {"rubricnb": 1, "kind": "labels", "sheet": sheet or key["sheet"], "labeller": name}
    path.write_text(json.dumps(out | {"answers": rows}))
    return path


# Cohen's textbook table: 20 both pass, 5 judge fails what the person passes, 10 the other way,
# 15 both fail: po .7, pe .5, kappa .4.
TABLE = [(P, "pass")] * 20 + [(F, "pass")] * 5 + [(P, "fail")] * 10 + [(F, "fail")] * 15


@pytest.fixture
def textbook(tmp_path):
    graded = [one(f"t{i}", judge) for i, (judge, _) in enumerate(TABLE)]
    export_sheet(graded, tmp_path, len(TABLE))
    human = {f"t{i}": said for i, (_, said) in enumerate(TABLE)}
    return tmp_path, human


def test_kappa_of_the_textbook_table(textbook):
    folder, human = textbook
    path = answers(folder, lambda i: human[i["task_id"]])
    section = with_people(folder / "key.json", [path], width=0.2)
    row = {k: v[0] for k, v in section.tables["people"].items()}
    assert row["agreement"] == pytest.approx(0.7)
    assert row["kappa"] == pytest.approx(0.4)
    assert row["always pass"] == 0.5
    assert row["false pass"] == pytest.approx(10 / 25)
    assert row["false fail"] == pytest.approx(5 / 25)
    assert row["kappa low"] < 0.4 < row["kappa high"]
    # Krippendorff's nominal alpha of two raters: 1 - (2n - 1) D / (n_pass n_fail), both ways.
    assert row["alpha"] == pytest.approx(1 - 99 * 30 / (2 * 55 * 45))
    assert row["citation overlap"] == 1.0
    assert "kappa 0.4" in section.paragraph
    assert "One person only" in section.paragraph


def test_interval_of_kappa_has_the_width_that_theory_gives(textbook):
    """Fleiss, Cohen and Everitt by a numeric gradient, apart from the code under test."""
    folder, human = textbook
    path = answers(folder, lambda i: human[i["task_id"]])
    row = with_people(folder / "key.json", [path], resamples=4000).tables["people"]
    p = np.array([20, 5, 10, 15]) / 50

    def kappa(p):
        m = p.reshape(2, 2) / p.sum()
        pe = m.sum(axis=1) @ m.sum(axis=0)
        return (np.trace(m) - pe) / (1 - pe)

    slope = np.array([(kappa(p + d) - kappa(p - d)) / 2e-6 for d in 1e-6 * np.eye(4)])
    variance = slope @ (np.diag(p) - np.outer(p, p)) @ slope
    width = 2 * 1.96 * np.sqrt(variance / 50)
    assert row["kappa high"][0] - row["kappa low"][0] == pytest.approx(width, rel=0.12)
    assert row["needed for kappa"][0] == pytest.approx(variance * (2 * 1.96 / 0.2) ** 2, abs=2)


def test_several_verdicts_of_a_task_need_more_answers(tmp_path):
    """Four verdicts a task at an assumed correlation of .2: a design effect of 1.6."""
    graded = [one(f"t{i // 4}", judge) for i, (judge, _) in enumerate(TABLE[:48])]
    export_sheet(graded, tmp_path, 48)
    key = json.loads((tmp_path / "key.json").read_text())["items"]
    human = {i["id"]: TABLE[(7 * n) % 48][1] for n, i in enumerate(key)}
    path = answers(tmp_path, lambda i: human[i["id"]])
    with_design, without = (
        with_people(tmp_path / "key.json", [path], correlation=c).tables["people"]
        for c in (0.2, 0.0)
    )
    more = with_design["needed for agreement"][0] / without["needed for agreement"][0]
    assert more == pytest.approx(1.6, rel=0.02)


def test_always_passing_is_no_agreement_beyond_chance(tmp_path):
    graded = [one(f"t{i}", P if i % 10 else F) for i in range(40)]
    export_sheet(graded, tmp_path, 40)
    section = with_people(tmp_path / "key.json", [answers(tmp_path, lambda _: "pass")])
    row = {k: v[0] for k, v in section.tables["people"].items()}
    assert row["agreement"] == pytest.approx(0.9)
    assert row["kappa"] == pytest.approx(0.0)


def test_unsure_answers_and_failed_judgements_are_no_labels(tmp_path):
    graded = [one(f"t{i}", P if i % 2 else F) for i in range(8)] + [one("gone", None)]
    export_sheet(graded, tmp_path, 20)
    _, items = read_key(tmp_path / "key.json")
    assert len(items) == 8  # the failed judgement is not asked about
    said = answers(tmp_path, lambda i: "unsure" if i["task_id"] < "t4" else i["label"])
    row = with_people(tmp_path / "key.json", [said]).tables["people"]
    assert (row["answered"][0], row["unsure"][0], row["kappa"][0]) == (8, 4, 1.0)
    nothing = answers(tmp_path, lambda _: "unsure", name="Bob")
    assert "sure of" in with_people(tmp_path / "key.json", [nothing]).skipped


def test_two_people_are_compared_with_one_another(textbook):
    folder, human = textbook
    a = answers(folder, lambda i: human[i["task_id"]], name="Ann")
    b = answers(folder, lambda i: human[i["task_id"]], name="Bob")
    section = with_people(folder / "key.json", [a, b])
    assert section.values["people"] == 1.0
    assert section.tables["people"]["labeller"] == ["Ann", "Bob"]


def test_the_draw_is_even_over_verdicts_and_follows_the_seed(tmp_path):
    graded = [one(f"t{i:03}", P) for i in range(200)]
    drawn = []
    for seed in range(60):
        export_sheet(graded, tmp_path / str(seed), 20, seed=seed)
        drawn.append([i.task_id for i in read_key(tmp_path / str(seed) / "key.json")[1]])
    counts = np.bincount([int(t[1:]) for d in drawn for t in d], minlength=200)
    assert counts.sum() == 1200
    # Mean 6 each; a chi-square of 199 degrees of freedom below its 99.9 % point.
    assert ((counts - 6) ** 2 / (6 * 0.9)).sum() < 266
    export_sheet(graded, tmp_path / "again", 20, seed=0)
    assert [i.task_id for i in read_key(tmp_path / "again" / "key.json")[1]] == drawn[0]


def test_files_that_do_not_belong_together_are_refused(textbook, tmp_path):
    folder, _ = textbook
    key = folder / "key.json"
    good = answers(folder, lambda _: "pass")
    other = answers(folder, lambda _: "pass", sheet="another", name="x")
    with pytest.raises(FormatError, match="another"):
        read_answers(other, key)
    for name, change in {
        "label": {"verdict": "yes"},
        "question": {"id": "q999"},
        "step": {"steps": [4]},
        "half a step": {"steps": [1.5]},
        "no number": {"steps": [True]},
    }.items():
        found = json.loads(good.read_text())
        found["answers"][0] |= change
        bad = folder / f"{name}.json"
        bad.write_text(json.dumps(found))
        with pytest.raises(FormatError, match="answer 1"):
            read_answers(bad, key)
    with pytest.raises(FormatError, match="kind 'labels'"):
        read_answers(key, key)
    with pytest.raises(FormatError, match="n >= 1"):
        export_sheet([one("t", None)], tmp_path / "none")


def test_a_judge_with_drawn_errors_is_named_so_in_title_and_file(tmp_path):
    graded = [one(f"t{i}", P if i % 2 else F, judge=NAME) for i in range(12)]
    export_sheet(graded, tmp_path, 12)
    section = with_people(tmp_path / "key.json", [answers(tmp_path, lambda i: i["label"])])
    assert "simulated" in section.figures["people"].layout.title.text
    assert SIMULATED in section.paragraph
    assert "people_people_simulated.csv" in save([section], tmp_path / "out", "x")


def test_overlap_of_citations_by_hand():
    assert citation_overlap([1, 2, 3], [2, 3, 4]) == 0.5
    assert citation_overlap([1], [2]) == 0.0
    assert np.isnan(citation_overlap([], []))


@pytest.mark.browser
def test_in_a_real_browser_the_sheet_is_filled_in_and_its_file_is_read(tmp_path):
    if not CHROMIUM.exists():
        pytest.skip(f"no browser at {CHROMIUM}")
    playwright = pytest.importorskip("playwright.sync_api")
    graded = [one("t0", P), one("t1", F, (2, 3), words=EVIL), one("t2", F, (3,))]
    paths = export_sheet(graded, tmp_path, 3)
    _, items = read_key(paths["key"])
    said, asked = [], []
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 900, "height": 900})
        page.on("console", lambda m: said.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: said.append(str(e)))
        page.on("request", lambda r: asked.append(r.url))
        page.goto(paths["sheet"].as_uri())
        page.get_by_label("Your name or initials").fill("Ann <b>")
        for n, item in enumerate(items):
            assert page.locator("#at").inner_text().startswith(f"Question {n + 1} of 3")
            assert item.label not in page.locator("#item legend").inner_text()
            words = {"pass": "met", "fail": "not met"}[item.label]
            page.get_by_label(words, exact=True).check()
            for step in item.steps:
                page.get_by_label(f"S{step} decides").check()
            if n < 2:
                page.get_by_role("button", name="Next").click()
        # Back and forth: the answers are still there.
        page.get_by_role("button", name="Previous").click()
        page.get_by_role("button", name="Next").click()
        assert page.locator("#at").inner_text() == "Question 3 of 3, 3 answered"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        with page.expect_download() as download:
            page.get_by_role("button", name="Download answers").click()
        download.value.save_as(tmp_path / "labels.json")
        assert page.evaluate("window.pwned") is None
        browser.close()
    assert said == []
    assert all(u.startswith(("file:", "blob:")) for u in asked), asked
    made = read_answers(tmp_path / "labels.json", paths["key"])
    assert made.labeller == "Ann <b>"
    assert made.by_item == {i.id: (i.label, i.steps) for i in items}
    section = with_people(paths["key"], [tmp_path / "labels.json"])
    assert section.tables["people"]["kappa"] == [1.0]


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a["answers"].append(a["answers"][0] | {"verdict": "fail"}),
        lambda a: a["answers"][0].update(id=["q1"]),
        lambda a: a["answers"][0].update(verdict={"pass": 1}),
        lambda a: a["answers"][0].update(steps=3),
        lambda a: a.update(answers=7),
    ],
)
def test_tampered_answers_are_refused_with_their_place(textbook, change):
    folder, _ = textbook
    path = answers(folder, lambda i: "pass")
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    with pytest.raises(FormatError, match=r"Ann\.json"):
        read_answers(path, folder / "key.json")


def test_one_persons_answers_are_no_second_person(textbook):
    folder, _ = textbook
    path = answers(folder, lambda i: "pass")
    with pytest.raises(FormatError, match="once"):
        with_people(folder / "key.json", [path, path], resamples=50)


def test_who_is_sure_of_nothing_is_no_error(textbook):
    folder, human = textbook
    ann = answers(folder, lambda i: human[i["task_id"]])
    bob = answers(folder, lambda i: "unsure", name="Bob")
    assert with_people(folder / "key.json", [bob], resamples=50).skipped
    s = with_people(folder / "key.json", [ann, bob], resamples=50)
    assert s.tables["people"]["labeller"] == ["Ann"]


def test_full_agreement_plans_no_sample_of_one(tmp_path):
    export_sheet([one(f"t{i}", P if i % 2 else F) for i in range(20)], tmp_path, 20)
    path = answers(tmp_path, lambda i: i["label"])
    s = with_people(tmp_path / "key.json", [path], resamples=50)
    assert s.tables["people"]["needed for kappa"] == [None]
    assert s.tables["people"]["needed for agreement"] == [None]
    assert "cannot be told" in s.paragraph


def test_answers_do_not_fit_a_sheet_that_showed_other_words(tmp_path):
    ids = []
    for words in ("I look.", "I leap."):
        export_sheet([one("t", P, words=words)], tmp_path / words, 1)
        ids.append(read_key(tmp_path / words / "key.json")[0])
    assert ids[0] != ids[1]
