"""Warm-up of the small rubric model: which rollouts, which annotations, how long; and its variants.

A variant that reads or scores otherwise is warmed up by the same recipe, never patched onto the
bundled one: an ablation that starts from another's training would not be one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from ..files import content_hash
from ..policy.rollout import roll
from ..policy.rubric_files import SHIPPED, fresh_small, open_rubric, save_rubric, small_config
from ..policy.rubric_model import RubricConfig, RubricModel
from ..policy.warmup import open_policy
from ..seeds import child_seed
from ..trajectory import Trajectory
from ..worlds.desk import OrdersDesk
from ..worlds.pools import warm_up_tasks
from ..worlds.step_notes import StepNote, desk_notes, desk_words
from .rubric_losses import warm_up


@dataclass(frozen=True)
class Recipe:
    """How the small rubric model is warmed up.

    Args:
        rollouts: of the untrained policy on warm-up tasks, which no split uses.
        epochs: over their steps.
        lr: of every weight.
        seed: of rollouts, weights and order.
        policy: whose rollouts.
    """

    rollouts: int = 500
    epochs: int = 6
    lr: float = 3e-3
    seed: int = 0
    policy: str = "main"


def annotated(recipe: Recipe) -> list[Trajectory]:
    """Return the recipe's rollouts."""
    policy, words = open_policy(recipe.policy)
    stream = warm_up_tasks(child_seed(recipe.seed, "rubric warm-up tasks"))
    tasks = list(islice((t for t in stream if t.spec["desk"] == "orders"), recipe.rollouts))
    seeds = [child_seed(recipe.seed, "rubric warm-up", t.id) for t in tasks]
    return [s.trajectory for s in roll(policy, words, OrdersDesk(), tasks, seeds)]


def return_notes(trajectory: Trajectory, criteria: int = 1) -> tuple[StepNote, ...]:
    """Notes without text that score every step by the outcome: an opaque process reward's."""
    R = float(trajectory.outcome or 0.0)
    return tuple(StepNote((), (R,) * criteria) for _ in trajectory.steps)


def make(
    config: RubricConfig,
    recipe: Recipe,
    *,
    opaque: bool = False,
    rollouts: Sequence[Trajectory] | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> RubricModel:
    """Return a small rubric model warmed up now; minutes on one core at the defaults.

    Args:
        config: what it reads.
        recipe: how.
        opaque: scores are fitted to the outcome, not to annotated scores.
        rollouts: in place of the recipe's.
        progress: as ``warm_up``.
    """
    model = fresh_small(config, desk_words(), recipe.seed)
    told = annotated(recipe) if rollouts is None else rollouts
    notes = return_notes if opaque else desk_notes
    warm_up(
        model, told, notes, epochs=recipe.epochs, lr=recipe.lr, head_lr=recipe.lr,
        seed=recipe.seed, progress=progress,
    )  # fmt: skip
    return model


def warmed(
    config: RubricConfig | None = None,
    recipe: Recipe | None = None,
    *,
    opaque: bool = False,
    cache: str | Path | None = None,
) -> RubricModel:
    """Return a small rubric model of a recipe: the bundled one, one of the cache, or a new one.

    Args:
        config, recipe, opaque: as ``make``; default: the bundled model's.
        cache: folder; default RUBRICNB_CACHE, else ~/.cache/rubricnb.
    """
    config, recipe = config or small_config(), recipe or Recipe()
    if (config, recipe, opaque) == (small_config(), Recipe(), False) and SHIPPED.is_dir():
        folder = SHIPPED
    else:
        told = [asdict(config), asdict(recipe), opaque, list(desk_words())]
        home = cache or os.environ.get("RUBRICNB_CACHE") or Path.home() / ".cache" / "rubricnb"
        folder = Path(home) / f"rubric-{content_hash(told)[:16]}"
    if not (folder / "rubric.json").exists():
        save_rubric(make(config, recipe, opaque=opaque), folder, recipe=asdict(recipe))
    model = open_rubric(folder)
    model.keep_reference()
    return model.eval()
