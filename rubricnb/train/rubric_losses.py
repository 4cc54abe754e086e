"""How a rubric model learns: warm-up on annotated steps, then from outcomes alone.

    warm-up     CE of the criteria + 10 MSE of the scores
    outcomes    omega_R (sum_t s_t - R)^2 + beta sum_t KL_t          per rollout

The decomposition has no unique solution: any scores that sum to R have loss zero. What makes it
credit is that one model has to explain many rollouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..errors import ConfigError
from ..policy.rubric_model import RubricModel
from ..policy.step_view import StepView, step_views
from ..seeds import generator
from ..trajectory import Trajectory
from ..worlds.step_notes import BAR, Annotator

KL = ("published", "released")


@dataclass(frozen=True)
class RubricLearning:
    """Numbers of both phases; the defaults are the released code's, the small model's differ.

    Args:
        lr, head_lr: of the backbone and of the score head.
        loss: "decompose", or "return": an opaque process reward model, every step's score is fitted
            to the outcome itself (AgentPRM's Monte-Carlo target).
        beta: weight of the KL term.
        kl: "published", KL(current || reference), or "released", KL(reference || current), which
            the released code computes.
        balance: class weights n / (2 n_pos) and n / (2 n_neg) of solved and failed rollouts, as
            released; the paper's formula has none.
        rollouts: rollouts computed together.
    """

    lr: float = 1e-5
    head_lr: float = 5e-4
    loss: str = "decompose"
    beta: float = 0.05
    kl: str = "published"
    balance: bool = True
    rollouts: int = 8

    def __post_init__(self) -> None:
        if self.kl not in KL or self.loss not in ("decompose", "return"):
            raise ConfigError(f"want kl among {KL} and loss decompose or return; got {self}")


def optimizer_of(model: RubricModel, lr: float, head_lr: float) -> torch.optim.AdamW:
    """AdamW with the score head's own learning rate, weight decay .01."""
    groups = [{"params": model.trained(), "lr": lr}, {"params": model.head.parameters()}]
    return torch.optim.AdamW(groups, lr=head_lr, weight_decay=0.01)


def class_weights(total_G: Sequence[float]) -> np.ndarray:
    """Return (G,) weights that give solved and failed rollouts equal say.

    >>> class_weights([1, 0, 0, 0]).tolist()
    [2.0, 0.6666666666666666, 0.6666666666666666, 0.6666666666666666]
    """
    won = np.asarray(total_G, dtype=float) > 0.5
    n = np.where(won, won.sum(), (~won).sum())
    return len(won) / (2 * n)


def decomposition_loss(
    score_T: torch.Tensor, rollout_T: torch.Tensor, total_G: torch.Tensor, weight_G: torch.Tensor
) -> torch.Tensor:
    """Return the mean over rollouts of omega (sum_t s_t - R)^2.

    Args:
        score_T: step scores of all rollouts.
        rollout_T: which rollout each step belongs to.
        total_G: R of each rollout.
        weight_G: omega of each rollout.

    >>> one = torch.ones(1)
    >>> decomposition_loss(torch.tensor([0.5, 0.5]), torch.tensor([0, 0]), one, one).item()
    0.0
    """
    total = torch.zeros_like(total_G).index_add_(0, rollout_T, score_T)
    return (weight_G * (total - total_G) ** 2).mean()


def token_kl(current: torch.Tensor, reference: torch.Tensor, kl: str = "published") -> torch.Tensor:
    """Return (tokens,) KL between two rows of logits, in nats.

    Args:
        current, reference: (tokens, V) logits.
        kl: "published": KL(current || reference); "released": KL(reference || current).
    """
    p, q = current.log_softmax(-1), reference.log_softmax(-1)
    if kl == "released":
        p, q = q, p
    return (p.exp() * (p - q)).sum(-1)


def warm_up(
    model: RubricModel,
    rollouts: Sequence[Trajectory],
    annotate: Annotator,
    *,
    epochs: int = 10,
    lr: float = 5e-5,
    head_lr: float = 1e-3,
    batch: int = 32,
    budget: int = 24,
    seed: int = 0,
    progress: Callable[[int, int, float], None] | None = None,
) -> list[float]:
    """Teach criteria and scores from annotated rollouts; return the loss of each update.

    Loss: CE of the criteria's tokens + 10 MSE of the scores; cosine, 3 % of linear warm-up. The
    model that comes out is remembered as the KL term's reference.

    Args:
        model: changed in place.
        rollouts: with outcomes; those of one step are left out.
        annotate: the annotator, ``worlds.step_notes.desk_notes``.
        epochs, lr, head_lr, batch: as published, with 10 epochs; batch counts steps.
        budget: most actions of an episode.
        seed: of the order.
        progress: called with update, updates, loss.
    """
    rows: list[tuple[StepView, str, tuple[float, ...]]] = []
    for t in rollouts:
        if len(t) > 1:
            notes = annotate(t, model.config.criteria)
            for view, note in zip(step_views(t, budget), notes, strict=True):
                rows.append((view, f" {BAR} ".join(note.criteria), note.scores))
    if not rows:
        raise ConfigError("want rollouts of two steps or more; got none")
    optimizer, losses = optimizer_of(model, lr, head_lr), []
    per = -(-len(rows) // batch)
    curve = torch.optim.lr_scheduler.LambdaLR(optimizer, _cosine(epochs * per))
    rng = generator(seed, "rubric warm-up")
    model.train()
    for _ in range(epochs):
        order = _like_lengths(rng, [len(v.past) for v, _, _ in rows], batch)
        for at in order:
            loss = _taught(model, [rows[i] for i in at])
            losses.append(_update(model, optimizer, loss))
            curve.step()
            if progress is not None:
                progress(len(losses), epochs * per, losses[-1])
    model.eval()
    model.keep_reference()
    return losses


def _like_lengths(rng: np.random.Generator, lengths: Sequence[int], batch: int) -> list[list[int]]:
    """Batches of steps with about as much past, in random order: less padding."""
    key = np.asarray(lengths) + rng.uniform(0, 2, len(lengths))
    order = np.argsort(key).tolist()
    cut = [order[i : i + batch] for i in range(0, len(order), batch)]
    rng.shuffle(cut)
    return cut


def _taught(model: RubricModel, rows: Sequence[tuple[StepView, str, tuple[float, ...]]]):
    read = [model.read(v, c) for v, c, _ in rows]
    hidden, mask = model.hidden([ids for ids, _ in read])
    loss = 10 * torch.nn.functional.mse_loss(
        model.scored(hidden, mask), torch.tensor([s for _, _, s in rows])
    )
    if model.config.rubric == "written":
        target = torch.tensor([i for ids, where in read for i in ids[where]])
        logits = model.logits(hidden, [w for _, w in read])
        loss = loss + torch.nn.functional.cross_entropy(logits, target)
    return loss


def _cosine(total: int) -> Callable[[int], float]:
    rise = max(1, round(0.03 * total))
    return lambda i: min((i + 1) / rise, 0.5 + 0.5 * np.cos(np.pi * min(1.0, i / total)))


def _update(model: RubricModel, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> float:
    loss.backward()
    _apply(model, optimizer)
    return float(loss.detach())


def _apply(model: RubricModel, optimizer: torch.optim.Optimizer) -> None:
    torch.nn.utils.clip_grad_norm_([*model.trained(), *model.head.parameters()], 1.0)
    optimizer.step()
    optimizer.zero_grad()


def learn_outcomes(
    model: RubricModel,
    optimizer: torch.optim.Optimizer,
    views: Sequence[Sequence[StepView]],
    criteria: Sequence[Sequence[str]],
    total_G: Sequence[float],
    learning: RubricLearning,
) -> dict[str, float]:
    """One update from rollouts whose outcomes are known; return its loss, fit and KL.

    Args:
        model: changed in place.
        optimizer: of ``optimizer_of``.
        views, criteria: of each rollout's steps; criteria are fixed text here.
        total_G: R of each rollout.
        learning: the numbers.
    """
    weight = class_weights(total_G) if learning.balance else np.ones(len(total_G))
    written = model.config.rubric == "written" and learning.beta > 0
    said = {"fit": 0.0, "kl": 0.0}
    model.train()
    for start in range(0, len(views), learning.rollouts):
        part = slice(start, start + learning.rollouts)
        count = len(views[part])
        flat = [(v, c) for vs, cs in zip(views[part], criteria[part], strict=True)
                for v, c in zip(vs, cs, strict=True)]  # fmt: skip
        of = torch.tensor([g for g, vs in enumerate(views[part]) for _ in vs])
        R = torch.tensor(np.asarray(total_G[part], dtype=np.float32))
        w = torch.tensor(weight[part], dtype=torch.float32)
        read = [model.read(v, c) for v, c in flat]
        hidden, mask = model.hidden([ids for ids, _ in read])
        s = model.scored(hidden, mask).mean(1)
        if learning.loss == "decompose":
            fit = decomposition_loss(s, of, R, w)
        else:
            fit = (w[of] * (s - R[of]) ** 2).mean()
        kl = torch.zeros(())
        if written:
            kl = _mean_kl(model, hidden, read, of, learning.kl) / count
        share = count / len(views)
        ((fit + learning.beta * kl) * share).backward()
        said["fit"] += float(fit.detach()) * share
        said["kl"] += float(kl.detach()) * share
    _apply(model, optimizer)
    model.eval()
    return {"loss": said["fit"] + learning.beta * said["kl"], **said}


def _mean_kl(model: RubricModel, hidden, read, of, kl: str) -> torch.Tensor:
    """Sum over steps of the mean KL over the step's criteria tokens."""
    where = [w for _, w in read]
    with torch.no_grad(), model.reference():
        was, _ = model.training, model.eval()
        old = model.logits(model.hidden([ids for ids, _ in read])[0], where)
        model.train(was)
    each = token_kl(model.logits(hidden, where), old, kl)
    n = torch.tensor([w.stop - w.start for w in where])
    step = torch.repeat_interleave(torch.arange(len(n)), n)
    return (torch.zeros(len(n)).index_add_(0, step, each) / n).sum()
