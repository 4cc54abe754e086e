"""Explorers: edits do what the formula says, can be undone, and need no front end."""

import base64
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import ATTACKS, evil, small

import rubricnb
from rubricnb import FailedJudgement, GradedGroup, Group, Label, Verdict
from rubricnb.credit import RULES
from rubricnb.errors import ConfigError, CreditError, FormatError
from rubricnb.files import read_jsonl, write_jsonl
from rubricnb.widgets.controls import constants, options
from rubricnb.widgets.state import ExplorerState, changes, merged
from rubricnb.worlds import offline_judge, sample_pair

ROOT = Path(__file__).resolve().parents[2]
few = pytest.mark.filterwarnings("ignore:groups with fewer than 2 graded")


def drawn(view, trace):
    """The y values of one trace of the figure that a view shows, as plotly.js gets them."""
    y = view.canvas.outputs[0]["data"]["application/vnd.plotly.v1+json"]["data"][trace]["y"]
    if isinstance(y, dict):
        return np.frombuffer(base64.b64decode(y["bdata"]), dtype=y["dtype"])
    return np.array(y, dtype=float)


def flags(state, member, k):
    return state.graded.judgements[member][k].flags


def test_a_verdict_by_hand_moves_reward_advantage_and_credit():
    before = ExplorerState(small())
    after = before.judge(0, "c1", "pass", (3,), "it was fine")
    assert after.numbers().reward_G.tolist() == [1.0, -1.0]
    # Passes cite S1 and S3; S2 is cited by c2 only, which dropout leaves out: Q = 1 everywhere.
    view = after.numbers(eps=0)
    np.testing.assert_allclose(view.total_GS[0], [10 / np.sqrt(2)] * 3)
    assert before.numbers().reward_G.tolist() == [0.0, -1.0]
    table = changes(before.numbers(), after.numbers())
    assert table["R before"] == [0.0, -1.0]
    assert table["R after"] == [1.0, -1.0]
    assert table["credit moved"][0] > 0
    assert after.graded.record["edits"] == ["judged c1 of rollout 1"]


def test_a_new_criterion_has_no_verdict_until_it_gets_one():
    state = ExplorerState(small()).add("Says goodbye")
    assert state.graded.rubric.ids() == ("c0", "c1", "c2", "hand1")
    assert isinstance(state.graded.judgements[0][3], FailedJudgement)
    assert state.numbers().reward_G.tolist() == [0.0, -1.0]
    state = state.judge(1, "hand1", Label.FAIL, (2,)).judge(0, "hand1", Label.PASS, (2,))
    assert state.numbers().reward_G.tolist() == pytest.approx([1 / 3, -1.0])


def test_rewording_makes_verdicts_stale():
    state = ExplorerState(small())
    assert state.edit("c0", title="Criterion 0") is state
    state = state.edit("c0", instruction="Look twice.")
    assert flags(state, 0, 0) == ("stale",)
    assert flags(state, 0, 1) == ()
    assert state.criterion("c0").source == "hand"
    assert state.numbers().reward_G.tolist() == [0.0, -1.0]


def test_dropping_and_merging():
    state = ExplorerState(small())
    assert state.drop("c1").numbers().reward_G.tolist() == [1.0, -1.0]
    one = state.merge(["c1", "c0"], "Both")
    assert one.graded.rubric.ids() == ("c1", "c2")
    assert one.criterion("c1").title == "Both"
    assert one.graded.judgements[1][0].steps == (1, 2)
    assert one.graded.judgements[0][0].steps == (3,)
    assert one.numbers().reward_G.tolist() == [-1.0, -1.0]


def judgements():
    verdict = st.builds(
        Verdict,
        st.just("c"),
        st.sampled_from(Label),
        st.just("r"),
        st.sets(st.integers(1, 4)).map(lambda s: tuple(sorted(s))),
    )
    return st.lists(st.one_of(verdict, st.just(FailedJudgement("c", "lost"))), min_size=1)


