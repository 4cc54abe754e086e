"""Credit for other trainers: the very tensor that ours uses, conserved, and aligned by name."""

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from rubricnb import files
from rubricnb.cli import app
from rubricnb.errors import ConfigError, CreditError, FormatError
from rubricnb.judge import JudgeConfig, grade
from rubricnb.policy.rollout import roll
from rubricnb.policy.warmup import open_policy
from rubricnb.train.credit_trainer import _step_ids, spread
from rubricnb.train.export import (
    batch_of_mask,
    batch_of_rollouts,
    graded_credit,
    read_mask,
    step_ids_of,
    write_batch,
)
from rubricnb.trajectory import Group
from rubricnb.worlds import OrdersDesk, offline_judge

G = 6


@pytest.fixture(scope="module")
def sampled():
    """Two graded groups of the weak policy, with the ids that it sampled."""
    model, words = open_policy("weak")
    world = OrdersDesk()
    tasks = [t for t in world.tasks("train")[:60:30] for _ in range(G)]
    made = roll(model, words, world, tasks, list(range(2 * G)))
    groups = [
        Group(made[i].trajectory.task, tuple(m.trajectory for m in made[i : i + G])) for i in (0, G)
    ]
    graded = grade(groups, offline_judge(), JudgeConfig(nonce="n"))
    return made, graded


def test_the_tensor_is_the_one_that_our_trainer_uses(sampled):
    made, graded = sampled
    batch = batch_of_rollouts(made, graded)
    T = batch["responses"].shape[1]
    told = [list(s.step_ids) for s in made]
    mask = torch.tensor([[int(i > 0) for i in row] + [0] * (T - len(row)) for row in told])
    ids = _step_ids(mask, told)
    credit = [graded_credit(g, told[i : i + G])[0] for g, i in zip(graded, (0, G), strict=True)]
    width = max(c.shape[1] for c in credit)
    both = np.concatenate([np.pad(c, ((0, 0), (0, width - c.shape[1]))) for c in credit])
    np.testing.assert_array_equal(batch["advantages"], spread(both, ids).numpy())
    assert np.abs(batch["advantages"]).max() > 0


def test_credit_is_conserved_and_nothing_lies_outside_of_the_mask(sampled):
    made, graded = sampled
    batch = batch_of_rollouts(made, graded)
    a, mask = batch["advantages"], batch["response_mask"]
    assert not a[mask == 0].any()
    wanted = []
    for g, i in zip(graded, (0, G), strict=True):
        _, read = graded_credit(g, [m.step_ids for m in made[i : i + G]])
        wanted += list(read.advantage() * read.tokens_GS.sum(axis=1))
    np.testing.assert_allclose(a.sum(axis=1), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(batch["returns"], a)
    rewards = batch["token_level_scores"]
    assert ((rewards != 0).sum(axis=1) <= 1).all()


def test_prompts_end_and_responses_begin_in_the_middle(sampled):
    made, graded = sampled
    batch = batch_of_rollouts(made, graded, pad=-1)
    P = batch["prompts"].shape[1]
    for b, s in enumerate(made):
        there = batch["attention_mask"][b] == 1
        assert batch["input_ids"][b][there].tolist() == [*s.prompt_ids, *s.completion_ids]
        assert there[P - 1]
        assert there[P]
        assert batch["position_ids"][b][there].tolist() == list(range(there.sum()))
        assert (batch["input_ids"][b][~there] == -1).all()
    assert batch["uid"].tolist() == [s.trajectory.task.id for s in made]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_logs_and_a_mask_give_the_same_through_the_command(sampled, tmp_path, suffix):
    made, graded = sampled
    batch = batch_of_rollouts(made, graded)
    order = np.random.default_rng(0).permutation(len(made))  # the other trainer's own order
    names = ("response_mask", "trajectory_id")
    write_batch(tmp_path / f"mask{suffix}", {k: batch[k][order] for k in names})
    files.write_jsonl(tmp_path / "graded.jsonl", graded)
    out = tmp_path / f"out{suffix}"
    args = ["credit", str(tmp_path / "graded.jsonl"), "-o", str(out)]
    done = CliRunner().invoke(app, [*args, "--mask", str(tmp_path / f"mask{suffix}")])
    assert done.exit_code == 0, done.output
    mask, names = read_mask(out)
    assert names == batch["trajectory_id"][order].tolist()
    np.testing.assert_array_equal(mask, batch["response_mask"][order])
    if suffix == ".npz":
        written = np.load(out)["advantages"]
    else:
        from safetensors.numpy import load_file

        written = load_file(out)["advantages"]
    assert written.dtype == np.float32
    np.testing.assert_array_equal(written, batch["advantages"][order])


def test_what_does_not_fit_is_refused_by_name(sampled, tmp_path):
    made, graded = sampled
    batch = batch_of_rollouts(made, graded)
    mask, names = batch["response_mask"], batch["trajectory_id"].tolist()
    with pytest.raises(CreditError, match="not in the mask's ids"):
        batch_of_mask(mask[1:], names[1:], graded)
    with pytest.raises(CreditError, match="'nobody' not in the graded groups"):
        batch_of_mask(np.vstack([mask, mask[:1]]), [*names, "nobody"], graded)
    with pytest.raises(CreditError, match="twice"):
        batch_of_mask(np.vstack([mask, mask[:1]]), [*names, names[0]], graded)
    with pytest.raises(CreditError, match="want a mask of 0 and 1"):
        batch_of_mask(2 * mask, names, graded)
    merged = mask.copy()
    gap = int(np.flatnonzero(mask[0] == 0)[0])
    merged[0, gap : gap + int(np.flatnonzero(mask[0, gap:])[0])] = 1
    with pytest.raises(CreditError, match=r"runs of ones, the steps of .* \(say so where"):
        batch_of_mask(merged, names, graded)
    short = mask[:, : mask.shape[1] // 2]
    made_ = batch_of_mask(short, names, graded, cut=True)
    kept = made_["advantages"].sum(axis=1)
    whole = batch["advantages"].sum(axis=1) / batch["response_mask"].sum(axis=1)
    np.testing.assert_allclose(kept, whole * short.sum(axis=1), rtol=1e-3, atol=1e-3)
    split = mask.copy()
    inner = mask[:, :-2] & mask[:, 1:-1] & mask[:, 2:]
    row, at = np.argwhere(inner)[0]
    split[row, at + 1] = 0
    with pytest.raises(CreditError, match="want at most"):
        batch_of_mask(split, names, graded)
    with pytest.raises(CreditError, match="want a rollout for each of 12 members; got 11"):
        batch_of_rollouts(made[1:], graded)
    with pytest.raises(ConfigError, match=r"\.npz or \.safetensors"):
        write_batch(tmp_path / "x.pt", batch)
    np.savez(tmp_path / "bad.npz", x=mask)
    with pytest.raises(FormatError, match="want response_mask and trajectory_id"):
        read_mask(tmp_path / "bad.npz")


def test_steps_are_the_runs_of_ones():
    assert step_ids_of([[0, 1, 1, 0, 1], [1, 0, 1, 0, 0], [0, 0, 0, 0, 0]]).tolist() == [
        [0, 1, 1, 0, 2],
        [1, 0, 2, 0, 0],
        [0, 0, 0, 0, 0],
    ]
