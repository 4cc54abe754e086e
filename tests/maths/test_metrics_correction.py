"""Variance, conflict cells and lengths: laws on random input, hand numbers, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricnb.credit import CreditBatch
from rubricnb.credit.triage import CORRECTION, conflict_cells, correction_gain
from rubricnb.errors import CreditError
from rubricnb.metrics import (
    completed_length,
    conflict_shares,
    gradient_variance,
    push_second_moment,
)

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.floats(0.1, 10))
def test_variance_scales_and_the_ratio_does_not(seed, c):
    g = np.random.default_rng(seed).normal(1.0, 1.0, (6, 4))
    one, two = gradient_variance(g), gradient_variance(c * g)
    assert two.variance == pytest.approx(c**2 * one.variance)
    assert two.signal == pytest.approx(c**2 * one.signal)
    assert two.ratio == pytest.approx(one.ratio)
    assert one.variance == pytest.approx(np.trace(np.cov(g.T)))


def test_the_signal_is_free_of_the_noises_share():
    rng = np.random.default_rng(0)
    found = [gradient_variance(rng.normal(0.5, 1.0, (4, 3))).signal for _ in range(4000)]
    assert np.mean(found) == pytest.approx(3 * 0.25, abs=0.05)
    alike = gradient_variance([[1.0, 2.0]] * 3)
    assert (alike.variance, alike.signal) == (0.0, 5.0)
    assert np.isnan(alike.ratio)


@given(seeds)
def test_equal_push_has_the_least_second_moment(seed):
    rng = np.random.default_rng(seed)
    n, a = rng.integers(1, 9, (2, 5)).astype(float), rng.normal(size=(2, 5))
    flat = np.full((2, 5), (n * a).sum() / n.sum())
    assert push_second_moment(flat, n) <= push_second_moment(a, n) + 1e-12


def test_conflicts_agree_with_the_whole_table():
    rng = np.random.default_rng(3)
    names = np.array([*CORRECTION, "invalid", ""])
    role = names[rng.integers(0, 6, (8, 6))]
    outcome = np.array([1, 0, 1, 0, np.nan, 1, 0, 0.5])
    tokens = rng.integers(0, 3, (8, 6)).astype(float)
    cells = conflict_cells(CreditBatch(tokens, outcome_G=outcome, role_GS=role))
    s = conflict_shares(role, outcome, tokens)
    assert s.success == sum(c["success"] for c in cells.values())
    assert s.failure == sum(c["failure"] for c in cells.values())
    assert s.harmful_in_success == pytest.approx(cells["regression"]["success"] / s.success)
    useful = cells["decisive"]["failure"] + cells["exploration"]["failure"]
    assert s.useful_in_failure == pytest.approx(useful / s.failure)
    assert 0 < s.unlabelled < 1


def test_nothing_to_share_is_nan_and_wrong_shapes_are_refused():
    s = conflict_shares([["", "invalid"]], [1.0], [[1, 1]])
    assert np.isnan(s.harmful_in_success)
    assert s.unlabelled == 1.0
    assert np.isnan(completed_length([3.0], [False]))
    assert np.isnan(push_second_moment([[1.0]], [[0]]))
    for call in (
        lambda: gradient_variance([[1.0]]),
        lambda: gradient_variance([[1.0], [np.nan]]),
        lambda: push_second_moment([[np.nan]], [[1]]),
        lambda: push_second_moment([[1.0]], [[1, 2]]),
        lambda: conflict_shares([["decisive"]], [1.0, 0.0], [[1]]),
        lambda: completed_length([1.0], [True, False]),
    ):
        with pytest.raises(CreditError, match="want"):
            call()


@given(seeds, st.floats(0.01, 2.0))
def test_a_correction_helps_exactly_where_its_cross_moment_is_positive(seed, lam):
    rng = np.random.default_rng(seed)
    delta, c = rng.normal(size=40), rng.choice(list(CORRECTION.values()), 40)
    gain = correction_gain(delta, c, centred=False)
    change = np.mean((delta - lam * c) ** 2) - np.mean(delta**2)
    assert change == pytest.approx(lam**2 * gain["square"] - 2 * lam * gain["cross"])
    assert gain["helps"] == (gain["cross"] > 0)
    if abs(lam - gain["limit_lam"]) > 1e-9:
        assert (change < 0) == (lam < gain["limit_lam"])
