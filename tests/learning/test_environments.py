"""A trl user's own environment gets step credit: each assistant turn is a step."""

import difflib
import json

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig
from trl.chat_template_utils import qwen3_chat_template

from rubricnb.judge import CallableJudge
from rubricnb.rubric import Criterion, GradedGroup, Label, Rubric, Verdict
from rubricnb.train.credit_trainer import CreditGRPOTrainer
from tests.learning.chat_models import Counter, byte_tokenizer

SPECIAL = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
]
G = 4


@pytest.fixture(scope="module")
def tokenizer():
    return byte_tokenizer(SPECIAL, qwen3_chat_template)


CALL = '<tool_call>\n{"name": "add", "arguments": {"number": 2}}\n</tool_call><|im_end|>'
# What rollout i of a group does, turn by turn: 1, 2 or 3 tool calls, then an answer.
SCRIPTS = [[CALL] * n + [f"{'done ' * n}<|im_end|>"] for n in (1, 2, 3, 1)]


class Scripted(CreditGRPOTrainer):
    """Everything but the sampling is trl's and ours; the turns are written down."""

    def _generate_single_turn(self, prompt_ids, *args, **kwargs):
        if not getattr(self, "live", []):  # the first turn of every rollout
            self.at, self.live = dict.fromkeys(range(2 * G), 0), list(range(2 * G))
        out = []
        for i in self.live:
            text = SCRIPTS[i % G][self.at[i]]
            out.append(self.processing_class(text, add_special_tokens=False)["input_ids"])
            self.at[i] += 1
        self.live = [i for i in self.live if self.at[i] < len(SCRIPTS[i % G])]
        return out, None


def grader(groups):
    """The first call fails on odd rollouts, the answer passes everywhere but there."""
    out = []
    for group in groups:
        rows = []
        for g, t in enumerate(group.trajectories):
            first, last = (Label.FAIL, Label.FAIL) if g % 2 else (Label.PASS, Label.PASS)
            rows.append((Verdict("a", first, steps=(1,)), Verdict("b", last, steps=(len(t),))))
        rubric = Rubric((Criterion("a", "first call"), Criterion("b", "answer")))
        out.append(GradedGroup(group, rubric, tuple(rows)))
    return out


def test_assistant_turns_are_steps_and_conserve_the_push(tmp_path, tokenizer):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=4096,
    )
    seen = []
    trainer = Scripted(
        model=LlamaForCausalLM(config),
        args=GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=2 * G,
            num_generations=G,
            max_completion_length=2000,
            max_steps=1,
            beta=0.0,
            bf16=False,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list(
            [{"prompt": [{"role": "user", "content": f"count to {n}"}]} for n in (2, 4)]
        ),
        processing_class=tokenizer,
        environment_factory=Counter,
        grader=grader,
        observer=seen.append,
    )
    trainer.train()
    (step,) = seen
    lengths = [len(t) for g in step.groups for t in g.trajectories]
    assert lengths == [len(s) for s in SCRIPTS] * 2
    first = step.groups[0].trajectories[1]
    assert first.steps[0].calls[0].name == "add"
    assert json.loads(first.steps[1].observations[0].text) == {"total": 4}
    n = step.batch.tokens_GS
    want = [
        [len(tokenizer(x, add_special_tokens=False)["input_ids"]) for x in s] for s in SCRIPTS * 2
    ]
    assert [[int(v) for v in row[row > 0]] for row in n] == want
    assert np.allclose((step.credit_GS * n).sum(1), step.batch.advantage() * n.sum(1))
    assert step.credit_GS[1][0] < 0  # the failed first call is blamed


# What a user of trl has written, before and after: two lines differ.
THEIRS = """
from trl import GRPOConfig, GRPOTrainer


def exact(completions, environments, **columns):
    return [float(e.total == 4) for e in environments]


trainer = GRPOTrainer(
    model,
    exact,
    GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=24,
        max_steps=1,
        bf16=False,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
    ),
    train_dataset=data,
    processing_class=tokenizer,
    environment_factory=Counter,
)
trainer.train()
"""
OURS = THEIRS.replace(
    "from trl import GRPOConfig, GRPOTrainer",
    "from trl import GRPOConfig\n"
    "from rubricnb.train.credit_trainer import CreditGRPOTrainer as GRPOTrainer",
).replace(
    "    environment_factory=Counter,\n", "    environment_factory=Counter,\n    judge=judge,\n"
)


def judged(call):
    """Whatever the rollouts say, criterion k is failed by every (k + 2)-nd of them."""
    if call.phase in ("task_rubric", "rollout_rubric", "union"):
        rows = [{"title": f"Criterion {k}", "instruction": f"Look at {k}."} for k in range(3)]
        return json.dumps({"criteria": rows})
    number = int(call.key["trajectory_id"].rsplit("/")[-1])
    rows = [
        {"id": f"C{k + 1}", "verdict": "fail" if number % (k + 2) == 0 else "pass",
         "reason": "as drawn", "evidence": "S1", "steps": [1]}
        for k in range(3)
    ]  # fmt: skip
    return json.dumps({"verdicts": rows})


def test_a_trl_script_becomes_step_credited_by_one_import_and_a_judge(tmp_path, tokenizer):
    differ = [x for x in difflib.ndiff(THEIRS.splitlines(), OURS.splitlines()) if x[0] in "+-"]
    assert len(differ) == 4  # the import, which takes two lines for one, and the judge
    ends = {}
    for name, script in (("theirs", THEIRS), ("ours", OURS)):
        torch.manual_seed(0)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32,
                num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=4096,
            )
        )  # fmt: skip
        data = Dataset.from_list([{"prompt": [{"role": "user", "content": "count to 4"}]}])
        told = {"model": model, "data": data, "tokenizer": tokenizer, "Counter": Counter,
                "folder": str(tmp_path / name), "judge": CallableJudge(judged, "j")}  # fmt: skip
        exec(script, told)
        ends[name] = told["trainer"]
    logs = {n: next(r for r in t.state.log_history if "loss" in r) for n, t in ends.items()}
    assert float(logs["theirs"]["grad_norm"]) == 0  # nobody reached 4: no signal
    assert float(logs["ours"]["grad_norm"]) > 0
    assert logs["ours"]["rewards/exact/mean"] == 0  # still called and logged
    assert -1 <= float(logs["ours"]["rewards/rubric/mean"]) <= 1
