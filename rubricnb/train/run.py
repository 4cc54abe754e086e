"""Train one arm of the study: policy, arm and seed in, a run folder out (see experiments/records).

Every step is checkpointed by trl; a killed training goes on from its last whole checkpoint and
ends with the parameters and rows of an unbroken one. Nothing here computes an advantage.

Under ``torchrun`` the processes share the batch of a step, and the main one alone writes the
folder and evaluates.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from datasets import Dataset
from peft import PeftModel
from transformers import TrainerCallback

from ..errors import ConfigError
from ..files import graded_to_json, to_json
from ..policy.rollout import columns, roll
from ..policy.tokens import Words, load_tokenizer
from ..policy.warmup import open_policy, policy_folder
from ..rubric import Rubric
from ..seeds import child_seed
from ..trajectory import Group
from ..worlds.desk import OrdersDesk
from ..worlds.desk_judge import offline_judge
from ..worlds.static_rubric import Limits, save_static, select_static
from .arms import Arm
from .arms import arm as arm_of
from .credit_trainer import CreditGRPOTrainer, CreditStep, WithoutCards
from .evaluate import evaluate
from .flagged import flagging
from .graders import ArmGrader, sample_of, summed
from .settings import DEPARTURES, Settings, grpo_config, lora
from .slices import SlicedLogps
from .steps import step_row

BASE = "base"  # the arm that is not trained
BASE_ROLLOUTS = 8  # a task, for choosing the static rubric, as the paper's 720


def train_arm(
    policy: str, arm: str | Arm, seed: int, folder: str | Path, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Train and evaluate one arm into a folder; continue what the folder holds.

    Args:
        policy: "main", "weak", or the path of a policy folder.
        arm: a name of ``ARMS``, "base", or an ``Arm`` of one's own.
        seed: of the training: task order, rollouts, judge noise, adapter.
        folder: the run folder.
        settings: fields of ``Settings``.
    Returns:
        {"global_step": optimizer steps done}.
    Raises:
        ConfigError: the folder was made with other settings.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    told = Settings.of(settings)
    plan = arm if isinstance(arm, Arm) else None if arm == BASE else arm_of(arm)
    arm_name = BASE if plan is None else plan.name
    config = {
        "policy": policy,
        "arm": arm_name,
        "seed": seed,
        "settings": told.to_json(),
        "signal": to_json(plan) if plan else None,
        "departures": DEPARTURES,
    }
    _same(folder / "config.json", config)
    if (folder / "eval.jsonl").exists():  # Written last, and whole.
        return _done(folder, 0 if plan is None else told.steps)
    torch.manual_seed(child_seed(seed, "torch"))
    np.random.seed(child_seed(seed, "numpy"))
    random.seed(child_seed(seed, "python"))
    model, words = open_policy(policy)
    head = {"arm": arm_name, "policy": policy, "seed": seed}
    if plan is None:
        if _main():
            _evaluate([(0, model)], words, told, head, folder)
        return {"global_step": 0}
    trained = _train(policy, plan, seed, told, folder)
    if not _main():
        return {"global_step": trained}
    adapters = {n: folder / "adapters" / f"step-{n}" for n in told.checkpoints}
    _evaluate(_with_adapters(policy, adapters), words, told, head, folder)
    return _done(folder, trained)


def train_condition(
    policy: str, name: str, seed: int, folder: str | Path, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Train one condition of a study: ``train_arm`` with the arm among the settings.

    Args:
        policy, seed, folder: as ``train_arm``.
        name: what the condition is called.
        settings: fields of ``Settings``, and "arm": the fields of an ``Arm`` but its name; None
            leaves the policy untrained.
    """
    rest = {k: v for k, v in settings.items() if k != "arm"}
    told = settings["arm"]
    arm = BASE if told is None else Arm(name, **told)
    return train_arm(policy, arm, seed, folder, rest)


def _main() -> bool:
    """Whether this process writes: the only one, or the first of torchrun's."""
    return os.environ.get("RANK", "0") == "0"


def _done(folder: Path, step: int) -> dict[str, Any]:
    """Remove what only an unfinished training needs."""
    for name in ("trainer", "groups") if _main() else ():
        shutil.rmtree(folder / name, ignore_errors=True)
    return {"global_step": step}


