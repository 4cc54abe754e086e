"""Alarms and audits: promises kept in simulation, degenerate calibration sets, known flags."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rubricnb.errors import CreditError
from rubricnb.metrics.agreement import agreement
from rubricnb.metrics.auditing import audit_scores, choose_threshold, cross_audit, first_flags
from rubricnb.metrics.early import (
    alarm_steps,
    anytime_threshold,
    fit_ratio,
    measure_alarms,
    pac_minimum,
    pac_threshold,
    peaks,
)
from rubricnb.metrics.exact import (
    clopper_pearson,
    kappa_variance,
    sample_size_kappa,
    sample_size_share,
)
from rubricnb.metrics.gaming import effect
from rubricnb.metrics.intervals import bootstrap_clusters
from rubricnb.metrics.judge_eval import judge_quality
from rubricnb.metrics.resampled import bootstrap_sums, cluster_share, ratio


def gaussian_ratios(rng, n, steps, drift, fails):
    """True likelihood ratios of N(-drift, 1) (fails) over N(drift, 1) (succeeds)."""
    mean = -drift if fails else drift
    s = rng.normal(mean, 1.0, (n, steps))
    return s, np.exp(np.cumsum(-2 * drift * s, axis=1))


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("steps", [1, 30])
def test_anytime_false_alarms_stay_below_alpha(alpha, steps):
    rng = np.random.default_rng(1)
    _, m = gaussian_ratios(rng, 20_000, steps, 0.3, fails=False)
    alarms = int((alarm_steps(m, anytime_threshold(alpha)) > 0).sum())
    # Refuted only where even the lower bound of the simulated rate is above alpha.
    assert clopper_pearson(alarms, 20_000, level=0.999).low <= alpha
    _, bad = gaussian_ratios(rng, 2_000, 30, 0.3, fails=True)
    assert (alarm_steps(bad, anytime_threshold(alpha)) > 0).mean() > alpha


@pytest.mark.parametrize(
    ("n", "alpha", "delta"), [(116, 0.045, 0.005), (60, 0.1, 0.1), (30, 0.2, 0.05)]
)
def test_pac_coverage(n, alpha, delta):
    """Peaks are uniform without loss of generality, so a threshold t alarms 1 - t of successes."""
    rng = np.random.default_rng(2)
    runs = 4_000
    broken = sum(1 - pac_threshold(rng.random(n), alpha, delta) > alpha for _ in range(runs))
    assert clopper_pearson(broken, runs, level=0.999).low <= delta
    # It is not loose either: one order statistic lower would break the promise.
    k = np.argmax(stats.binom.sf(np.arange(n), n, 1 - alpha) <= delta) + 1
    lower = np.sort(rng.random((runs, n)), axis=1)[:, k - 2]
    assert clopper_pearson(int((1 - lower > alpha).sum()), runs, level=0.999).high > delta


def test_pac_without_enough_successes_never_alarms():
    n = pac_minimum(0.045, 0.005)
    assert n == 116
    assert pac_threshold([], 0.1, 0.1) == np.inf
    assert pac_threshold(np.arange(n - 1), 0.045, 0.005) == np.inf
    assert pac_threshold(np.arange(n), 0.045, 0.005) == n - 1
    m = [np.array([1e9])]
    assert measure_alarms(m, [1], pac_threshold([], 0.1, 0.1)).false_alarm.mean == 0.0


@given(st.floats(0.01, 0.5), st.floats(0.01, 0.5))
def test_pac_minimum_is_the_first_finite_n(alpha, delta):
    n = pac_minimum(alpha, delta)
    assert np.isfinite(pac_threshold(np.ones(n), alpha, delta))
    assert n == 1 or pac_threshold(np.ones(n - 1), alpha, delta) == np.inf


def test_alarm_is_on_strict_greater():
    assert alarm_steps([[1.0, 2.0], [2.0, 2.1]], 2.0).tolist() == [0, 2]
    with pytest.raises(CreditError, match="want peaks >= 0"):
        pac_threshold([-1.0], 0.1, 0.1)


def test_estimated_ratio_has_power_and_the_pac_promise():
    rng = np.random.default_rng(3)

    def draw(n):
        y = rng.integers(0, 2, n)
        length = rng.integers(4, 13, n)
        return [rng.normal(0.4 * (2 * a - 1), 1.0, k) for a, k in zip(y, length, strict=True)], y

    scores, y = draw(600)
    model = fit_ratio(scores, y)
    held, hy = draw(600)
    good = [s for s, a in zip(held, hy, strict=True) if a]
    test, ty = draw(3_000)
    ratios = model.ratios(test)
    a = measure_alarms(ratios, ty, pac_threshold(peaks(model.ratios(good)), 0.1, 0.05))
    assert a.false_alarm.low <= 0.1
    assert a.power.mean > 0.4 > a.false_alarm.mean
    assert a.tokens_saved > a.tokens_lost
    assert all(len(r) == len(s) for r, s in zip(ratios, test, strict=True))


def test_ratio_is_carried_where_a_step_has_too_few_examples():
    scores = [[0.1 * i, 0.5] if i < 4 else [0.1 * i] for i in range(20)]
    model = fit_ratio(scores, [i % 2 for i in range(20)])
    assert [w.size for w in model.weights] == [2, 0]
    r = model.ratios([[0.3, 9.0], [0.3]])
    assert r[0][0] == r[0][1] == r[1][0] != 1.0


def test_missing_score_counts_as_the_mean():
    rng = np.random.default_rng(4)
    y = np.arange(40) % 2
    model = fit_ratio([[v] for v in rng.normal(y, 1.0)], y)
    mean = model.means[0][0]
    assert model.ratios([[np.nan]])[0] == pytest.approx(model.ratios([[mean]])[0])


def test_tokens_after_the_alarm_are_saved():
    a = measure_alarms([[3.0, 3.0, 3.0], [1.0, 3.0]], [0, 1], 2.0, [[1, 2, 3], [4, 5]])
    assert (a.tokens_saved, a.tokens_lost, a.mean_step) == (5 / 15, 0.0, 1.0)


# -- audits -----------------------------------------------------------------------------------


def test_perfect_and_silent_auditor():
    error = [0, 2, 3, 0]
    perfect = audit_scores(error, error, error)
    assert (perfect.exact_f1, perfect.far, perfect.step_error, perfect.delay) == (1, 0, 0, 0)
    silent = audit_scores([0] * 4, [0] * 4, error)
    assert (silent.recall, silent.far, silent.exact_f1) == (0, 0, 0)
    assert np.isnan(silent.step_error)


def test_a_flag_at_the_wrong_step_counts_twice():
    """Exact F1 by hand: one right flag, one at the wrong step, one on a safe rollout."""
    s = audit_scores([2, 3, 1], [2, 1, 1], [2, 3, 0])
    assert s.exact_f1 == 2 * 1 / (2 * 1 + 2 + 1)
    assert (s.far, s.detected, s.step_error, s.delay) == (1.0, 1.0, 1.0, 0.0)


def test_first_flags_and_threshold():
    risk = [[0.1, 0.9, 0.2], [0.3, 0.3], [0.2, 0.8]]
    assert first_flags(risk, 0.5).tolist() == [2, 0, 2]
    cut = choose_threshold(risk, [2, 0, 2])
    assert first_flags(risk, cut).tolist() == [2, 0, 2]
    assert choose_threshold([[0.9], [0.1]], [0, 1], far=0.0) >= 0.1


def planted(seed, strength, n=240):
    rng = np.random.default_rng(seed)
    features, error = [], []
    for i in range(n):
        steps = int(rng.integers(3, 9))
        at = int(rng.integers(1, steps + 1)) if i % 2 else 0
        x = rng.normal(size=(steps, 4))
        if at:
            x[at - 1, 0] += strength
        features.append(x)
        error.append(at)
    return features, np.array(error), [i // 4 for i in range(n)]


def test_trained_auditor_finds_a_planted_error():
    features, error, cluster = planted(5, 5.0)
    at, _ = cross_audit(features, error, cluster)
    s = audit_scores(at, at, error, cluster)
    assert s.exact_f1 > 0.8
    assert s.intervals["exact_f1"].low > 0.7
    assert s.far < 0.2


def test_trained_auditor_finds_nothing_in_noise():
    features, error, cluster = planted(6, 0.0)
    at, _ = cross_audit(features, error, cluster)
    assert audit_scores(at, at, error).exact_f1 < 0.35


# -- bounds -----------------------------------------------------------------------------------


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.8, 0.95, 0.99]))
def test_clopper_pearson_is_scipys(k, more, level):
    n = k + more
    if n == 0:
        assert (clopper_pearson(0, 0).low, clopper_pearson(0, 0).high) == (0.0, 1.0)
        return
    for side, other in (("both", "two-sided"), ("upper", "less"), ("lower", "greater")):
        ours = clopper_pearson(k, n, level=level, side=side)
        theirs = stats.binomtest(k, n, alternative=other).proportion_ci(level, "exact")
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_clopper_pearson_covers():
    rng = np.random.default_rng(7)
    for p in (0.05, 0.3, 0.5):
        inside = [
            (b := clopper_pearson(int(k), 40)).low <= p <= b.high for k in rng.binomial(40, p, 1500)
        ]
        assert clopper_pearson(sum(inside), 1500, level=0.999).high >= 0.95


def test_cluster_bootstrap_covers_the_truth():
    """Shares of two-valued clusters: about 95 % of the intervals hold the true share."""
    rng = np.random.default_rng(8)
    truth, hits, runs = 0.4, 0, 400
    for i in range(runs):
        level = rng.beta(4, 6, 60)
        k = rng.binomial(5, level)
        b = bootstrap_sums(
            np.column_stack([k, np.full(60, 5)]),
            lambda s: {"share": ratio(s[..., 0], s[..., 1])},
            resamples=300,
            seed=i,
        )["share"]
        hits += b.low <= truth <= b.high
    assert 0.91 <= hits / runs <= 0.98


def test_fast_bootstrap_agrees_with_the_plain_one():
    rng = np.random.default_rng(9)
    per = np.column_stack([rng.binomial(6, 0.3, 50), np.full(50, 6)]).astype(float)
    fast = bootstrap_sums(per, lambda s: {"m": ratio(s[..., 0], s[..., 1])}, resamples=4000)["m"]
    plain = bootstrap_clusters(lambda i: per[i, 0].sum() / per[i, 1].sum(), 50, resamples=4000)
    assert fast.mean == pytest.approx(plain.mean)
    assert (fast.low, fast.high) == pytest.approx((plain.low, plain.high), abs=0.01)


def test_sample_size_of_a_share_gives_the_width():
    n = sample_size_share(0.1, 0.5)
    rng = np.random.default_rng(10)
    p = rng.binomial(n, 0.5, 2000) / n
    half = 1.96 * np.sqrt(p * (1 - p) / n)
    assert (2 * half).mean() == pytest.approx(0.1, abs=0.005)


def test_kappa_variance_matches_simulation():
    joint = np.array([[0.6, 0.08], [0.07, 0.25]])
    rng = np.random.default_rng(11)
    n = 800
    k = []
    for m in rng.multinomial(n, joint.ravel(), 4000).reshape(-1, 2, 2) / n:
        pe = m.sum(axis=1) @ m.sum(axis=0)
        k.append((np.trace(m) - pe) / (1 - pe))
    assert kappa_variance(joint) == pytest.approx(n * np.var(k), rel=0.08)
    wide, narrow = (sample_size_kappa(w, joint) for w in (0.2, 0.1))
    assert narrow == pytest.approx(4 * wide, rel=0.02)


def test_a_share_of_none_or_all_is_not_certain():
    """Resampling cannot leave 0 or 1; the bounds there are Clopper-Pearson over whole clusters."""
    tasks = [f"t{i // 4}" for i in range(40)]
    exact = stats.binomtest(10, 10).proportion_ci(0.95, "exact")
    q = judge_quality([1.0] * 20 + [0.0] * 20, [1.0] * 20 + [0.0] * 20, tasks)
    half = stats.binomtest(5, 5).proportion_ci(0.95, "exact").low  # five tasks hold the yeses
    assert (q.intervals["precision"].low, q.intervals["precision"].high) == (
        pytest.approx(half),
        1.0,
    )
    assert q.intervals["accuracy"].low == pytest.approx(exact.low)
    assert q.intervals["kappa"].low == pytest.approx(1 - 2 * (1 - exact.low))  # chance is .5
    e = effect([0.0] * 40, [0.0] * 40, [0.0] * 40, tasks)
    assert e.intervals["flip_rate"].high == pytest.approx(1 - exact.low)
    a = agreement([1.0] * 40, [1.0] * 40, tasks)
    assert a.intervals["agreement"].low == pytest.approx(exact.low)
    b = agreement([1.0] * 20 + [-1.0] * 20, [1.0] * 20 + [-1.0] * 20, tasks)
    assert b.intervals["kappa"].low == pytest.approx(1 - 2 * (1 - exact.low))
    s = audit_scores([0] * 40, [0] * 40, [0] * 20 + [1] * 20, tasks)
    assert s.intervals["far"].high == pytest.approx(1 - half)
    assert s.intervals["detected"].high == pytest.approx(1 - half)


def test_cluster_share_covers_a_rare_event():
    """Alarms in 2 % of clusters, often none: the interval holds the truth all the same."""
    rng, hits, runs = np.random.default_rng(12), 0, 400
    for i in range(runs):
        hit = np.repeat(rng.random(40) < 0.02, 3)
        b = cluster_share(hit, np.arange(120) // 3, resamples=200, seed=i)
        hits += b.low <= 0.02 <= b.high
    assert hits / runs >= 0.93
    plain = sum(rng.random(40).min() >= 0.02 for _ in range(runs)) / runs
    assert plain > 0.3  # so often there is none, and [0, 0] would be wrong


def test_an_auditor_that_is_never_right_or_never_wrong_is_not_certain():
    for named, low, high in ((1, 0.0, 1 - 0.025 ** (1 / 5)), (2, 0.025 ** (1 / 5), 1.0)):
        a = audit_scores([2] * 5, [named] * 5, [2] * 5, range(5), resamples=50)
        for name in ("exact_f1", "precision", "recall"):
            assert a.intervals[name].low == pytest.approx(low)
            assert a.intervals[name].high == pytest.approx(high)
