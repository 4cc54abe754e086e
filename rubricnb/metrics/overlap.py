"""Overlap of two sets of criteria under a one-to-one matching, as a judge or a person made it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from ..errors import CreditError


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much of a reference set another set holds. Shares are NaN where a set is empty."""

    matched: int
    test: int
    reference: int

    @property
    def precision(self) -> float:
        """Matched share of the set under test."""
        return self.matched / self.test if self.test else float("nan")

    @property
    def recall(self) -> float:
        """Matched share of the reference."""
        return self.matched / self.reference if self.reference else float("nan")

    def __add__(self, other: Overlap) -> Overlap:
        return Overlap(
            self.matched + other.matched, self.test + other.test, self.reference + other.reference
        )


def overlap(
    test: Sequence[Hashable],
    reference: Sequence[Hashable],
    pairs: Iterable[tuple[Hashable, Hashable]],
) -> Overlap:
    """Return precision and recall of a criteria set against a reference set, given a matching.

    Law: swapping the sets swaps precision and recall; a set against itself gives 1 and 1.
    Overlaps of several groups add with ``+`` (micro average).

    Args:
        test: ids of the set under test.
        reference: ids of the reference set.
        pairs: (test id, reference id) of the criteria that ask the same, one-to-one.
    Raises:
        CreditError: for an id that is in neither set or is matched twice.
    Reference:
        DRACO, arXiv 2609.04094, App. B.1 (a third judge makes the matching).

    >>> o = overlap(["a", "b"], ["x", "y", "z"], [("a", "z")])
    >>> o.precision, round(o.recall, 3)
    (0.5, 0.333)
    """
    pairs = list(pairs)
    for side, (name, ids) in enumerate((("test", set(test)), ("reference", set(reference)))):
        seen: set[Hashable] = set()
        for pair in pairs:
            if pair[side] not in ids or pair[side] in seen:
                what = "twice" if pair[side] in seen else "which the set does not hold"
                raise CreditError(
                    f"want a one-to-one matching; got {name} id {pair[side]!r} {what}"
                )
            seen.add(pair[side])
    return Overlap(len(pairs), len(set(test)), len(set(reference)))


def turnover(earlier: Iterable[Hashable], later: Iterable[Hashable]) -> float:
    """Return the share of ids (criteria, citations) that are not in both: 1 - Jaccard index.

    0 for equal sets, 1 for disjoint ones, NaN where both are empty; symmetric.

    >>> turnover(["a", "b"], ["b", "c"])
    0.6666666666666667
    """
    a, b = set(earlier), set(later)
    return 1 - len(a & b) / len(a | b) if a | b else float("nan")
