"""What a training of the study is told: the paper's values where they make sense at this scale.

Every departure is listed here, in ``DEPARTURES``, and copied into each run's config.json.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from peft import LoraConfig, TaskType
from trl import GRPOConfig

from ..errors import ConfigError

# What the paper has -> what we do and why. Everything else is the paper's (its Table 10).
DEPARTURES = {
    "learning rate 5e-5": "1e-3, found for a prototype of this size: a LoRA of 82k parameters on a "
    "policy of half a million",
    "100 steps": "as many as the profile says (32 or 40): the curves have flattened by then",
    "minibatch of 8 rollouts": "one minibatch a step: ratio 1, as the paper's text says",
    "dual clip 3.0": "off: with ratio 1 it never acts",
    "50 turns, response 24,576 tokens": "24 turns, 640 tokens: the desk's tasks are shorter",
    "G = 6 with std, eps not given": "ddof 1 and eps 1e-6",
}


@dataclass(frozen=True)
class Settings:
    """Settings of one training; equal for every arm and seed of a profile.

    Args:
        steps: optimizer steps.
        groups: tasks a step.
        group_size: rollouts a task (G).
        checkpoints: steps whose policy is evaluated.
        eval_runs: runs a task in an evaluation.
        eval_scenarios: scenarios of each split; None for all.
        splits: what is evaluated; the tables read the test splits.
        pool: the split that is trained on.
        lr: learning rate, constant.
        beta: weight of the KL term (k3).
        keep_groups: graded groups a step that are kept in the run folder.
        detector: file of a false-success detector (``rubricnb lab`` writes one); rollouts that it
            flags get no reward. "" for none.
        flag_above: flag where its score is above, in [0, 1].
    """

    steps: int = 40
    groups: int = 16
    group_size: int = 6
    checkpoints: tuple[int, ...] = (36, 38, 40)
    eval_runs: int = 3
    eval_scenarios: int | None = None
    splits: tuple[str, ...] = ("test_normal", "test_challenge", "transfer")
    pool: str = "train"
    lr: float = 1e-3
    beta: float = 0.01
    keep_groups: int = 4
    detector: str = ""
    flag_above: float = 0.5

    def __post_init__(self) -> None:
        bad = [c for c in self.checkpoints if not 1 <= c <= self.steps]
        if bad or not self.checkpoints:
            raise ConfigError(
                f"want checkpoints between 1 and {self.steps} steps; got {self.checkpoints}"
            )
        if not 0 <= self.flag_above <= 1:
            raise ConfigError(f"want flag_above in [0, 1]; got {self.flag_above}")
        if self.group_size < 2:
            raise ConfigError(f"want group_size >= 2, a group to compare; got {self.group_size}")

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Settings:
        """Return settings from a mapping, lists as tuples.

        Raises:
            ConfigError: for a name that is not a setting.
        """
        unknown = sorted(set(told) - {f.name for f in fields(cls)})
        if unknown:
            raise ConfigError(
                f"want settings among {[f.name for f in fields(cls)]}; got {unknown[0]!r}"
            )
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in told.items()})

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON types; without a detector, nothing is said of one."""
        out = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        if not self.detector:
            del out["detector"], out["flag_above"]
        return out


def lora() -> LoraConfig:
    """The paper's adapter: r 16, alpha 32, every linear layer."""
    return LoraConfig(
        r=16,
        lora_alpha=32,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type=TaskType.CAUSAL_LM,
    )


def grpo_config(settings: Settings, seed: int, folder: Path) -> GRPOConfig:
    """trl's configuration: one generation batch is one optimizer step, on the CPU in float32.

    Raises:
        ConfigError: torchrun's processes cannot share a step's rollouts evenly.
    """
    batch, processes = settings.groups * settings.group_size, int(os.environ.get("WORLD_SIZE", "1"))
    if batch % processes:
        raise ConfigError(
            f"want as many rollouts in each of {processes} processes; got {batch} in all "
            "(groups x group_size)"
        )
    return GRPOConfig(
        output_dir=str(folder),
        seed=seed,
        data_seed=seed,
        max_steps=settings.steps,
        per_device_train_batch_size=batch // processes,
        num_generations=settings.group_size,
        max_completion_length=4096,  # the rollouts set their own limit
        learning_rate=settings.lr,
        lr_scheduler_type="constant",
        weight_decay=0.01,
        max_grad_norm=1.0,
        beta=settings.beta,
        epsilon=0.2,
        loss_type="dapo",  # the token-mean over the batch
        scale_rewards="group",
        temperature=1.0,
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        logging_steps=1,
        save_strategy="steps",
        save_steps=1,
        save_total_limit=2,
        report_to=[],
        disable_tqdm=True,
    )
