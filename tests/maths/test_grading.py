"""From judgements to arrays: dropout, failures, overrides, lengths, votes."""

import itertools

import numpy as np
import pytest

from rubricnb.credit import RULES, draco
from rubricnb.errors import CreditError
from rubricnb.grading import arrays, batch, unanimous
from rubricnb.rubric import Criterion, FailedJudgement, GradedGroup, Label, Rubric, Verdict
from rubricnb.trajectory import Group, Step, Task, ToolCall, Trajectory

PASS, FAIL, NA = Label.PASS, Label.FAIL, Label.NOT_APPLICABLE
TASK = Task("t", "refund the sofa")


def rollout(name, *tokens, outcome=None, closing="finish"):
    steps = [
        Step(calls=(ToolCall("read"),), tokens=n) if i < len(tokens) - 1 else
        Step(text="done", calls=(ToolCall(closing),) if closing else (), tokens=n)
        for i, n in enumerate(tokens)
    ]  # fmt: skip
    return Trajectory(name, TASK, tuple(steps), outcome=outcome)


def graded(rows, trajectories=None, failures=(), weights=None):
    trajectories = trajectories or tuple(rollout(f"r{i}", 10, 20, 30) for i in range(len(rows)))
    K = len(rows[0]) if rows else 0
    criteria = tuple(Criterion(f"c{k}", "x", weight=(weights or [1.0] * K)[k]) for k in range(K))
    full = tuple(
        tuple(
            FailedJudgement(f"c{k}", "unreadable") if cell is None
            else Verdict(f"c{k}", cell[0], steps=tuple(cell[1]), flags=tuple(cell[2:]))
            for k, cell in enumerate(row)
        )
        for row in rows
    )  # fmt: skip
    return GradedGroup(Group(TASK, tuple(trajectories)), Rubric(criteria), full, tuple(failures))


def test_counts_after_dropout():
    g = graded(
        [
            [(PASS, [1]), (FAIL, [1, 3]), (PASS, [2]), (NA, [])],
            [(PASS, [2]), (PASS, [1]), (FAIL, [3]), (NA, [])],
        ],
        weights=[1, 2, 3, 4],
    )
    x = arrays(g)
    assert x.keep_K.tolist() == [False, True, True, False]
    assert x.pass_GS.tolist() == [[0, 1, 0], [1, 0, 0]]
    assert x.fail_GS.tolist() == [[1, 0, 1], [0, 0, 1]]
    assert x.reward_G.tolist() == [0.0, 0.0]
    assert x.tokens_GS.tolist() == [[10, 20, 30]] * 2
    assert x.kind_GS.tolist() == [["read", "read", "finish"]] * 2
    assert x.unit == "tokens"
    b = x.batch()
    assert b.verdict_GK.tolist() == [[-1, 1], [1, -1]]
    assert b.weight_GK.tolist() == [[2, 3], [2, 3]]
    assert b.cite_GKS.shape == (2, 2, 3)
    everything = arrays(g, dropout=False)
    assert everything.pass_GS.tolist() == [[1, 1, 0], [1, 1, 0]]
    assert everything.reward_G.tolist() == pytest.approx([1 / 3, 1 / 3])


def test_a_failed_judgement_is_no_number():
    g = graded([[None, (FAIL, [1])], [(PASS, [1]), (PASS, [2])]])
    x = arrays(g)
    assert np.isnan(x.verdict_GK[0, 0])
    assert x.keep_K.tolist() == [False, True]  # the failed judgement is not a fail
    assert x.reward_G.tolist() == [-1, 1]
    alone = arrays(graded([[None], [(FAIL, [1])]]))
    assert np.isnan(alone.reward_G[0])
    assert alone.pass_GS[0].tolist() == [0, 0, 0]


def test_a_failed_rollout_leaves_its_siblings_alone():
    rows = [[(FAIL, [1]), (PASS, [2])], [(PASS, [1]), (FAIL, [2])], [(PASS, [1]), (PASS, [2])]]
    x = arrays(graded(rows, failures=["", "", "reply unreadable"]))
    assert np.isnan(x.verdict_GK[2]).all()
    assert np.isnan(x.reward_G[2])
    assert (x.pass_GS[2] == 0).all()
    b = x.batch()
    assert (RULES["draco"](b)[2] == 0).all()
    two = arrays(graded(rows[:2])).batch()
    np.testing.assert_array_equal(RULES["draco"](b)[:2], RULES["draco"](two))


def test_an_empty_rubric_is_a_failure_and_an_all_dropped_one_is_not():
    none = arrays(graded([[], []]))
    assert np.isnan(none.reward_G).all()
    dropped = arrays(graded([[(PASS, [1])], [(NA, [])]]))
    assert dropped.reward_G.tolist() == [0, 0]


@pytest.mark.filterwarnings("ignore:groups with fewer")
def test_degenerate_groups():
    with_none = arrays(graded([[(FAIL, [])]], [Trajectory("r", TASK, ())]))
    assert with_none.tokens_GS.shape == (1, 0)
    assert with_none.batch().tokens_GS.shape == (1, 0)
    nobody = GradedGroup(Group(TASK, ()), Rubric((Criterion("c", "x"),)), ())
    empty = arrays(nobody)
    assert empty.kind_GS.shape == (0, 0)


