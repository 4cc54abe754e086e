"""Argument checks: an array with its type, shape and range, or CreditError naming the offender."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CreditError

Array = NDArray[np.float64]


def offender(name: str, array: NDArray, bad: NDArray[np.bool_], want: str) -> None:
    """Raise CreditError naming the first entry of ``array`` where ``bad`` holds, if any."""
    if bad.any():
        at = np.unravel_index(int(np.argmax(bad)), bad.shape)
        where = ", ".join(str(int(i)) for i in at)
        raise CreditError(f"want {want}; got {name}[{where}] = {array[at]}")


def as_floats(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> Array:
    """The value as float64 with that shape (None: any length), or CreditError."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise CreditError(f"want {name} as a rectangular array of numbers; got {e}") from None
    check_shape(name, array, shape)
    return array


def check_shape(name: str, array: NDArray, shape: tuple[int | None, ...]) -> None:
    """Raise CreditError unless the array has that shape (None: any length)."""
    fits = array.ndim == len(shape) and all(
        w is None or w == g for w, g in zip(shape, array.shape, strict=True)
    )
    if not fits:
        want = "(" + ", ".join("any" if w is None else str(w) for w in shape) + ")"
        raise CreditError(f"want {name} of shape {want}; got {array.shape}")


def as_counts(
    name: str, value: ArrayLike, shape: tuple[int | None, ...], *, keep: bool = False
) -> Array:
    """The value as finite float64 >= 0 with that shape; CreditError names the first offender.

    ``keep`` leaves an array of numbers in its own type: large ones are then converted in blocks.
    """
    if keep and isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        array = value
        check_shape(name, array, shape)
    else:
        array = as_floats(name, value, shape)
    # Two reductions instead of three masks: NaN fails both comparisons.
    if array.size and not (array.min() >= 0 and array.max() < np.inf):
        offender(name, array, ~(np.isfinite(array) & (array >= 0)), f"finite {name} >= 0")
    return array


def as_finite(
    name: str, value: ArrayLike, shape: tuple[int | None, ...], *, nan: bool = False
) -> Array:
    """The value as float64 without infinities, and without NaN unless ``nan``."""
    array = as_floats(name, value, shape)
    bad = np.isinf(array) if nan else ~np.isfinite(array)
    offender(name, array, bad, f"finite {name}" + (" or NaN where there is none" if nan else ""))
    return array


def choice(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Raise CreditError unless the option is one of the allowed values."""
    if value not in allowed:
        raise CreditError(f"want {name} in {allowed}; got {value!r}")


def number(name: str, value: float, low: float = -np.inf, high: float = np.inf) -> float:
    """The option as a finite number in [low, high], or CreditError."""
    real = isinstance(value, (int, float, np.number)) and not isinstance(value, complex)
    if not (real and np.isfinite(value) and low <= value <= high):
        raise CreditError(f"want {name} a finite number in [{low}, {high}]; got {value!r}")
    return float(value)
