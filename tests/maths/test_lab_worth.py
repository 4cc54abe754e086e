"""Rank association over few cells: by hand, invariances, and a p-value that keeps its promise."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from rubricnb.errors import CreditError
from rubricnb.metrics.association import rank_association
from rubricnb.metrics.exact import clopper_pearson


def test_p_is_the_share_of_orders_by_hand():
    x, y = [0.1, 0.2, 0.3, 0.4, 0.5], [2.0, 1.0, 3.0, 5.0, 4.0]
    a = rank_association(x, y, ["m"] * 5)
    assert a.rho == pytest.approx(stats.spearmanr(x, y).statistic)
    rhos = [stats.spearmanr(x, o).statistic for o in permutations(y)]
    assert a.p == pytest.approx(np.mean([abs(r) >= abs(a.rho) - 1e-12 for r in rhos]))
    assert (a.n, a.orders) == (5, 120)


def test_a_blocks_own_level_is_no_association():
    """A policy that gains more and whose judge is better says nothing of its arms."""
    rng = np.random.default_rng(0)
    x, y = rng.random(12), rng.random(12)
    block = np.repeat([0, 1, 2], 4)
    shifted = rank_association(x + 10 * block, y + 10 * block, block)
    plain = rank_association(x, y, block)
    assert shifted.rho == pytest.approx(plain.rho)
    assert shifted.p == pytest.approx(plain.p)
    assert stats.spearmanr(x + 10 * block, y + 10 * block).statistic > 0.8  # what it protects from


def test_what_cannot_be_compared_is_left_out():
    a = rank_association([1, 2, 3, 9, np.nan], [1, 2, 3, 9, 1], ["a", "a", "a", "alone", "a"])
    assert (a.n, a.orders, a.rho) == (3, 6, 1.0)
    assert a.p == pytest.approx(2 / 6)
    none = rank_association([1], [1], ["a"])
    assert none.n == 0
    assert np.isnan(none.rho)
    assert np.isnan(rank_association([1, 1, 1], [1, 2, 3], ["a"] * 3).rho)
    with pytest.raises(CreditError, match="one length"):
        rank_association([1, 2], [1], ["a", "a"])


@pytest.mark.parametrize("most", [10_000, 200])
def test_p_keeps_its_level_without_a_link_and_finds_one(most):
    rng = np.random.default_rng(1)
    runs, small = 300, 0
    block = ["a"] * 5 + ["b"] * 3
    for i in range(runs):
        level = np.repeat(rng.normal(size=2), [5, 3])  # blocks differ; cells within do not
        x, y = rng.normal(size=8) + level, rng.normal(size=8) + level
        small += rank_association(x, y, block, most=most, seed=i).p <= 0.1
    assert clopper_pearson(small, runs, level=0.999).low <= 0.1
    x = np.arange(8.0)
    assert rank_association(x, x, block, most=most).p < 0.02
