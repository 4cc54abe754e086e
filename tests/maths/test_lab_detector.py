"""Claims, the false-success detector and judge figures on data whose answers are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as theirs

from rubricnb import Observation, Step, Task, ToolCall, Trajectory
from rubricnb.errors import CreditError, FormatError
from rubricnb.metrics.claims import closing_claim
from rubricnb.metrics.exact import clopper_pearson
from rubricnb.metrics.false_success import (
    cross_detect,
    fit_detector,
    leave_one_out,
    load_detector,
    rollout_text,
    task_folds,
    triaged_reward,
)
from rubricnb.metrics.intervals import bootstrap_clusters
from rubricnb.metrics.judge_eval import VIEWS, judge_quality, ranking_fidelity
from rubricnb.metrics.ranked import auroc, auroc_interval, recall_at, recall_intervals

WORDS = tuple(f"word{i}" for i in range(14))


def corpus(seed, n=600, tasks=60, strength=0.0, identity=False):
    """Texts of random words; false ones say "assume" more often, by ``strength``.

    With ``identity`` a task's label is its own and each task has a word of its own: nothing can
    be learnt that holds for another task.
    """
    rng = np.random.default_rng(seed)
    task = np.arange(n) % tasks
    y = rng.integers(0, 2, tasks)[task] if identity else rng.integers(0, 2, n)
    texts = []
    for t, label in zip(task, y, strict=True):
        words = list(rng.choice(WORDS, 30))
        if rng.random() < (0.2 + strength if label else 0.2):
            words += ["I", "assume"]
        texts.append(" ".join([*words, f"task{t}"] if identity else words))
    return texts, y.astype(float), [f"t{t}" for t in task]


def test_finds_a_planted_signal():
    texts, y, tasks = corpus(0, strength=0.7)
    i = auroc_interval(cross_detect(texts, y, tasks), y, tasks)
    # The planted word alone, a coin of .9 against one of .2, would give .85; other words add noise.
    assert 0.7 < i.low < i.mean < 0.85
    assert fit_detector(texts, y).top(2)[0][0] in ("assume", "i assume")


def test_finds_nothing_in_shuffled_labels():
    """AUROC is .5 within its interval, as often as 95 % intervals should hold it."""
    texts, y, tasks = corpus(1, n=300, strength=0.7)
    found = []
    for seed in range(12):
        z = np.random.default_rng(seed).permutation(y)
        scores = cross_detect(texts, z, tasks, seed=seed)
        found.append(auroc_interval(scores, z, tasks, resamples=300))
    misses = sum(not i.low <= 0.5 <= i.high for i in found)
    assert clopper_pearson(misses, 12, level=0.99).low <= 0.05
    assert np.mean([i.mean for i in found]) == pytest.approx(0.5, abs=0.03)


def test_task_identity_is_no_signal_across_tasks():
    """It separates perfectly where tasks are shared, and not at all where they are not."""
    texts, y, tasks = corpus(2, identity=True)
    assert auroc(fit_detector(texts, y).score(texts), y) > 0.95
    i = auroc_interval(cross_detect(texts, y, tasks), y, tasks)
    assert i.low <= 0.5 <= i.high
    models = ["m1" if k % 2 else "m2" for k in range(len(y))]
    one = np.array([m == "m1" for m in models])
    shared = leave_one_out(texts, y, models)["m1"]
    apart = leave_one_out(texts, y, models, tasks)["m1"]
    own = [t for t, k in zip(tasks, one, strict=True) if k]
    ok = np.isfinite(apart)
    assert auroc(shared, y[one]) < 0.6 or auroc(shared, y[one]) > 0.9
    j = auroc_interval(apart[ok], y[one][ok], [t for t, k in zip(own, ok, strict=True) if k])
    assert j.low <= 0.5 <= j.high


def test_folds_never_share_a_task_and_hold_every_row_once():
    _, y, tasks = corpus(3)
    seen = []
    for train, test in task_folds(y, tasks, 5, 0):
        assert not {tasks[i] for i in train} & {tasks[i] for i in test}
        seen += test.tolist()
    assert sorted(seen) == list(range(len(y)))
    with pytest.raises(CreditError, match="at least two tasks"):
        task_folds(y, ["one"] * len(y), 5, 0)


def test_detector_is_scikit_learns_own_pipeline():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts, y, _ = corpus(4, strength=0.5)
    plain = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_features=30_000, sublinear_tf=True),
        LogisticRegression(class_weight="balanced", solver="liblinear", random_state=0),
    ).fit(texts, y)
    ours = fit_detector(texts, y).score(texts)
    np.testing.assert_allclose(ours, plain.predict_proba(texts)[:, 1], atol=1e-9)


def test_saved_detector_is_the_same_and_holds_no_pickle(tmp_path):
    texts, y, _ = corpus(5, n=120, strength=0.5)
    made = fit_detector(texts, y, about={"source": "made up"})
    path = made.save(tmp_path / "detector")
    back = load_detector(path)
    np.testing.assert_array_equal(back.score(texts), made.score(texts))
    assert back.about["source"] == "made up"
    with np.load(path, allow_pickle=False) as f:
        assert all(f[k].dtype != object for k in f.files)
    evil = tmp_path / "evil.npz"
    np.savez(evil, about=np.array([{"kind": "x"}], dtype=object))
    with pytest.raises(FormatError, match="want a detector"):
        load_detector(evil)
    (tmp_path / "text.npz").write_text("no")
    with pytest.raises(FormatError, match="want a detector"):
        load_detector(tmp_path / "text.npz")


def test_triage_never_makes_a_number():
    out = triaged_reward([1.0, np.nan, 0.5], [0.9, 0.9, 0.2], [True, True, True], 0.5)
    assert np.isnan(out[:2]).all()
    assert out[2] == 0.5
    assert triaged_reward([1.0], [0.9], [True], 1.0).tolist() == [1.0]


# -- scores -----------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_auroc_is_scikit_learns(rows):
    s, y = np.array([r[0] for r in rows]), np.array([r[1] for r in rows], dtype=float)
    if 0 < y.mean() < 1:
        assert auroc(s, y) == pytest.approx(theirs.roc_auc_score(y, s))
        assert auroc(-s, y) == pytest.approx(1 - auroc(s, y))
        assert auroc_interval(s, y, range(len(y)), resamples=20).mean == auroc(s, y)


def test_auroc_bootstrap_agrees_with_plain_resampling():
    rng = np.random.default_rng(6)
    task = np.repeat(np.arange(40), 4)
    y = rng.integers(0, 2, 160).astype(float)
    s = np.round(y * 0.6 + rng.normal(size=160) + rng.normal(size=40)[task], 1)
    fast = auroc_interval(s, y, task, resamples=1500)
    rows = [np.flatnonzero(task == t) for t in range(40)]

    def plain(i):
        at = np.concatenate([rows[k] for k in i])
        return auroc(s[at], y[at])

    slow = bootstrap_clusters(plain, 40, resamples=600)
    assert (fast.low, fast.high) == pytest.approx((slow.low, slow.high), abs=0.03)


def test_auroc_interval_covers():
    rng, hits, runs = np.random.default_rng(7), 0, 200
    truth = 0.7602  # Phi(1 / sqrt 2), two unit normals one apart
    for i in range(runs):
        y = rng.integers(0, 2, 150).astype(float)
        b = auroc_interval(rng.normal(size=150) + y, y, range(150), resamples=200, seed=i)
        hits += b.low <= truth <= b.high
    assert 0.90 <= hits / runs <= 0.985


def test_recall_at_flag_rates():
    y = np.r_[np.ones(10), np.zeros(90)]
    assert recall_at(-np.arange(100), y, 0.1) == 1.0
    assert recall_at(np.arange(100), y, 0.1) == 0.0
    at = recall_intervals(-np.arange(100), y, range(100), (0.05, 0.2))
    assert (at[0.05].mean, at[0.2].mean) == (0.5, 1.0)
    assert at[0.05].low < 0.5 < at[0.05].high


# -- claims -----------------------------------------------------------------------------------


def run(*steps):
    return Trajectory("a", Task("t", "p"), tuple(steps))


def closing(name, arguments):
    return run(Step("", (ToolCall(name, arguments),), (Observation("end"),)))


@pytest.mark.parametrize(
    ("text", "claimed"),
    [
        ("Your reservation has been successfully updated.", True),
        ("I've cancelled the order. Anything else?", True),
        ("The task is complete.", True),
        ("<answer> Marion </answer>", True),
        ("I cannot change this. It has not been updated.", False),
        ("Would you like me to go on?", False),
        ("I have found two orders for you.", False),
        ("The order has been cancelled, but I was unable to refund it.", False),
        ("Once it has been approved, you get an e-mail.", False),
        ("", False),
    ],
)
def test_claims_in_words(text, claimed):
    assert closing_claim(run(Step(text))).claimed is claimed


def test_claims_by_status_courtesy_and_hand_over():
    assert closing_claim(closing("finish", '{"outcome": "done"}')).claimed
    assert not closing_claim(closing("finish", '{"outcome": "blocked"}')).claimed
    assert closing_claim(closing("complete_task", '{"status": "success"}')).explicit
    assert not closing_claim(closing("complete_task", "{broken")).claimed
    assert not closing_claim(closing("transfer_to_human_agents", "{}")).claimed
    polite = run(Step("It has been booked."), Step("You're welcome! Have a nice day."))
    assert (closing_claim(polite).claimed, closing_claim(polite).step) == (True, 1)
    assert not closing_claim(run()).claimed


def test_thinking_and_results_are_not_read():
    hidden = Step("", thinking="It has been cancelled.", observations=(Observation("cancelled"),))
    assert not closing_claim(run(hidden)).claimed
    assert rollout_text(run(hidden)) == ""


def test_the_airline_file_has_about_97_claims(shared_data):
    from rubricnb.importers import read

    runs = list(read(shared_data / "tau_bench_v1" / "gpt-4o-airline.json"))
    claims = [closing_claim(t) for t in runs]
    assert 80 <= sum(c.claimed for c in claims) <= 110
    assert not any(c.explicit for c in claims)


# -- judge figures ----------------------------------------------------------------------------

answers = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, np.nan]), st.sampled_from([0.0, 1.0, np.nan])),
    min_size=1,
    max_size=40,
)


@given(answers)
def test_judge_figures_are_scikit_learns(rows):
    said, label = (np.array(c) for c in zip(*rows, strict=True))
    if np.isnan(label).all():
        return
    for view in VIEWS:
        q = judge_quality(said, label, view=view)
        ok = ~np.isnan(label) & (~np.isnan(said) if view == "left_out" else True)
        fill = {"left_out": said, "wrong": 1 - label, "no": np.zeros_like(said)}[view]
        s, y = np.where(np.isnan(said), fill, said)[ok], label[ok]
        assert q.tp + q.fp + q.fn + q.tn == ok.sum()
        assert q.missing == (np.isnan(said) & ~np.isnan(label)).sum()
        if 0 < y.sum() < y.size and 0 < s.sum() < s.size:
            got = (q.precision, q.recall, q.f1, q.balanced_accuracy, q.kappa)
            want = (
                theirs.precision_score(y, s),
                theirs.recall_score(y, s),
                theirs.f1_score(y, s, zero_division=0),
                theirs.balanced_accuracy_score(y, s),
                theirs.cohen_kappa_score(y, s),
            )
            assert got == pytest.approx(want)
            flipped = judge_quality(1 - said, 1 - label, view="left_out")
            if view == "left_out":
                assert (flipped.precision, flipped.recall) == (q.npv, q.tnr)


def test_missing_answers_are_never_a_number_by_accident():
    said, label = [1, np.nan, 0, np.nan], [1, 1, 0, 0]
    out, wrong = (judge_quality(said, label, view=v) for v in ("left_out", "wrong"))
    assert (out.precision, out.recall, out.accuracy) == (1, 1, 1)
    assert (wrong.fn, wrong.fp, wrong.accuracy) == (1, 1, 0.5)
    assert judge_quality(said, label, view="no").tn == 2
    assert judge_quality([1, 0], [1, np.nan]).unsure == 1


def test_quality_intervals_cover():
    rng, hits, runs = np.random.default_rng(8), 0, 300
    for i in range(runs):
        y = (rng.random(240) < 0.5).astype(float)
        said = np.where(rng.random(240) < 0.2, 1 - y, y)
        b = judge_quality(said, y, np.arange(240) // 4, resamples=300, seed=i).intervals
        hits += b["precision"].low <= 0.8 <= b["precision"].high
    assert 0.91 <= hits / runs <= 0.985


def test_rankings():
    agents = [a for a, n in zip("abc", (40, 40, 40), strict=True) for _ in range(n)]
    label = np.r_[np.ones(30), np.zeros(10), np.ones(20), np.zeros(20), np.ones(10), np.zeros(30)]
    tasks = [i % 10 for i in range(120)]
    same = ranking_fidelity(label, label, agents, tasks)
    assert (same.kendall, same.spearman, same.agents) == (1.0, 1.0, ("a", "b", "c"))
    assert same.intervals["kendall"].mean == 1.0
    assert ranking_fidelity(1 - label, label, agents).kendall == -1.0
    assert np.isnan(ranking_fidelity(label[:40], label[:40], agents[:40]).kendall)


def test_a_perfect_judge_of_few_tasks_is_not_certain_in_any_figure():
    q = judge_quality([1, 0] * 5, [1, 0] * 5, [i // 2 for i in range(10)], resamples=50)
    for name in ("precision", "recall", "f1", "accuracy", "balanced_accuracy", "kappa"):
        assert q.intervals[name].low < 0.6, name