@given(judgements())
@settings(deadline=None, max_examples=60)
def test_merging_never_turns_a_failed_judgement_into_a_pass(row):
    one = merged(row, "m")
    labels = [j.label for j in row if isinstance(j, Verdict)]
    if Label.FAIL in labels:
        assert one.label is Label.FAIL
    elif len(labels) < len(row) and Label.PASS in labels:
        assert isinstance(one, FailedJudgement)
    elif Label.PASS in labels:
        assert one.label is Label.PASS
    elif len(labels) == len(row):
        assert one.label is Label.NOT_APPLICABLE
    else:
        assert isinstance(one, FailedJudgement)
    if isinstance(one, Verdict):
        assert set(one.steps) == {s for j in row if getattr(j, "label", 0) is one.label
                                  for s in j.steps}  # fmt: skip


EDITS = st.sampled_from(
    [
        lambda s: s.add("New"),
        lambda s: s.drop(s.graded.rubric.ids()[-1]),
        lambda s: s.edit(s.graded.rubric.ids()[0], title="Other"),
        lambda s: s.judge(0, s.graded.rubric.ids()[0], "fail", (1,)),
        lambda s: s.merge(s.graded.rubric.ids()[:2]),
    ]
)


@few
@given(st.lists(EDITS, min_size=1, max_size=8))
@settings(deadline=None, max_examples=40)
def test_undo_and_redo_go_all_the_way(edits):
    state = start = ExplorerState(small())
    for edit in edits:
        try:
            state = edit(state)
        except (ConfigError, IndexError):
            continue
    end, n = state.graded, len(state.past)
    for _ in range(n):
        state = state.undo()
    assert state.graded == start.graded
    assert state.notes == ()
    assert state.undo() is state
    for _ in range(n):
        state = state.redo()
    assert state.graded == end
    assert state.redo() is state


def test_a_rollout_that_failed_as_a_whole_can_be_judged_by_hand():
    graded = small()
    rows = (graded.judgements[0], tuple(FailedJudgement(f"c{k}", "lost") for k in range(3)))
    state = ExplorerState(GradedGroup(graded.group, graded.rubric, rows, ("", "not readable")))
    with pytest.warns(UserWarning, match="fewer than 2 graded"):
        assert np.isnan(state.numbers().reward_G[1])
    state = state.judge(1, "c1", "fail", (1,))
    assert state.graded.failures == ()
    assert state.numbers().reward_G[1] == -1


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda s: s.edit("nope", title="x"), r"want a criterion among .*; got 'nope'"),
        (lambda s: s.edit("c0", weight="2"), r"want changes of .*; got \['weight'\]"),
        (lambda s: s.edit("c0", title=" "), "want a title"),
        (lambda s: s.add(""), "want a title"),
        (lambda s: s.merge(["c0", "c0"]), "want at least two criteria"),
        (lambda s: s.judge(0, "c0", "pass", (4,)), r"want cited steps in 1..3; got \[4\]"),
        (lambda s: s.judge(2, "c0", "pass"), "want a member of 0..1; got 2"),
    ],
)
def test_refusals(act, words):
    state = ExplorerState(small())
    with pytest.raises(ConfigError, match=words):
        act(state)


def test_the_judge_grades_again_what_was_reworded():
    graded = rubricnb.grade(sample_pair().group, "offline")[0]
    x = rubricnb.explore(graded, judge=offline_judge())
    id = graded.rubric.ids()[0]
    before = graded.judgements[1][0]
    x.judge(id, "not_applicable", member=1).edit(id, description="As before.").add("Another")
    assert flags(x.state, 1, 0) == ("hand", "stale")
    x.regrade(id)
    assert x.graded.judgements[1][0].label is before.label is not Label.NOT_APPLICABLE
    assert flags(x.state, 1, 0) == before.flags
    assert flags(x.state, 1, -1) == ("ungraded",)
    with pytest.raises(ConfigError, match="want a judge to grade with"):
        rubricnb.explore(graded).regrade(id)


def test_criteria_by_hand_from_nothing():
    group = small().group
    x = rubricnb.explore(group)
    assert len(x.graded.rubric) == 0
    x.add("Looks first").judge("hand1", "pass", (1,), member=0).judge(
        "hand1", "fail", (2,), member=1
    )
    assert x.now.reward_G.tolist() == [1.0, -1.0]


