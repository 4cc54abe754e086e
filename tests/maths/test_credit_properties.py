"""DRACO on random rollouts: the seven properties, both fallbacks, every option."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rubricnb.credit import CreditBatch, draco, draco_details, draco_rule
from rubricnb.credit.properties import violations
from rubricnb.errors import CreditError


@st.composite
def rollouts(draw):
    """A, p, f, n with padding, uncited and collapsed rollouts well represented."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 6)))
    counts = st.integers(0, 3).map(float)
    p = draw(hnp.arrays(float, shape, elements=counts))
    f = draw(hnp.arrays(float, shape, elements=counts))
    n = draw(hnp.arrays(float, shape, elements=st.integers(0, 400).map(float)))
    A = draw(hnp.arrays(float, shape[0], elements=st.floats(-3, 3).map(lambda x: round(x, 3))))
    A = A * draw(st.sampled_from([1.0, 1e-6, 1e6]))
    kind = draw(st.sampled_from(["any", "only pass", "only fail", "uncited"]))
    p = p * (kind in ("any", "only pass"))
    f = f * (kind in ("any", "only fail"))
    return A, p, f, n


@settings(max_examples=300, deadline=None)
@given(rollouts())
def test_seven_properties(x):
    assert violations(draco, *x) == []


@settings(max_examples=150, deadline=None)
@given(rollouts(), st.sampled_from(["plain", "mix", "both"]))
def test_sign_safe_options_keep_the_push_and_the_sign(x, which):
    options = {"plain": {"terminal": "plain"}, "mix": {"mix": 0.4}}
    options["both"] = {**options["plain"], **options["mix"]}
    broken = violations(lambda *a: draco(*a, **options[which]), *x)
    assert set(broken) <= {"P2", "P4", "P5"}


@settings(max_examples=150, deadline=None)
@given(rollouts())
def test_signed_weights_keep_the_push_and_give_up_the_sign(x):
    broken = violations(lambda *a: draco(*a, weights="signed"), *x)
    assert set(broken) <= {"P3", "P4"}


def test_signed_weights_can_change_the_sign():
    a = draco([-1.0], [[3, 0]], [[0, 3]], [[10, 10]], weights="signed", signed_scale=4.0)
    np.testing.assert_allclose(a, [[1.0, -3.0]])


@settings(max_examples=100, deadline=None)
@given(rollouts())
def test_equal_steps_restore_equal_totals_without_citations(x):
    A, p, f, n = x
    a = draco(A, 0 * p, 0 * f, n, nocite="equal_step")
    M = np.maximum((n > 0).sum(axis=1), 1)
    want = np.where(n > 0, (A * n.sum(axis=1) / M)[:, None], 0)
    np.testing.assert_allclose(a * n, want, rtol=1e-9, atol=1e-12)
    assert violations(lambda *y: draco(*y, nocite="equal_step"), *x) == []


@settings(max_examples=100, deadline=None)
@given(rollouts())
def test_an_uncited_step_claims_one_mth(x):
    d = draco_details(*x)
    n, cited = x[3], (x[1] + x[2]) > 0
    M = (n > 0).sum(axis=1)
    ordinary = ~d.collapsed_G & ~d.uncited_G
    for g in np.flatnonzero(ordinary):
        share = d.share_GS[g, (n[g] > 0) & ~cited[g]]
        np.testing.assert_allclose(share, 1 / M[g], rtol=1e-9)


@settings(max_examples=100, deadline=None)
@given(rollouts())
def test_details_agree_with_credit(x):
    A, p, f, n = x
    d = draco_details(*x)
    np.testing.assert_array_equal(d.credit_GS, draco(*x))
    live = n.sum(axis=1) > 0
    np.testing.assert_allclose(d.share_GS.sum(axis=1)[live], 1, rtol=1e-9)
    np.testing.assert_array_equal(d.dropped_G, ((p + f) * (n == 0)).sum(axis=1))
    assert not (d.collapsed_G & d.uncited_G).any()
    assert d.inert_G[d.collapsed_G | d.uncited_G].all()
    plain = d.collapsed_G | d.uncited_G
    want = np.where(n > 0, A[:, None], 0)[plain]
    np.testing.assert_array_equal(d.credit_GS[plain], want)


def test_flags_of_each_case():
    p = [[1, 0, 0], [0, 0, 0], [0, 0, 0], [2, 0, 0], [1, 1, 0]]
    f = [[0, 1, 0], [1, 1, 0], [0, 0, 0], [1, 0, 0], [1, 0, 7]]
    n = [[5, 5, 5], [5, 5, 5], [5, 5, 5], [5, 5, 5], [5, 5, 0]]
    d = draco_details(np.ones(5), p, f, n)
    assert d.collapsed_G.tolist() == [False, True, False, False, False]
    assert d.uncited_G.tolist() == [False, False, True, False, False]
    assert d.inert_G.tolist() == [False, True, True, True, False]
    assert d.dropped_G.tolist() == [0, 0, 0, 0, 7]
    assert np.isnan(d.Q_GS[2]).all()
    assert np.isnan(d.w_GS[4, 2])


def test_the_cap_breaks_conservation_and_says_where():
    x = ([1.0], [[1, 0]], [[0, 1]], [[1, 99]])
    d = draco_details(*x, max_token_mult=10)
    np.testing.assert_array_equal(d.credit_GS, draco(*x, max_token_mult=10))
    assert d.credit_GS.tolist() == [[10.0, 0.0]]
    assert d.capped_GS.tolist() == [[True, False]]
    assert d.share_GS.tolist() == [[1.0, 0.0]]


