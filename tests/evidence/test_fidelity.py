"""Credit fidelity: scores against hand numbers, the oracle's parts, every rule, human labels."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from rubricnb import Group, Observation, Step, Task, Trajectory
from rubricnb.cli import app
from rubricnb.credit import RULES, CreditBatch
from rubricnb.errors import ConfigError, CreditError, RunError
from rubricnb.experiments.records import file_hash
from rubricnb.fidelity import run as whole
from rubricnb.fidelity.benchmark import (
    REFERENCES,
    VARIANTS,
    citations,
    difference,
    grouped,
    score_rules,
    scored,
    truth_of,
)
from rubricnb.fidelity.evidence import gather, judged, log_keys, without
from rubricnb.fidelity.oracle import cells, make_oracle
from rubricnb.fidelity.people import (
    BLAME,
    PERFECT,
    DataSet,
    blame_alone,
    data_sets,
    perfect,
    score_people,
    step_labels,
)
from rubricnb.fidelity.scores import METRICS, Scorer, Truth, ceiling
from rubricnb.fidelity.sizes import CONDITIONS, SIZES, Size, size_of
from rubricnb.figures import fig_text
from rubricnb.grading import batch as graded_batch
from rubricnb.judge import CallableJudge
from rubricnb.rubric import Verdict
from rubricnb.worlds.desk_criteria import catalogue, normal
from rubricnb.worlds.desk_task import read_task
from tests.edges.answers import answer

ROOT = Path(__file__).resolve().parents[2]
TINY = Size("tiny", (0,), 4, 3, 4, 1, chunk=2, resamples=50)
FEW = {k: CONDITIONS[k] for k in ("exact", "self")}


def quiet(_):
    """Say nothing."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The tiny oracle and its rows."""
    home = tmp_path_factory.mktemp("fidelity")
    valued = make_oracle(TINY, home / "oracle", say=quiet)
    return home, valued, score_rules(TINY, valued, home / "scores", conditions=FEW, say=quiet)