def test_walking():
    x = rubricnb.explore([small(), small()])
    x.go(member=0, step=3).go(member=1)
    assert (x.member, x.step) == (1, 2)
    x.go(task=1)
    assert (x.task, x.member) == (1, 0)
    x.go(rule="grpo")
    assert x.now.rule == "grpo"
    for where in ({"task": 2}, {"member": 5}, {"step": 4}):
        with pytest.raises(ConfigError, match=r"want a .* of"):
            x.go(**where)
    with pytest.raises(ConfigError, match="want at least one group"):
        rubricnb.explore([])


def test_controls_do_what_the_methods_do(tmp_path):
    x = rubricnb.explore([small(), small()])
    v = x.view
    v.criterion.value = "c1"
    assert v.title.value == "Criterion 1"
    assert v.steps.value == "3"
    v.label.value, v.steps.value = "pass", "S3"
    v.buttons["judge"].click()
    assert x.now.reward_G.tolist() == [1.0, -1.0]
    np.testing.assert_allclose(drawn(v, 0), x.now.total_GS[0])
    assert "R after" in v.changed.value
    v.buttons["undo"].click()
    assert x.now.reward_G.tolist() == [0.0, -1.0]
    v.buttons["redo"].click()
    v.title.value = "New wording"
    v.buttons["save"].click()
    assert x.state.criterion("c1").title == "New wording"
    v.title.value = "Fresh"
    v.buttons["add"].click()
    assert v.criterion.value == "hand1"
    v.other.value = "c0"
    v.buttons["merge"].click()
    assert x.graded.rubric.ids() == ("c1", "c2", "hand1")
    v.buttons["drop"].click()
    assert x.graded.rubric.ids() == ("c1", "c2")
    v.rollout.value = 1
    v.step.value = 2
    assert (x.member, x.step) == (1, 2)
    for name in ("heatmap", "verdicts", "flow", "rules", "transcript"):
        v.picture.value = name
        assert v.canvas.outputs[0]["data"]["text/plain"]
    v.path.value = str(tmp_path / "out.jsonl")
    v.buttons["export"].click()
    assert next(read_jsonl(tmp_path / "out.jsonl")) == x.graded
    v.rule.value = "grpo"
    v.task.value = 1
    assert x.graded.rubric.ids() == ("c0", "c1", "c2")


def test_errors_show_in_the_widget_and_are_raised_where_nobody_looks(monkeypatch):
    x = rubricnb.explore(small())
    v = x.view
    v.steps.value = "99"
    with pytest.raises(ConfigError, match="want cited steps"):
        v.buttons["judge"].click()
    assert "Error: want cited steps in 1..3; got [99]" in v.message.value
    assert 'role="status"' in v.message.value
    v.steps.value = "x"
    with pytest.raises(ConfigError, match="want step numbers"):
        v.buttons["judge"].click()
    monkeypatch.setenv("RUBRICNB_HEADLESS", "0")
    v.buttons["judge"].click()
    assert "Error: want step numbers" in v.message.value
    monkeypatch.setattr(x, "merge", lambda *_: [].pop())
    with pytest.raises(IndexError):
        v.buttons["merge"].click()
    assert "IndexError: pop from empty list" in v.message.value


