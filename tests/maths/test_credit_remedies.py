"""The remedies: their laws on random rollouts, examples by hand, and agreement with DRACO."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricnb.credit import (
    RULES,
    CreditBatch,
    draco_rule,
    grpo,
    mixed,
    recentre,
    recentred,
    terminal_plain,
)
from rubricnb.credit import signed as signed_rule
from rubricnb.credit.laws import comparison, conserves, random_batch, sign_safe
from rubricnb.errors import CreditError

pytestmark = pytest.mark.filterwarnings("ignore:groups with fewer")
batches = st.integers(0, 10_000).map(lambda s: random_batch(np.random.default_rng(s)))
NAMES = ("recentred", "terminal_plain", "signed", "mixed")


def test_the_generated_table_says_what_each_keeps():
    rows = {r["rule"]: r for r in comparison({n: RULES[n] for n in NAMES})}
    got = {n: (r["conserves"], r["sign_safe"], r["needs_outcome"]) for n, r in rows.items()}
    assert got == {
        "recentred": ("no", False, False),
        "terminal_plain": ("rollout", True, False),
        "signed": ("rollout", False, False),
        "mixed": ("rollout", True, False),
    }
    assert {r["calls_per_rollout"] for r in rows.values()} == {3.33}


@settings(max_examples=100, deadline=None)
@given(batches)
def test_terminal_plain_is_dracos_option_and_leaves_the_last_step_alone(b):
    a = terminal_plain(b)
    np.testing.assert_allclose(a, draco_rule(b, terminal="plain"), rtol=1e-9, atol=1e-12)
    last = b.live_GS.sum(axis=1) - 1
    np.testing.assert_array_equal(a[np.arange(len(b)), last], b.advantage())
    assert "rollout" in conserves(terminal_plain, b, "rubric")
    assert sign_safe(terminal_plain, b, "rubric")


@settings(max_examples=100, deadline=None)
@given(batches, st.floats(0, 5))
def test_signed_is_dracos_option_and_conserves_the_push(b, scale):
    a = signed_rule(b, scale=scale)
    want = draco_rule(b, weights="signed", signed_scale=scale)
    np.testing.assert_allclose(a, want, rtol=1e-9, atol=1e-9)
    assert "rollout" in conserves(signed_rule, b, "rubric")
    assert sign_safe(lambda x: signed_rule(x, scale=1.0), b, "rubric")


@settings(max_examples=100, deadline=None)
@given(batches)
def test_recentred_leaves_no_type_a_push(b):
    a, n = recentred(b), b.tokens_GS
    for g in np.unique(b.group_G):
        for kind in np.unique(b.kind_GS):
            at = (b.group_G == g)[:, None] & (b.kind_GS == kind) & b.live_GS
            np.testing.assert_allclose((n * a)[at].sum(), 0, atol=1e-8)
            if at.sum() == 1:
                assert a[at] == 0
    np.testing.assert_allclose(recentre(b, a), a, atol=1e-12)
    shifted = draco_rule(b) + np.where(b.kind_GS == "read", 3.0, 0.0)
    np.testing.assert_allclose(recentre(b, shifted), a, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(batches, st.floats(0, 1))
def test_mixed_is_linear_between_grpo_and_the_rule(b, w):
    want = (1 - w) * grpo(b) + w * draco_rule(b)
    np.testing.assert_allclose(mixed(b, weight=w), want, atol=1e-9)
    np.testing.assert_allclose(mixed(b, weight=w), draco_rule(b, mix=w), atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(batches)
def test_shares_by_token_weight_conserve_and_ignore_no_length(b):
    def rule(x):
        return draco_rule(x, length="token")

    assert "rollout" in conserves(rule, b, "rubric")
    assert sign_safe(rule, b, "rubric")


def test_by_hand():
    b = CreditBatch(
        [[10, 30]], advantage_G=[1.0], pass_GS=[[1, 1]], fail_GS=[[0, 1]], kind_GS=[["a", "b"]]
    )
    # Weights 1 and 1/2: tokens claim 40 * w / (10 * 1 + 30 / 2), whatever their step's length.
    np.testing.assert_allclose(draco_rule(b, length="token"), [[1.6, 0.8]])
    np.testing.assert_allclose(terminal_plain(b), [[1.0, 1.0]])
    # Mean quality 3/4: shares (1 + 2 * 1/4) / 2 and (1 - 2 * 1/4) / 2 of 40.
    np.testing.assert_allclose(signed_rule(b), [[3.0, 1 / 3]])
    np.testing.assert_allclose(mixed(b, weight=0.5), [[0.5 + 4 / 3, 0.5 + 2 / 9]])
    assert recentred(b).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda b: mixed(b, weight=1.5), r"want weight a finite number in \[0, 1\]"),
        (lambda b: mixed(b, rule="x"), "want rule in"),
        (lambda b: recentred(b, rule="x"), "want rule in"),
        (lambda b: signed_rule(b, scale=-1), "want scale"),
        (lambda b: draco_rule(b, length="x"), "want length in"),
        (lambda b: recentre(b, [[1.0]]), "want credit_GS of shape"),
    ],
)
def test_errors(call, text):
    with pytest.raises(CreditError, match=text):
        call(random_batch(np.random.default_rng(0)))
