"""Judging costs: the published example to its digits, call counts, and what must hold for any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricnb.errors import CreditError
from rubricnb.metrics import cost_model as m


@pytest.mark.parametrize(("name", "w"), [("A", m.EXAMPLE_A), ("B", m.EXAMPLE_B)])
def test_published_example(name, w):
    got = [round(m.published_ratio(f(w)), 2) for f in (m.pointwise, m.tournament_published)]
    assert tuple(got) == m.PUBLISHED[name] == {"A": (2.76, 9.65), "B": (2.69, 9.41)}[name]


def test_published_totals():
    a, b = m.pointwise(m.EXAMPLE_A), m.tournament_published(m.EXAMPLE_A)
    assert (a.prompt + a.completion) / a.calls == 24_800
    assert (round(a.tokens / 1e6, 1), round(b.tokens / 1e6, 1)) == (12.7, 44.4)
    assert (round(a.policy / 1e6, 1), round(a.ratio, 3), round(b.ratio, 3)) == (4.6, 2.756, 9.644)
    c, d = m.pointwise(m.EXAMPLE_B), m.tournament_published(m.EXAMPLE_B)
    assert (round(c.tokens / 1e6, 1), round(d.tokens / 1e6, 1)) == (51.6, 180.6)
    many = m.Workload(trajectory=100_000, policy=37_500, steps=1000)
    assert f"{m.tournament_published(many).tokens:.3e}" == "1.806e+11"
    assert m.pointwise(many).policy == 1.92e10


def test_corrected_pair():
    c = m.tournament(m.EXAMPLE_A)
    assert c.tokens / c.calls == 49_300
    assert (round(c.tokens / 1e6, 1), round(c.ratio, 1)) == (88.3, 19.2)
    assert m.tournament(m.EXAMPLE_A, both_orders=True).tokens == 2 * c.tokens


@pytest.mark.parametrize(
    ("arm", "votes", "calls"),
    [
        ("static rubric", 1, 6),
        ("static rubric + step credit", 1, 12),
        ("dynamic rubric", 1, 14),
        ("dynamic rubric + step credit", 1, 20),
        ("dynamic rubric + step credit", 3, 32),
    ],
)
def test_calls_of_each_arm(arm, votes, calls):
    w = m.Workload(groups=1, rollouts=6)
    assert m.total(m.phases(w, arm, votes)).calls == calls


def test_full_reads():
    w = m.Workload(groups=1, rollouts=6)
    assert m.total(m.phases(w)).full_reads == 18
    assert m.pointwise(w).full_reads == 6
    assert m.tournament(w).full_reads == 30


works = st.builds(
    m.Workload,
    groups=st.integers(1, 50),
    rollouts=st.integers(2, 12),
    trajectory=st.integers(1, 10**6),
    policy=st.integers(1, 10**5),
    rubric=st.integers(0, 2000),
    score=st.integers(0, 2000),
)


@given(works, st.integers(1, 5))
def test_laws(w, votes):
    assert m.tournament_published(w).tokens == pytest.approx(
        (w.rollouts - 1) / 2 * m.pointwise(w).tokens
    )
    for c in m.compare(w, votes=votes).values():
        assert 0 <= c.cached <= c.prompt
        assert c.effective(1.0) == pytest.approx(c.tokens)
        assert c.effective(0.0) <= c.effective(0.5) <= c.tokens
    parts = m.phases(w, votes=votes)
    assert m.total(parts).tokens == pytest.approx(sum(p.tokens for p in parts.values()))
    assert m.total(parts).policy == w.groups * w.rollouts * w.policy


def test_errors_name_the_field():
    with pytest.raises(CreditError, match="want rollouts >= 2; got 1"):
        m.Workload(rollouts=1)
    with pytest.raises(CreditError, match="want an arm of"):
        m.phases(m.EXAMPLE_A, "no such arm")
