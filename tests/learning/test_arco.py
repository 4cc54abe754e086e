"""ARCO's arm: scores for the rule, learning beside the policy, exact resumption, one training."""

import json

import numpy as np
import pytest
import torch

from rubricnb.credit import RULES, stack
from rubricnb.errors import ConfigError
from rubricnb.policy.rubric_files import fresh_small, small_config
from rubricnb.policy.step_view import step_views
from rubricnb.train.arco import VARIANTS, Arco, open_arco, process_scores
from rubricnb.train.arms import arm
from rubricnb.train.graders import EVIDENCE, ArmGrader
from rubricnb.train.rubric_losses import RubricLearning
from rubricnb.train.rubric_recipe import Recipe, annotated, make, return_notes, warmed
from rubricnb.train.run import train_arm
from tests.learning.test_run import SMALL, groups

LEARNING = RubricLearning(lr=1e-4, head_lr=1e-3)


def fresh(seed=0, **told):
    model = fresh_small(small_config())
    model.keep_reference()
    return Arco(model, LEARNING, seed, rollouts=4, **told)


def test_every_variant_has_an_arm_and_evidence():
    for name in VARIANTS:
        assert arm(name).rule == "arco"
        assert arm(name).evidence == name
        assert name in EVIDENCE
    with pytest.raises(ConfigError, match="'argo'"):
        open_arco("argo")


def test_scores_become_credit_by_the_rule():
    some = groups(2, 3)
    batches = fresh()(some)
    for batch, group in zip(batches, some, strict=True):
        for row, t in zip(batch.score_GS, group.trajectories, strict=True):
            assert np.isfinite(row[: len(t)]).all()
            assert np.isnan(row[len(t) :]).all()
            assert np.abs(row[: len(t)]).max() <= 1
    both = stack(batches)
    credit = RULES["arco"](both)
    assert credit.shape == both.tokens_GS.shape
    assert np.abs(credit[both.live_GS]).max() > 0


def test_a_batch_is_scored_before_it_is_learned_from():
    some, arco = groups(2, 3), fresh()
    views = [v for g in some for t in g.trajectories for v in step_views(t)]
    before = arco.model.scores(views, arco.model.write(views)).mean(1).numpy()
    batches = arco(some)
    got = np.concatenate([b.score_GS[~np.isnan(b.score_GS)] for b in batches])
    np.testing.assert_allclose(got, before, atol=1e-5)
    after = arco.model.scores(views, arco.model.write(views)).mean(1).numpy()
    assert np.abs(after - before).max() > 1e-6
    assert arco.updates == 1
    assert {"fit", "kl", "calls", "scoring_seconds", "peak_mb"} <= set(arco.told)


def test_criteria_are_written_once_until_the_refresh():
    some, arco = groups(1, 3), fresh(refresh=2)
    views = {v for g in some for t in g.trajectories for v in step_views(t)}
    calls = []
    for _ in range(3):
        arco(some)
        calls.append(arco.told["calls"])
    assert calls == [len(views), 0, len(views)]


def test_a_checkpoint_takes_the_model_back_exactly():
    some = groups(2, 3)
    one, two = fresh(), fresh()
    one(some)
    two.restore(json.loads(json.dumps(one.state())))
    for a, b in zip(one(some), two(some), strict=True):
        np.testing.assert_array_equal(a.score_GS, b.score_GS)
    for p, q in zip(one.model.parameters(), two.model.parameters(), strict=True):
        assert torch.equal(p, q)


def test_a_frozen_model_stays():
    model = fresh_small(small_config())
    arco = Arco(model, None)
    before = [p.clone() for p in model.parameters()]
    arco(groups(1, 2))
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert "fit" not in arco.told


def test_an_opaque_reward_is_what_the_rule_centres():
    """Reward-to-go of the scores is Q itself."""
    q = np.array([0.2, 0.5, 0.9])
    s = process_scores(q, True)
    np.testing.assert_allclose(np.cumsum(s[::-1])[::-1], q)
    np.testing.assert_array_equal(process_scores(q, False), q)
    (group,) = groups(1, 1)
    assert {n.scores for n in return_notes(group.trajectories[0])} == {
        (float(group.trajectories[0].outcome),)
    }


def test_a_recipe_is_kept_in_the_cache(tmp_path):
    recipe = Recipe(rollouts=6, epochs=1)
    config = small_config(criteria=1, rubric="none")
    first = warmed(config, recipe, opaque=True, cache=tmp_path)
    (folder,) = tmp_path.iterdir()
    stamp = (folder / "rubric.safetensors").stat().st_mtime_ns
    second = warmed(config, recipe, opaque=True, cache=tmp_path)
    assert (folder / "rubric.safetensors").stat().st_mtime_ns == stamp
    for p, q in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(p, q)
    again = make(config, recipe, opaque=True, rollouts=annotated(recipe))
    for p, q in zip(first.trained(), again.trained(), strict=True):
        torch.testing.assert_close(p, q)


def test_the_bundled_model_writes_criteria_of_the_action():
    """Warmed up in earnest: its text is bound to the action, far above chance."""
    from rubricnb.fidelity.rubric_models import binding, named

    model = warmed()
    rollouts = [t for g in groups(3, 2) for t in g.trajectories]
    views = [step_views(t) for t in rollouts]
    texts = [model.write(vs) for vs in views]
    told = binding(model, views, texts)
    assert told["binding"] > told["chance"] + 0.4
    flat, said = [v for vs in views for v in vs], [c for cs in texts for c in cs]
    assert named(flat, said) > 0.8
    assert named(flat, said[::-1]) < 0.5


def test_one_step_in_the_bundled_world(tmp_path):
    one = {**SMALL, "steps": 2, "groups": 2, "checkpoints": [2]}
    assert train_arm("main", "arco", 0, tmp_path, one) == {"global_step": 2}
    rows = [json.loads(x) for x in (tmp_path / "train.jsonl").read_text().splitlines()]
    for row in rows:
        assert row["grader_errors"] == 0
        assert np.isfinite(row["loss"])
        assert row["grad_norm"] > 0
        assert row["judge"]["rubric_model"]["steps"] > 0
        assert row["judge"]["rubric_model"]["fit"] > 0
    assert not (tmp_path / "judge.json").exists()


def test_memory_goes_through_json():
    some = groups(1, 2)
    one, two = (ArmGrader(arm("arco_frozen"), 0) for _ in range(2))
    first = one(some)
    two.recall(json.loads(json.dumps(one.memory())))
    np.testing.assert_array_equal(first[0].score_GS, two(some)[0].score_GS)