def every(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from every(child)


def test_every_control_has_a_label_and_a_tooltip():
    x, c = rubricnb.explore(small(), judge=offline_judge()), rubricnb.compare(small(), 0)
    found = 0
    for widget in [*every(x.widget), *every(c.view.root)]:
        if "description" in widget.trait_names() and widget.__class__.__name__ != "HTML":
            found += 1
            assert widget.description
            assert getattr(widget, "tooltip", None) or getattr(widget, "tooltips", None)
    assert found > 30


@few
def test_planted_text_is_escaped_in_every_html():
    x = rubricnb.explore(evil())
    v = x.view
    for id in x.graded.rubric.ids():
        for widget in every(v.root):
            # What goes to the browser goes as UTF-8.
            json.dumps(widget.get_state(), default=str, ensure_ascii=False).encode()
        v.criterion.value = id
        for picture in v.picture.options:
            v.picture.value = picture
            for out in v.canvas.outputs:
                for text in [out["data"].get("text/html", "")]:
                    assert not any(a in text for a in ATTACKS[:6])
    v.buttons["judge"].click()
    for widget in every(v.root):
        if widget.__class__.__name__ == "HTML":
            assert not any(a in widget.value for a in ATTACKS[:6])
            assert not widget.description
        assert not getattr(widget, "description_allow_html", False)
    from rubricnb.widgets.display import html_table

    assert "<script" not in html_table(x.criteria(), ATTACKS[0])


def test_compare_moves_constants():
    c = rubricnb.compare(small(), 0)
    assert {"grpo", "draco"} <= set(c.credit)
    assert "role_GS" in c.missing["triage"]
    plain = c.credit["grpo"]
    c.view.controls["draco"]["mix"].value = 0.0
    np.testing.assert_allclose(c.credit["draco"], plain)
    c.set("draco", mix=0.5)
    full = rubricnb.compare(small(), 0).credit["draco"]
    np.testing.assert_allclose(c.credit["draco"], (plain + full) / 2)
    row = list(c.credit).index("draco")
    np.testing.assert_allclose(drawn(c.view, 2 * row + 1), c.credit["draco"])
    for act, words in (
        (lambda: c.set("draco", mix=2), "mix"),
        (lambda: c.set("draco", nope=1), "want constants of 'draco'"),
        (lambda: c.set("other", mix=1), "want a rule among"),
        (lambda: rubricnb.compare(small(), 0, names=["x"]), "want rules among"),
        (lambda: rubricnb.compare(small(), 7), "want a member of 0..1; got 7"),
    ):
        with pytest.raises((ConfigError, CreditError), match=words):
            act()
    np.testing.assert_allclose(c.credit["draco"], (plain + full) / 2)


def test_compare_takes_evidence_from_outside():
    roles = np.array([["decisive", "exploration", "regression"], ["no_progress", "decisive", ""]])
    c = rubricnb.compare(small(), 0, names=["triage"], evidence={"role_GS": roles})
    before = c.credit["triage"].copy()
    c.view.controls["triage"]["c.decisive"].value = -1.0
    assert (c.credit["triage"] != before).any()


def test_all_constants_are_accepted_at_their_defaults_and_ends():
    for rule in RULES:
        for c in constants(rule):
            assert c.choices or c.low <= c.default <= c.high, (rule, c)
        assert options(rule, {c.name: c.default for c in constants(rule)}) is not None


def test_galleries_have_a_text_form():
    x = rubricnb.explore(small())
    text = str(x.gallery())
    assert "Rollouts of t (draco)" in text
    assert "What the last edit did" not in text
    assert "What the last edit did" in str(x.drop("c2").gallery())
    x.undo()
    assert "| ✓ passed | c0 | Criterion 0 | yes | S1 | good |  |" in text
    assert "Not shown" in str(rubricnb.compare(small()).gallery())
    shown = rubricnb.show(small())
    assert list(shown) == ["timeline", "heatmap", "verdicts", "flow", "rules", "transcript"]
    assert "S1 · 1.41421 a token" in str(shown["transcript"]) or "S1 · 1.4142" in str(shown)
    by_outcome = rubricnb.show(small().group)
    assert "outcome 1  A 0.71" in by_outcome["heatmap"].data[0].y[0]
    task = small().group.task
    blank = Group(task, tuple(dataclasses.replace(t, outcome=None)
                              for t in small().group.trajectories))  # fmt: skip
    with pytest.raises(ConfigError, match="want a graded group, or rollouts with outcomes"):
        rubricnb.show(blank)


def test_load_grade_show(tmp_path):
    pair = sample_pair().group
    write_jsonl(tmp_path / "t.jsonl", pair.trajectories)
    groups = rubricnb.load(tmp_path / "t.jsonl")
    graded = rubricnb.grade(groups, judge="offline")
    assert rubricnb.show(graded[0])["timeline"].data
    write_jsonl(tmp_path / "g.jsonl", graded)
    assert rubricnb.load(tmp_path / "g.jsonl") == graded
    write_jsonl(tmp_path / "mixed.jsonl", [*graded, *pair.trajectories])
    with pytest.raises(FormatError, match="want graded groups only or trajectories only"):
        rubricnb.load(tmp_path / "mixed.jsonl")
    with pytest.raises(ConfigError, match=r"want a judge, or base_url and model .* got neither"):
        rubricnb.grade(groups)


def test_load_reads_foreign_logs(shared_data):
    groups = rubricnb.load(shared_data / "tau_bench_v1" / "gpt-4o-airline.json")
    assert len(groups) == 50
    mixed = next(g for g in groups if 0 < sum(t.outcome for t in g.trajectories) < len(g))
    assert rubricnb.show(mixed)["rules"].data


CELLS = """
import rubricnb
from rubricnb.worlds import sample_pair, offline_judge
graded = rubricnb.grade(sample_pair().group, "offline")[0]
explorer = rubricnb.explore(graded, judge=offline_judge())
explorer
###
rubricnb.compare(graded, 1)
###
explorer.judge("C1", "fail", [1])
explorer.view.buttons["undo"].click()
rubricnb.show(graded)
###
explorer.view.steps.value = "99"
explorer.view.buttons["judge"].click()
"""


def test_papermill_shows_figures_and_fails_on_a_callback_error(tmp_path):
    import nbformat
    import papermill

    nb = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "p"}})
    nb.cells = [nbformat.v4.new_code_cell(c.strip()) for c in CELLS.split("###")]
    nbformat.write(nb, tmp_path / "in.ipynb")
    with pytest.raises(papermill.PapermillExecutionError, match="want cited steps in"):
        papermill.execute_notebook(
            tmp_path / "in.ipynb", tmp_path / "out.ipynb", progress_bar=False, kernel_name="python3"
        )
    done = json.loads((tmp_path / "out.ipynb").read_text(encoding="utf-8"))
    code = [c for c in done["cells"] if c["cell_type"] == "code"]
    assert sum("plotly.js v" in json.dumps(c["outputs"]) for c in code) == 1
    for cell, figures in zip(code, (5, 1, 5, 0), strict=True):
        data = [o.get("data", {}) for o in cell["outputs"]]
        assert sum("application/vnd.plotly.v1+json" in d for d in data) == figures
        assert not any("application/vnd.jupyter.widget-view+json" in d for d in data)
        assert all("text/html" in d for d in data if "application/vnd.plotly.v1+json" in d)
    tables = "".join("".join(o["data"].get("text/html", "")) for o in code[0]["outputs"])
    assert "outcome" in tables
    assert "As text" in tables


