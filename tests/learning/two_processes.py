"""One training of recorded rollouts, run by plain python or by torchrun; see test_processes.py.

python two_processes.py OUT CASE, with CASE "aligned", "straddling", "raises", "slow" or "fatal".
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig

from rubricnb.errors import ConfigError
from rubricnb.judge import JudgeConfig, Ledger, grade
from rubricnb.seeds import child_seed
from rubricnb.train.credit_trainer import CreditGRPOTrainer
from rubricnb.train.graders import booked
from rubricnb.trajectory import Step, Task, ToolCall, Trajectory
from tests.learning.chat_models import word_tokenizer

WORDS = ["<pad>", "<end>", *"abcdefgh"]
TASKS = [f"task {i}" for i in range(6)]
BATCH = 12
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def policy():
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=64,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )


def recorded(prompts, trainer):
    """Rollouts by step and place in the global batch, whatever process samples them."""
    first = trainer.accelerator.process_index * len(prompts)
    out = {k: [] for k in ("prompt_ids", "completion_ids", "logprobs", "env_mask", "step_ids")}
    out["trajectory"] = []
    for i, prompt in enumerate(prompts, start=first):
        rng = np.random.default_rng(child_seed(3, trainer.state.global_step, i))
        steps, turns = [], []
        for number in range(1, int(rng.integers(2, 5))):
            n = int(rng.integers(1, 5))
            steps += [number] * n + [0]
            word = WORDS[int(rng.integers(2, 10))]
            turns.append(Step(f"{word} {i}", (ToolCall("go", word),), tokens=n))
        steps = steps[:-1]
        ids = rng.integers(2, len(WORDS), len(steps)).tolist()
        out["prompt_ids"].append([2, 3])
        out["completion_ids"].append(ids)
        out["logprobs"].append([0.0] * len(ids))
        out["env_mask"].append([int(s > 0) for s in steps])
        out["step_ids"].append(steps)
        name = f"{prompt}/{trainer.state.global_step}.{i}"
        out["trajectory"].append(Trajectory(name, Task(prompt, prompt), tuple(turns)))
    return out


def verdicts(call):
    """A judge that decides by a hash of what it is shown: the same in every process."""
    if call.phase in ("task_rubric", "rollout_rubric", "union"):
        criteria = [{"title": f"Criterion {k}", "instruction": f"Look at {k}."} for k in range(4)]
        return json.dumps({"criteria": criteria})
    name = call.key["trajectory_id"]
    rows = []
    for k in range(1, 5):
        drawn = child_seed(1, name, k)
        label = ("pass", "fail", "fail", "pass", "not_applicable")[drawn % 5]
        rows.append(
            {"id": f"C{k}", "verdict": label, "reason": "as drawn", "evidence": "S1",
             "steps": [1 + drawn // 7 % 2]}
        )  # fmt: skip
    return json.dumps({"verdicts": rows})


class Grader:
    """DRACO's five phases with a ledger; what goes wrong depends on the case."""

    def __init__(self, case):
        from rubricnb.judge import CallableJudge

        self.case, self.ledger, self.known, self.asked = case, Ledger(), {}, []
        self.judge = booked(CallableJudge(verdicts, "hash"), self.ledger)

    def __call__(self, groups):
        self.asked += [[g.task.id, *(t.id for t in g.trajectories)] for g in groups]
        if self.case == "slow" and RANK == 1:
            time.sleep(3)
        if self.case == "raises" and any(g.task.id in BAD for g in groups):
            raise RuntimeError("the judge is away")
        if self.case == "fatal" and RANK == WORLD - 1:
            raise ConfigError("want a key; got none")
        config = JudgeConfig(nonce="n")
        return grade(groups, self.judge, config, task_rubrics=self.known)

    def bill(self):
        told = {k: b.to_json() for k, b in self.ledger.by("phase").items()}
        self.ledger.entries.clear()
        return {k: {n: v for n, v in b.items() if n != "seconds"} for k, b in told.items()}


BAD = ("task 1",)


def main(out, case):
    out.mkdir(parents=True, exist_ok=True)
    seen = []
    size = 4 if case == "straddling" else 3  # 12 = 3 x 4: with two processes the second straddles
    grader = Grader(case)
    trainer = CreditGRPOTrainer(
        model=policy(),
        args=GRPOConfig(
            output_dir=str(out / "trl"),
            per_device_train_batch_size=BATCH // WORLD,
            num_generations=size,
            max_completion_length=32,
            max_steps=4,
            learning_rate=1e-2,
            lr_scheduler_type="constant",
            beta=0.0,
            loss_type="dapo",
            bf16=False,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
            optim="sgd",
            max_grad_norm=1.0,
            seed=0,
            ddp_timeout=60,
        ),
        train_dataset=Dataset.from_list([{"prompt": t} for t in TASKS]),
        processing_class=word_tokenizer(WORDS),
        rollout_func=recorded,
        grader=grader,
        observer=seen.append,
    )
    trainer.train()
    (out / f"asked{RANK}.json").write_text(json.dumps(grader.asked))
    (out / f"seen{RANK}.json").write_text(
        json.dumps(
            [
                {
                    "step": s.step,
                    "groups": [[t.id for t in g.trajectories] for g in s.groups],
                    "errors": {str(k): v for k, v in s.errors.items()},
                    "bills": list(s.bills),
                    "credit": s.credit_GS.round(6).tolist(),
                }
                for s in seen
            ]
        )
    )
    if trainer.accelerator.is_main_process:
        model = trainer.accelerator.unwrap_model(trainer.model)
        save_file(
            {k: v.contiguous() for k, v in model.state_dict().items()}, out / "model.safetensors"
        )
        logs = [r for r in trainer.state.log_history if "loss" in r]
        keep = ("reward", "grad_norm", "loss", "rewards/rubric/mean")
        (out / "logs.json").write_text(json.dumps([{k: r.get(k) for k in keep} for r in logs]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
