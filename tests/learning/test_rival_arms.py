"""Arms of other rules: what their graders hand over, what they never see, one training step."""

import json
from dataclasses import replace

import numpy as np
import pytest

from rubricnb.credit import RULES, CreditBatch, stack
from rubricnb.errors import ConfigError
from rubricnb.judge import CallableJudge
from rubricnb.train.arms import Arm, arm
from rubricnb.train.graders import EVIDENCE, ArmGrader
from rubricnb.train.run import train_arm
from rubricnb.trajectory import Group
from tests.learning.test_run import SMALL, groups

ONE_STEP = {**SMALL, "steps": 1, "groups": 2, "checkpoints": [1]}


def flipped(group):
    rows = tuple(replace(t, outcome=1.0 - t.outcome) for t in group.trajectories)
    return Group(group.task, rows)


def fields(batch):
    return {k: v for k, v in vars(batch).items() if v is not None}


@pytest.mark.parametrize("name", ["triage_blind", "trca_blind"])
def test_a_blind_arm_is_the_same_whatever_the_outcomes_are(name):
    some = groups(2, 4)
    one = ArmGrader(arm(name), 0)(some)
    two = ArmGrader(arm(name), 0)([flipped(g) for g in some])
    for a, b in zip(one, two, strict=True):
        assert a.outcome_G is None
        assert np.isfinite(a.reward_G).all()
        for field, value in fields(a).items():
            np.testing.assert_array_equal(value, fields(b)[field])


@pytest.mark.parametrize("name", ["triage", "trca"])
def test_a_published_arm_starts_from_the_outcome(name):
    some = groups(2, 4)
    for grade, group in zip(ArmGrader(arm(name), 0)(some), some, strict=True):
        assert isinstance(grade, CreditBatch)
        assert grade.outcome_G.tolist() == [t.outcome for t in group.trajectories]
        assert grade.reward_G is None


def test_triage_without_any_role_is_grpo_on_the_outcome():
    """A judge that never answers corrects nothing: the arm falls back to what it starts from."""
    some = groups(2, 4)
    grader = ArmGrader(arm("triage"), 0, judge=CallableJudge(lambda call: "no", "mute"))
    steps = sum(len(t) for g in some for t in g.trajectories)
    batch = stack(list(grader(some)))
    assert len(grader.ledger.entries) == 2 * steps  # one retry each
    got = RULES["triage"](batch, whiten=False)
    np.testing.assert_allclose(got, RULES["grpo"](batch, base="outcome"))


def test_judged_items_are_remembered_over_a_checkpoint():
    some = groups(2, 3)
    one, two = ArmGrader(arm("trca_judged"), 0), ArmGrader(arm("trca_judged"), 0)
    first = one(some)
    two.recall(json.loads(json.dumps(one.memory())))
    second = two(some)
    assert [e.phase for e in one.ledger.entries].count("transition_items") == 2
    assert {e.phase for e in two.ledger.entries} == {"transitions"}
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.active_GSJ, b.active_GSJ)


def test_unknown_evidence_is_refused():
    with pytest.raises(ConfigError, match="'tea leaves'"):
        ArmGrader(Arm("x", evidence="tea leaves"), 0)
    assert {"rubric", "roles", "operators"} <= set(EVIDENCE)


@pytest.mark.parametrize("name", ["triage", "trca", "triage_blind", "trca_blind"])
def test_one_step_of_each(name, tmp_path):
    assert train_arm("main", name, 0, tmp_path, ONE_STEP) == {"global_step": 1}
    (row,) = [json.loads(x) for x in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert row["grader_errors"] == 0
    assert np.isfinite(row["loss"])
    assert row["grad_norm"] > 0
    assert row["push_second_moment"] > 0
    if "triage" in name:
        assert sum(row["roles"].values()) == row["judge"]["roles"]["calls"]
        assert ("conflicts" in row) == (name == "triage")
    if "trca" in name:
        assert not row["judge"]
        assert not (tmp_path / "judge.json").exists()
