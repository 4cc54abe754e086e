"""The text detector as an option of training: flagged rollouts are ungraded, never a number."""

import gzip
import json

import numpy as np
import pytest

from rubricnb.credit import CreditBatch, draco
from rubricnb.errors import ConfigError
from rubricnb.grading import arrays
from rubricnb.judge import grade
from rubricnb.lab.desk import desk_logs
from rubricnb.metrics.claims import closing_claim
from rubricnb.metrics.false_success import fit_detector, rollout_text
from rubricnb.train.flagged import REASON, FlagFalseSuccess
from rubricnb.train.run import train_arm
from rubricnb.train.settings import Settings
from rubricnb.worlds import offline_judge


@pytest.fixture(scope="module")
def fitted():
    logs = desk_logs(600)
    claims = [t for t in logs.trajectories if closing_claim(t).claimed]
    false = [float(t.outcome < 1) for t in claims]
    return logs, fit_detector([rollout_text(t) for t in claims], false)


def test_flagged_rollouts_lose_their_reward_and_the_others_keep_theirs(fitted):
    logs, detector = fitted
    groups = [g for g in logs.groups if len(g) > 2][:8]
    plain = grade(groups, offline_judge())
    flagger = FlagFalseSuccess(lambda gs: plain, detector, 0.5)
    made = flagger(groups)
    risky = 0
    for group, before, after in zip(groups, plain, made, strict=True):
        risk = detector.score([rollout_text(t) for t in group.trajectories])
        claimed = np.array([closing_claim(t).claimed for t in group.trajectories])
        flagged = claimed & (risk > 0.5)
        risky += int((flagged & ~np.isnan(arrays(before, len).reward_G)).sum())
        a = arrays(after, len)
        assert np.isnan(a.reward_G[flagged]).all()
        assert np.isnan(a.verdict_GK[flagged]).all()
        assert not a.cite_GKS[flagged].any()
        same = arrays(before, len).verdict_GK[~flagged]
        np.testing.assert_array_equal(a.verdict_GK[~flagged], same)
        assert [bool(f == REASON) for f in after.failures or [""] * len(group)] == list(flagged)
        if np.isfinite(a.reward_G).sum() > 1:
            credit = draco(a.batch().advantage(), a.pass_GS, a.fail_GS, a.tokens_GS)
            assert not credit[flagged].any()  # no push for what was not graded
    assert flagger.flagged == risky > 0


def test_rewards_are_flagged_too_and_nothing_changes_without_a_flag(fitted):
    logs, detector = fitted
    groups = logs.groups[:4]

    def outcome(gs):
        return [[t.outcome for t in g.trajectories] for g in gs]

    assert FlagFalseSuccess(outcome, detector, 1.0)(groups) == outcome(groups)
    some = FlagFalseSuccess(outcome, detector, 0.0)(groups)
    for group, reward in zip(groups, some, strict=True):
        claimed = [closing_claim(t).claimed for t in group.trajectories]
        assert np.isnan(reward).tolist() == claimed


def test_what_cannot_be_flagged_is_refused(fitted):
    logs, detector = fitted
    with pytest.raises(ConfigError, match=r"in \[0, 1\]"):
        FlagFalseSuccess(lambda gs: [], detector, 1.5)
    batch = CreditBatch(np.ones((2, 1)), reward_G=[1.0, 0.0])
    with pytest.raises(ConfigError, match="CreditBatch"):
        FlagFalseSuccess(lambda gs: [batch], detector)(logs.groups[:1])


SHORT = {"steps": 2, "groups": 3, "group_size": 3, "checkpoints": [2], "eval_runs": 1,
         "eval_scenarios": 1, "splits": ["dev"], "keep_groups": 3}  # fmt: skip


def kept_groups(folder):
    with gzip.open(folder / "groups.jsonl.gz", "rt") as f:
        return [json.loads(line) for line in f]


def test_a_training_takes_a_detector_as_a_setting(fitted, tmp_path):
    path = fitted[1].save(tmp_path / "detector")
    told = SHORT | {"detector": str(path), "flag_above": 0.0}
    train_arm("main", "draco", 0, tmp_path / "flagged", told)
    train_arm("main", "draco", 0, tmp_path / "plain", SHORT)
    flags = [f for g in kept_groups(tmp_path / "flagged") for f in g.get("failures") or []]
    assert REASON in flags  # at 0 every claim of success is flagged
    assert REASON not in json.dumps(kept_groups(tmp_path / "plain"))
    first, plain = (
        json.loads((tmp_path / name / "train.jsonl").read_text().splitlines()[0])
        for name in ("flagged", "plain")
    )
    assert first["judge"].keys() == plain["judge"].keys()  # the judge was asked all the same
    config = json.loads((tmp_path / "flagged" / "config.json").read_text())["settings"]
    assert config["flag_above"] == 0.0
    assert "detector" not in Settings.of(SHORT).to_json()
    with pytest.raises(ConfigError, match="flag_above"):
        Settings(flag_above=2.0)
