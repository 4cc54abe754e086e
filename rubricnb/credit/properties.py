"""The seven properties of DRACO's credit, each as a check that a wrong rule fails.

The exact conditions matter: equal shares and length-free shares hold outside of the two fallbacks
only, and weights order totals, not credits per token.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .common import Array

Draco = Callable[[Array, Array, Array, Array], Array]


def violations(rule: Draco, A: Array, p: Array, f: Array, n: Array, *, tol: float = 1e-9) -> list:
    """Return the names of the properties that a DRACO-like rule breaks on this input.

        P1 sum_j n_j a_j = A N                         always
        P2 equal weights -> equal totals A N / M       outside the fallbacks
        P3 a_j is 0 or has the sign of A               always
        P4 larger weight -> no smaller push |n_j a_j|  outside the fallbacks
        P5 a step's share does not depend on its n_j   outside the fallbacks
        P6 a_j / A does not depend on A's scale        always
        P7 a(-A; f, p) = -a(A; p, f)                   always, A != 0

    Also "padding": steps without tokens get exactly 0.

    Args:
        rule: (advantage_G, pass_GS, fail_GS, tokens_GS) -> (G, S).
        A, p, f, n: its arguments, float arrays.
        tol: relative tolerance.
    Returns:
        sorted names; empty where every property holds.
    Reference: DRACO (arXiv 2609.04094) App. E.9, with the exact conditions.

    >>> plain = lambda A, p, f, n: A[:, None] * (n > 0)
    >>> one = np.ones((1, 2))
    >>> violations(plain, np.array([1.0]), one, 0 * one, np.array([[2.0, 4.0]]))
    ['P2', 'P5']
    """
    a, live, w, regular = rule(A, p, f, n), n > 0, *_weights(A, p, f, n)
    N = n.sum(axis=1)
    big = np.abs(A) * N * tol + 1e-300
    broken = []

    def check(name: str, holds: bool) -> None:
        if not holds:
            broken.append(name)

    check("padding", bool((a[~live] == 0).all()))
    check("P1", bool((np.abs((n * a).sum(axis=1) - A * N) <= big).all()))
    check("P3", bool((a * A[:, None] >= 0).all()))
    check("P6", np.allclose(rule(A * 3.5, p, f, n), a * 3.5, rtol=tol, atol=0))
    flip = rule(-A, f, p, n)
    check("P7", np.allclose(flip[A != 0], -a[A != 0], rtol=tol, atol=1e-300))
    _check_totals(check, a, A, n, w, live, regular, big)
    longer = n.copy()
    longer[:, 0] *= 7
    share, other = (_share(x, A, m) for x, m in ((a, n), (rule(A, p, f, longer), longer)))
    check("P5", np.allclose(share[regular], other[regular], rtol=1e-7, atol=1e-9))
    return sorted(broken)


def _weights(A: Array, p: Array, f: Array, n: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Weights by the definition, rollout by rollout, and which rollouts are outside fallbacks."""
    w, regular = np.zeros(n.shape), np.zeros(len(n), dtype=bool)
    for g in range(len(n)):
        steps = [j for j in range(n.shape[1]) if n[g, j] > 0]
        Q = {j: p[g, j] / (p[g, j] + f[g, j]) for j in steps if p[g, j] + f[g, j] > 0}
        for j in steps:
            q = Q.get(j, sum(Q.values()) / len(Q) if Q else 0.0)
            w[g, j] = q if A[g] >= 0 else 1 - q
        regular[g] = bool(Q) and w[g].sum() > 0
    return w, regular


def _share(a: Array, A: Array, n: Array) -> Array:
    """n_j a_j / (A N), 0 where A N is."""
    push = (A * n.sum(axis=1))[:, None]
    return np.divide(n * a, push, out=np.zeros_like(a), where=push != 0)


def _check_totals(check, a, A, n, w, live, regular, big) -> None:
    """P2 and P4: the totals of the steps against their weights."""
    total, equal, ordered = n * a, True, True
    for g in np.flatnonzero(regular):
        t, x = total[g, live[g]], w[g, live[g]]
        if x.max() - x.min() <= 1e-12:
            equal &= bool((np.abs(t - A[g] * n[g].sum() / len(t)) <= big[g]).all())
        push = np.abs(t)[np.argsort(x, kind="stable")]
        ordered &= bool((np.diff(push) >= -big[g] - 1e-9 * np.abs(A[g]) * n[g].sum()).all())
    check("P2", equal)
    check("P4", ordered)