def _with_adapters(policy: str, adapters: Mapping[int, Path]) -> Iterator[tuple[int, PeftModel]]:
    """The policy with each checkpoint's adapter, one at a time."""
    for step, path in adapters.items():
        yield step, PeftModel.from_pretrained(open_policy(policy)[0], path).eval()


def _same(path: Path, config: dict[str, Any]) -> None:
    """Write the configuration, or refuse to continue under another one."""
    text = json.dumps(config, indent=1, sort_keys=True) + "\n"
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        now = json.loads(text)
        if before != now:
            differ = sorted(k for k in {*before, *now} if before.get(k) != now.get(k))
            raise ConfigError(
                f"{path}: want the configuration that this training began with; got another "
                f"{', '.join(differ)} (choose another folder, or remove this one)"
            )
    elif _main():
        _write(path, [text])


def static_rubric(policy: torch.nn.Module, words: Words, plan: Arm, folder: Path) -> Rubric:
    """Choose the static arms' rubric from the untrained policy's rollouts, and record the rates.

    The same for every seed: rollouts and judge are seeded apart from the training.
    """
    world = OrdersDesk()
    tasks = [t for t in world.tasks("train") for _ in range(BASE_ROLLOUTS)]
    seeds = [child_seed(0, "static rubric", t.id, i % BASE_ROLLOUTS) for i, t in enumerate(tasks)]
    made = [s.trajectory for s in roll(policy, words, world, tasks, seeds)]
    groups = [
        Group(made[i].task, tuple(made[i : i + BASE_ROLLOUTS]))
        for i in range(0, len(made), BASE_ROLLOUTS)
    ]
    judge = offline_judge(style=plan.style)
    rubric, rows = select_static(groups, judge)
    source = f"{len(made)} rollouts of the untrained policy"
    if _main():
        save_static(folder / "static_rubric.json", rows, Limits(), source, judge.name)
    return rubric


class StudyTrainer(SlicedLogps, WithoutCards):
    """The trainer of the study: the same numbers with less padding, and no model cards."""


class DeskRollouts:
    """trl's rollout function over the bundled desk; seeds follow from the step's number."""

    def __init__(self, words: Words, settings: Settings, seed: int) -> None:
        self.world, self.words, self.seed = OrdersDesk(), words, seed
        self.tasks = {t.id: t for t in self.world.tasks(settings.pool)}

    def __call__(self, prompts: list[str], trainer: CreditGRPOTrainer) -> dict[str, list]:
        step, first = trainer.state.global_step, trainer.accelerator.process_index * len(prompts)
        names = [f"{p}/{step}.{first + i}" for i, p in enumerate(prompts)]
        made = roll(
            trainer.accelerator.unwrap_model(trainer.model),
            self.words,
            self.world,
            [self.tasks[p] for p in prompts],
            [child_seed(self.seed, "rollout", name) for name in names],
            ids=names,
        )
        return columns(made)


class Recorder(TrainerCallback):
    """One row a step, sampled groups, adapters at the checkpoints; whole or not at all."""

    def __init__(self, folder: Path, settings: Settings, grader: ArmGrader) -> None:
        self.folder, self.settings, self.grader = folder, settings, grader
        self.rows: list[dict[str, Any]] = []
        self.pending: dict[str, Any] = {}
        (folder / "groups").mkdir(exist_ok=True)

    def observe(self, seen: CreditStep) -> None:
        """The trainer's observer: called before the optimizer step."""
        self.pending = {**step_row(seen), "judge": summed(seen.bills)}
        kept = sample_of(seen.groups, seen.grades, seen.step + 1, self.settings.keep_groups)
        lines = [json.dumps(graded_to_json(g)) + "\n" for g in kept]
        (self.folder / "groups" / f"{seen.step + 1:05d}.jsonl").write_text("".join(lines))

    def on_log(self, args, state, control, logs=None, **kwargs):
        if self.pending and logs and "loss" in logs:
            keep = ("loss", "grad_norm", "kl", "entropy")
            row = {"step": state.global_step, **self.pending}
            self.rows.append({**row, **{k: logs[k] for k in keep if k in logs}})
            self.pending = {}

    def on_save(self, args, state, control, model=None, **kwargs):
        # Each process knows the rubrics of its own tasks. Who has gathered them knows, too, that
        # every process has saved its part of the checkpoint.
        known = {json.dumps(row): None for row in gather_object(self.grader.memory())}
        if not state.is_world_process_zero:
            return
        if state.global_step in self.settings.checkpoints:
            model.save_pretrained(self.folder / "adapters" / f"step-{state.global_step}")
        _write(self.folder / "train.jsonl", (json.dumps(r) + "\n" for r in self.rows))
        checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        (checkpoint / "task_rubrics.json").write_text(f"[{', '.join(known)}]")
        # Written last: a checkpoint without it was cut short and is not continued from.
        (checkpoint / "whole").touch()

    def back_to(self, checkpoint: Path) -> int:
        """Take up the records as they were at a checkpoint; return its step."""
        step = int(checkpoint.name.split("-")[1])
        self.grader.recall(json.loads((checkpoint / "task_rubrics.json").read_text()))
        path = self.folder / "train.jsonl"
        if path.exists():
            rows = [json.loads(x) for x in path.read_text(encoding="utf-8").splitlines()]
            self.rows = [r for r in rows if r["step"] <= step]
        return step


