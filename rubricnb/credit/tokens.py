"""From credit by step to credit by token, in the layout that a trainer holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CreditError
from .common import as_floats, check_shape, offender

BLOCK = 128  # Rollouts at a time: their temporaries stay in the cache.


def per_token(
    credit_GS: ArrayLike, step_GT: ArrayLike, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return the credit of every token, from the credit of its step.

        out[g, t] = credit[g, step[g, t] - 1];   0 where step[g, t] = 0 (gap, echo, padding)

    Args:
        credit_GS: (G, S) per-token credit of each step.
        step_GT: (G, T) int, the 1-based step that a token belongs to, 0 for none. Small types
            (uint8, int16) are read faster than int64.
        out: (G, T) C-contiguous float32 to write to; a new array by default.
    Returns:
        (G, T) float32, unitless.
    Raises:
        CreditError: a step number is not in 0..S, or a shape is wrong.

    >>> per_token([[1.5, 0.75]], [[1, 1, 0, 2, 2, 2, 2, 0]]).tolist()
    [[1.5, 1.5, 0.0, 0.75, 0.75, 0.75, 0.75, 0.0]]
    """
    credit = as_floats("credit_GS", credit_GS, (None, None))
    step = np.ascontiguousarray(step_GT)
    check_shape("step_GT", step, (len(credit), None))
    G, S = credit.shape
    if step.size and (step.min() < 0 or step.max() > S):
        offender("step_GT", step, (step < 0) | (step > S), f"steps 1..{S}, or 0 for none")
    if out is None:
        out = np.empty(step.shape, dtype=np.float32)
    elif out.shape != step.shape or out.dtype != np.float32 or not out.flags.c_contiguous:
        raise CreditError(
            f"want out C-contiguous, float32, of shape {step.shape}; got {out.dtype} {out.shape}"
        )
    table = np.zeros((G, S + 1), dtype=np.float32)
    table[:, 1:] = credit
    if step.size:
        for i in range(0, G, BLOCK):
            _write_runs(table[i : i + BLOCK], step[i : i + BLOCK], out[i : i + BLOCK])
    return out


def _write_runs(table: NDArray, step: NDArray, out: NDArray) -> None:
    """Write each run of equal steps at once: half the time of an index a token."""
    at = _run_starts(step)
    values = table.reshape(-1)[at // step.shape[1] * table.shape[1] + step.reshape(-1)[at]]
    out.reshape(-1)[:] = np.repeat(values, np.diff(at, append=step.size))


def _run_starts(step: NDArray) -> NDArray[np.intp]:
    """Flat positions at which a row begins or a step differs from the one before it.

    They are few: eight flags are looked at together, as one word, and only words that hold any
    are looked into.
    """
    size = step.size
    flags = np.zeros(-(-size // 8) * 8, dtype=bool)
    first = flags[:size].reshape(step.shape)
    first[:, 0] = True
    np.not_equal(step[:, 1:], step[:, :-1], out=first[:, 1:])
    packed = flags.view(np.uint64)
    words = np.flatnonzero(packed != 0)
    inside = np.flatnonzero(packed[words].view(np.bool_))
    return words[inside >> 3] * 8 + (inside & 7)