def test_attribution_may_override():
    cells = [(FAIL, [1], "override:pass"), (PASS, [2], "override:not_applicable"), (FAIL, [3])]
    g = graded([cells, [(PASS, [1]), (FAIL, [2]), (PASS, [])]])
    scoring, trust = arrays(g), arrays(g, override="trust")
    assert scoring.pass_GS[0].tolist() == [0, 0, 0]
    assert scoring.fail_GS[0].tolist() == [1, 0, 1]
    assert trust.pass_GS[0].tolist() == [1, 0, 0]
    assert trust.fail_GS[0].tolist() == [0, 0, 1]
    np.testing.assert_array_equal(trust.reward_G, scoring.reward_G)
    np.testing.assert_array_equal(trust.keep_K, scoring.keep_K)
    with pytest.raises(CreditError, match="want a flag override:LABEL"):
        arrays(graded([[(FAIL, [1], "override:perhaps")]]))


def test_lengths():
    t = (rollout("a", 10, 20), rollout("b", 5, None, closing=""))
    g = graded([[(FAIL, [1])], [(PASS, [2])]], t)
    with pytest.raises(CreditError, match="none at step 2 of rollout 'b': give a tokenizer"):
        arrays(g)
    chars = arrays(g, "chars")
    assert chars.unit == "chars"
    assert chars.tokens_GS.tolist() == [[6, 12], [6, 4]]  # "read{}", "donefinish{}", "done"
    assert arrays(g, "auto").unit == "chars"
    assert arrays(graded([[(FAIL, [1])]]), "auto").unit == "tokens"
    ids = arrays(g, lambda text: [*text.encode(), 0])
    assert ids.unit == "tokenizer"
    assert ids.tokens_GS.tolist() == [[7, 13], [7, 5]]
    assert arrays(g, len).tokens_GS.tolist() == chars.tokens_GS.tolist()
    gap = arrays(g, "chars", closing_turn="gap")
    assert gap.tokens_GS.tolist() == [[6, 12], [6, 0]]
    with pytest.raises(CreditError, match="want tokens in"):
        arrays(g, "words")


@pytest.mark.parametrize(
    ("options", "text"),
    [({"override": "x"}, "want override in"), ({"closing_turn": "x"}, "want closing_turn in")],
)
def test_unknown_options(options, text):
    with pytest.raises(CreditError, match=text):
        arrays(graded([[(FAIL, [1])]]), **options)


@pytest.mark.parametrize("step", [0, 4])
def test_citations_out_of_range_are_named(step):
    with pytest.raises(CreditError, match=f"want citations in 1..3; got {step} at criterion 'c0'"):
        arrays(graded([[(FAIL, [step])]]))


def test_one_batch_of_many_groups():
    a = graded([[(FAIL, [1])], [(PASS, [2])]])
    b = graded([[(FAIL, [1]), (PASS, [2])], [(PASS, [1]), (FAIL, [1])], [None, (NA, [])]])
    both = batch([a, b])
    assert both.group_G.tolist() == [0, 0, 1, 1, 1]
    assert batch(a).tokens_GS.shape == (2, 3)
    got = RULES["draco"](both)
    np.testing.assert_allclose(got[:2], RULES["draco"](batch(a)))
    np.testing.assert_allclose(got[2:], RULES["draco"](batch(b)))
    x = arrays(a)
    by_hand = draco([-(0.5**0.5), 0.5**0.5], x.pass_GS, x.fail_GS, x.tokens_GS)
    np.testing.assert_allclose(got[:2], by_hand, rtol=1e-5)
    known = graded([[(FAIL, [1])]], [rollout("r", 3)])
    unknown = graded([[(FAIL, [1])]], [rollout("r", None)])
    with pytest.raises(CreditError, match="want one unit of length in all groups"):
        batch([known, unknown], "auto")


def test_outcomes_are_carried_and_unknown_is_nan():
    t = (rollout("a", 1, outcome=1.0), rollout("b", 1))
    x = arrays(graded([[(FAIL, [1])], [(PASS, [1])]], t))
    assert x.outcome_G[0] == 1
    assert np.isnan(x.outcome_G[1])


# Votes -------------------------------------------------------------------------------------------
VOTE = {"pass": PASS, "fail": FAIL, "na": NA}


def expected(votes):
    answered = [v for v in votes if v != "failed"]
    if "fail" in answered:
        return "fail"
    if answered == ["pass"] * len(votes):
        return "pass"
    return "failed" if "failed" in votes else "na"


@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_combination_of_votes(k):
    for votes in itertools.product(["pass", "fail", "na", "failed"], repeat=k):
        rows = [
            [Verdict("c", VOTE[v], f"why {i}") if v in VOTE else FailedJudgement("c", f"why {i}")]
            for i, v in enumerate(votes)
        ]
        (got,) = unanimous(rows)
        want = expected(votes)
        if want == "failed":
            assert isinstance(got, FailedJudgement)
            assert f"why {votes.index('failed')}" in got.reason
        else:
            assert got.label is VOTE[want]
            assert got.reason == f"why {votes.index(want)}"  # the first call that agrees


def test_votes_are_checked():
    with pytest.raises(CreditError, match="want at least one row"):
        unanimous([])
    with pytest.raises(CreditError, match=r"want every row to answer \('a',\); got, in row 1"):
        unanimous([[Verdict("a", PASS)], [Verdict("b", PASS)]])
