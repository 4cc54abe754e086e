"""How much faster are the tiny policy's rollouts than trl's own generation path on the CPU?

Both sample from the bundled policy with its adapter, as it stands in a training, for the same
tasks at the same batch, and take turns in being timed: ours with one cache over all turns of an
episode, trl's as its ``GRPOTrainer`` does it for an episode of tools, one
``_generate_single_turn`` a turn over the whole history. trl is given the histories of our own
rollouts, so that both sample as many turns after the same words. The world's answers and the
transcripts cost both sides the same and are timed once, on both. Exit status 1 below --limit.

Run: python benchmarks/rollouts.py [--split train] [--batch 96] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from datasets import Dataset
from trl import GRPOTrainer

from rubricnb.policy.rollout import Sampled, roll
from rubricnb.policy.tokens import END, load_tokenizer
from rubricnb.policy.warmup import checkpoint, open_policy
from rubricnb.train.settings import Settings, grpo_config, lora
from rubricnb.worlds.desk import OrdersDesk
from rubricnb.worlds.transcript import as_trajectory

ACTION = 8  # most tokens of an action, on both sides


def ours(model, words, tasks: list) -> tuple[list[Sampled], float, int]:
    """Rollouts, processor seconds, sampled tokens."""
    start = time.process_time()
    made = roll(model, words, OrdersDesk(), tasks, range(len(tasks)))
    seconds = time.process_time() - start
    return made, seconds, sum(sum(s.action_mask) for s in made)


def worlds(made: list[Sampled], tasks: list) -> float:
    """Processor seconds of the worlds alone: the same actions once more, and the transcripts."""
    start = time.process_time()
    for k, (sampled, task) in enumerate(zip(made, tasks, strict=True)):
        episode = OrdersDesk().reset(task, k)
        for step in sampled.trajectory.steps:
            episode.act(step.text)
        as_trajectory(episode, sampled.trajectory.id)
        episode.evaluate()
    return time.process_time() - start


def histories(made: list[Sampled]) -> list[list[list[int]]]:
    """Turn by turn, what each live rollout had been shown when it spoke."""
    turns = max(max(s.step_ids) for s in made)
    out = []
    for k in range(1, turns + 1):
        live = [s for s in made if k in s.step_ids]
        out.append([[*s.prompt_ids, *s.completion_ids[: s.step_ids.index(k)]] for s in live])
    return out


def theirs(trainer: GRPOTrainer, turns: list[list[list[int]]]) -> tuple[float, int]:
    """Processor seconds and sampled tokens of trl's path over the same histories."""
    start, tokens = time.process_time(), 0
    for shown in turns:
        ids, _ = trainer._generate_single_turn(shown, None, {}, 1)
        tokens += sum(len(i) for i in ids)
    return time.process_time() - start, tokens


def trl_trainer(folder: Path) -> GRPOTrainer:
    """trl's trainer around the bundled policy, one action a turn."""
    args = grpo_config(Settings(steps=1, checkpoints=(1,)), 0, folder)
    args.max_completion_length = ACTION
    args.generation_kwargs = {"eos_token_id": END}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GRPOTrainer(
            model=open_policy("main")[0],
            args=args,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            train_dataset=Dataset.from_list([{"prompt": "find"}]),
            processing_class=load_tokenizer(checkpoint("main")),
            peft_config=lora(),
        )


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--split", default="train", help="long_train has three times the turns")
    p.add_argument("--batch", type=int, default=96)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--limit", type=float, default=5.0)
    a = p.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    words = open_policy("main")[1]
    every = OrdersDesk().tasks(a.split)
    tasks = [t for t in every[:: max(1, 6 * len(every) // a.batch)] for _ in range(6)][: a.batch]
    ratios, speeds = [], []
    with tempfile.TemporaryDirectory() as folder:
        trainer = trl_trainer(Path(folder))
        for _ in range(a.rounds):
            made, seconds, tokens = ours(trainer.model, words, tasks)
            their_seconds, their_tokens = theirs(trainer, histories(made))
            their_seconds += worlds(made, tasks)
            speeds.append((tokens / seconds, their_tokens / their_seconds))
            ratios.append(speeds[-1][0] / speeds[-1][1])
    mine, other = (statistics.median(s) for s in zip(*speeds, strict=True))
    ratio = statistics.median(ratios)
    turns = statistics.mean(len(s.trajectory) for s in made)
    print(f"{len(tasks)} rollouts of {turns:.1f} turns side by side, {a.rounds} rounds, one thread")
    print(f"ours {mine:,.0f} tokens/s   trl {other:,.0f} tokens/s   (worlds included)")
    print(f"ratio {ratio:.1f} (want >= {a.limit:g}); rounds {[round(r, 1) for r in ratios]}")
    return int(ratio < a.limit)


if __name__ == "__main__":
    sys.exit(main())
