"""Success rates of repeated runs: pass^k, pass@k, task and scenario goal completion.

Axes: N tasks (or scenarios), R independent runs of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import comb

from ..errors import CreditError


def check_success(success_NR: ArrayLike) -> NDArray[np.float64]:
    """Return the (N, R) array of 0 and 1, or raise CreditError naming the first offender."""
    s = np.asarray(success_NR, dtype=float)
    if s.ndim != 2 or 0 in s.shape:
        raise CreditError(f"want success of shape (N, R), both >= 1; got shape {s.shape}")
    bad = ~np.isin(s, (0.0, 1.0))
    if bad.any():
        n, r = np.argwhere(bad)[0]
        raise CreditError(f"want success of 0 or 1; got {s[n, r]} at task {n}, run {r}")
    return s


def _counts(success_NR: ArrayLike, k: int) -> tuple[NDArray[np.float64], int]:
    s = check_success(success_NR)
    if not 1 <= k <= s.shape[1]:
        raise CreditError(f"want 1 <= k <= {s.shape[1]}, the number of runs; got k = {k}")
    return s.sum(axis=1), s.shape[1]


def pass_hat_k_tasks(success_NR: ArrayLike, k: int) -> NDArray[np.float64]:
    """Return C(c, k) / C(R, k) of each task, (N,): what ``pass_hat_k`` averages.

    >>> pass_hat_k_tasks([[1, 1, 0], [1, 1, 1]], 2)
    array([0.33333333, 1.        ])
    """
    c, runs = _counts(success_NR, k)
    return comb(c, k) / comb(runs, k)


def pass_at_k_tasks(success_NR: ArrayLike, k: int) -> NDArray[np.float64]:
    """Return 1 - C(R - c, k) / C(R, k) of each task, (N,): what ``pass_at_k`` averages.

    >>> pass_at_k_tasks([[1, 0, 0], [0, 0, 0]], 2)
    array([0.66666667, 0.        ])
    """
    c, runs = _counts(success_NR, k)
    return 1 - comb(runs - c, k) / comb(runs, k)


def pass_hat_k(success_NR: ArrayLike, k: int) -> float:
    """Return pass^k: the chance that k runs of a task, drawn without replacement, all succeed.

        pass^k = mean over tasks of C(c, k) / C(R, k),  c = successes of the task in R runs

    Law: unbiased for E[p^k], never rises with k, and equals the mean success at k = 1.

    Args:
        success_NR: (N, R), 0 or 1. Every task of the split has a row; unsolved ones count as 0.
        k: 1 to R.
    Returns:
        A share in [0, 1].
    Raises:
        CreditError: for another shape, another value or a k outside of 1 to R.
    Reference:
        Yao et al., tau-bench (2024), section 4; DRACO, arXiv 2609.04094, evaluation set-up.

    >>> pass_hat_k([[1, 1, 0], [1, 1, 1]], 2)
    0.6666666666666666
    """
    return float(pass_hat_k_tasks(success_NR, k).mean())


def pass_at_k(success_NR: ArrayLike, k: int) -> float:
    """Return pass@k: the chance that at least one of k runs of a task succeeds.

        pass@k = mean over tasks of 1 - C(R - c, k) / C(R, k)

    Law: unbiased, never falls with k, equals pass^k at k = 1, and
    pass@k(success) = 1 - pass^k(1 - success).

    Args:
        success_NR: (N, R), 0 or 1.
        k: 1 to R.
    Returns:
        A share in [0, 1].
    Raises:
        CreditError: as in ``pass_hat_k``.
    Reference:
        Chen et al., Evaluating large language models trained on code (2021), Eq. 1.

    >>> pass_at_k([[1, 0, 0], [0, 0, 0]], 2)
    0.33333333333333337
    """
    return float(pass_at_k_tasks(success_NR, k).mean())


def scenario_success(
    success_NR: ArrayLike, scenario_N: Sequence[object]
) -> tuple[NDArray[np.float64], list[object]]:
    """Return, per scenario and run, whether every task of the scenario succeeded in that run.

        scenario[c, r] = min over tasks n of scenario c of success[n, r]

    Apply ``pass_hat_k`` or ``pass_at_k`` to it for SGC; at k = 1 the mean is SGC. A scenario's
    share never exceeds that of its worst task.

    Args:
        success_NR: (N, R), 0 or 1.
        scenario_N: the scenario of each task.
    Returns:
        (C, R) of 0 and 1, and the C scenarios in order of first appearance.
    Raises:
        CreditError: as in ``pass_hat_k``, or where the lengths differ.
    Reference:
        Trivedi et al., AppWorld (2024): scenario goal completion.

    >>> scenario_success([[1, 1], [0, 1], [1, 0]], ["a", "a", "b"])
    (array([[0., 1.],
           [1., 0.]]), ['a', 'b'])
    """
    s = check_success(success_NR)
    if len(scenario_N) != len(s):
        raise CreditError(f"want one scenario per task, {len(s)}; got {len(scenario_N)}")
    rows: dict[object, int] = {}
    index = np.array([rows.setdefault(x, len(rows)) for x in scenario_N])
    out = np.ones((len(rows), s.shape[1]))
    np.minimum.at(out, index, s)
    return out, list(rows)


def retention(p1: float, pk: float) -> float:
    """Return pass^k / pass^1: how much of what is solved once is solved every time.

    NaN where pass^1 is 0, because nothing was there to keep. In [0, 1] for a pass^k of the same
    runs.

    Args:
        p1: pass^1, in [0, 1].
        pk: pass^k, in [0, p1].
    Raises:
        CreditError: where pk exceeds p1, which no set of runs can give.

    >>> retention(0.8, 0.6)
    0.7499999999999999
    """
    if pk > p1 + 1e-12:
        raise CreditError(f"want pass^k <= pass^1; got {pk} > {p1}")
    return float(pk / p1) if p1 > 0 else float("nan")
