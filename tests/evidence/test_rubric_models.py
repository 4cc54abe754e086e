"""What is said of a rubric model: binding, shuffling, fit and truth."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from rubricnb.cli import app
from rubricnb.fidelity.rubric_models import (
    as_text,
    binding,
    correlations,
    even_split,
    examine,
    gain,
    named,
    valued_rollouts,
)
from rubricnb.policy.step_view import StepView
from rubricnb.train.arco import open_arco


class Echo:
    """A model that finds a text likely by the words that it shares with the action."""

    def loglik(self, views, texts):
        rows = zip(views, texts, strict=True)
        return torch.tensor([float(len({*v.action.split()} & {*c.split()})) for v, c in rows])


VIEWS = [[StepView("t", (), 9, a) for a in ("find anna", "move o1 d2", "finish done")]]


def test_binding_is_one_for_bound_text_and_zero_for_the_next_step_s():
    own = [[v.action for v in VIEWS[0]]]
    assert binding(Echo(), VIEWS, own) == {"binding": 1.0, "chance": pytest.approx(1 / 3)}
    moved = [[*own[0][1:], own[0][0]]]
    assert binding(Echo(), VIEWS, moved)["binding"] == 0.0
    assert np.isnan(binding(Echo(), VIEWS, [["", "", ""]])["binding"])
    assert named(VIEWS[0], own[0]) == 1.0
    assert named(VIEWS[0], moved[0]) == 0.0


def test_correlations_and_their_gain():
    truth = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    base = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    assert correlations(truth, truth) == {
        "pearson": pytest.approx(1.0),
        "spearman": pytest.approx(1.0),
    }
    assert np.isnan(correlations(np.ones(6), truth)["pearson"])
    low, high = gain(truth, base, truth, np.array([2, 4]), resamples=50)
    assert low >= 0
    assert 0 < high <= 2


def test_the_bundled_model_is_examined_against_roll_ins():
    valued = valued_rollouts(tasks=2, members=2, samples=2)
    told = examine(open_arco("arco_frozen"), valued)
    assert told["steps"] == sum(len(v.trajectory) for v in valued)
    assert told["binding"] > told["chance"]
    assert told["named"] > told["named_shuffled"]
    assert told["shuffled"]["change"] > 0
    assert len(even_split([v.trajectory for v in valued])) == told["steps"]


@pytest.mark.slow
def test_the_command_writes_its_rows(tmp_path):
    told = ["rubric-models", "--out", str(tmp_path), "--tasks", "2", "--samples", "2"]
    done = CliRunner().invoke(app, [*told, "--updates", "1", "--variants", "arco"])
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "rubric_models.json").read_text())
    assert set(rows["arco"]) >= {"warmed", "learned", "fits"}
    assert as_text(rows).splitlines()[0].split()[0] == "variant"
    assert "arco" in done.output