def many(tasks=60, seed=0):
    """A truth of two rollouts of four steps a task, with small errors and gradients."""
    rng = np.random.default_rng(seed)
    n = tasks * 8
    return Truth(
        rng.normal(0, 0.3, n),
        np.full(n, 0.01),
        [i // 4 for i in range(n)],
        [i // 8 for i in range(n)],
        rng.normal(size=(n, 64)),
        np.full(n, 3.0),
    )


# -- scores ------------------------------------------------------------------------------------


def test_scores_are_the_hand_numbers():
    a, c = np.array([0.5, -0.4, 0.1, -0.2, 0.0, 0.3]), np.array([1.0, -1.0, -0.5, 0.0, 0.2, 0.1])
    error, n = np.full(6, 0.09), np.array([1.0, 2, 1, 2, 1, 2])
    grad = np.random.default_rng(0).normal(size=(6, 5))
    truth = Truth(a, error, [0, 0, 0, 1, 1, 1], list("aaabbb"), grad, n)
    got = {k: x.mean for k, x in Scorer(truth, resamples=20)(c).items()}
    mean = np.repeat([a[:3].mean(), a[3:].mean()], 3)
    within = c - np.repeat([c[:3].mean(), c[3:].mean()], 3)
    push = n * c - np.repeat([(n * c)[:3].mean(), (n * c)[3:].mean()], 3)
    scale = (c @ a) / (c @ c)
    mine, best = c @ grad, a @ grad
    want = {
        "pearson": np.corrcoef(a, c)[0, 1],
        "spearman": stats.spearmanr(a, c).statistic,
        "within": np.corrcoef(a - mean, within)[0, 1],
        "push": np.corrcoef(a - mean, push)[0, 1],
        # Clear are .5, -.4, -.2 and .3: signs agree, agree, credit 0 (half), agree.
        "sign": 3.5 / 4,
        "mse": ((scale * c - a) ** 2).sum() / (a @ a),
        "cosine": mine @ best / np.linalg.norm(mine) / np.linalg.norm(best),
        "harmful": 1.0 / 1.5,  # harmful: the second and the fourth; blame 1 + .5
        "decisive": 1.1 / 1.3,  # decisive: the first and the last
    }
    assert set(want) == set(METRICS)
    assert got == pytest.approx(want)


def test_the_oracle_as_its_own_credit_scores_one():
    truth = many()
    for scale in (1.0, 7.5):
        got = Scorer(truth, 100)(scale * truth.advantage_N)
        for name in ("pearson", "spearman", "within", "push", "sign", "cosine"):
            x = got[name]
            assert (x.mean, x.low, x.high) == pytest.approx((1.0, 1.0, 1.0)), name
        assert got["mse"].mean == pytest.approx(0.0, abs=1e-12)


def test_shuffled_credit_says_nothing_and_turned_credit_the_opposite():
    truth, rng = many(), np.random.default_rng(1)
    scorer = Scorer(truth, 400)
    shuffled = [scorer(rng.permutation(truth.advantage_N)) for _ in range(10)]
    for name in ("pearson", "spearman", "within", "cosine"):
        inside = [s[name].low <= 0 <= s[name].high for s in shuffled]
        assert sum(inside) >= 7, name
        assert abs(np.mean([s[name].mean for s in shuffled])) < 0.1
    assert 0.4 < np.mean([s["sign"].mean for s in shuffled]) < 0.6
    turned = scorer(-truth.advantage_N)
    assert turned["pearson"].mean == pytest.approx(-1)
    # No scale >= 0 helps, so the error is that of no credit.
    assert turned["mse"].mean == pytest.approx(1.0)


def test_uniform_credit_says_nothing_inside_a_rollout():
    truth = many(10)
    credit = np.repeat(np.random.default_rng(0).normal(size=20), 4)
    got = Scorer(truth, 50)(credit)
    assert got["within"].mean == 0.0
    assert got["within"].high == 0.0
    assert np.isnan(Scorer(truth, 50)(np.ones(80))["pearson"].mean)
    with pytest.raises(CreditError, match="finite credit of 80 steps"):
        Scorer(truth, 50)(np.full(80, np.nan))


def test_intervals_are_over_tasks():
    truth = many(8)
    one = Truth(truth.advantage_N, truth.error_N, truth.rollout_N, [0] * 64)
    assert np.isnan(Scorer(one, 50)(truth.error_N + truth.advantage_N**2)["pearson"].low)
    noisy = truth.advantage_N + np.random.default_rng(3).normal(0, 0.3, 64)
    few = Scorer(truth, 400)(noisy)["pearson"]
    big = many(128)
    lots = Scorer(big, 400)(big.advantage_N + np.random.default_rng(3).normal(0, 0.3, 1024))
    assert few.n == 8
    assert lots["pearson"].n == 128
    assert lots["pearson"].high - lots["pearson"].low < (few.high - few.low) / 2


def test_differences_are_paired_over_the_same_tasks():
    truth = many()
    scorer = Scorer(truth, 200)
    near = truth.advantage_N + np.random.default_rng(9).normal(0, 0.3, 480)
    a, b = (scored("dev", "exact", "x", c, scorer) for c in (near, near + 0.02 * near**2))
    gap = difference(a, b, "pearson")
    assert gap.mean == pytest.approx(a.scores["pearson"].mean - b.scores["pearson"].mean, abs=1e-4)
    assert gap.high - gap.low < (a.scores["pearson"].high - a.scores["pearson"].low) / 10
    assert difference(a, a, "cosine").high == 0.0


def test_the_noise_ceiling_is_what_simulated_halves_reach():
    rng = np.random.default_rng(0)
    true = rng.normal(size=20_000)
    halves = [true + rng.normal(0, 1.0, 20_000) for _ in (0, 1)]
    got = ceiling(*halves)
    assert got["halves"] == pytest.approx(0.5, abs=0.02)
    assert got["reliability"] == pytest.approx(2 / 3, abs=0.02)
    whole = np.corrcoef(true, sum(halves))[0, 1]
    assert got["ceiling"] == pytest.approx(whole, abs=0.01)
    assert np.isnan(ceiling([1, 2, 3], [3, 2, 1])["ceiling"])


# -- oracle ------------------------------------------------------------------------------------


def test_values_end_in_the_outcome_and_halves_average_to_the_whole(made):
    for v in made[1]:
        V = v.values()
        assert len(V) == len(v.trajectory) + 1
        assert V[-1] == v.trajectory.outcome
        assert v.advantages().sum() == pytest.approx(v.trajectory.outcome - V[0])
        assert np.allclose((v.values(0) + v.values(1)) / 2, V)
        assert (v.errors() >= 1 / TINY.samples).all()
        assert v.gradient_JD.shape[0] == len(v.trajectory)
        assert np.abs(v.gradient_JD).sum() > 0


def bytes_of(folder):
    return {p.relative_to(folder): p.read_bytes() for p in Path(folder).rglob("*.json.gz")}


def test_an_interrupted_oracle_goes_on_and_ends_as_an_unbroken_one(made, tmp_path):
    home, _valued, results = made

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_oracle(TINY, tmp_path / "oracle", say=stop)
    assert len(bytes_of(tmp_path)) == 1
    said = []
    again = make_oracle(TINY, tmp_path / "oracle", say=said.append)
    assert len(said) == 1
    assert bytes_of(tmp_path / "oracle") == bytes_of(home / "oracle")
    rows = score_rules(TINY, again, tmp_path / "scores", conditions=FEW, say=said.append)
    assert repr(rows) == repr(results)
    said.clear()
    score_rules(TINY, again, tmp_path / "scores", conditions=FEW, say=said.append)
    assert not said  # finished conditions are read


KILLED = """
from rubricnb.fidelity.oracle import make_oracle
from tests.evidence.test_fidelity import TINY
make_oracle(TINY, {folder!r})
"""


@pytest.mark.slow
def test_a_killed_oracle_loses_nothing_that_was_finished(made, tmp_path):
    folder = tmp_path / "oracle"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED.format(folder=str(folder))],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    while not bytes_of(tmp_path) and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    before = bytes_of(folder)
    assert before
    make_oracle(TINY, folder, say=quiet)
    after = bytes_of(folder)
    assert before.items() <= after.items()
    assert after == bytes_of(made[0] / "oracle")


def test_parts_of_other_settings_and_damaged_ones_are_refused(made, tmp_path):
    home = made[0]
    with pytest.raises(RunError, match="got another samples"):
        make_oracle(replace(TINY, samples=6), home / "oracle", say=quiet)
    for path, data in bytes_of(home / "oracle").items():
        copy = tmp_path / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data[: len(data) // 2])
    with pytest.raises(RunError, match="remove the file"):
        make_oracle(TINY, tmp_path, say=quiet)


def test_seeds_split_the_work_and_sizes_are_checked():
    two = replace(TINY, seeds=(0, 1))
    assert [c[:3] for c in cells(two)] == [("dev", s, n) for s in (0, 1) for n in (0, 1)]
    with pytest.raises(ConfigError, match="even number of roll-ins"):
        replace(TINY, samples=5)
    with pytest.raises(ConfigError, match="want a profile of"):
        size_of("huge")
    assert len(SIZES["full"].seeds) >= 5


# -- rules -------------------------------------------------------------------------------------


def test_every_rule_is_scored_under_every_judge(made):
    results = made[2]
    for name in FEW:
        for rule in RULES:
            row = results.find("dev", name, rule)
            assert row is not None, (name, rule)
            assert row.scores or row.missing, (name, rule)
    ran = {r.rule for r in results.rows if r.scores and r.condition == "exact"}
    named = {"grpo", "draco", "triage", "trca", "arco", "srar", "gigpo", "salt", "rtmc", "rar"}
    assert named <= ran
    assert results.find("dev", "", REFERENCES[0]).scores["pearson"].mean == pytest.approx(1)
    assert results.find("dev", "exact", "grpo").scores["within"].mean == 0


def test_a_new_rule_shows_up_by_itself(made, tmp_path, monkeypatch):
    def cheat(batch: CreditBatch):
        return np.where(batch.live_GS, truth.pop(0), 0.0)

    def starved(batch: CreditBatch):
        return batch.need("env_GS", "starved")

    home, valued, before = made
    groups = grouped(valued)
    width = max(len(v.trajectory) for v in valued)
    rows = np.zeros((len(valued), width))
    for i, v in enumerate(v for g in groups for v in g):
        rows[i, : len(v.trajectory)] = v.advantages()
    truth = [rows, rows]
    monkeypatch.setitem(RULES, "cheat", cheat)
    monkeypatch.setitem(RULES, "starved", starved)
    results = score_rules(TINY, valued, home / "scores", conditions=FEW, say=quiet)
    assert results.find("dev", "exact", "cheat").scores["pearson"].mean == pytest.approx(1)
    assert "env_GS" in results.find("dev", "exact", "starved").missing
    old = before.find("dev", "exact", "draco")
    assert repr(results.find("dev", "exact", "draco")) == repr(old)


def test_noise_bias_and_style_do_what_they_say(made):
    groups = [Group(g[0].trajectory.task, tuple(v.trajectory for v in g)) for g in grouped(made[1])]
    exact = judged(groups, CONDITIONS["exact"])
    lenient = judged(groups, CONDITIONS["self"])

    def rate(graded, value):
        v = [j.value for g in graded for row in g.judgements for j in row if isinstance(j, Verdict)]
        return v.count(value)

    assert rate(lenient, -1) < rate(exact, -1)
    blind = ("reached", "honest_close")
    for before, after in zip(exact, judged(groups, CONDITIONS["no_results"]), strict=True):
        known = catalogue(read_task(before.group.task.prompt))
        kinds = [known[normal(c.instruction)].kind for c in after.rubric.criteria]
        assert not set(kinds) & set(blind)
        assert len(kinds) < len(before.rubric)
        assert after.rubric == without(before, blind).rubric
    last = judged(groups, CONDITIONS["last"])
    for g in last:
        for t, row in zip(g.group.trajectories, g.judgements, strict=True):
            assert {s for j in row if isinstance(j, Verdict) for s in j.steps} <= {len(t)}
    assert rate(last, 1) == rate(exact, 1)
    batch = graded_batch(last)
    assert ((batch.pass_GS + batch.fail_GS > 0).sum(axis=1) <= 1).all()


def test_evidence_is_of_the_transcript_and_of_the_conditions_judge(made):
    groups = [Group(g[0].trajectory.task, tuple(v.trajectory for v in g)) for g in grouped(made[1])]
    memory = {}
    exact = gather(groups, CONDITIONS["exact"], 0, memory)
    kept = len(memory)
    gather(groups, CONDITIONS["root"], 0, memory)
    assert len(memory) == kept  # the same error rates: the same roles
    noisy = gather(groups, CONDITIONS["self"], 0, memory)
    roles = [np.concatenate([e.batch.role_GS[e.batch.live_GS] for e in x]) for x in (exact, noisy)]
    bad = [(r == "regression").sum() for r in roles]
    assert bad[1] < bad[0]
    for e in exact:
        assert len(set(e.batch.state_GS[:, 0])) == 1  # all rollouts of a task start in one state
        assert e.batch.live_GS.shape == e.context_GS.shape
        assert e.of("trca").state_GS is not e.batch.state_GS
        assert e.of("gigpo") is e.batch
    task = Task("t", "p")
    steps = [Step(a, observations=(Observation(o),)) for a, o in ("xn", "yn", ("z", "ok"), "xn")]
    states, actions = log_keys(Trajectory("x", task, tuple(steps)))
    assert states[1] == states[2] != states[3]
    assert states[0] != states[1]
    assert actions[0] == actions[3] != actions[1]


# -- the whole ---------------------------------------------------------------------------------


def test_one_call_writes_table_record_finding_and_figures(tmp_path, made):
    os.symlink(made[0], tmp_path / "link")
    (tmp_path / "tiny").mkdir()
    os.symlink(made[0], tmp_path / "tiny" / "fidelity")
    results, people, files = whole.run_fidelity(TINY, tmp_path, say=quiet)
    assert not people
    assert len(results.inert["dev"]) == len(CONDITIONS)
    record = json.loads(files["record"].read_text())
    parts = sorted((made[0] / "oracle").rglob("*.json.gz"))
    assert sorted(record["oracle"].values()) == sorted(file_hash(p) for p in parts)
    assert record["policy"]
    assert record["versions"]["torch"] != "absent"
    table = files["markdown"].read_text()
    for words in ("draco", "published: DRACO", "48.1", "exactly inert", "spread", "oracle"):
        assert words in table
    text = files["finding"].read_text().strip()
    assert "\n" not in text
    assert "DRACO" in text
    assert "one small policy" in text
    for fig in whole.figures(results).values():
        assert "draco" in fig_text(fig)


def test_the_command_shares_work_by_seed_and_prints_the_finding(
    tmp_path, made, monkeypatch, capsys
):
    monkeypatch.setitem(SIZES, "tiny", TINY)
    monkeypatch.delenv("RUBRICNB_SHARED", raising=False)
    (tmp_path / "tiny").mkdir()
    os.symlink(made[0], tmp_path / "tiny" / "fidelity")
    command = ["fidelity", "--profile", "tiny", "--runs", str(tmp_path)]
    app([*command, "--seed", "0"], standalone_mode=False)
    assert "12 rollouts with their true advantages" in capsys.readouterr().out
    app(command, standalone_mode=False)
    out = capsys.readouterr().out
    assert out.startswith("On dev, with exact verdicts, DRACO's credit correlates")
    assert str(tmp_path / "tiny" / "fidelity" / "fidelity.md") in out
    with pytest.raises(ConfigError, match="want a profile of"):
        app(["fidelity", "--profile", "huge"], standalone_mode=False)


def test_variants_and_citations_are_what_they_say(made):
    n, both = np.array([[2.0, 6.0, 0.0]]), np.array([[1.0, 0.0, 0.0]])
    batch = CreditBatch(
        n, advantage_G=[1.0], pass_GS=both, fail_GS=both[:, ::-1] + both[:, [1, 0, 2]]
    )
    share = (RULES["draco"](batch) * n)[0, :2] / 8
    got = VARIANTS["draco, without 1/n"](batch)[0]
    assert got[:2] == pytest.approx(2 * share)  # A M rho, M = 2
    assert got[2] == 0
    truth = Truth(np.array([0.5, -0.25]), np.zeros(2), [0, 0], ["a", "a"])
    found = citations(batch, truth)
    assert (found["passes"], found["fails"], found["nothing_share"]) == (0.5, -0.25, 0.0)
    assert np.isnan(found["both"])
    for found in made[2].cited["dev"].values():
        shares = [v for k, v in found.items() if k.endswith("_share")]
        assert sum(shares) == pytest.approx(1)


def test_exact_inert_share_is_at_least_the_papers_count(made):
    for found in made[2].inert["dev"].values():
        assert found["exact"] >= found["unanimous"]


def test_truth_halves_have_wider_errors(made):
    groups = grouped(made[1])
    whole_, half = truth_of(groups), truth_of(groups, 0)
    assert np.allclose(half.error_N, whole_.error_N * np.sqrt(2))
    assert not np.allclose(half.advantage_N, whole_.advantage_N)


# -- people ------------------------------------------------------------------------------------


def labelled(steps, outcome, name):
    task = Task("q", "question")
    rows = tuple(Step("x" * (5 + j)) for j in range(len(steps)))
    said = {str(j): v for j, v in enumerate(steps, start=1)}
    return Trajectory(name, task, rows, outcome, labels={"steps": said})


def test_a_perfect_judge_says_the_labels():
    group = Group(
        Task("q", "question"), (labelled([1, -1], 0.0, "a"), labelled([1, 0, 1], 1.0, "b"))
    )
    graded = perfect(group, step_labels)
    assert [j.value for j in graded.judgements[0]] == [-1, 1, -1, 0]
    assert [j.value for j in graded.judgements[1]] == [1, 1, 0, 1]
    assert graded.judgements[0][2].steps == (2,)
    alone = blame_alone(group, step_labels)
    assert alone.judgements[0][0].steps == (2,)
    assert alone.judgements[0][0].value == -1


def by_name(rows, metric):
    floors = {r.rule: r.scores[metric].mean for r in rows if not r.judge}
    top = {r.rule: r.scores[metric].mean for r in rows if r.judge == PERFECT}
    return floors, top


def test_people_the_perfect_judge_is_above_every_floor(shared_data):
    process, decisive = data_sets(shared_data)
    assert sum(len(g) for g in process.groups) == 250
    assert len(process.groups) == 50
    assert len(decisive.groups) == 126
    rows = score_people(process, resamples=50)
    floors, top = by_name(rows, "push")
    assert set(floors) == {"last step", "longest step", "first error", "uniform"}
    assert top["draco"] > max(floors.values())
    rows = score_people(decisive, resamples=50)
    floors, top = by_name(rows, "hit")
    assert top["draco"] == top["triage"] == 1.0 > max(floors.values())
    # Blame alone gives every other step the same share as the mistake, or more: it cannot hit.
    blame = next(r for r in rows if (r.judge, r.rule) == (BLAME, "draco"))
    assert blame.scores["hit"].mean < floors["uniform"]


def test_people_runs_that_stand_alone_can_be_asked_about(tmp_path):
    def reply(call):
        return answer(list(call.messages))

    alone = labelled([1, -1], 0.0, "a")
    data = DataSet("alone", (Group(alone.task, (alone,)),), step_labels, single=True)
    (graded,) = whole.asked(data, CallableJudge(reply, "some judge"), tmp_path)
    assert graded.group.trajectories[0].id == alone.id
    assert graded.judgements[0]


def test_people_any_judge_is_scored_and_its_replies_are_kept(tmp_path):
    calls = []

    def reply(call):
        calls.append(call.phase)
        return answer(list(call.messages))

    pair = (labelled([1, -1], 0.0, "a"), labelled([1, 0, 1], 1.0, "b"))
    data = DataSet("made up", (Group(Task("q", "question"), pair),), step_labels)
    judge = CallableJudge(reply, "some judge")
    graded = whole.asked(data, judge, tmp_path)
    assert calls
    assert len(graded) == 1
    before = len(calls)
    assert whole.asked(data, judge, tmp_path) == graded
    assert len(calls) == before
    rows = score_people(data, {"some judge": graded}, resamples=20)
    assert {r.judge for r in rows} >= {"", PERFECT, "some judge"}
    assert data_sets(None) == []
    assert data_sets(tmp_path) == []
