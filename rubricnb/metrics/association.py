"""Whether one figure goes with another over few cells, such as arms: rank correlation and chance.

Cells are compared within their block alone (arms of one policy), and the chance of such a
correlation without any link comes from reordering the cells within their blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import factorial, prod

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from ..errors import CreditError
from .intervals import cluster_rows


@dataclass(frozen=True, slots=True)
class Association:
    """A rank correlation over cells.

    Args:
        rho: Spearman's rho of the values less their block's mean, NaN where it is not defined.
        p: two-sided, from reordering; NaN with rho. It cannot be below 1 over the orders.
        n: cells used; cells without a value, or alone in their block, are left out.
        orders: different orders of the cells within blocks (each as likely without any link).
    """

    rho: float
    p: float
    n: int
    orders: int


def rank_association(
    x_N: ArrayLike,
    y_N: ArrayLike,
    block_N: Sequence[object],
    *,
    most: int = 10_000,
    seed: int = 0,
) -> Association:
    """Return Spearman's rho within blocks, with an exact or sampled permutation p-value.

        rho = Spearman(x - mean of x in its block, y - mean of y in its block)
        p   = share of the orders of y within blocks whose |rho| is at least as large

    Law: adding a constant to a block's x or y changes nothing; without any link p is at most u
    with probability at most u.

    Args:
        x_N, y_N: (N,), NaN where unknown.
        block_N: (N,) what is compared within, such as the policy.
        most: orders up to which all are tried; beyond, so many are drawn.
        seed: of the drawn orders.
    Raises:
        CreditError: for lengths that differ.

    >>> a = rank_association([1, 2, 3, 4], [1, 2, 3, 4], ["a"] * 4)
    >>> a.rho, round(a.p, 3), a.orders
    (1.0, 0.083, 24)
    """
    x, y = np.asarray(x_N, dtype=float), np.asarray(y_N, dtype=float)
    if x.ndim != 1 or x.shape != y.shape or x.size != len(block_N):
        raise CreditError(
            f"want x, y and blocks of one length; got {x.shape}, {y.shape}, {len(block_N)}"
        )
    known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    blocks = [known[r] for r in cluster_rows([block_N[i] for i in known]) if len(r) > 1]
    if not blocks:
        return Association(float("nan"), float("nan"), 0, 1)
    a, b = (np.concatenate([v[r] - v[r].mean() for r in blocks]) for v in (x, y))
    sizes = [len(r) for r in blocks]
    orders = prod(factorial(s) for s in sizes)
    if np.ptp(a) < 1e-12 or np.ptp(b) < 1e-12:
        return Association(float("nan"), float("nan"), a.size, orders)
    # Ranks once: reordering within blocks moves ranks, it does not change them.
    ra, rb = stats.rankdata(a.round(12)), stats.rankdata(b.round(12))
    rho = _pearson(ra, rb)
    tried = _orders(sizes, orders, most, seed)
    extreme = sum(abs(_pearson(ra, rb[o])) >= abs(rho) - 1e-12 for o in tried)
    # A drawn set of orders counts the one observed as well, which keeps p valid.
    p = extreme / orders if orders <= most else (extreme + 1) / (most + 1)
    return Association(float(rho), float(p), int(a.size), orders)


def _pearson(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def _orders(sizes: Sequence[int], orders: int, most: int, seed: int):
    """Yield row orders that move cells within their block only: all of them, or ``most`` drawn."""
    starts = np.cumsum([0, *sizes[:-1]])
    if orders <= most:
        for parts in product(
            *(permutations(range(s, s + k)) for s, k in zip(starts, sizes, strict=True))
        ):
            yield np.concatenate([np.array(p) for p in parts])
        return
    rng = np.random.default_rng(seed)
    for _ in range(most):
        yield np.concatenate([s + rng.permutation(k) for s, k in zip(starts, sizes, strict=True)])
