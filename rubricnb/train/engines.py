"""What a profile tells trl, accelerate and vLLM: their own configurations, and how to launch them.

Sharding, serving and precision are theirs; nothing here does what one of them does.
"""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

from peft import LoraConfig, TaskType
from trl import GRPOConfig

from ..errors import ConfigError
from .profile import Profile

VLLM = ("mode", "tensor_parallel_size", "gpu_memory_utilization", "max_model_length")


def lora_config(profile: Profile) -> LoraConfig:
    """Return peft's configuration of the adapter."""
    told = profile.policy.lora
    return LoraConfig(
        r=told.r,
        lora_alpha=told.alpha,
        lora_dropout=told.dropout,
        target_modules=told.targets,
        task_type=TaskType.CAUSAL_LM,
    )


def trl_config(profile: Profile, folder: str | Path) -> GRPOConfig:
    """Return trl's configuration: one batch of rollouts is one optimizer step.

    Raises:
        ConfigError: as ``trl_settings``, or what trl refuses, such as bfloat16 without a GPU.
    """
    try:
        return GRPOConfig(**trl_settings(profile, folder))
    except (TypeError, ValueError) as e:
        raise ConfigError(
            f"want a profile that trl can train here; got {profile.name!r}: {e}"
        ) from e


def trl_settings(profile: Profile, folder: str | Path) -> dict[str, Any]:
    """Return the arguments of trl's GRPOConfig.

    Args:
        profile: the training.
        folder: where checkpoints go.
    Raises:
        ConfigError: for a batch that does not fit the processes, or a setting that trl lacks.
    """
    t, r, cpu = profile.training, profile.rollouts, profile.hardware.gpus == 0
    share = r.prompts * r.group_size // profile.hardware.processes
    if share % t.micro:
        raise ConfigError(
            f"want training.micro that divides a process's {share} rollouts; got {t.micro}"
        )
    told: dict[str, Any] = {
        "output_dir": str(folder),
        "seed": t.seed,
        "data_seed": t.seed,
        "max_steps": t.steps,
        "per_device_train_batch_size": t.micro,
        "gradient_accumulation_steps": share // t.micro,
        "num_generations": r.group_size,
        "num_iterations": t.epochs,
        "max_completion_length": r.response,
        "temperature": r.temperature,
        "top_p": r.top_p,
        "learning_rate": t.lr,
        "lr_scheduler_type": t.schedule,
        "warmup_steps": t.warmup,
        "weight_decay": t.weight_decay,
        "max_grad_norm": t.grad_clip,
        "beta": t.beta,
        "epsilon": t.clip_low,
        "epsilon_high": t.clip_high,
        "entropy_coef": t.entropy,
        "delta": t.dual_clip,  # the same bound on the ratio where the advantage is negative
        "loss_type": t.loss,
        "scale_rewards": "group",
        "bf16": profile.policy.dtype == "bfloat16" and not cpu,
        "fp16": profile.policy.dtype == "float16" and not cpu,
        "use_cpu": cpu,
        "gradient_checkpointing": not cpu,
        "dataloader_pin_memory": not cpu,
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": t.save_every,
        "save_total_limit": 2,
        "report_to": list(t.report_to),
        "run_name": profile.name,
        "disable_tqdm": True,
        # Processes wait for the longest rollouts and for the judge; half an hour can be too short.
        "ddp_timeout": 3 * 3600,
        **_vllm(profile),
    }
    taken = sorted(
        set(t.trl) & (set(told) - {"gradient_checkpointing", "save_total_limit", "ddp_timeout"})
    )
    if taken:
        raise ConfigError(
            f"want training.trl without what the profile has a field for; got {taken[0]!r}"
        )
    unknown = sorted(set(t.trl) - {f.name for f in fields(GRPOConfig)})
    if unknown:
        raise ConfigError(f"want training.trl of trl's GRPOConfig; got {unknown[0]!r}")
    return {**told, **t.trl}


