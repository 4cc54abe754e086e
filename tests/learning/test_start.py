"""`rubricnb train`: what engines are told, a real training of the tiny policy, and going on."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
import torch
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from peft import PeftModel
from trl import GRPOConfig
from typer.testing import CliRunner

from rubricnb.cli import app
from rubricnb.errors import ConfigError
from rubricnb.policy.tokens import load_tokenizer
from rubricnb.policy.warmup import open_policy, policy_folder
from rubricnb.train import start as start_module
from rubricnb.train.engines import accelerate_config, commands, trl_config, trl_settings
from rubricnb.train.profile import load_profile, shipped
from rubricnb.train.start import start, trainer_of
from tests.edges.loopback import Loopback, answering

ROOT = Path(__file__).resolve().parents[2]
PAPER = "paper-qwen3.6-27b"
TINY = (
    "policy.model=tiny:main", "policy.shape=null", "world.max_turns=24", "rollouts.prompts=2",
    "training.lr=1e-3", "training.steps=3", "training.save_every=1", "training.evaluate_at=[2]",
)  # fmt: skip


def tiny(*changes):
    return load_profile("cpu", [*TINY, *changes])


def settings_of(name):
    return trl_settings(load_profile(name), "out")


@pytest.mark.parametrize("name", sorted(shipped()))
def test_trl_takes_every_shipped_profile(name):
    told = settings_of(name)
    assert set(told) <= {f.name for f in fields(GRPOConfig)}
    made = GRPOConfig(**{**told, "bf16": False, "use_cpu": True})
    profile = load_profile(name)
    share = made.per_device_train_batch_size * made.gradient_accumulation_steps
    batch = profile.rollouts.prompts * profile.rollouts.group_size
    assert share * profile.hardware.processes == batch
    assert made.steps_per_generation == made.gradient_accumulation_steps  # one step a batch
    assert made.max_steps == profile.training.steps


def test_the_papers_table_reaches_trl():
    told = settings_of(PAPER)
    wanted = {
        "learning_rate": 5e-5, "lr_scheduler_type": "constant", "warmup_steps": 0.0,
        "weight_decay": 0.01, "max_grad_norm": 1.0, "beta": 0.01, "epsilon": 0.2,
        "epsilon_high": 0.2, "delta": 3.0, "entropy_coef": 0.0, "loss_type": "dapo",
        "num_generations": 6, "num_iterations": 1, "max_completion_length": 24576,
        "temperature": 1.0, "top_p": 1.0, "bf16": True, "use_vllm": True, "vllm_mode": "server",
        "max_steps": 100, "save_steps": 5,
    }  # fmt: skip
    assert {k: told[k] for k in wanted} == wanted


def test_sharding_and_serving_are_handed_on(tmp_path):
    profile = load_profile(PAPER)
    path = tmp_path / "accelerate.yaml"
    done = CliRunner().invoke(app, ["train", PAPER, "--accelerate", str(path)])
    assert done.exit_code == 0, done.output
    read = load_config_from_file(str(path))
    assert (read.num_processes, read.mixed_precision, read.use_cpu) == (4, "bf16", False)
    assert read.deepspeed_config == {"gradient_accumulation_steps": 24, "zero_stage": 3}
    server, launch = commands(profile, PAPER)[1:]
    assert server.startswith("CUDA_VISIBLE_DEVICES=4,5,6,7 trl vllm-serve --model Qwen/Qwen3.6-27B")
    assert "--tensor_parallel_size 4" in server
    assert launch.startswith("CUDA_VISIBLE_DEVICES=0,1,2,3 accelerate launch --config_file")
    fsdp = load_profile(PAPER, ["hardware.accelerate={fsdp_version: 2}"])
    assert accelerate_config(fsdp)["fsdp_config"] == {"fsdp_version": 2}
    one = load_profile("one-gpu")
    assert trl_settings(one, "out")["vllm_max_model_length"] == 6144
    assert commands(one, "one-gpu", ("training.lr=1e-4",)) == [
        "rubricnb train one-gpu --set training.lr=1e-4"
    ]
    two = load_profile("cpu", ["hardware.processes=2", "training.micro=1"])
    assert commands(two, "cpu") == [
        "ACCELERATE_USE_CPU=1 torchrun --nproc_per_node 2 -m rubricnb train cpu"
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["training.trl={learning_rate: 1}"], "training.trl without what the profile has a field"),
        (["training.trl={lerning_rate: 1}"], "training.trl of trl's GRPOConfig; got 'lerning_rate"),
        (["training.micro=4"], "want training.micro that divides a process's 6 rollouts; got 4"),
        (["hardware.vllm={port: 1}"], "want hardware.vllm of"),
    ],
)
def test_what_engines_would_not_take_is_named(changes, said):
    with pytest.raises(ConfigError) as e:
        trl_config(tiny(*changes), "out")
    assert said in str(e.value)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    lines = []
    folder = tmp_path_factory.mktemp("start") / "whole"
    profile = tiny("training.report_to=[tensorboard]") if _tensorboard() else tiny()
    return start(profile, folder, lines.append), lines


def _tensorboard():
    from importlib.util import find_spec

    return find_spec("tensorboard") is not None


def rows(folder):
    out = [json.loads(x) for x in (folder / "train.jsonl").read_text().splitlines()]
    return [{k: v for k, v in r.items() if k != "judge"} for r in out]


def test_a_training_leaves_rows_groups_and_plain_adapters(trained):
    folder, lines = trained
    made = rows(folder)
    assert [r["step"] for r in made] == [1, 2, 3]
    assert all(r["rollouts"] == 6 and "reward" in r and "loss" in r for r in made)
    assert lines[0].startswith("step 1 of 3: reward")
    names = {p.name for p in folder.iterdir()}
    assert {"profile.yaml", "train.jsonl", "groups.jsonl.gz", "judge.json", "adapters"} <= names
    assert "trainer" not in names
    bill = json.loads((folder / "judge.json").read_text())["phases"]
    assert bill["scoring"]["calls"] == bill["attribution"]["calls"] == 3 * 6
    assert {p.name for p in (folder / "adapters").iterdir()} == {"step-2", "step-3"}


def test_peft_loads_an_adapter_with_the_trainers_logits(trained, tmp_path, monkeypatch):
    folder, _ = trained
    kept = {}
    made = start_module.trainer_of

    def keeping(*args):
        trainer, recorder, grader = made(*args)
        kept["trainer"] = trainer
        return trainer, recorder, grader

    monkeypatch.setattr(start_module, "trainer_of", keeping)
    again = start(tiny(), tmp_path / "again")
    words = load_tokenizer(policy_folder("main"))
    ids = torch.tensor([words.encode("find", add_special_tokens=False) * 4])
    with torch.no_grad():
        live = kept["trainer"].model.eval()(ids).logits
        plain = PeftModel.from_pretrained(open_policy("main")[0], again / "adapters" / "step-3")
        loaded = plain.eval()(ids).logits
        base = open_policy("main")[0](ids).logits
    assert torch.equal(live, loaded)
    assert not torch.allclose(live, base)
    # The same profile trains the same policy, wherever its folder is.
    first = (folder / "adapters" / "step-3" / "adapter_model.safetensors").read_bytes()
    second = (again / "adapters" / "step-3" / "adapter_model.safetensors").read_bytes()
    assert first == second


def test_an_interrupted_training_goes_on_and_ends_the_same(trained, tmp_path):
    folder, _ = trained
    half = tmp_path / "half"

    class Stop(Exception):
        pass

    def stop(line):
        if line.startswith("step 3"):
            raise Stop

    with pytest.raises(Stop):
        start(tiny(), half, stop)
    assert not (half / "adapters" / "step-3").exists()
    with pytest.raises(ConfigError, match=r"want training\.lr = 0\.001, as this training began"):
        start(tiny("training.lr=2e-3"), half)
    lines = []
    start(tiny("about=told anew"), half, lines.append)
    assert lines[0] == "going on from step 2"
    for name in ("step-2", "step-3"):
        a, b = (f / "adapters" / name / "adapter_model.safetensors" for f in (folder, half))
        assert a.read_bytes() == b.read_bytes()
    drop = {"step_time"}
    assert [{k: v for k, v in r.items() if k not in drop} for r in rows(half)] == [
        {k: v for k, v in r.items() if k not in drop} for r in rows(folder)
    ]
    begun = len((half / "train.jsonl").read_text())
    start(tiny(), half, lines.append)
    assert "trained already" in lines[-1]
    assert len((half / "train.jsonl").read_text()) == begun


def test_the_command_trains_and_refuses_with_a_reason(tmp_path):
    args = ["train", "cpu", "--runs", str(tmp_path)]
    for change in (*TINY, "training.steps=2", "training.evaluate_at=[2]"):
        args += ["--set", change]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "cpu" / "adapters" / "step-2" / "adapter_config.json").is_file()
    with pytest.raises(ConfigError, match=r"want 2 processes, as hardware\.processes says; got 1"):
        start(tiny("hardware.processes=2", "training.micro=1"), tmp_path / "two")
    static = tiny("arm=static_credit")
    with pytest.raises(ConfigError, match=r"want judge\.static, a file of fixed criteria"):
        trainer_of(static, tmp_path)


def test_a_static_arm_reads_its_criteria(tmp_path):
    criteria = tmp_path / "static.json"
    done = CliRunner().invoke(app, ["static-rubric", "-o", str(criteria), "--per-task", "2"])
    assert done.exit_code == 0, done.output
    folder = start(
        tiny("arm=static_credit", f"judge.static={criteria}", "training.steps=2"), tmp_path / "run"
    )
    phases = json.loads((folder / "judge.json").read_text())["phases"]
    assert set(phases) == {"scoring", "attribution"}
    assert yaml.safe_load((folder / "profile.yaml").read_text())["arm"] == "static_credit"


def test_no_reply_of_an_endpoint_is_paid_twice(tmp_path, monkeypatch):
    prices = tmp_path / "prices.yaml"
    entry = {"base_url": "http://127.0.0.1:*", "model": "t", "prompt": 1.0, "completion": 2.0}
    prices.write_text(yaml.safe_dump({"version": "1", "date": "2026-01-01", "prices": [entry]}))
    monkeypatch.setenv("RUBRICNB_PRICES", str(prices))
    monkeypatch.setenv("RUBRICNB_API_KEY", "sk-planted-key")

    class Stop(Exception):
        pass

    def stop(line):
        if line.startswith("step 2"):  # judged, and not yet saved
            raise Stop

    folder = tmp_path / "run"
    with Loopback(default=answering) as server:
        where = (f"judge.base_url={server.url}", "judge.model=t", "training.steps=2")
        profile = tiny(*where)
        with pytest.raises(Stop):
            start(profile, folder, stop)
        served = server.served
        lines = []
        start(profile, folder, lines.append)
        assert lines[0] == "going on from step 1"
        assert server.served == served
        # 2 steps of 2 new tasks; equal rollouts make equal prompts, which are asked once.
        assert 30 < served <= 2 * 2 * (1 + 3 + 1 + 3 + 3)
    made = [json.loads(x) for x in (folder / "train.jsonl").read_text().splitlines()]
    for row in made:
        assert sum(b["calls"] for b in row["judge"].values()) == 2 * (1 + 3 + 1 + 3 + 3)
        assert all(b["dollars"] > 0 for b in row["judge"].values())
        assert row["failed_judgements"] == 0
    text = "".join(p.read_text(errors="ignore") for p in folder.rglob("*") if p.is_file())
    assert "sk-planted-key" not in text


def test_two_processes_killed_and_begun_again_end_like_one(trained, tmp_path):
    """By the launch command that the profile names, with the group size's batch on each process."""
    whole, _ = trained
    changes = [*TINY, "hardware.processes=2", "training.micro=3"]
    words = commands(load_profile("cpu", changes), "cpu")[-1].split()
    assert words[:2] == ["ACCELERATE_USE_CPU=1", "torchrun"]
    told = [x for c in changes for x in ("--set", c)]

    def launch():
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--standalone",
             *words[2:], *told, "--runs", str(tmp_path)],
            cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "ACCELERATE_USE_CPU": "1", "OMP_NUM_THREADS": "1",
                 "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    first = launch()
    limit = time.monotonic() + 200
    while not (found := list(tmp_path.glob("*/train.jsonl"))) or not rows(found[0].parent):
        assert first.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    folder = found[0].parent
    assert len(rows(folder)) < 3
    assert launch().wait(300) == 0
    assert (folder / "groups.jsonl.gz").read_bytes() == (whole / "groups.jsonl.gz").read_bytes()
    bills = [json.loads((f / "judge.json").read_text())["phases"] for f in (folder, whole)]
    assert bills[0] == bills[1]
    for a, b in zip(rows(folder), rows(whole), strict=True):
        assert a["reward"] == b["reward"]
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-6)
