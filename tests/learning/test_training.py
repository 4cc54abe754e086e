"""Every kind of arm trains; log-probabilities in slices are the same numbers."""

import json

import pytest
import torch
from datasets import Dataset

from rubricnb.errors import ConfigError
from rubricnb.policy.rollout import roll
from rubricnb.policy.tokens import load_tokenizer
from rubricnb.policy.warmup import checkpoint, open_policy
from rubricnb.train.credit_trainer import CreditGRPOTrainer
from rubricnb.train.run import train_arm
from rubricnb.train.settings import Settings, grpo_config, lora
from rubricnb.train.slices import SlicedLogps
from rubricnb.worlds.desk import OrdersDesk

torch.set_num_threads(1)
SMALL = {
    "steps": 4,
    "groups": 3,
    "group_size": 3,
    "checkpoints": [2, 4],
    "eval_runs": 2,
    "eval_scenarios": 2,
    "splits": ["dev"],
}


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="'dracos'"):
        train_arm("main", "dracos", 0, tmp_path / "a", SMALL)
    with pytest.raises(ConfigError, match="'stepz'"):
        train_arm("main", "draco", 0, tmp_path / "b", {**SMALL, "stepz": 1})
    with pytest.raises(ConfigError, match="checkpoints"):
        Settings(steps=4, checkpoints=(5,))


@pytest.mark.parametrize("arm", ["base", "random", "outcome", "static"])
def test_every_kind_of_arm_runs(arm, tmp_path):
    short = {**SMALL, "steps": 1, "checkpoints": [1], "eval_runs": 1, "eval_scenarios": 1}
    done = train_arm("main", arm, 1, tmp_path, short)
    assert done["global_step"] == (0 if arm == "base" else 1)
    assert {r["arm"] for r in rows(tmp_path / "eval.jsonl")} == {arm}
    assert (tmp_path / "judge.json").exists() == (arm == "static")


def parameters_after(trainer_class, folder, made):
    settings = Settings(steps=1, groups=4, group_size=6, checkpoints=(1,))

    def rollouts(prompts, trainer):
        return {
            "prompt_ids": [list(s.prompt_ids) for s in made],
            "completion_ids": [list(s.completion_ids) for s in made],
            "logprobs": [list(s.logprobs) for s in made],
            "env_mask": [list(s.action_mask) for s in made],
            "step_ids": [list(s.step_ids) for s in made],
            "trajectory": [s.trajectory for s in made],
        }

    args = grpo_config(settings, 0, folder)
    args.save_strategy = "no"
    torch.manual_seed(0)
    trainer = trainer_class(
        model=open_policy("main")[0],
        args=args,
        train_dataset=Dataset.from_list([{"prompt": str(i)} for i in range(4)]),
        processing_class=load_tokenizer(checkpoint("main")),
        peft_config=lora(),
        rollout_func=rollouts,
        grader=lambda groups: [[t.outcome for t in g.trajectories] for g in groups],
        rule="grpo",
    )
    trainer.train()
    return {n: p.detach().clone() for n, p in trainer.model.named_parameters() if p.requires_grad}


def test_slices_change_no_number(tmp_path):
    class Sliced(SlicedLogps, CreditGRPOTrainer):
        pass

    model, words = open_policy("main")
    world = OrdersDesk()
    tasks = [t for t in world.tasks("train")[:80:20] for _ in range(6)]
    made = roll(model, words, world, tasks, range(24))
    lengths = [len(s.completion_ids) for s in made]
    assert max(lengths) > 2 * min(lengths)  # or there is nothing to cut
    whole = parameters_after(CreditGRPOTrainer, tmp_path / "a", made)
    sliced = parameters_after(Sliced, tmp_path / "b", made)
    start = {n: torch.zeros_like(p) for n, p in whole.items() if "lora_B" in n}
    assert any(not torch.equal(whole[n], z) for n, z in start.items())
    for name, value in whole.items():
        # AdamW's first step is lr * sign(g): entries whose gradient is rounding noise may differ.
        differ = (value - sliced[name]).abs() > 1e-5
        assert differ.float().mean() < 0.01, name
