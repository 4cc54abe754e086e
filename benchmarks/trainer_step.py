"""What does step credit add to a training step of trl's own GRPOTrainer?

Rollouts of the bundled policy are sampled and judged once and then replayed, the same ones to
both trainers: plain trl with the rubric reward, and CreditGRPOTrainer with DRACO's credit. What is
timed is all else: padding, the reference's log-probabilities, rewards, credit, loss, backward,
optimizer. Rounds alternate and processor time is counted, because other work disturbs both; on a
busy machine the ratio of the medians still moves by several percent. So what credit adds is also
clocked within the step: all of our trainer's code that is not trl's, the grader's call included.
Exit
status 1 if either ratio is above --limit: the clock explains the ratio, it does not replace it.

Run: python benchmarks/trainer_step.py [--steps 6] [--rounds 3] [--limit 1.03]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import ClassVar
from unittest import mock

import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOTrainer

from rubricnb.judge import grade
from rubricnb.policy.rollout import roll
from rubricnb.policy.tokens import load_tokenizer
from rubricnb.policy.warmup import checkpoint, open_policy
from rubricnb.train.credit_trainer import CreditGRPOTrainer
from rubricnb.train.settings import Settings, grpo_config, lora
from rubricnb.trajectory import Group
from rubricnb.worlds.desk import OrdersDesk
from rubricnb.worlds.desk_judge import offline_judge


class Clock(TrainerCallback):
    """Processor time of each step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.seconds.append(time.process_time())

    def on_step_end(self, args, state, control, **kwargs):
        self.seconds[-1] = time.process_time() - self.seconds[-1]


class Clocked(CreditGRPOTrainer):
    """The trainer with a clock on all that it adds to trl's."""

    own: ClassVar[list[float]] = []  # a step

    def _generate_and_score_completions(self, inputs):
        trl, inside = GRPOTrainer._generate_and_score_completions, [0.0]

        def clocked(trainer, rows):
            start = time.process_time()
            try:
                return trl(trainer, rows)
            finally:
                inside[0] = time.process_time() - start

        self.grading, start = 0.0, time.process_time()
        with mock.patch.object(GRPOTrainer, "_generate_and_score_completions", clocked):
            output = super()._generate_and_score_completions(inputs)
        self.own.append(time.process_time() - start - inside[0] + self.grading)
        return output

    def _grade(self, *args):
        start = time.process_time()
        try:
            return super()._grade(*args)
        finally:
            self.grading += time.process_time() - start


def recorded(settings: Settings) -> tuple[list, list, dict[str, float]]:
    """One generation batch: rollouts as trl wants them, graded groups, and what they cost."""
    model, words = open_policy("main")
    world, G = OrdersDesk(), settings.group_size
    tasks = [t for t in world.tasks("train")[:: 90 // settings.groups] for _ in range(G)]
    tasks = tasks[: settings.groups * G]
    start = time.process_time()
    made = roll(model, words, world, tasks, range(len(tasks)))
    rolled = time.process_time()
    groups = [
        Group(made[i].trajectory.task, tuple(s.trajectory for s in made[i : i + G]))
        for i in range(0, len(made), G)
    ]
    graded = grade(groups, offline_judge())
    return made, graded, {"rollouts": rolled - start, "judge": time.process_time() - rolled}


def timed(kind: str, made: list, graded: list, settings: Settings, folder: Path) -> list[float]:
    """Seconds of each step but the first, which warms up."""
    by_id = {g.group.task.id: g for g in graded}
    queue = {key: [s for s in made if s.trajectory.task.id == key] for key in by_id}

    def rollouts(prompts: list[str], trainer) -> dict[str, list]:
        seen: dict[str, int] = {}
        batch = []
        for p in prompts:
            batch.append(queue[p][seen.get(p, 0)])
            seen[p] = seen.get(p, 0) + 1
        return {
            "prompt_ids": [list(s.prompt_ids) for s in batch],
            "completion_ids": [list(s.completion_ids) for s in batch],
            "logprobs": [list(s.logprobs) for s in batch],
            "env_mask": [list(s.action_mask) for s in batch],
            "step_ids": [list(s.step_ids) for s in batch],
            "trajectory": [s.trajectory for s in batch],
        }

    def reward(prompts, completions, trajectory, **_):
        return [t.outcome for t in trajectory]

    clock = Clock()
    signal = (
        {"reward_funcs": [reward]}
        if kind == "trl"
        else {"grader": lambda groups: [by_id[g.task.id] for g in groups], "rule": "draco"}
    )
    args = grpo_config(settings, 0, folder)
    args.save_strategy = "no"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (GRPOTrainer if kind == "trl" else Clocked)(
            model=open_policy("main")[0],
            args=args,
            train_dataset=Dataset.from_list([{"prompt": key} for key in by_id]),
            processing_class=load_tokenizer(checkpoint("main")),
            peft_config=lora(),
            rollout_func=rollouts,
            callbacks=[clock],
            **signal,
        ).train()
    return clock.seconds[1:]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--limit", type=float, default=1.03)
    a = p.parse_args()
    torch.set_num_threads(1)
    settings = Settings(steps=a.steps + 1, checkpoints=(a.steps + 1,))
    made, graded, cost = recorded(settings)
    seconds: dict[str, list[float]] = {"trl": [], "credit": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(a.rounds):
            for kind, found in seconds.items():
                found += timed(kind, made, graded, settings, Path(folder))
    trl, credit = (statistics.median(seconds[k]) for k in ("trl", "credit"))
    print(f"{len(made)} rollouts, {sum(len(s.completion_ids) for s in made)} tokens")
    print(f"sampling   {cost['rollouts']:.3f} s    judging   {cost['judge']:.3f} s   (not timed)")
    print(f"trl alone  {trl:.3f} s    with credit {credit:.3f} s    ratio {credit / trl:.3f}")
    own = statistics.median(Clocked.own)
    print(f"of that, credit's own code {1000 * own:.1f} ms a step: ratio {1 + own / trl:.3f}")
    return int(max(credit, trl + own) / trl > a.limit)


if __name__ == "__main__":
    sys.exit(main())
