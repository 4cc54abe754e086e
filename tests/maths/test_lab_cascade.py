"""Cascades: what is certified holds, what cannot be is not claimed, and the accounts add up."""

import numpy as np
import pytest

from rubricnb.errors import CreditError
from rubricnb.metrics.cascade import Tier, cascade, choose_tau, fit_head, route
from rubricnb.metrics.exact import clopper_pearson


def two_tiers(rng, n, *, known=0.5, easy=0.99, hard=0.6, top=0.95, told=True):
    """A cheap judge that is right on easy items and says so, and a dear one that mostly is."""
    y = rng.integers(0, 2, n).astype(float)
    is_easy = rng.random(n) < known
    right = rng.random(n) < np.where(is_easy, easy, hard)
    hint = (is_easy if told else rng.random(n) < known) + rng.normal(0, 0.1, n)
    low = Tier("cheap", np.where(right, y, 1 - y), hint[:, None], 1.0)
    high = Tier("dear", np.where(rng.random(n) < top, y, 1 - y), np.zeros((n, 1)), 10.0)
    return [low, high], y


def thirds(n):
    return tuple(np.array_split(np.arange(n), 3))


def test_certifies_and_saves():
    tiers, y = two_tiers(np.random.default_rng(0), 6000, easy=0.995)
    a = cascade(tiers, y, thirds(6000), risk=0.05, looks=2)
    assert a.certified
    assert a.bound.high <= 0.05
    assert 0.4 < a.coverage < 0.6
    assert a.compute == pytest.approx((1 * 1.0 + (1 - a.coverage) * 10) / 10)
    assert a.accuracy > a.top_accuracy - 0.02


def test_refuses_what_it_cannot_certify():
    tiers, y = two_tiers(np.random.default_rng(1), 3000, easy=0.8, told=False)
    a = cascade(tiers, y, thirds(3000), risk=0.05)
    assert not a.certified
    assert (a.coverage, a.compute) == (0.0, 1.0)
    assert a.accuracy == a.top_accuracy
    assert "no threshold keeps the error within 5.0%" in a.why


def test_too_few_items_certify_nothing():
    """59 items without an error are the fewest that bound 5 % at 95 %."""
    tiers, y = two_tiers(np.random.default_rng(2), 120, easy=1.0)
    assert not cascade(tiers, y, thirds(120), risk=0.05).certified


@pytest.mark.parametrize("looks", [1, 3])
def test_certificates_are_rarely_wrong(looks):
    """The true error among accepted items exceeds a certified risk in at most 5 % of the runs."""
    rng = np.random.default_rng(3)
    runs, false = 200, 0
    for _ in range(runs):
        # The true error of the easy half lies just above the risk: a certificate would be false.
        tiers, y = two_tiers(rng, 900, easy=0.945, hard=0.5)
        a = cascade(tiers, y, thirds(900), risk=0.05, looks=looks)
        false += a.certified and a.coverage > 0.4
    assert clopper_pearson(false, runs, level=0.999).low <= 0.05


@pytest.mark.parametrize("by_task", [False, True])
def test_certificates_over_tasks_hold_where_rollouts_of_a_task_fail_together(by_task):
    """Sixteen rollouts a task share their luck: counted singly, certificates are often wrong."""
    rng = np.random.default_rng(6)
    runs, false = 120, 0
    for _ in range(runs):
        tiers, y = two_tiers(rng, 90, known=1.0, easy=0.94, hard=0.94, told=False)
        # The true error is 6 %; the risk is 5 %, so that any certificate is false.
        tiers = [Tier(t.name, t.answer_N.repeat(16), t.features_NF.repeat(16, axis=0), t.cost)
                 for t in tiers]  # fmt: skip
        tasks = np.arange(90).repeat(16)
        parts = tuple(np.array_split(np.arange(1440), 3))
        a = cascade(tiers, y.repeat(16), parts, risk=0.05, cluster_N=tasks if by_task else None)
        false += a.certified
    found = clopper_pearson(false, runs, level=0.999)
    if by_task:
        assert found.low <= 0.05
    else:
        assert found.low > 0.05  # what counting tasks protects from


def test_no_answer_goes_up():
    tiers, y = two_tiers(np.random.default_rng(4), 900)
    gone = tiers[0].answer_N.copy()
    gone[::2] = np.nan
    tiers[0] = Tier("cheap", gone, tiers[0].features_NF, 1.0)
    at = route(tiers, [np.ones(900)], [0.0])
    assert set(at[::2]) == {1}
    assert set(at[1::2]) == {0}
    assert cascade(tiers, y, thirds(900)).shares[0] <= 0.5


def test_threshold_and_head():
    assert choose_tau([0.9, 0.8], [1, 0], 0.05) == np.inf
    c = np.r_[np.full(100, 0.9), np.full(100, 0.5)]
    wrong = np.r_[np.zeros(100), np.ones(100)]
    assert choose_tau(c, wrong, 0.05) == 0.9
    head = fit_head([[0.0], [1.0]], [1, 1])
    assert head.confidence([[5.0]])[0] == pytest.approx(0.75)
    assert fit_head([[0.0], [1.0]] * 20, [0, 1] * 20).confidence([[0.0], [1.0]]).tolist() == sorted(
        fit_head([[0.0], [1.0]] * 20, [0, 1] * 20).confidence([[0.0], [1.0]]).tolist()
    )


def test_errors():
    tiers, y = two_tiers(np.random.default_rng(5), 30)
    with pytest.raises(CreditError, match="disjoint parts"):
        cascade(tiers, y, ([0, 1], [1, 2], [3]))
    with pytest.raises(CreditError, match="want two tiers"):
        cascade(tiers[:1], y, thirds(30))


def test_a_missing_answer_is_no_wrong_answer():
    n = 300
    y = np.arange(n) % 2.0
    none = Tier("mute", np.full(n, np.nan), np.zeros((n, 1)), 1.0)
    half = Tier("half", np.where(np.arange(n) % 3, y, np.nan), np.zeros((n, 1)), 0.1)
    a = cascade([half, none], y, tuple(np.split(np.arange(n), 3)), risk=0.1)
    assert np.isnan(a.top_accuracy)
    assert a.top_unanswered == a.accuracy == 1.0
    assert a.unanswered == pytest.approx(1 / 3, abs=0.02)
