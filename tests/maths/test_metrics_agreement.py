"""Agreement, votes and overlap: the libraries' answers, hand counts and laws."""

import math

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from rubricnb.errors import CreditError
from rubricnb.metrics import (
    Overlap,
    agreement,
    all_err,
    cohen_kappa,
    drift,
    error_correlation,
    krippendorff_alpha,
    krippendorff_pair,
    overlap,
    turnover,
    unanimity_rates,
)

NAN = float("nan")
label = st.sampled_from([1.0, -1.0, 0.0, NAN])
pairs = st.lists(st.tuples(label, label), min_size=1, max_size=30)


@given(pairs)
def test_kappa_and_alpha_are_the_libraries(items):
    test, ref = np.array(items).T
    got = agreement(test, ref)
    known = ~np.isnan(test) & ~np.isnan(ref)
    # Two codes for "missing", one a side, so that the library counts it as disagreement.
    a, b = np.where(np.isnan(test), 7, test), np.where(np.isnan(ref), 8, ref)
    if np.unique(np.concatenate([a, b])).size > 1:
        assert got.kappa == pytest.approx(cohen_kappa_score(a, b), nan_ok=True)
    if np.unique(np.concatenate([test[known], ref[known]])).size > 1:
        want = krippendorff.alpha([test, ref], level_of_measurement="nominal")
        assert got.alpha == pytest.approx(want)
        assert krippendorff_alpha([test, ref]) == pytest.approx(want)
    else:
        assert math.isnan(got.alpha)
        assert math.isnan(krippendorff_alpha([test, ref]))


@given(pairs)
def test_agreement_counts_missing_as_disagreement(items):
    test, ref = np.array(items).T
    got = agreement(test, ref)
    assert got.n == len(items)
    assert got.agreement == pytest.approx(np.mean(test == ref))
    assert got.missing == pytest.approx(np.isnan(test).mean())
    assert got.always_pass == pytest.approx((ref == 1).mean())
    assert got.majority >= got.always_pass
    assert (got.agreement == 1) == bool((test == ref).all())
    fails, passes = ref == -1, ref == 1
    if fails.any():
        assert got.false_pass == pytest.approx((test[fails] == 1).mean())
    else:
        assert math.isnan(got.false_pass)
    if passes.any():
        assert got.false_fail == pytest.approx((test[passes] == -1).mean())


@given(st.lists(st.tuples(label, label), min_size=3, max_size=15), st.randoms())
def test_the_order_of_judgements_is_no_matter(items, random):
    a = agreement(*np.array(items).T)
    random.shuffle(items)
    b = agreement(*np.array(items).T)
    assert a.counts == b.counts


def test_the_published_replay_is_reproduced_from_its_counts():
    """Verdict counts in the order pass, fail, not applicable, missing, by the frontier judge."""
    ref = np.repeat([1.0, -1.0, 0.0], [43706, 15840, 1143])
    test = ref.copy()
    test[43706 : 43706 + 4817] = 1  # false passes
    test[:560] = -1  # false fails
    got = agreement(test, ref)
    assert got.n == 60689
    assert got.false_pass == pytest.approx(0.304, abs=5e-4)
    assert got.false_fail == pytest.approx(0.013, abs=5e-4)
    assert got.always_pass == pytest.approx(0.720, abs=5e-4)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(label, label), min_size=4, max_size=20))
