"""Worked examples from outside: the published trace and its variations."""

import numpy as np
import pytest

from rubricnb.credit import draco, draco_details

# The traced rollout: R1 F{4,6} R2 F{5,6} R3 F{3,4,5} R4 P{5} R5 P{1..6}; step 7 is uncited.
PASS = np.array([[1, 1, 1, 1, 2, 1, 0]])
FAIL = np.array([[0, 0, 1, 2, 2, 2, 0]])
N = np.array([[40, 40, 30, 50, 30, 60, 60]])


@pytest.mark.parametrize(
    ("p", "f", "n", "want"),
    [
        ([1, 0], [0, 0], [2, 4], [1.5, 0.75]),  # T1: equal weights, equal totals
        ([1, 1], [1, 0], [2, 4], [1.0, 1.0]),  # T2: weights .5 and 1
        ([1, 0, 0], [3, 0, 0], [10, 20, 30], [2.0, 1.0, 2 / 3]),  # T5: one cited step is inert
        ([0, 0], [1, 0], [2, 4], [1.0, 1.0]),  # T6: a winner with fails only collapses
    ],
)
def test_small_vectors(p, f, n, want):
    got = draco([1.0], [p], [f], [n])
    np.testing.assert_allclose(got, [want], rtol=1e-12)


def test_published_trace():
    d = draco_details([1.0], PASS, FAIL, N)
    assert d.Q_GS[0].round(4).tolist() == [1, 1, 0.5, 0.3333, 0.5, 0.3333, 0.6111]
    assert round(float(d.w_GS.sum()), 4) == 4.2778
    assert d.credit_GS[0].round(3).tolist() == [1.812, 1.812, 1.208, 0.483, 1.208, 0.403, 0.738]
    totals = (d.credit_GS * N)[0].round(2).tolist()
    assert totals == [72.47, 72.47, 36.23, 24.16, 36.23, 24.16, 44.29]
    assert d.share_GS[0, 6] == pytest.approx(1 / 7, abs=1e-15)


def test_published_trace_as_a_loser_is_negated():
    np.testing.assert_allclose(draco([-1.0], FAIL, PASS, N), -draco([1.0], PASS, FAIL, N))


def test_padding_a_step_keeps_shares_and_scales_all_totals():
    longer = N.copy()
    longer[0, 0] = 400
    a, b = draco_details([1.0], PASS, FAIL, N), draco_details([1.0], PASS, FAIL, longer)
    np.testing.assert_allclose(a.share_GS, b.share_GS, rtol=1e-12)
    np.testing.assert_allclose(b.credit_GS * longer, a.credit_GS * N * 670 / 310, rtol=1e-12)
    assert round(float(b.credit_GS[0, 0] * 400), 2) == 156.62
