"""CreditBatch: shapes, missing fields, stacking."""

import numpy as np
import pytest

from rubricnb.credit import RULES, CreditBatch, grpo, neutral, stack
from rubricnb.credit.laws import random_batch
from rubricnb.errors import CreditError


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"reward_G": [1.0]}, r"want reward_G of shape \(2\); got \(1,\)"),
        ({"reward_G": [1.0, np.inf]}, r"got reward_G\[1\] = inf"),
        ({"advantage_G": [1.0, np.nan]}, r"want finite advantage_G; got advantage_G\[1\] = nan"),
        ({"verdict_GK": [[1, 2], [0, 0]]}, r"got verdict_GK\[0, 1\] = 2"),
        ({"kind_GS": [[1.5, 2], [0, 0]]}, "want kind_GS of text or whole numbers; got float64"),
        ({"cite_GKS": np.zeros((2, 3, 5))}, r"want cite_GKS of shape \(2, any, 2\)"),
        (
            {"verdict_GK": np.zeros((2, 3)), "cite_GKS": np.zeros((2, 4, 2))},
            r"want cite_GKS of shape \(2, 3, 2\); got \(2, 4, 2\)",
        ),
        ({"pass_GS": [[0, -1], [0, 0]]}, r"got pass_GS\[0, 1\] = -1"),
        ({"group_G": [0]}, r"want group_G of shape \(2\)"),
    ],
)
def test_fields_are_checked(fields, text):
    with pytest.raises(CreditError, match=text):
        CreditBatch([[1, 2], [3, 0]], **fields)


@pytest.mark.parametrize("name", [n for n in RULES if n not in ("arco", "rar")])
def test_each_rule_names_the_missing_field(name):
    # These start from another rule's credit, by default DRACO's.
    first = "draco" if name in ("neutral", "recentred", "mixed") else name
    text = f"want .* in the batch for the rule '{first}'; got n"
    with pytest.raises(CreditError, match=text):
        RULES[name](CreditBatch([[1, 2], [3, 4]]))


def test_missing_scores_weights_and_rewards():
    with pytest.raises(CreditError, match="want score_GS in the batch for the rule 'arco'"):
        RULES["arco"](CreditBatch([[1]]))
    with pytest.raises(CreditError, match="want verdict_GK in the batch for the rule 'rar'"):
        RULES["rar"](CreditBatch([[1]]))
    with pytest.raises(CreditError, match="want category_GK"):
        RULES["rar"](CreditBatch([[1]], verdict_GK=[[1.0]]))
    with pytest.raises(CreditError, match="want base in"):
        grpo(CreditBatch([[1]], reward_G=[1.0]), base="x")
    with pytest.raises(CreditError, match="want rule in"):
        neutral(CreditBatch([[1]]), rule="x")


def test_the_reward_comes_from_verdicts_where_none_is_given():
    b = CreditBatch([[1], [1], [1]], verdict_GK=[[1, -1], [1, 1], [np.nan, 0]])
    got = grpo(b, eps=0)[:, 0]
    np.testing.assert_allclose(got, [-(0.5**0.5), 0.5**0.5, 0])
    assert b.graded("rubric", "grpo").tolist() == [True, True, False]
    assert len(b) == 3


def test_a_given_advantage_replaces_the_rewards_but_not_the_outcomes():
    b = CreditBatch([[1], [1]], advantage_G=[3.0, -1.0], outcome_G=[0.0, 1.0])
    assert grpo(b).tolist() == [[3.0], [-1.0]]
    np.testing.assert_allclose(grpo(b, base="outcome", eps=0)[:, 0], [-(0.5**0.5), 0.5**0.5])
    assert b.graded("rubric", "grpo").all()


def test_stacking_pads_and_keeps_groups_apart():
    a = CreditBatch(
        [[1, 2]],
        verdict_GK=[[1.0]],
        kind_GS=[["read", "finish"]],
        reward_G=[1.0],
    )
    b = CreditBatch(
        [[3], [4]], group_G=["y", "x"], verdict_GK=[[1, -1], [0, 0]], kind_GS=[["a"], ["b"]]
    )
    s = stack([a, b])
    assert s.tokens_GS.tolist() == [[1, 2], [3, 0], [4, 0]]
    assert s.group_G.tolist() == [0, 2, 1]
    assert s.verdict_GK.tolist() == [[1, 0], [1, -1], [0, 0]]
    assert s.kind_GS.tolist() == [["read", "finish"], ["a", ""], ["b", ""]]
    assert s.reward_G is None
    with pytest.raises(CreditError, match="want at least one batch"):
        stack([])
    with pytest.raises(CreditError, match="want kind_GS as text or as numbers"):
        stack([a, CreditBatch([[1]], kind_GS=[[1]])])


@pytest.mark.filterwarnings("ignore:groups with fewer")
@pytest.mark.parametrize("name", [n for n in RULES if n != "arco"])
def test_stacked_batches_get_the_credit_that_they_get_alone(name):
    rng = np.random.default_rng(5)
    parts = [random_batch(rng, groups=1, steps=s) for s in (4, 6)]
    options = {"whiten": False} if name == "triage" else {}
    whole = RULES[name](stack(parts), **options)
    for i, part in enumerate(parts):
        alone = RULES[name](part, **options)
        np.testing.assert_allclose(
            whole[5 * i : 5 * i + 5, : alone.shape[1]], alone, rtol=1e-9, atol=1e-12
        )
