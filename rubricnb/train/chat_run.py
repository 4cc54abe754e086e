"""Train a chat model with step credit in any world: trl's trainer, chat rollouts, one record.

    model, tokenizer = open_chat("Qwen/Qwen3-1.7B", tools=world.tools())
    rollouts = ChatRollouts(world, "train", tokenizer, ChatLimits(turn=256, response=2048))
    rows = train_chat(model, rollouts, grader, chat_config(folder, steps=10), folder)

Every row of ``train.jsonl`` holds a step's rewards, credit and endings, its loss, how long it took,
the sampled tokens a second and the peak memory.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from transformers import TrainerCallback
from trl import GRPOConfig

from ..files import graded_to_json
from ..policy.chat import chat_lora
from .chat_rollouts import ChatRollouts
from .chat_turns import memory
from .credit_trainer import CreditStep, Grader, WithoutCards
from .graders import sample_of
from .steps import step_row

LOGGED = ("loss", "grad_norm", "kl", "entropy", "learning_rate")


def device_found() -> dict[str, Any]:
    """Return what this machine offers: the device, its name, its memory in GiB, and the dtype.

    >>> sorted(device_found())
    ['device', 'dtype', 'memory_gib', 'name']
    """
    if torch.cuda.is_available():
        p = torch.cuda.get_device_properties(0)
        gib = round(p.total_memory / 2**30, 1)
        return {"device": "cuda", "name": p.name, "memory_gib": gib, "dtype": "bfloat16"}
    found = {"device": "cpu", "name": f"{torch.get_num_threads()} threads", "dtype": "float32"}
    try:
        pages = Path("/proc/meminfo").read_text(encoding="ascii").split("MemAvailable:")[1]
        return {**found, "memory_gib": round(int(pages.split()[0]) / 2**20, 1)}
    except (OSError, IndexError):
        return {**found, "memory_gib": None}


# Memory of the device in GiB, at least -> the chat policy that trains on it with an adapter.
POLICIES = {
    "cuda": ((80, "up to 8B"), (24, "1.7B to 4B"), (8, "up to 0.6B"), (0, "135M")),
    "cpu": ((16, "up to 360M"), (4, "135M"), (0, "none")),
}
TRAINING_GIB = 1.5  # what one training of the bundled policy may take


def fitting(found: Mapping[str, Any], most: int = 8) -> dict[str, Any]:
    """Return how a machine of ``device_found`` is used: trainings at a time, and a chat policy.

    >>> fitting({"device": "cuda", "memory_gib": 79.2})["policy"]
    '1.7B to 4B'
    """
    memory = found["memory_gib"]
    sizes = POLICIES[found["device"]]
    policy = next(name for least, name in sizes if (memory or 0) >= least)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    host = memory if found["device"] == "cpu" and memory is not None else cores * TRAINING_GIB
    return {"workers": max(1, min(most, cores, int(host / TRAINING_GIB))), "policy": policy}


def chat_config(
    folder: str | Path,
    *,
    steps: int,
    groups: int = 1,
    group_size: int = 4,
    micro: int = 2,
    lr: float = 5e-5,
    beta: float = 0.01,
    temperature: float = 1.0,
    seed: int = 0,
    **options: Any,
) -> GRPOConfig:
    """Return trl's configuration with the paper's values, for the device that there is.

    Args:
        folder: for trl's checkpoints.
        steps: optimizer steps.
        groups: tasks a step.
        group_size: rollouts a task.
        micro: rollouts in one backward pass; a divisor of groups * group_size.
        lr, beta, temperature, seed: as in GRPO.
        options: of ``GRPOConfig``, over these.
    """
    cuda = torch.cuda.is_available()
    told = {
        "output_dir": str(folder),
        "seed": seed,
        "data_seed": seed,
        "max_steps": steps,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": groups * group_size // micro,
        "num_generations": group_size,
        "max_completion_length": 1 << 20,  # the rollouts set their own limits
        "learning_rate": lr,
        "lr_scheduler_type": "constant",
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
        "beta": beta,
        "epsilon": 0.2,
        "loss_type": "dapo",
        "scale_rewards": "group",
        "temperature": temperature,
        "bf16": cuda,
        "use_cpu": not cuda,
        "gradient_checkpointing": True,
        "dataloader_pin_memory": cuda,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
    }
    return GRPOConfig(**{**told, **options})


class ChatRecorder(TrainerCallback):
    """One row a step in train.jsonl, and a few graded groups in groups.jsonl.

    Args:
        folder: where they are written.
        rollouts: whose figures are recorded.
        keep_groups: graded groups a step that are kept.
    """

    def __init__(self, folder: Path, rollouts: ChatRollouts, keep_groups: int = 1) -> None:
        self.folder, self.rollouts, self.keep = folder, rollouts, keep_groups
        self.rows: list[dict[str, Any]] = []
        self.pending: dict[str, Any] = {}
        self.began = 0.0
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("train.jsonl", "groups.jsonl"):
            (folder / name).write_text("", encoding="utf-8")

    def observe(self, seen: CreditStep) -> None:
        """The trainer's observer: called before the optimizer step."""
        self.pending = {**step_row(seen), **self.rollouts.stats}
        kept = sample_of(seen.groups, seen.grades, seen.step + 1, self.keep)
        self._write("groups.jsonl", *(graded_to_json(g) for g in kept))

    def on_step_begin(self, args, state, control, **kwargs):
        self.began = time.perf_counter()

    def on_log(self, args, state, control, logs: Mapping[str, float] | None = None, **kwargs):
        if self.pending and logs and "loss" in logs:
            known = {k: logs[k] for k in LOGGED if k in logs}
            taken = {"step_seconds": round(time.perf_counter() - self.began, 3)}
            row = {"step": state.global_step, **self.pending, **known, **taken, **memory()}
            self.rows.append(row)
            self.pending = {}
            if state.is_world_process_zero:
                self._write("train.jsonl", row)

    def _write(self, name: str, *rows: Mapping[str, Any]) -> None:
        with open(self.folder / name, "a", encoding="utf-8") as f:
            f.writelines(json.dumps(r) + "\n" for r in rows)


