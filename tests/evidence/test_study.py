"""The agreement study and what a run shows, on real rollouts of the bundled desk and its judge."""

import dataclasses
import gzip
import json
import math
from itertools import islice

import numpy as np
import pytest
from synthetic import TINY, write_run

from rubricnb.credit import draco_details
from rubricnb.errors import JudgeError, RunError
from rubricnb.experiments.criteria import (
    contents,
    match_by,
    match_by_judge,
    pooled,
    rubric_overlap,
    rubric_turnover,
)
from rubricnb.experiments.findings import (
    consistency_rows,
    cost_rows,
    graded_arrays,
    rescored,
    training_rows,
    type_rows,
)
from rubricnb.experiments.records import RunKey, seal, verify
from rubricnb.experiments.scores import Evaluations
from rubricnb.experiments.stability import stability
from rubricnb.experiments.study import regrade, replay
from rubricnb.files import encode
from rubricnb.judge import CallableJudge, JudgeConfig, grade
from rubricnb.metrics import inert_share, pass_at_k
from rubricnb.rubric import Criterion, Rubric, Verdict
from rubricnb.worlds import JudgeNoise, lenient_judge, offline_judge
from rubricnb.worlds.desk_criteria import catalogue, normal
from rubricnb.worlds.desk_task import read_task
from rubricnb.worlds.static_rubric import base_rollouts, candidates