def _vllm(profile: Profile) -> dict[str, Any]:
    """vLLM as trl drives it: in a server of its own, or in the training's processes."""
    told = profile.hardware.vllm
    if told is None:
        return {}
    unknown = sorted(set(told) - set(VLLM))
    if unknown:
        raise ConfigError(f"want hardware.vllm of {VLLM}; got {unknown[0]!r}")
    one_turn = {"max_tokens": min(profile.rollouts.turn, profile.rollouts.response)}
    out = {"use_vllm": True, "generation_kwargs": one_turn}
    if told.get("mode") == "server":  # the server is told the rest when it is started
        return {**out, "vllm_mode": "server"}
    return {**out, **{f"vllm_{k}": v for k, v in told.items()}}


def accelerate_config(profile: Profile) -> dict[str, Any] | None:
    """Return the file that ``accelerate launch --config_file`` reads; None for one process.

    ``hardware.accelerate`` is handed on: ``zero_stage`` and the like to DeepSpeed, names that
    begin with ``fsdp_`` to FSDP.
    """
    h = profile.hardware
    if h.processes == 1 and not h.accelerate:
        return None
    bf16 = profile.policy.dtype == "bfloat16" and h.gpus > 0
    fsdp = {k: v for k, v in h.accelerate.items() if k.startswith("fsdp_")}
    deepspeed = {k: v for k, v in h.accelerate.items() if k not in fsdp}
    if fsdp and deepspeed:
        raise ConfigError(f"want hardware.accelerate for DeepSpeed or FSDP; got {h.accelerate}")
    kind = "FSDP" if fsdp else "DEEPSPEED" if deepspeed else "MULTI_GPU" if h.gpus else "MULTI_CPU"
    out: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": kind,
        "mixed_precision": "bf16" if bf16 else "no",
        "num_machines": 1,
        "num_processes": h.processes,
        "machine_rank": 0,
        "main_training_function": "main",
        "use_cpu": h.gpus == 0,
    }
    if fsdp:
        out["fsdp_config"] = fsdp
    if deepspeed:
        steps = trl_config_steps(profile)
        out["deepspeed_config"] = {"gradient_accumulation_steps": steps, **deepspeed}
    return out


def trl_config_steps(profile: Profile) -> int:
    """Return micro-batches that a process accumulates into one optimizer step."""
    r, h = profile.rollouts, profile.hardware
    return r.prompts * r.group_size // h.processes // profile.training.micro


def commands(profile: Profile, source: str, changes: tuple[str, ...] = ()) -> list[str]:
    """Return the shell commands that start the training where its hardware is.

    Args:
        profile: the training.
        source: what names it on the command line.
        changes: its ``key=value``.

    >>> from rubricnb.train.profile import load_profile
    >>> commands(load_profile("cpu"), "cpu")
    ['rubricnb train cpu']
    """
    h, run = profile.hardware, ["train", source]
    for change in changes:
        run += ["--set", change]
    server, devices = [], h.gpus
    if (h.vllm or {}).get("mode") == "server":
        width = h.vllm.get("tensor_parallel_size", 1)
        devices = h.gpus - width
        ids = ",".join(map(str, range(devices, h.gpus)))
        told = ["trl", "vllm-serve", "--model", profile.policy.model]
        told += ["--tensor_parallel_size", str(width)]
        for name, flag in (
            ("max_model_length", "--max_model_len"),
            ("gpu_memory_utilization", "--gpu_memory_utilization"),
        ):
            if name in h.vllm:
                told += [flag, str(h.vllm[name])]
        server = [f"CUDA_VISIBLE_DEVICES={ids} {shlex.join(told)}"]
    if accelerate_config(profile) is None:
        return [*server, shlex.join(["rubricnb", *run])]
    if h.gpus == 0:  # `accelerate launch --cpu` starts a single process
        ranks = f"torchrun --nproc_per_node {h.processes}"
        return [*server, f"ACCELERATE_USE_CPU=1 {ranks} -m rubricnb {shlex.join(run)}"]
    ids = ",".join(map(str, range(devices)))
    launch = f"CUDA_VISIBLE_DEVICES={ids} accelerate launch --config_file accelerate.yaml -m"
    write = f"rubricnb {shlex.join(run)} --accelerate accelerate.yaml"
    return [write, *server, f"{launch} rubricnb {shlex.join(run)}"]
