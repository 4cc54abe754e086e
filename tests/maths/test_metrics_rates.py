"""pass^k, pass@k, scenarios and intervals: known answers and laws."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from rubricnb.errors import CreditError
from rubricnb.metrics import (
    bootstrap_clusters,
    checkpoint_spread,
    cluster_bootstrap,
    paired_difference,
    pass_at_k,
    pass_hat_k,
    retention,
    scenario_success,
    t_interval,
)

runs = hnp.arrays(
    float, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.sampled_from([0.0, 1.0])
)
rows = st.lists(st.floats(-100, 100), min_size=2, max_size=8)


@given(runs, st.data())
def test_both_estimators_equal_the_mean_over_every_subset_of_runs(s, data):
    k = data.draw(st.integers(1, s.shape[1]))
    subsets = [list(c) for c in itertools.combinations(range(s.shape[1]), k)]
    all_pass = np.mean([s[:, c].min(axis=1) for c in subsets])
    any_pass = np.mean([s[:, c].max(axis=1) for c in subsets])
    assert pass_hat_k(s, k) == pytest.approx(all_pass)
    assert pass_at_k(s, k) == pytest.approx(any_pass)
    assert pass_at_k(s, k) == pytest.approx(1 - pass_hat_k(1 - s, k))


@given(runs)
def test_more_runs_ask_more_of_consistency_and_less_of_discovery(s):
    ks = range(1, s.shape[1] + 1)
    hat, at = [pass_hat_k(s, k) for k in ks], [pass_at_k(s, k) for k in ks]
    assert hat[0] == pytest.approx(at[0]) == pytest.approx(s.mean())
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(hat))
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(at))


@given(runs, st.data())
def test_a_scenario_never_exceeds_its_worst_task(s, data):
    scenario = data.draw(st.lists(st.sampled_from("abc"), min_size=len(s), max_size=len(s)))
    got, names = scenario_success(s, scenario)
    assert names == list(dict.fromkeys(scenario))
    for row, name in zip(got, names, strict=True):
        members = s[[i for i, x in enumerate(scenario) if x == name]]
        assert (row == members.min(axis=0)).all()


def test_retention_is_a_ratio_and_unknown_without_a_success():
    assert retention(0.853, 0.728) == pytest.approx(0.728 / 0.853)
    assert math.isnan(retention(0.0, 0.0))
    with pytest.raises(CreditError, match=r"want pass\^k <= pass\^1"):
        retention(0.1, 0.2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pass_hat_k([1, 0], 1), r"shape \(N, R\)"),
        (lambda: pass_hat_k([[1, 0.5]], 1), "got 0.5 at task 0, run 1"),
        (lambda: pass_at_k([[1, float("nan")]], 1), "got nan at task 0, run 1"),
        (lambda: pass_hat_k([[1, 0]], 3), "got k = 3"),
        (lambda: pass_at_k([[1, 0]], 0), "got k = 0"),
        (lambda: scenario_success([[1, 0]], ["a", "b"]), "one scenario per task, 1; got 2"),
        (lambda: t_interval([]), "at least one finite value"),
        (lambda: t_interval([1.0, float("inf")]), "at least one finite value"),
        (lambda: t_interval([1.0, 2.0], level=1.0), r"level in \(0, 1\)"),
        (lambda: paired_difference({0: 1.0}, {1: 1.0}), "a seed in both arms"),
        (lambda: bootstrap_clusters(lambda i: 0.0, 0), "at least one cluster"),
        (lambda: cluster_bootstrap([1, 2], ["a"]), "one cluster each, 1"),
        (lambda: cluster_bootstrap([1, float("nan")], ["a", "b"]), "finite values"),
        (lambda: checkpoint_spread([]), "at least one checkpoint"),
        (lambda: checkpoint_spread([1.0], last=0), "last >= 1"),
    ],
)
def test_errors_say_what_was_wanted_and_got(call, message):
    with pytest.raises(CreditError, match=message):
        call()


@given(rows, st.sampled_from([0.8, 0.95]))
def test_the_t_interval_is_scipys(values, level):
    got = t_interval(values, level=level)
    if np.std(values) > 1e-9:
        want = stats.ttest_1samp(values, 0.0).confidence_interval(level)
        assert (got.low, got.high) == pytest.approx((want.low, want.high))
    assert got.mean == pytest.approx(np.mean(values))
    assert got.sd == pytest.approx(np.std(values, ddof=1))


@given(rows, st.floats(-10, 10), st.floats(0.1, 10))
def test_the_t_interval_moves_and_scales_with_its_values(values, shift, scale):
    a = t_interval(values)
    b = t_interval([scale * v + shift for v in values])
    assert b.low == pytest.approx(scale * a.low + shift, abs=1e-6)
    assert b.high == pytest.approx(scale * a.high + shift, abs=1e-6)


def test_one_seed_gives_a_figure_without_an_interval():
    one = t_interval([0.4])
    assert one.mean == 0.4
    assert all(math.isnan(x) for x in (one.low, one.high, one.sd))


@given(rows, rows)
def test_pairing_negates_when_the_arms_are_swapped(a, b):
    x, y = dict(enumerate(a)), dict(enumerate(b))
    one, other = paired_difference(x, y), paired_difference(y, x)
    assert one.mean == pytest.approx(-other.mean)
    assert one.low == pytest.approx(-other.high)


def test_pairing_removes_what_the_seed_does_to_both():
    base = {s: s * 1.0 for s in range(5)}
    better = {s: s + 0.1 for s in range(5)}
    d = paired_difference(better, base)
    assert d.low == pytest.approx(0.1)
    assert d.high == pytest.approx(0.1)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.integers(0, 5))
def test_the_cluster_bootstrap_stays_in_range_and_repeats_by_seed(values, seed):
    a = cluster_bootstrap(values, range(len(values)), resamples=100, seed=seed)
    assert a == cluster_bootstrap(values, range(len(values)), resamples=100, seed=seed)
    assert min(values) - 1e-12 <= a.low <= a.high <= max(values) + 1e-12
    assert a.mean == pytest.approx(np.mean(values))


def test_repeating_the_members_of_a_cluster_does_not_narrow_its_interval():
    rng = np.random.default_rng(1)
    v = rng.random(12)
    one = cluster_bootstrap(v, range(12))
    ten = cluster_bootstrap(np.repeat(v, 10), np.repeat(np.arange(12), 10).tolist())
    assert (ten.low, ten.high) == pytest.approx((one.low, one.high))


def test_the_cluster_bootstrap_covers_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for i in range(200):
        clusters = np.repeat(np.arange(25), 4)
        values = rng.normal(0, 1, 25)[clusters] + rng.normal(0, 0.3, 100)
        got = cluster_bootstrap(values, clusters.tolist(), resamples=200, seed=i)
        hits += got.low <= 0 <= got.high
    assert 0.88 <= hits / 200 <= 0.98


def test_one_cluster_and_undefined_resamples_give_no_bounds():
    assert math.isnan(cluster_bootstrap([1, 0], ["a", "a"]).low)
    rarely = bootstrap_clusters(lambda i: 1.0 if set(i) == set(range(3)) else np.nan, 3)
    assert rarely.mean == 1.0
    assert math.isnan(rarely.low)
    assert math.isnan(bootstrap_clusters(lambda i: float("nan"), 3).high)
    mostly = bootstrap_clusters(lambda i: np.nan if (i == 0).all() else float(np.mean(i)), 4)
    assert 0 <= mostly.low < mostly.high <= 3


def test_the_spread_over_checkpoints_takes_the_last_ones():
    mean, sd = checkpoint_spread([9.0, 1.0, 2.0, 3.0])
    assert (mean, sd) == (2.0, 1.0)
    mean, sd = checkpoint_spread([0.5])
    assert mean == 0.5
    assert math.isnan(sd)


def test_a_statistic_of_one_cluster_has_no_interval():
    one = bootstrap_clusters(lambda i: 0.25, 1)
    assert one.mean == 0.25
    assert math.isnan(one.low)
