"""Chat models are trained for real: a tiny one, and SmolLM2-135M-Instruct in the orders desk."""

import gc
import json

import pytest
import torch
from datasets import Dataset
from peft import PeftModel

from rubricnb.train.arms import arm
from rubricnb.train.chat_rollouts import ChatLimits, ChatRollouts
from rubricnb.train.chat_run import chat_config, device_found, train_chat
from rubricnb.train.credit_trainer import WithoutCards
from rubricnb.train.graders import ArmGrader
from rubricnb.worlds.desk import OrdersDesk
from rubricnb.worlds.desk_judge import offline_judge
from tests.learning.chat_models import Counter, open_smol, tiny_model, tiny_tokenizer

CUDA = pytest.param("cuda", marks=pytest.mark.gpu)
# SmolLM2 would rather talk than act: its messages are begun for it.
BEGIN = '<tool_call>\n{"name": "find", "arguments": {"name": "'


@pytest.fixture
def on(request):
    """The device under test, as options of ``chat_config``."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("want a CUDA device; got none")
    cpu = request.param == "cpu"
    return {"use_cpu": cpu, "bf16": not cpu}


def longer_is_better(groups):
    """Rewards with a spread whatever is said."""
    return [[float(sum(len(s.text) for s in t.steps)) for t in g.trajectories] for g in groups]


def moved(folder, model):
    """Largest weight of the adapter's B matrices, which begin at 0."""
    loaded = PeftModel.from_pretrained(model, folder / "adapter")
    found = [p.abs().max().item() for n, p in loaded.named_parameters() if "lora_B" in n]
    assert len(found) >= 7 * model.config.num_hidden_layers  # every linear layer has one
    return max(found)


@pytest.mark.parametrize("on", ["cpu", CUDA], indirect=True)
def test_a_step_moves_a_tiny_chat_model_and_is_recorded(tmp_path, on):
    tokenizer = tiny_tokenizer()
    limits = ChatLimits(turn=12, response=200)
    rollouts = ChatRollouts(OrdersDesk(), "train", tokenizer, limits)
    config = chat_config(tmp_path / "trl", steps=2, groups=2, lr=1e-2, **on)
    rows = train_chat(
        tiny_model(tokenizer), rollouts, longer_is_better, config, tmp_path, rule="grpo"
    )
    assert [r["step"] for r in rows] == [1, 2]
    assert rows == [json.loads(x) for x in (tmp_path / "train.jsonl").read_text().splitlines()]
    for row in rows:
        assert row["rollouts"] == 8
        assert row["zero_spread_groups"] == 0
        assert row["loss"] != 0
        assert row["grad_norm"] > 0
        assert row["tokens"] == row["sampled_tokens"]
        assert {"tokens_per_second", "step_seconds", "peak_rss_mib"} <= set(row)
    assert moved(tmp_path, tiny_model(tokenizer)) > 0


def smol_run(folder, on, steps, **limits):
    """SmolLM2 in the orders desk: DRACO's credit, the offline judge, the paper's adapter."""
    world = OrdersDesk()
    model, tokenizer = open_smol(tools=world.tools())
    rollouts = ChatRollouts(world, "train", tokenizer, ChatLimits(begin=BEGIN, **limits), seed=1)
    grader = ArmGrader(arm("draco"), 0, judge=offline_judge())
    config = chat_config(
        folder / "trl", steps=steps, temperature=0.7, beta=0.0, micro=1, lr=2e-4, **on
    )
    return train_chat(model, rollouts, grader, config, folder)


@pytest.mark.parametrize("on", ["cpu", CUDA], indirect=True)
def test_one_step_of_smollm2_with_step_credit(tmp_path, on):
    (row,) = smol_run(tmp_path, on, 1, turn=24, response=160, turns=2)
    gc.collect()
    assert row["rollouts"] == 4
    assert row["failed_judgements"] == 0
    assert row["tokens_per_second"] > 0
    assert row["zero_spread_groups"] == 0, "the judge tells the rollouts apart"
    assert row["loss"] != 0
    assert row["grad_norm"] > 0
    print({k: row[k] for k in ("tokens_per_second", "peak_rss_mib", "step_seconds")})


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("on", ["cpu", CUDA], indirect=True)
def test_a_few_steps_of_smollm2(tmp_path, on):
    rows = smol_run(tmp_path, on, 4, turn=32, response=300, turns=3)
    print(*(json.dumps(r) for r in rows), sep="\n")
    assert len(rows) == 4
    assert any(r["zero_spread_groups"] == 0 and r["loss"] != 0 for r in rows)
    # No spread, no push: the machinery makes no signal of its own.
    assert all(r["grad_norm"] == 0 for r in rows if r["zero_spread_groups"] == 1)
    assert max(r["peak_rss_mib"] for r in rows) < 4096


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_an_environment_factory_trains_smollm2(tmp_path):
    model, tokenizer = open_smol()
    seen = []
    config = chat_config(tmp_path, steps=1, beta=0.0, micro=2, use_cpu=True, bf16=False)
    config.max_completion_length = 24
    WithoutCards(
        model=model,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "Add 2."}]}]),
        processing_class=tokenizer,
        environment_factory=Counter,
        grader=longer_is_better,
        rule="grpo",
        observer=seen.append,
    ).train()
    (step,) = seen
    assert len(step.groups[0]) == 4
    assert step.batch.tokens_GS.sum() > 0


def test_the_device_is_found():
    found = device_found()
    assert found["device"] == ("cuda" if torch.cuda.is_available() else "cpu")
    assert found["memory_gib"] is None or found["memory_gib"] > 0
