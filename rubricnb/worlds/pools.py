"""The splits: scenarios of three variants, for training, development, test and warm-up.

A template fixes what is asked and where the trap is; a scenario is one template; its three
variants have other people, items, days and streets.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..seeds import child_seed
from .base import WorldTask
from .lexicon import LEXICONS
from .shops import make_task
from .templates import (
    ALL_COMBINATIONS,
    CHALLENGE_COMBINATIONS,
    LIBRARY_COMBINATIONS,
    TRAIN_COMBINATIONS,
    Pool,
    make_template,
)

VARIANTS = 3

POOLS: Mapping[str, Pool] = {
    p.name: p
    for p in (
        Pool("train", (36, 30, 24)),
        Pool("dev", (42, 36, 42)),
        Pool("dev_challenge", (24, 48, 48), CHALLENGE_COMBINATIONS),
        Pool("test_normal", (57, 48, 63)),
        Pool("test_challenge", (72, 150, 195), CHALLENGE_COMBINATIONS),
        Pool("long_train", (0, 0, 90)),
        Pool("long_dev", (0, 0, 120)),
        Pool("long_test", (0, 0, 168)),
        # Fresh pools of the training studies: nothing was looked at on them before.
        Pool("study_train", (36, 30, 24), seed=1),
        Pool("study_test", (57, 48, 63), seed=1),
        Pool("study_long_train", (0, 0, 90), seed=1),
        Pool("study_long_test", (0, 0, 168), seed=1),
        Pool("transfer", (36, 36, 25), LIBRARY_COMBINATIONS, desk="library"),
    )
}


def make_pool(pool: Pool) -> tuple[WorldTask, ...]:
    """All tasks of a pool, three variants a scenario, the last scenario cut where it must be."""
    lex, out = LEXICONS[pool.desk], []
    scenario = 0
    for difficulty, count in enumerate(pool.tasks, start=1):
        for start in range(0, count, VARIANTS):
            name = f"{pool.name}_{scenario:03d}"
            rng = random.Random(child_seed(pool.seed, "pool", pool.name, scenario))
            template = make_template(rng, pool, difficulty)
            for v in range(1, min(VARIANTS, count - start) + 1):
                draw = random.Random(child_seed(pool.seed, "task", pool.name, scenario, v))
                task = make_task(
                    draw, lex, template, id=f"{name}_{v}", scenario=name, split=pool.name
                )
                out.append(task)
            scenario += 1
    return tuple(out)


def warm_up_tasks(seed: int, *, library: float = 0.2, unseen: float = 0.5) -> Iterator[WorldTask]:
    """Endless tasks for supervised warm-up, from a stream that no split uses.

    Args:
        seed: names the stream.
        library: share of tasks at the library desk.
        unseen: weight of a combination that RL never trains on, relative to one that it does.
    """
    everything = Pool("warm_up", (1, 1, 1), ALL_COMBINATIONS, seed=seed)
    seen = replace(everything, combinations=TRAIN_COMBINATIONS)
    second = replace(everything, combinations=LIBRARY_COMBINATIONS, desk="library")
    number = 0
    while True:
        rng = random.Random(child_seed(seed, "warm_up", number))
        pool = second if rng.random() < library else everything
        difficulty = rng.choice((1, 2, 3))
        if pool is everything and rng.random() > unseen / (1 + unseen):
            pool = seen
        template = make_template(rng, pool, difficulty)
        name = f"warm_up_{seed}_{number:06d}"
        yield make_task(
            rng, LEXICONS[pool.desk], template, id=f"{name}_1", scenario=name, split="warm_up"
        )
        number += 1