def test_loading_and_exploring_import_nothing_heavy():
    code = (
        "import sys, rubricnb; rubricnb.load; rubricnb.grade; "
        "assert not {'plotly', 'ipywidgets', 'torch', 'IPython'} & set(sys.modules); "
        "rubricnb.explore; assert not {'ipywidgets', 'torch', 'openai'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120)


@few
def test_a_function_or_the_offline_judge_grades_again():
    pair = sample_pair()
    for judge in ("offline", lambda call: "no verdict"):
        explorer = rubricnb.explore(pair.group, judge=judge).add("Reads the order first")
        explorer.regrade()
        assert all(len(row) == 1 for row in explorer.graded.judgements)
    assert isinstance(explorer.graded.judgements[0][0], FailedJudgement)
    for judge in ("online", 7):
        with pytest.raises(ConfigError, match="want a judge"):
            rubricnb.explore(pair.group, judge=judge).add("Reads the order first").regrade()


@pytest.mark.parametrize("what", [None, 7, "graded.jsonl", small().group.trajectories[0]])
def test_what_is_no_group_is_refused(what):
    with pytest.raises(ConfigError, match="want groups to explore"):
        rubricnb.explore(what)
    with pytest.raises(ConfigError, match="want a graded group"):
        rubricnb.compare(what)


def test_an_ungraded_group_has_no_rules_to_compare():
    with pytest.raises(ConfigError, match=r"rubricnb\.grade"):
        rubricnb.compare(small().group)


def test_export_says_where_it_cannot_write(tmp_path):
    explorer = rubricnb.explore(small())
    for path in (tmp_path, tmp_path / "none" / "graded.jsonl"):
        with pytest.raises(ConfigError, match="want a file"):
            explorer.export(path)
    assert not list(tmp_path.parent.glob("*.part"))


def test_a_label_that_is_none_is_refused():
    explorer = rubricnb.explore(small())
    with pytest.raises(ConfigError, match=r"want a label of .*'not_applicable'.*; got 'maybe'"):
        explorer.judge("c0", "maybe")
