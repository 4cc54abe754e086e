"""ARCO: a rubric model scores the steps of every batch and learns from the same batch's outcomes.

    batch of groups --criteria, scores--> score_GS --rule ``arco``--> credit of the policy's tokens
                    --outcomes----------> one update of the rubric model

The model of a batch is the one before its update. Departures from the paper, which trains two 4B
adapters: the warm-up stands for the three sparse epochs, in which the policy learns from outcomes
alone; an update sees some of the batch's rollouts; criteria are written again after every
``refresh`` updates only.
"""

from __future__ import annotations

import base64
import io
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..credit import CreditBatch
from ..errors import ConfigError
from ..policy.rubric_files import SMALL, open_rubric, small_config
from ..policy.rubric_model import RubricConfig, RubricModel
from ..policy.step_view import StepView, step_views
from ..seeds import generator
from ..trajectory import Group
from .rubric_losses import RubricLearning, learn_outcomes, optimizer_of
from .rubric_recipe import warmed

_SMALL_LEARNING = {"lr": 1e-4, "head_lr": 5e-4}


@dataclass(frozen=True)
class Variant:
    """One arm of the study of rubric models.

    Args:
        config: changes of the small model's ``RubricConfig``.
        learning: changes of ``RubricLearning``.
        frozen: whether the model stays as it was warmed up.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    learning: Mapping[str, Any] = field(default_factory=dict)
    frozen: bool = False

    @property
    def opaque(self) -> bool:
        """Whether steps are scored by the outcome itself, without decomposition."""
        return self.learning.get("loss") == "return"


VARIANTS: Mapping[str, Variant] = {
    "arco": Variant(),
    "arco_frozen": Variant(frozen=True),
    "arco_no_rubric": Variant({"rubric": "none"}),
    "arco_no_adaptive": Variant({"rubric": "fixed"}),
    "arco_no_prefix": Variant({"prefix": False}),
    "arco_k1": Variant({"criteria": 1}),
    "arco_k2": Variant({"criteria": 2}),
    "arco_k4": Variant({"criteria": 4}),
    # An opaque process reward: one number a step, fitted to the outcome, no text (AgentPRM).
    "agentprm": Variant({"criteria": 1, "rubric": "none"}, {"loss": "return", "beta": 0.0}),
}


class Arco:
    """A rubric model with its learning: whole groups in, step scores out.

    Args:
        model: warmed up, its reference kept.
        learning: how it learns; None: it does not.
        seed: of the choice of rollouts that it learns from.
        rollouts: how many of a batch's rollouts an update sees.
        refresh: updates after which criteria are written anew.
        budget: most actions of an episode.
    """

    def __init__(
        self,
        model: RubricModel,
        learning: RubricLearning | None = None,
        seed: int = 0,
        *,
        rollouts: int = 24,
        refresh: int = 8,
        budget: int = 24,
    ) -> None:
        self.model, self.learning, self.seed = model, learning, seed
        self.rollouts, self.refresh, self.budget = rollouts, refresh, budget
        numbers = learning or RubricLearning()
        self.opaque = numbers.loss == "return"
        self.optimizer = optimizer_of(model, numbers.lr, numbers.head_lr)
        self.updates = 0
        self._criteria: dict[StepView, str] = {}
        self.told: dict[str, float] = {}

    def criteria(self, views: Sequence[StepView]) -> list[str]:
        """Return each step's criteria; written once a view until the next refresh."""
        missing = list(dict.fromkeys(v for v in views if v not in self._criteria))
        self._criteria.update(zip(missing, self.model.write(missing), strict=True))
        return [self._criteria[v] for v in views]

    def __call__(self, groups: Sequence[Group]) -> list[CreditBatch]:
        """Score whole groups, then learn from their outcomes.

        Raises:
            ConfigError: in a training of several processes: each would learn another model.
        """
        _alone()
        began, known = time.perf_counter(), len(self._criteria)
        each = [t for g in groups for t in g.trajectories]
        views = [step_views(t, self.budget) for t in each]
        flat = [v for vs in views for v in vs]
        texts = self.criteria(flat)
        score = self.model.scores(flat, texts).mean(1).double().numpy()
        cut = np.cumsum([len(vs) for vs in views])[:-1]
        rows = np.split(score, cut)
        batches, at = [], 0
        for g in groups:
            batches.append(_batch(g, rows[at : at + len(g)], self.opaque))
            at += len(g)
        new = len(self._criteria) - known
        self.told = {
            "calls": new,
            "steps": len(flat),
            "scoring_seconds": round(time.perf_counter() - began, 3),
        }
        self._learn(views, [list(map(self._criteria.__getitem__, vs)) for vs in views], each)
        return batches

    def _learn(self, views: list, texts: list, each: Sequence) -> None:
        if self.learning is None:
            return
        began = time.perf_counter()
        good = [i for i, t in enumerate(each) if t.outcome is not None and len(t)]
        rng = generator(self.seed, "rubric updates", self.updates)
        at = sorted(rng.permutation(good)[: self.rollouts].tolist())
        said = learn_outcomes(
            self.model,
            self.optimizer,
            [views[i] for i in at],
            [texts[i] for i in at],
            [float(each[i].outcome) for i in at],
            self.learning,
        )
        self.updates += 1
        if self.updates % self.refresh == 0:
            self._criteria.clear()
        seconds = round(time.perf_counter() - began, 3)
        self.told |= {**said, "learning_seconds": seconds, "peak_mb": _peak()}

    def state(self) -> str:
        """Weights, optimizer, number of updates and criteria as text, for a checkpoint."""
        held = io.BytesIO()
        told = {
            "trained": [p.detach() for p in (*self.model.trained(), *self.model.head.parameters())],
            "optimizer": self.optimizer.state_dict(),
            "updates": self.updates,
            "criteria": [(v.task, v.past, v.left, v.action, c) for v, c in self._criteria.items()],
        }
        torch.save(told, held)
        return base64.b64encode(held.getvalue()).decode()

    def restore(self, state: str) -> None:
        """Take back what ``state`` returned."""
        told = torch.load(io.BytesIO(base64.b64decode(state)), weights_only=True)
        own = (*self.model.trained(), *self.model.head.parameters())
        for p, value in zip(own, told["trained"], strict=True):
            p.data.copy_(value)
        self.optimizer.load_state_dict(told["optimizer"])
        self.updates = told["updates"]
        self._criteria = {
            StepView(task, tuple(map(tuple, past)), left, action): c
            for task, past, left, action, c in told["criteria"]
        }


