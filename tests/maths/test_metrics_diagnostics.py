"""Diagnostics: the paper's traced rollout, hand counts and laws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rubricnb.errors import CreditError
from rubricnb.metrics import (
    citations_per_step,
    criterion_pass_rates,
    inert_share,
    label_shares,
    mean_by_step_type,
    pass_fraction,
    q_spread,
)

NAN = float("nan")
# The traced rollout: five criteria, steps cited by PASS and by FAIL.
TRACE_PASS = [[1, 1, 1, 1, 2, 1, 0]]
TRACE_FAIL = [[0, 0, 1, 2, 2, 2, 0]]
TRACE_TOKENS = [[40, 40, 30, 50, 30, 60, 60]]


@st.composite
def citations(draw):
    shape = (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    counts = hnp.arrays(int, shape, elements=st.integers(0, 3))
    a = hnp.arrays(float, shape[0], elements=st.sampled_from([-1.0, 0.0, 1.0, NAN]))
    return draw(counts), draw(counts), draw(counts), draw(a)


def test_the_traced_rollout_has_its_published_fractions():
    q = pass_fraction(TRACE_PASS, TRACE_FAIL, TRACE_TOKENS)[0]
    assert q[:6] == pytest.approx([1, 1, 0.5, 1 / 3, 0.5, 1 / 3])
    assert math.isnan(q[6])
    filled = np.where(np.isnan(q), np.nanmean(q), q)
    assert q_spread(TRACE_PASS, TRACE_FAIL, TRACE_TOKENS)[0] == pytest.approx(filled.std())
    c = citations_per_step(TRACE_PASS, TRACE_FAIL, TRACE_TOKENS)
    assert (c.median, c.mean, c.none, c.steps) == (2, 2.0, 1 / 7, 7)


@given(citations())
def test_inert_shares_are_ordered_and_found_again_rollout_by_rollout(case):
    p, f, n, a = case
    got = inert_share(p, f, n, a)
    kinds = []
    for g in range(len(p)):
        cited = [(x, y) for x, y, t in zip(p[g], f[g], n[g], strict=True) if t and x + y]
        if not (n[g] > 0).any() or math.isnan(a[g]):
            continue
        total_p, total_f = sum(x for x, _ in cited), sum(y for _, y in cited)
        q = {x / (x + y) for x, y in cited}
        kinds.append(
            (
                total_p == 0 or total_f == 0,
                len(q) <= 1,
                not cited,
                bool(cited) and (total_p == 0 if a[g] >= 0 else total_f == 0),
            )
        )
    assert got.n == len(kinds)
    if kinds:
        want = np.mean(kinds, axis=0)
        figures = (got.unanimous, got.exact, got.uncited, got.collapsed)
        assert figures == pytest.approx(tuple(want))
        assert got.exact >= got.unanimous >= got.uncited + got.collapsed - 1e-12
    else:
        assert math.isnan(got.exact)


@given(citations())
def test_the_spread_of_q_is_that_of_the_filled_row(case):
    p, f, n, _ = case
    spread = q_spread(p, f, n)
    q = pass_fraction(p, f, n)
    for g in range(len(p)):
        known = q[g][~np.isnan(q[g])]
        if known.size == 0:
            assert math.isnan(spread[g])
        else:
            row = np.where(np.isnan(q[g]), known.mean(), q[g])[n[g] > 0]
            assert spread[g] == pytest.approx(row.std())
            assert spread[g] <= 0.5 + 1e-12


def test_no_step_gives_no_citation_figure():
    assert math.isnan(citations_per_step([[1]], [[0]], [[0]]).mean)
    many = citations_per_step([[12, 0]], [[0, 3]], [[1, 1]])
    assert (many.ten_or_more, many.none) == (0.5, 0.0)


@given(
    hnp.arrays(float, (4, 3), elements=st.sampled_from([1.0, -1.0, 0.0, NAN])),
)
def test_label_shares_and_criterion_rates_count_by_hand(v):
    s = label_shares(v)
    decided = v[np.abs(v) == 1]
    assert s.n == 12
    assert s.missing == pytest.approx(np.isnan(v).mean())
    if decided.size:
        assert s.passed == pytest.approx((decided == 1).mean())
        assert s.passed + s.failed == pytest.approx(1)
    else:
        assert math.isnan(s.passed)
    for k, rate in enumerate(criterion_pass_rates(v)):
        col = v[:, k][np.abs(v[:, k]) == 1]
        assert rate == pytest.approx((col == 1).mean() if col.size else NAN, nan_ok=True)


@given(
    hnp.arrays(float, (3, 4), elements=st.floats(-5, 5)),
    hnp.arrays(int, (3, 4), elements=st.integers(0, 9)),
    hnp.arrays(int, (3, 4), elements=st.integers(0, 2)),
)
def test_the_means_by_type_add_up_to_the_whole_push(a, n, kind):
    got = mean_by_step_type(a, n, kind)
    tokens = {k: n[(kind == k)].sum() for k in got}
    assert sum(m * tokens[k] for k, (m, _) in got.items()) == pytest.approx((a * n).sum())
    assert sum(steps for _, steps in got.values()) == (n > 0).sum()


def test_plain_grpo_leaves_a_type_that_occurs_once_at_zero():
    advantage = np.array([1.0, 0.5, -1.5])
    a = np.repeat(advantage[:, None], 3, axis=1)
    kind = np.array([["find", "cancel", "finish"]] * 3)
    got = mean_by_step_type(a, np.full((3, 3), 4), kind)
    assert got["finish"] == (pytest.approx(0.0), 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: label_shares([2]), "got another value"),
        (lambda: criterion_pass_rates([1]), r"shape \(G, K\)"),
        (lambda: pass_fraction([1], [1], [1]), "of one shape"),
        (lambda: pass_fraction([[1]], [[1, 2]], [[1]]), "of one shape"),
        (lambda: pass_fraction([[-1]], [[1]], [[1]]), "counts and tokens >= 0"),
        (lambda: pass_fraction([[1]], [[NAN]], [[1]]), "counts and tokens >= 0"),
        (lambda: pass_fraction([[1]], [[1]], [[-1]]), "counts and tokens >= 0"),
        (lambda: inert_share([[1]], [[1]], [[1]], [1, 2]), "one advantage per rollout, 1"),
        (lambda: mean_by_step_type([[1]], [[1, 2]], [["a"]]), "of one shape"),
        (lambda: mean_by_step_type([[NAN]], [[1]], [["a"]]), "finite credit"),
    ],
)
def test_errors_say_what_was_wanted_and_got(call, message):
    with pytest.raises(CreditError, match=message):
        call()