def _write(path: Path, lines: Iterable[str]) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text("".join(lines), encoding="utf-8")
    os.replace(part, path)


def last_whole(trainer: Path) -> Path | None:
    """The newest whole checkpoint; others are removed."""
    found = sorted(trainer.glob("checkpoint-*"), key=lambda p: int(p.name.split("-")[1]))
    whole = [p for p in found if (p / "whole").exists()]
    for p in found:
        if p not in whole and _main():
            shutil.rmtree(p)
    return whole[-1] if whole else None


def _train(policy: str, plan: Arm, seed: int, settings: Settings, folder: Path) -> int:
    """Run trl to the last step and write everything but the evaluation; return the step."""
    model, words = open_policy(policy)
    static = static_rubric(model, words, plan, folder) if plan.rubric == "static" else None
    grader = ArmGrader(plan, seed, static)
    recorder = Recorder(folder, settings, grader)
    rollouts = DeskRollouts(words, settings, seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*rollout_func.*")
        warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*")
        trainer = StudyTrainer(
            model=model,
            args=grpo_config(settings, seed, folder / "trainer"),
            train_dataset=Dataset.from_list([{"prompt": name} for name in rollouts.tasks]),
            processing_class=load_tokenizer(policy_folder(policy)),
            peft_config=lora(),
            rollout_func=rollouts,
            grader=flagging(grader, settings.detector, settings.flag_above),
            rule=plan.rule,
            rule_options=plan.rule_options,
            observer=recorder.observe,
            callbacks=[recorder],
        )
        checkpoint = last_whole(folder / "trainer")
        done = 0 if checkpoint is None else recorder.back_to(checkpoint)
        # trl would take one step more where a checkpoint is of the last step already.
        if done < settings.steps:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
            done = trainer.state.global_step
    if _main():
        finish(folder, recorder, grader)
    return done


def finish(folder: Path, recorder: Recorder, grader: ArmGrader) -> None:
    files = sorted((folder / "groups").glob("*.jsonl"))
    part = folder / "groups.jsonl.gz.part"
    # No time and no name in the header: equal groups, equal bytes.
    with open(part, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as f:
        for path in files:
            f.write(path.read_bytes())
    os.replace(part, folder / "groups.jsonl.gz")
    record = grader.record()
    if record is not None:
        record["phases"] = phases = summed(r["judge"] for r in recorder.rows)
        record |= summed({"total": bill} for bill in phases.values())
        _write(folder / "judge.json", [json.dumps(record, indent=1, sort_keys=True) + "\n"])


def _evaluate(
    policies: Iterable[tuple[int, torch.nn.Module]],
    words: Words,
    settings: Settings,
    head: Mapping[str, Any],
    folder: Path,
) -> None:
    rows = []
    for step, policy in policies:
        found = evaluate(
            policy,
            words,
            splits=settings.splits,
            runs=settings.eval_runs,
            scenarios=settings.eval_scenarios,
        )
        rows += [{**head, "step": step, **row} for row in found]
    _write(folder / "eval.jsonl", (json.dumps(r) + "\n" for r in rows))
