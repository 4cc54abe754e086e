"""Training studies on made-up trainings: conditions, pairing, seeds split, claims, the command."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic import rollouts

from rubricnb.credit import RULES
from rubricnb.errors import ConfigError, RunError
from rubricnb.experiments import studying
from rubricnb.experiments.records import RunKey, seal, write_json
from rubricnb.experiments.studies import POOLS, SIZES, STUDIES, conditions, size, study, told
from rubricnb.experiments.studying import Result
from rubricnb.metrics import Interval
from rubricnb.train.arms import Arm
from rubricnb.train.evaluate import SPLITS
from rubricnb.train.graders import ArmGrader
from rubricnb.train.settings import Settings
from rubricnb.trajectory import Group
from rubricnb.worlds import OrdersDesk, as_task, as_trajectory

HERE = Path(__file__).parent
TRAIN = "test_training_studies:train"
RATE = {"plain": 0.4, "divided": 0.7, "undivided": 0.4}


def train(policy, name, seed, folder, settings):
    """Success at a known rate; it learns nothing."""
    write_json(folder / "config.json", settings)
    rng = np.random.default_rng([seed, len(name)])
    rows = [
        {**r, "split": settings["splits"][0], "success": bool(rng.random() < RATE[name]),
         "checks": {"finished": True, "honest claim": bool(rng.random() < 0.5)}}
        for r in rollouts(RunKey(policy, name, seed), settings["checkpoints"])
        if r["split"] == "test_normal"
    ]  # fmt: skip
    (folder / "eval.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "train.jsonl").write_text(json.dumps({"step": 1, "success": 0.5}) + "\n")
    return {"global_step": settings["steps"]}


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parents[1])]))


@pytest.mark.parametrize("name", STUDIES)
def test_every_condition_can_be_trained_and_every_contrast_has_its_arms(name):
    chosen = study(name)
    names = [c.name for c in chosen.conditions]
    assert len(set(names)) == len(names)
    assert all(a in names and b in names for a, b, _ in chosen.contrasts)
    assert {*chosen.quick} <= {*names}
    for c in chosen.conditions:
        settings = told(c, size(chosen, "full"))
        arm = settings.pop("arm")
        assert json.loads(json.dumps(settings)) == settings
        assert Settings.of(settings).pool == POOLS[c.horizon][0]
        assert {*settings["splits"]} <= {*SPLITS}
        if arm is not None:
            assert Arm(c.name, **arm).rule in RULES
            if arm.get("rubric") != "static":
                ArmGrader(Arm(c.name, **arm), 0)


def test_sizes_that_may_claim_have_five_seeds():
    assert len(SIZES["small"].seeds) >= 5
    assert len(SIZES["full"].seeds) >= 5
    assert conditions(study("early"), size(study("early"), "quick")) != list(
        study("early").conditions
    )


def test_seeds_split_over_commands_make_one_table(tmp_path):
    chosen = study("length")
    whole = replace(size(chosen, "full"), workers=4)
    with pytest.raises(RunError, match="train first"):
        studying.read_study(chosen, whole, tmp_path)
    few = replace(whole, seeds=(3,))
    studying.run_study(chosen, few, tmp_path, train=TRAIN, say=lambda line: None)
    files = studying.write_study(studying.read_study(chosen, whole, tmp_path), tmp_path)
    assert "No claim with fewer than 5 seeds" in files["table"].read_text()
    for seed in (0, 1, 2, 4):  # As other commands would leave them.
        for c in chosen.conditions:
            key, settings = RunKey(c.policy, c.name, seed), told(c, whole)
            folder = key.folder(tmp_path / whole.name)
            folder.mkdir(parents=True)
            done = train("main", c.name, seed, folder, settings)
            seal(folder, key, settings, **done, seconds=1.0)
    result = studying.read_study(chosen, whole, tmp_path)
    files = studying.write_study(result, tmp_path)
    text = files["table"].read_text()
    assert "With 1/n_j against no credit: gains" in text
    assert "Without 1/n_j against with it: loses" in text
    gain = {name: d for _, _, name, d in result.differences}["with 1/n_j against no credit"]
    assert gain.n == 5
    assert abs(gain.mean - 0.3) < 0.1
    assert files["figure"].exists()
    record = json.loads((files["table"].parent / "record.json").read_text())
    assert len(record["runs"]) == 15


def test_unknown_names_are_refused():
    with pytest.raises(ConfigError, match="want a study among"):
        study("x")
    with pytest.raises(ConfigError, match="want a profile of"):
        size(study("early"), "x")
    with pytest.raises(ConfigError, match="want conditions among"):
        conditions(study("early"), size(study("early"), "full"), ("x",))
    with pytest.raises(ConfigError, match="want a view of"):
        ArmGrader(Arm("a", view="x"), 0)


def test_the_judge_of_the_closing_believes_it():
    world = OrdersDesk()
    task = next(t for t in world.tasks("study_train") if not t.spec["blocked"])
    members = []
    for i, closing in enumerate(("finish done", "finish blocked", "find nobody")):
        episode = world.reset(task, 0)
        episode.act(closing)
        members.append(as_trajectory(episode, str(i)))
    group = Group(as_task(task), tuple(members))
    exact = dict.fromkeys(("false_pass", "false_fail", "hesitate", "missing"), 0.0)
    rewards = {}
    for view in ("full", "closing"):
        (graded,) = ArmGrader(Arm("a", view=view, noise=exact), 0)([group])
        rewards[view] = [sum(j.value for j in row) for row in graded.judgements]
    assert rewards["closing"][0] > rewards["closing"][1] > rewards["closing"][2]
    assert rewards["full"][0] < 0


def test_a_claim_is_made_of_enough_seeds_and_of_no_difference_with_fewer():
    d = Interval(0.1, 0.05, 0.15, 5)
    some = Result(
        study("early"), SIZES["full"], (), {},
        (("a", "b", "a over b", d), ("c", "b", "c over b", replace(d, n=2))),
    )  # fmt: skip
    said = studying.claim(some)
    assert "A over b: gains (+10.0 [+5.0, +15.0] points, n = 5)." in said
    assert "c over b" not in said.lower()
    assert "Nothing is said of 1 with fewer than 5 paired seeds." in said
