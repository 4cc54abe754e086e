"""Cited steps: valid ones kept, the rest counted, nothing guessed and nothing allocated."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricnb.judge import read_steps

CASES = [
    ([99], (), 1),
    ([-1], (), 1),
    ([0], (), 1),
    (["3"], (3,), 0),
    (["3-5"], (3, 4, 5), 0),
    (["S3\u2013S5"], (3, 4, 5), 0),
    (["S3 \u2014 5"], (3, 4, 5), 0),
    (["steps 3 to 5"], (3, 4, 5), 0),
    ("3, 5", (3, 5), 0),
    ("3 5", (3, 5), 0),
    ("S3 and S5", (3, 5), 0),
    ("[3, 5]", (3, 5), 0),
    ("Step 2; step #4", (2, 4), 0),
    (["5-3"], (3, 4, 5), 0),
    (4, (4,), 0),
    (3.0, (3,), 0),
    (["3.0"], (3,), 0),
    (3.5, (), 1),
    ([True, False], (), 2),
    ([float("nan"), float("inf"), -float("inf"), 1e300], (), 4),
    (["\uff13"], (), 1),  # a full-width 3
    (["\u0663"], (), 1),  # an Arabic-Indic 3
    (["\u00b2", "IV", "first"], (), 3),
    ([2, "2", 2.0, "S2", "2-2"], (2,), 0),
    (["5-9"], (5, 6), 3),
    (["0-2"], (1, 2), 1),
    (["7-9"], (), 3),
    (["-3-2"], (), 1),
    (None, (), 0),
    ([], (), 0),
    ("", (), 0),
    ([None, "", " "], (), 0),
    ([[1, 2], [3]], (1, 2, 3), 0),
    ([{"step": 3}], (), 1),
    ({"step": 3}, (), 1),
    (b"3", (), 1),
]


@pytest.mark.parametrize(("value", "steps", "dropped"), CASES, ids=lambda v: repr(v)[:30])
def test_kinds_of_citations(value, steps, dropped):
    assert read_steps(value, 6) == (steps, dropped)


def test_huge_ranges_and_numbers_cost_nothing():
    tracemalloc.start()
    steps, dropped = read_steps(["1-1000000000000", "9" * 10_000, f"2-{'9' * 10_000}"], 6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert steps == (1, 2, 3, 4, 5, 6)
    assert dropped >= 10**12 - 6
    assert peak < 1_000_000


def test_a_rollout_without_steps_can_be_cited_nowhere():
    assert read_steps([1, "1-3"], 0) == ((), 4)


def test_deep_nesting_is_dropped_and_not_followed():
    value = [1]
    for _ in range(5000):
        value = [value]
    assert read_steps(value, 6) == ((), 1)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.from_regex(r"\A *[Ss]?[0-9]{1,4} *[-\u2013] *[Ss]?[0-9]{1,4} *\Z"),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@given(JUNK, st.integers(-2, 40))
def test_whatever_is_cited_the_result_is_valid(value, n):
    steps, dropped = read_steps(value, n)
    assert list(steps) == sorted(set(steps))
    assert all(type(s) is int and 1 <= s <= n for s in steps)
    assert type(dropped) is int
    assert dropped >= 0


@given(st.lists(st.integers(-5, 12), max_size=20), st.integers(0, 8))
def test_of_integers_every_one_is_kept_or_counted(value, n):
    inside = {v for v in value if 1 <= v <= n}
    assert read_steps(value, n) == (
        tuple(sorted(inside)),
        sum(not 1 <= v <= n for v in value),
    )


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 30), st.sampled_from("-\u2013\u2014"))
def test_a_range_is_its_integers(a, b, n, dash):
    low, high = min(a, b), max(a, b)
    assert read_steps(f"S{a}{dash}S{b}", n) == read_steps(list(range(low, high + 1)), n)