def train_chat(
    model: torch.nn.Module,
    rollouts: ChatRollouts,
    grader: Grader,
    config: GRPOConfig,
    folder: str | Path,
    *,
    rule: str = "draco",
    rule_options: Mapping[str, Any] | None = None,
    adapter: LoraConfig | None = None,
    resume: str | None = None,
) -> list[dict[str, Any]]:
    """Train a chat model and return the rows of its train.jsonl; the adapter is saved beside it.

    Args:
        model: from ``open_chat``.
        rollouts: its rollouts in a world.
        grader: as CreditGRPOTrainer's, such as an ``ArmGrader``.
        config: from ``chat_config``, or trl's own.
        folder: of the record and of ``adapter/``, a plain peft folder.
        rule, rule_options: the credit rule.
        adapter: default ``chat_lora()``.
        resume: a checkpoint of trl's.
    """
    folder = Path(folder)
    recorder = ChatRecorder(folder, rollouts)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*rollout_func.*")
        trainer = WithoutCards(
            model=model,
            args=config,
            train_dataset=rollouts.dataset(),
            processing_class=rollouts.tokenizer,
            peft_config=adapter or chat_lora(),
            rollout_func=rollouts,
            grader=grader,
            rule=rule,
            rule_options=rule_options,
            observer=recorder.observe,
            callbacks=[recorder],
        )
        trainer.train(resume_from_checkpoint=resume)
    if trainer.accelerator.is_main_process:
        trainer.accelerator.unwrap_model(trainer.model).save_pretrained(folder / "adapter")
    return recorder.rows
