"""Quality against worth: read from real trainings, and by hand from a table of them."""

import json
import shutil

import numpy as np
import pytest

from rubricnb.errors import RunError
from rubricnb.experiments.records import RunKey, seal
from rubricnb.grading import arrays
from rubricnb.lab import save, worth_as_reward
from rubricnb.lab.section import SIMULATED
from rubricnb.lab.worth import MEASURES, cells_of, pair_accuracy, worth_rows
from rubricnb.train.run import train_arm

SETTINGS = {
    "steps": 2, "groups": 4, "group_size": 4, "checkpoints": [1, 2], "eval_runs": 1,
    "eval_scenarios": 2, "splits": ["test_normal"], "keep_groups": 4,
}  # fmt: skip
TRAINED = (("base", 0), ("draco", 0), ("draco_self_k1", 0), ("draco_self_k1", 1))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Real trainings, two steps each, sealed as the study seals them; one is left unfinished."""
    home = tmp_path_factory.mktemp("worth")
    for arm, seed in TRAINED:
        key = RunKey("main", arm, seed)
        folder = key.folder(home)
        done = train_arm("main", arm, seed, folder, SETTINGS)
        if (arm, seed) != ("draco_self_k1", 1):
            seal(folder, key, SETTINGS, global_step=done["global_step"], seconds=1.0)
    return home


def evaluated(home, arm):
    path = home / "arms" / "main" / arm / "seed0" / "eval.jsonl"
    return [json.loads(line)["success"] for line in path.read_text().splitlines()]


def test_real_trainings_are_read_with_their_judges_and_gains(home):
    rows = {r["arm"]: r for r in worth_rows(home)}
    assert set(rows) == {"draco", "draco_self_k1"}  # base has no judge; one is unfinished
    for arm, row in rows.items():
        # The mean over every evaluated checkpoint, none chosen, less the base arm's.
        gain = np.mean(evaluated(home, arm)) - np.mean(evaluated(home, "base"))
        assert row["gain in success"] == pytest.approx(gain)
        assert SIMULATED in row["judge"]
    assert rows["draco"]["signal"] == rows["draco_self_k1"]["signal"]  # their judge differs alone
    section = worth_as_reward(home)
    assert "5 are the least that say anything" in section.paragraph
    assert "Arms that differ in their judge alone" in section.paragraph
    assert "simulated" in section.figures["worth"].layout.title.text
    assert len(section.figures["worth"].data) == 2


def test_pair_accuracy_counts_pairs_of_a_group_by_hand(home):
    from rubricnb.experiments.records import verify

    run = verify(home / "arms" / "main" / "draco" / "seed0", RunKey("main", "draco", 0))
    groups = list(run.groups())
    right = pairs = 0
    for g in groups:
        a = arrays(g, "chars")
        for i, good in enumerate(a.outcome_G):
            for j, bad in enumerate(a.outcome_G):
                if good == 1 and bad < 1 and np.isfinite(a.reward_G[[i, j]]).all():
                    pairs += 1
                    right += np.sign(a.reward_G[i] - a.reward_G[j]) / 2 + 0.5
    found, n = pair_accuracy(groups)
    assert n == pairs
    assert pairs == 0 or found == pytest.approx(right / pairs)
    assert np.isnan(pair_accuracy([])[0])


def test_a_corrupt_training_is_an_error_and_none_is_no_answer(home, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    with (copy / "arms" / "main" / "draco" / "seed0" / "eval.jsonl").open("a") as f:
        f.write("{}\n")
    with pytest.raises(RunError, match="as it was sealed"):
        worth_rows(copy)
    (tmp_path / "empty").mkdir()
    assert worth_as_reward(tmp_path / "empty").skipped
    with pytest.raises(RunError, match="want the folder"):
        worth_as_reward(tmp_path / "no such folder")


def made_up(n_arms, slope, seeds=2, base=0.0):
    rng = np.random.default_rng(0)
    return [
        {
            "policy": policy, "arm": f"arm{k}", "seed": s, "judge": "a judge", "signal": "draco",
            **dict.fromkeys(MEASURES, 0.5 + 0.05 * k + level), "pairs": 100,
            "gain in success": base + level + slope * k + 0.001 * rng.normal(),
        }
        for policy, level in (("main", 0.0), ("weak", 0.3))
        for k in range(n_arms)
        for s in range(seeds)
    ]  # fmt: skip


def test_association_is_over_arms_within_a_policy(monkeypatch, tmp_path):
    from rubricnb.lab import worth

    for slope, sign in ((0.05, 1), (-0.05, -1)):
        monkeypatch.setattr(worth, "worth_rows", lambda *a, s=slope: made_up(4, s))
        section = worth_as_reward(tmp_path)
        a = section.values["association"]["pair accuracy"]
        # The policies' levels go the other way for a negative slope and change nothing.
        assert a.rho == pytest.approx(sign, abs=0.1)
        assert (a.n, a.orders) == (8, 24 * 24)
        assert a.p < 0.02
        assert "chance" not in section.paragraph
    assert "worth_worth.csv" in save([section], tmp_path / "out", "x")  # no simulated judge here


def test_cells_are_means_over_seeds_with_students_interval():
    rows = made_up(1, 0.0)[:2]
    for row, gain in zip(rows, (0.1, 0.3), strict=True):
        row["gain in success"] = gain
    (cell,) = cells_of(rows)
    assert (cell["seeds"], cell["gain in success"]) == (2, pytest.approx(0.2))
    # t(.975, 1) = 12.706 times sd / sqrt(2) = 0.1.
    assert cell["gain high"] == pytest.approx(0.2 + 1.2706, abs=1e-3)
    rows[0]["gain in success"] = float("nan")  # no base arm: no gain, no interval
    assert cells_of(rows)[0]["gain low"] is None