def test_intervals_hold_the_figure_and_come_by_cluster(items):
    test, ref = np.array(items).T
    clusters = [i // 2 for i in range(len(items))]
    got = agreement(test, ref, clusters, resamples=50)
    inner = got.intervals["agreement"]
    assert inner.mean == pytest.approx(got.agreement)
    assert inner.n == len(set(clusters))
    assert 0 <= inner.low <= inner.high <= 1


def test_drift_cuts_training_into_parts_that_share_no_step():
    step = np.repeat(np.arange(8), 5)
    ref = -np.ones(40)
    test = np.where(np.arange(40) % 5 < step // 2, 1.0, -1.0)  # 0, 1, 2, 3 of 5 by quarter
    got = drift(test, ref, step, cluster_N=step.tolist(), resamples=20)
    assert [a.false_pass for a in got] == pytest.approx([0.0, 0.2, 0.4, 0.6])
    assert [a.n for a in got] == [10] * 4
    assert [a.false_pass for a in drift(test, ref, step, parts=1)] == pytest.approx([0.3])


def test_tables_without_anything_to_compare_have_no_figure():
    empty = np.zeros((4, 4))
    assert math.isnan(cohen_kappa(empty))
    assert math.isnan(krippendorff_pair(empty))
    assert math.isnan(cohen_kappa(np.diag([3, 0, 0, 0])))


@given(st.floats(0, 1), st.integers(1, 6), st.floats(0, 1))
def test_unanimity_lies_between_independent_and_repeated_errors(rate, k, c):
    got = all_err(rate, k, c)
    assert rate**k - 1e-9 <= got <= rate + 1e-9
    assert all_err(rate, k, 0.0) == pytest.approx(rate**k)
    assert all_err(rate, k, 1.0) == pytest.approx(rate)
    if k > 1:
        assert got <= all_err(rate, k - 1, c) + 1e-12
    v = unanimity_rates(rate, rate, k, c, c)
    assert v.false_fail >= rate - 1e-9
    assert unanimity_rates(rate, rate, 1, c).false_fail == pytest.approx(rate)


def test_the_beta_binomial_and_its_correlation_are_found_again_by_simulation():
    rng = np.random.default_rng(0)
    rate, c = 0.3, 0.4
    p = rng.beta(rate * (1 - c) / c, (1 - rate) * (1 - c) / c, 40000)
    errors = (rng.random((40000, 3)) < p[:, None]).astype(float)
    assert errors.all(axis=1).mean() == pytest.approx(all_err(rate, 3, c), abs=0.01)
    assert error_correlation(errors) == pytest.approx(c, abs=0.02)
    independent = (rng.random((40000, 3)) < 0.3).astype(float)
    assert error_correlation(independent) == pytest.approx(0, abs=0.02)
    errors[rng.random(errors.shape) < 0.2] = np.nan
    assert error_correlation(errors) == pytest.approx(c, abs=0.02)


def test_the_correlation_is_unknown_without_errors_or_pairs():
    assert math.isnan(error_correlation([[0, 0], [0, 0]]))
    assert math.isnan(error_correlation([[1, NAN], [NAN, 0]]))


ids = st.lists(st.integers(0, 9), unique=True, max_size=6)


@given(ids, ids, st.data())
def test_swapping_the_sets_swaps_precision_and_recall(a, b, data):
    m = data.draw(st.integers(0, min(len(a), len(b))))
    matched = list(zip(a[:m], b[:m], strict=True))
    one = overlap(a, b, matched)
    two = overlap(b, a, [(y, x) for x, y in matched])
    assert (one.precision, one.recall) == pytest.approx((two.recall, two.precision), nan_ok=True)
    assert one + two == Overlap(2 * m, len(a) + len(b), len(a) + len(b))
    if a:
        same = overlap(a, a, zip(a, a, strict=True))
        assert same.precision == same.recall == 1
        assert turnover(a, a) == 0
    assert turnover(a, b) == pytest.approx(turnover(b, a), nan_ok=True)


def test_turnover_and_overlap_of_nothing_are_unknown():
    assert math.isnan(turnover([], []))
    assert math.isnan(overlap([], [], []).precision)
    assert turnover([1], [2]) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: agreement([], []), "got 0 and 0"),
        (lambda: agreement([1], [1, 1]), "got 1 and 2"),
        (lambda: agreement([2], [1]), r"want test of \+1, -1, 0 or NaN; got 2.0 at 0"),
        (lambda: agreement([[1]], [1]), r"want test of shape \(N,\)"),
        (lambda: agreement([1], [1], ["a", "b"]), "one cluster per label, 1; got 2"),
        (lambda: drift([1], [1], [1, 2]), "equal lengths"),
        (lambda: drift([1, 1], [1, 1], [1, 1], parts=2), "parts <= 1 steps"),
        (lambda: krippendorff_alpha([1, 2]), r"want \(R, N\) labels"),
        (lambda: krippendorff_alpha([[3, 1]]), r"want \(R, N\) labels"),
        (lambda: all_err(1.5, 1, 0), "want rate and correlation"),
        (lambda: all_err(0.5, 0, 0), "k >= 1"),
        (lambda: all_err(0.5, 1, -0.1), "want rate and correlation"),
        (lambda: error_correlation([[1]]), "K >= 2"),
        (lambda: error_correlation([[1, 2]]), "0, 1 or NaN"),
        (lambda: overlap(["a"], ["x"], [("b", "x")]), "test id 'b' which the set does not hold"),
        (lambda: overlap(["a", "b"], ["x"], [("a", "x"), ("b", "x")]), "reference id 'x' twice"),
    ],
)
def test_errors_say_what_was_wanted_and_got(call, message):
    with pytest.raises(CreditError, match=message):
        call()
