"""Reward, dropout, group advantage, tokens: laws, degenerate groups, error texts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricnb.credit import discriminative, group_advantage, per_token, rubric_reward
from rubricnb.credit.common import group_index, joint_key, last_live, returns_to_go
from rubricnb.errors import CreditError

NAN = float("nan")
verdicts = st.sampled_from([1.0, -1.0, 0.0, NAN])
rewards = st.lists(st.one_of(st.floats(-5, 5), st.just(NAN)), min_size=2, max_size=9)


@settings(deadline=None)
@given(st.lists(st.lists(verdicts, min_size=4, max_size=4), min_size=1, max_size=5))
def test_reward_counts_passes_and_fails_only(rows):
    for row, got in zip(rows, rubric_reward(rows), strict=True):
        p, f = row.count(1.0), row.count(-1.0)
        if p + f:
            assert got == (p - f) / (p + f)
        elif any(np.isnan(row)):
            assert np.isnan(got)
        else:
            assert got == 0


@settings(deadline=None)
@given(st.lists(st.lists(verdicts, min_size=3, max_size=3), min_size=1, max_size=5))
def test_dropout_keeps_what_somebody_failed(rows):
    want = [any(row[k] == -1 for row in rows) for k in range(3)]
    assert discriminative(rows).tolist() == want


def test_no_criterion_left_is_a_plain_zero():
    assert rubric_reward(np.zeros((2, 0))).tolist() == [0.0, 0.0]
    assert discriminative(np.zeros((2, 0))).tolist() == []


@pytest.mark.parametrize("reward", [0.1, 1 / 3, -0.7, 1e-300, 5.0])
@pytest.mark.parametrize("size", [2, 3, 6, 7, 11])
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_equal_rewards_give_exactly_zero(reward, size, eps):
    A = group_advantage([reward] * size, eps=eps)
    assert A.tolist() == [0.0] * size
    assert not np.signbit(A).any()


@settings(deadline=None)
@given(rewards, st.sampled_from([0, 1]), st.sampled_from([0.0, 1e-6, 0.1]))
@pytest.mark.filterwarnings("ignore:groups with fewer")
def test_advantage_is_the_formula_over_the_graded(values, ddof, eps):
    R = np.array(values)
    graded = R[~np.isnan(R)]
    A = group_advantage(R, ddof=ddof, eps=eps)
    assert (A[np.isnan(R)] == 0).all()
    if len(graded) < 2 or graded.max() == graded.min():
        assert (A == 0).all()
    elif graded.max() - graded.min() > 1e-9:
        want = (graded - graded.mean()) / (graded.std(ddof=ddof) + eps)
        np.testing.assert_allclose(A[~np.isnan(R)], want, rtol=1e-6, atol=1e-6)
        # An ungraded rollout does not move its siblings.
        np.testing.assert_array_equal(A[~np.isnan(R)], group_advantage(graded, ddof=ddof, eps=eps))


def test_groups_side_by_side_are_groups_alone():
    rng = np.random.default_rng(3)
    R, g = rng.normal(size=12), rng.permutation(np.repeat(["a", "b", "c"], [3, 4, 5]))
    A = group_advantage(R, group_G=g)
    for name in "abc":
        np.testing.assert_allclose(A[g == name], group_advantage(R[g == name]), rtol=1e-12)
    sizes = group_advantage(R, group_P=[3, 4, 5])
    np.testing.assert_allclose(sizes[3:7], group_advantage(R[3:7]), rtol=1e-12)


def test_a_tiny_spread_does_not_underflow():
    A = group_advantage([1e-200, 3e-200], eps=0)
    np.testing.assert_allclose(A, [-(0.5**0.5), 0.5**0.5])


def test_lone_rollouts():
    with pytest.warns(UserWarning, match="fewer than 2 graded"):
        assert group_advantage([0.7]).tolist() == [0.0]
    with pytest.warns(UserWarning, match="fewer than 2 graded"):
        assert group_advantage([0.7, NAN]).tolist() == [0.0, 0.0]
    got = group_advantage([0.7, NAN, 1.0, 0.0], group_G=[0, 0, 1, 1], single="reward", eps=0)
    np.testing.assert_allclose(got, [0.7, 0, 0.5**0.5, -(0.5**0.5)])
    assert group_advantage([]).tolist() == []


def test_centred_only():
    np.testing.assert_allclose(group_advantage([1.0, 0.0, 0.5], scale=False), [0.5, -0.5, 0.0])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: rubric_reward([[1, 0.5]]), r"got verdict_GK\[0, 1\] = 0.5"),
        (lambda: rubric_reward([1, 0]), r"shape \(any, any\); got \(2,\)"),
        (lambda: rubric_reward([["yes"]]), "want verdict_GK as a rectangular array"),
        (lambda: rubric_reward([[1], [1, 0]]), "want verdict_GK as a rectangular array"),
        (lambda: discriminative([[2]]), r"got verdict_GK\[0, 0\] = 2"),
        (lambda: group_advantage([0.0, np.inf]), r"got reward_G\[1\] = inf"),
        (lambda: group_advantage([0.0, 1.0], ddof=2), r"want ddof in \(0, 1\); got 2"),
        (lambda: group_advantage([0.0, 1.0], eps=-1), r"want eps a finite number in \[0, inf\]"),
        (lambda: group_advantage([0.0, 1.0], single="x"), "want single in"),
        (lambda: group_advantage([0.0, 1.0], group_G=[0]), r"group_G of shape \(2\); got \(1,\)"),
        (lambda: group_advantage([0.0, 1.0], group_P=[3]), "sum to 2 rollouts; got 3"),
        (lambda: group_advantage([0.0], group_G=[0], group_P=[1]), "got both"),
        (lambda: per_token([[1.0]], [[2]]), r"want steps 1..1, or 0 for none; got step_GT\[0, 0\]"),
        (lambda: per_token([[1.0]], [[1], [1]]), "want step_GT of shape"),
        (lambda: per_token([[1.0]], [[1]], out=np.zeros((1, 1))), "float32"),
    ],
)
def test_errors_say_what_is_wanted_and_what_was_got(call, text):
    with pytest.raises(CreditError, match=text):
        call()


def test_per_token_equals_a_look_up():
    rng = np.random.default_rng(0)
    credit = rng.normal(size=(300, 7))
    step = rng.integers(0, 8, (300, 40))
    want = np.concatenate([np.zeros((300, 1)), credit], axis=1)
    want = np.take_along_axis(want, step, axis=1).astype(np.float32)
    np.testing.assert_array_equal(per_token(credit, step), want)
    out = np.empty((300, 40), dtype=np.float32)
    assert per_token(credit, step.astype(np.uint8), out=out) is out
    np.testing.assert_array_equal(out, want)
    assert per_token(np.zeros((2, 3)), np.zeros((2, 0), dtype=int)).shape == (2, 0)


def test_small_helpers():
    assert group_index(2, None).tolist() == [0, 0]
    assert joint_key(np.array(["a", "b", "a"]), np.array([1, 1, 1])).tolist() == [0, 1, 0]
    assert last_live(np.array([[True, False, True, False]])).tolist() == [[0, 0, 1, 0]]
    assert returns_to_go(np.array([[1.0, 2.0, 4.0]]), 0.5).tolist() == [[3.0, 4.0, 4.0]]
