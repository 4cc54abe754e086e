"""What k votes can gain: unanimity under errors that repeat from call to call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..errors import CreditError


def all_err(rate: float, k: int, correlation: float) -> float:
    """Return the chance that k calls on one item all err, at a given correlation between them.

        prod_{i<k} (a + i) / (a + b + i),  a = rate (1 - c) / c,  b = (1 - rate) (1 - c) / c

    Beta-binomial: each item has its own error rate, Beta distributed, with mean ``rate`` and
    intra-class correlation c. Law: rate^k at c = 0, rate at c = 1, rising in c between.

    Args:
        rate: error rate of one call, in [0, 1].
        k: number of calls, >= 1.
        correlation: of two calls' errors on the same item, in [0, 1].
    Raises:
        CreditError: for an argument out of range.

    >>> round(all_err(0.3, 3, 0.0), 6), all_err(0.3, 3, 1.0)
    (0.027, 0.3)
    """
    if not 0 <= rate <= 1 or k < 1 or not 0 <= correlation <= 1:
        raise CreditError(
            f"want rate and correlation in [0, 1] and k >= 1; got {rate}, {correlation}, {k}"
        )
    # Multiplied through by c / (1 - c), so that both ends are ordinary values.
    i = np.arange(k)
    c = correlation
    top = rate * (1 - c) + i * c
    bottom = (1 - c) + i * c
    top[0], bottom[0] = rate, 1.0
    return float(np.prod(top / bottom))


@dataclass(frozen=True, slots=True)
class VoteRates:
    """Error rates of k-of-k unanimity: each a share in [0, 1]."""

    false_pass: float
    false_fail: float


def unanimity_rates(
    false_pass: float, false_fail: float, k: int, correlation: float, fail_correlation: float = 0.0
) -> VoteRates:
    """Return false-pass and false-fail rate of "pass only if all k calls pass".

        false pass_k = P(all k err | fail);  false fail_k = 1 - P(no call errs | pass)

    Law: k = 1 changes nothing; false pass never rises with k and false fail never falls. At
    correlation 1 votes gain nothing, whatever k.

    Args:
        false_pass: of one call, in [0, 1].
        false_fail: of one call, in [0, 1].
        k: number of calls, >= 1.
        correlation: of two calls' errors on an item that should fail, in [0, 1].
        fail_correlation: the same on an item that should pass.

    >>> round(unanimity_rates(0.304, 0.0, 3, 0.0).false_pass, 4)
    0.0281
    """
    return VoteRates(
        all_err(false_pass, k, correlation),
        float(1 - all_err(1 - false_fail, k, fail_correlation)),
    )


def error_correlation(error_NK: ArrayLike) -> float:
    """Return how correlated the errors of repeated calls on the same item are.

        c = (mean over items of the share of call pairs that both err - rate^2) / (rate (1 - rate))

    The intra-class correlation of the error indicator, estimated over all pairs; 0 for
    independent calls, 1 for a judge that errs on the same items every time; slightly negative
    values are sampling noise. NaN where the calls always or never err.

    Args:
        error_NK: (N, K >= 2) of 0 and 1, NaN where a call gave no answer.
    Raises:
        CreditError: for another shape or value.

    >>> error_correlation([[1, 1], [0, 0], [1, 1], [0, 0]])
    1.0
    """
    e = np.asarray(error_NK, dtype=float)
    if e.ndim != 2 or e.shape[1] < 2 or not (np.isin(e, (0, 1)) | np.isnan(e)).all():
        raise CreditError(f"want (N, K >= 2) of 0, 1 or NaN; got shape {e.shape}")
    known = (~np.isnan(e)).sum(axis=1)
    e, known = e[known >= 2], known[known >= 2]
    if known.size == 0:
        return float("nan")
    errs = np.nansum(e, axis=1)
    rate = float(errs.sum() / known.sum())
    if rate in (0.0, 1.0):
        return float("nan")
    pairs = known * (known - 1)
    both = float((errs * (errs - 1)).sum() / pairs.sum())
    return float((both - rate**2) / (rate * (1 - rate)))