def test_terminal_plain_by_hand():
    # The last step keeps A; the first two share A (N - n_3) = 60 by weights 1 and 0.5.
    a = draco([1.0], [[1, 1, 0]], [[0, 1, 5]], [[20, 40, 40]], terminal="plain")
    np.testing.assert_allclose(a, [[2.0, 0.5, 1.0]])
    alone = draco([-2.0], [[1, 0]], [[0, 0]], [[7, 0]], terminal="plain")
    assert alone.tolist() == [[-2.0, 0.0]]


def test_no_rollouts_and_no_steps():
    empty = np.zeros((0, 3))
    assert draco(np.zeros(0), empty, empty, empty).shape == (0, 3)
    none = np.zeros((2, 0))
    assert draco_details([1.0, -1.0], none, none, none).inert_G.tolist() == [True, True]


def test_small_unsigned_counts_do_not_overflow():
    p = np.array([[200, 100]], dtype=np.uint8)
    f = np.array([[100, 200]], dtype=np.uint8)
    n = np.array([[200, 200]], dtype=np.uint8)
    np.testing.assert_allclose(draco([1.0], p, f, n), [[4 / 3, 2 / 3]])


def test_the_rule_reads_a_batch():
    b = CreditBatch(
        [[2, 4], [3, 3]], reward_G=[1.0, 0.0], pass_GS=[[1, 0], [0, 0]], fail_GS=[[0, 1], [0, 0]]
    )
    a = draco_rule(b, eps=0)
    np.testing.assert_allclose(a, [[0.5**0.5 * 3, 0], [-(0.5**0.5)] * 2])


# Each broken rule breaks the properties named, so each check is seen to fail.
def _no_division(A, p, f, n):
    return draco(A, p, f, n) * n


def _no_sign_branch(A, p, f, n):
    return draco(np.abs(A), p, f, n) * np.sign(A)[:, None]


def _count_not_share(A, p, f, n):
    w = np.where(n > 0, p + 0.5, 0)
    w = np.where((A >= 0)[:, None], w, np.where(n > 0, f + 0.5, 0))
    N, total = n.sum(axis=1), np.maximum(w.sum(axis=1), 1e-300)
    return A[:, None] * np.divide(w, n, out=np.zeros_like(n), where=n > 0) * (N / total)[:, None]


BROKEN = {
    "P1": _no_division,
    "P2": _count_not_share,
    "P3": lambda A, p, f, n: draco(A, p, f, n, weights="signed", signed_scale=5.0),
    "P4": lambda A, p, f, n: draco(A, f, p, n),
    "P5": lambda A, p, f, n: np.where(n > 0, A[:, None], 0.0),
    "P6": lambda A, p, f, n: draco(np.tanh(A), p, f, n),
    "P7": _no_sign_branch,
    "padding": lambda A, p, f, n: draco(A, p, f, n) + (n == 0),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_property_is_seen_to_fail(name):
    A = np.array([1.5, -1.0])
    p = np.array([[2.0, 0, 0, 1, 0], [1, 3, 0, 1, 0]])
    f = np.array([[0, 1.0, 0, 1, 0], [1, 0, 0, 2, 0]])
    n = np.array([[3.0, 10, 5, 40, 0], [7, 9, 2, 30, 0]])
    if name == "P2":  # Equal weights in spite of unequal counts.
        p = f = np.array([[1.0, 3, 0, 2, 0], [2, 1, 0, 5, 0]])
    assert violations(draco, A, p, f, n) == []
    assert name in violations(BROKEN[name], A, p, f, n)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"tokens_GS": [[1, -2]]}, r"want finite tokens_GS >= 0; got tokens_GS\[0, 1\] = -2"),
        ({"tokens_GS": np.array([[1, np.nan]])}, r"got tokens_GS\[0, 1\] = nan"),
        ({"tokens_GS": [1, 2]}, "want tokens_GS of shape"),
        ({"pass_GS": np.array([[0, -1]])}, r"got pass_GS\[0, 1\] = -1"),
        ({"fail_GS": [[0, np.inf]]}, r"got fail_GS\[0, 1\] = inf"),
        ({"fail_GS": np.zeros((1, 3))}, r"want fail_GS of shape \(1, 2\); got \(1, 3\)"),
        ({"advantage_G": [np.nan]}, r"got advantage_G\[0\] = nan"),
        ({"advantage_G": [1.0, 1.0]}, r"want advantage_G of shape \(1\)"),
        ({"nocite": "x"}, r"want nocite in \('uniform', 'equal_step'\); got 'x'"),
        ({"terminal": "x"}, "want terminal in"),
        ({"weights": "x"}, "want weights in"),
        ({"mix": 1.5}, r"want mix a finite number in \[0, 1\]; got 1.5"),
        ({"signed_scale": -1.0}, "want signed_scale"),
        ({"max_token_mult": 0.0}, "want max_token_mult"),
    ],
)
def test_errors_name_the_first_offender(change, text):
    good = {
        "advantage_G": [1.0], "pass_GS": [[0, 1]], "fail_GS": [[0, 0]], "tokens_GS": [[1, 2]]
    }  # fmt: skip
    assert draco(**good).shape == (1, 2)
    with pytest.raises(CreditError, match=text):
        draco(**{**good, **change})


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="nocites"):
        draco([1.0], [[0]], [[0]], [[1]], nocites="uniform")