def process_scores(score_S: np.ndarray, opaque: bool) -> np.ndarray:
    """Return step scores whose reward-to-go is what the rule centres.

    Decomposed scores stay as they are. An opaque model says Q after each step, and the rule has to
    centre Q itself: s[t] = Q[t] - Q[t + 1], and Q at the last step.
    """
    return score_S - np.append(score_S[1:], 0.0) if opaque else score_S


def _batch(group: Group, rows: Sequence[np.ndarray], opaque: bool) -> CreditBatch:
    S = max(1, *(len(t) for t in group.trajectories))
    tokens, score = np.zeros((len(group), S)), np.full((len(group), S), np.nan)
    kinds = [[s.kind for s in t.steps] + [""] * (S - len(t)) for t in group.trajectories]
    for g, (t, row) in enumerate(zip(group.trajectories, rows, strict=True)):
        tokens[g, : len(t)] = [max(s.tokens or 1, 1) for s in t.steps]
        score[g, : len(t)] = process_scores(row, opaque)
    return CreditBatch(
        tokens,
        outcome_G=[np.nan if t.outcome is None else t.outcome for t in group.trajectories],
        score_GS=score,
        kind_GS=np.array(kinds, dtype=np.str_),
    )


def _alone() -> None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        n = torch.distributed.get_world_size()
        if n > 1:
            raise ConfigError(f"want one process for an arm that trains a rubric model; got {n}")


def _peak() -> int:
    """Largest memory of this process so far, MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20


def open_arco(variant: str, seed: int = 0, *, model: str = SMALL, **options: Any) -> Arco:
    """Return a variant's rubric model, warmed up, with its learning.

    Args:
        variant: a name of ``VARIANTS``.
        seed: of the training.
        model: "small"; or any other name of ``open_rubric``, which then has to be warmed up by
            ``rubric_losses.warm_up``.
        options: of ``Arco``.
    Raises:
        ConfigError: another name.
    """
    if variant not in VARIANTS:
        raise ConfigError(f"want a variant among {list(VARIANTS)}; got {variant!r}")
    told = VARIANTS[variant]
    if model == SMALL:
        opened = warmed(small_config(**told.config), opaque=told.opaque)
        numbers = {**_SMALL_LEARNING, **told.learning}
    else:
        # A folder keeps the configuration that it was warmed up with.
        whole = (Path(model) / "rubric.json").is_file()
        opened = open_rubric(model, None if whole else RubricConfig(**told.config), seed)
        numbers = told.learning
        opened.keep_reference()
    return Arco(opened, None if told.frozen else RubricLearning(**numbers), seed, **options)