@pytest.fixture(scope="module")
def graded():
    """Twelve graded groups of four rollouts, three at each of four training steps."""
    groups = list(islice(base_rollouts(split="dev", per_task=4), 0, 36, 3))
    made = grade(groups, offline_judge(), JudgeConfig(nonce="n"))
    return [
        dataclasses.replace(g, record={**g.record, "step": 1 + i // 3}) for i, g in enumerate(made)
    ]


def known_criterion(graded):
    """Which criterion of the desk a text is, whatever its wording."""
    known = {}
    for g in graded:
        known |= catalogue(read_task(g.group.task.prompt))
    return lambda c: known.get(normal(c.instruction))


class Listening:
    """A judge that keeps what it was sent."""

    def __init__(self, judge):
        self.judge, self.name, self.sent = judge, judge.name, []

    async def complete(self, call):
        self.sent.append((call.phase, call.messages))
        return await self.judge.complete(call)


def test_a_replay_sends_the_archived_scoring_prompts_to_the_byte():
    groups = list(islice(base_rollouts(split="dev", per_task=2), 2))
    first, second = Listening(offline_judge()), Listening(offline_judge())
    archive = grade(groups, first, JudgeConfig(nonce="kept", caveats="- Mind the clock."))
    regrade(archive, second)
    scoring = [m for phase, m in first.sent if phase == "scoring"]
    assert sorted(map(repr, scoring)) == sorted(repr(m) for _, m in second.sent)
    assert {phase for phase, _ in second.sent} == {"scoring"}


def test_a_judge_agrees_with_itself_and_the_table_says_who_was_asked(graded):
    again = replay(graded, offline_judge(), citations=True)
    assert again.agreement(50).agreement == pytest.approx(1, abs=0.03)
    assert len(again.frame) == sum(len(g.rubric) * len(g.group) for g in graded)
    same = again.frame["reference"] == again.frame["test"]
    cited = again.frame[same & (again.frame["reference"].abs() == 1)]
    assert (cited["reference_steps"] == cited["test_steps"]).mean() > 0.95
    table = again.table(resamples=50)
    assert table["part"].tolist() == ["all", *(f"part {i} of 4" for i in (1, 2, 3, 4))]
    assert set(table["reference"]) == {offline_judge().name}


def test_a_lenient_judge_shows_its_stated_false_pass_rate(graded):
    noise = JudgeNoise(
        false_pass=0.5, false_fail=0.0, hesitate=0.0, missing=0.3, correlation=0.0, seed=3
    )
    got = replay(graded, lenient_judge(noise)).agreement(100)
    assert got.false_pass == pytest.approx(0.45, abs=0.15)
    assert 0 < got.missing < 0.3  # repairs find most of what was left out
    interval = got.intervals["false_pass"]
    assert interval.low <= got.false_pass <= interval.high
    assert interval.n == len({g.group.task.id for g in graded})


def test_an_unreadable_judge_disagrees_with_everything_and_has_no_rate(graded):
    mute = CallableJudge(lambda call: "I would rather not say.", "mute")
    got = replay(graded, mute, every=6).agreement(20)
    assert got.missing == 1
    assert got.agreement == 0
    assert math.isnan(got.kappa) is False
    assert got.false_pass == 0
    assert got.counts[0][0] == 0


def test_a_replay_wants_a_rubric_and_the_nonce_of_its_prompts(graded):
    bare = dataclasses.replace(graded[0], record={})
    with pytest.raises(RunError, match="want the nonce of its prompts"):
        replay([bare], offline_judge())
    with pytest.raises(RunError, match="at least one group with a rubric"):
        replay([], offline_judge())


def test_votes_gain_what_uncorrelated_errors_allow(graded):
    def measured(correlation):
        noise = JudgeNoise(
            false_pass=0.4, false_fail=0.02, hesitate=0, missing=0, correlation=correlation, seed=5
        )
        return stability(graded, lenient_judge(noise), 3, citations=False)

    free, tied = measured(0.0), measured(1.0)
    assert free.pass_correlation == pytest.approx(0, abs=0.25)
    assert tied.pass_correlation == pytest.approx(1, abs=0.01)
    assert tied.unchanged == 1
    assert free.alpha < tied.alpha
    votes = {name: s.votes(4).set_index("k") for name, s in (("free", free), ("tied", tied))}
    one = votes["free"].loc[1, "measured_false_pass"]
    assert votes["free"].loc[3, "measured_false_pass"] < 0.5 * one
    tied_rates = votes["tied"]["measured_false_pass"].dropna()
    assert tied_rates.nunique() == 1
    assert votes["tied"].loc[4, "modelled_false_pass"] == pytest.approx(tied.false_pass)
    assert votes["tied"].loc[4, "independent_false_pass"] < tied.false_pass
    assert math.isnan(votes["tied"].loc[4, "measured_false_pass"])
    with pytest.raises(RunError, match="at least 2 repeats"):
        stability(graded, offline_judge(), 1)


def test_citations_of_repeats_are_compared(graded):
    assert stability(graded[:2], offline_judge(), 2).citation_turnover == pytest.approx(0, abs=0.1)


def test_rubrics_overlap_fully_with_themselves_and_less_with_anothers(graded):
    match = match_by(known_criterion(graded))
    same = pooled(rubric_overlap(graded, offline_judge(), match))
    assert same.precision == same.recall == 1
    other = rubric_overlap(graded, lenient_judge(JudgeNoise(overlook=0.5, keep=0.9, seed=9)), match)
    total = pooled(other)
    assert total.recall < 1 or total.precision < 1
    assert other["matched"].sum() == total.matched
    assert len(rubric_overlap(graded, offline_judge(), match, every=6)) == 2


def test_a_third_judge_matches_one_to_one_whatever_it_invents():
    a = Rubric((Criterion("A1", "Reads back"), Criterion("A2", "Right person")))
    b = Rubric((Criterion("B1", "Checks its change"), Criterion("B2", "Is quick")))
    asked = []

    def third(call):
        asked.append(call.messages[0]["content"])
        pairs = [("A1", "B1"), ("A1", "B2"), ("A2", "B9"), ("A9", "B2")]
        rows = [{"first": x, "second": y} for x, y in pairs]
        return "Here you are: " + json.dumps({"pairs": [*rows, "A2 and B2"]})

    assert match_by_judge(CallableJudge(third))(a, b) == [("A1", "B1")]
    assert "Reads back" in asked[0]
    assert "Checks its change" in asked[0]
    for reply, message in (("no", "want"), ('{"pears": []}', 'want "pairs"')):
        with pytest.raises(JudgeError, match=message):
            match_by_judge(CallableJudge(lambda call, reply=reply: reply))(a, b)


def test_rubric_contents_and_turnover_count_by_hand(graded):
    table = contents(graded)
    assert table["judgements"].sum() == sum(len(g.rubric) * len(g.group) for g in graded)
    labels = table[["passed", "failed", "not_applicable", "missing"]].sum(axis=1)
    assert (labels == table["judgements"]).all()
    later = dataclasses.replace(
        graded[0],
        rubric=Rubric(graded[0].rubric.criteria[1:]),
        judgements=tuple(r[1:] for r in graded[0].judgements),
        record={"step": 9},
    )
    rows = rubric_turnover([graded[0], graded[1], later])
    assert rows["turnover"].tolist() == [pytest.approx(1 / len(graded[0].rubric))]
    assert rows["before"].tolist() == [1]
    assert rows["step"].tolist() == [9]


@pytest.fixture(scope="module")
def run(graded, tmp_path_factory):
    key = RunKey("main", "draco", 0)
    folder = write_run(tmp_path_factory.mktemp("run") / "r", key)
    with gzip.open(folder / "groups.jsonl.gz", "wt") as f:
        f.writelines(encode(g) + "\n" for g in graded)
    seal(folder, key, TINY.settings, global_step=2, seconds=1)
    return verify(folder, key)


def test_the_archive_of_a_run_is_read_back_as_it_was(run, graded):
    again = list(run.groups())
    assert [g.judgements for g in again] == [g.judgements for g in graded]
    assert [g.record["step"] for g in again] == [g.record["step"] for g in graded]


def test_training_rows_agree_with_counts_and_with_the_credit_rule(run, graded):
    rows = training_rows(run)
    assert [r["step"] for r in rows] == [1, 2, 3, 4]
    assert all((r["arm"], r["seed"]) == ("draco", 0) for r in rows)
    values = [
        j.value
        for g in graded[:3]
        for row in g.judgements
        for j in row
        if isinstance(j, Verdict) and j.value
    ]
    assert rows[0]["pass_rate"] == pytest.approx(np.mean(np.array(values) == 1))
    whole = training_rows(run, windows=1)
    assert len(whole) == 1
    assert whole[0]["groups"] == 12
    inert, uncited = [], []
    for g in graded_arrays(graded):
        a = g.arrays
        d = draco_details(g.advantage_G, a.pass_GS, a.fail_GS, a.tokens_GS)
        share = inert_share(a.pass_GS, a.fail_GS, a.tokens_GS, g.advantage_G)
        assert share.exact == pytest.approx(d.inert_G.mean())
        assert share.uncited == pytest.approx(d.uncited_G.mean())
        assert share.collapsed == pytest.approx(d.collapsed_G.mean())
        inert += d.inert_G.tolist()
        uncited += d.uncited_G.tolist()
    assert whole[0]["inert_share"] == pytest.approx(np.mean(inert))
    assert whole[0]["uncited"] == pytest.approx(np.mean(uncited))
    assert whole[0]["inert_unanimous"] <= whole[0]["inert_share"]


def test_a_run_without_a_judge_has_no_rows(tmp_path):
    key = RunKey("main", "base", 0)
    assert training_rows(verify(write_run(tmp_path / "b", key), key)) == []
    assert type_rows([]) == []


def test_step_types_show_what_redistribution_does_to_a_type(graded):
    rows = {r["kind"]: r for r in type_rows(graded)}
    made = list(graded_arrays(graded))
    steps = sum(int((g.arrays.tokens_GS > 0).sum()) for g in made)
    assert sum(r["n"] for r in rows.values()) == steps
    plain = {r["kind"]: r for r in type_rows(graded, "grpo")}
    for kind, r in rows.items():
        assert plain[kind]["mean"] == pytest.approx(r["grpo"])
    assert abs(rows["finish"]["grpo"]) < 0.2


def test_rollouts_can_be_scored_again_on_a_static_set(graded):
    again = rescored(graded[:2], offline_judge(), candidates())
    assert again[0].rubric.ids() == candidates().ids()
    assert again[1].record["step"] == graded[1].record["step"]
    assert again[0].group == graded[0].group


def test_rows_for_figures_hold_the_scores(run):
    ev = Evaluations.read([run])
    rows = consistency_rows(ev)
    assert [r["k"] for r in rows] == [1, 2, 3]
    success = [m for m, _ in ev.cells(("main", "draco"), "test_normal").values()]
    assert rows[2]["pass_at_k"] == pytest.approx(np.mean([pass_at_k(m, 3) for m in success]))
    (cost,) = cost_rows(ev)
    assert cost["cost"] == (2800 + 100 + 280) / 2
    assert cost["low"] is None
