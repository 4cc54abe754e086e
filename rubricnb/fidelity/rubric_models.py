"""Does the text of a rubric model matter, and do its scores find the right step?

Four questions, answered on rollouts whose steps have a true advantage A* (see ``oracle``):

    binding     is a step's criteria text likelier for its own action than for others of the rollout
    shuffled    what is lost when steps are scored under each other's criteria
    fit         how far the scores of a rollout are from summing to its outcome
    truth       correlation of step scores with A*, beside R / T, an even split of the outcome

R / T knows how the rollout ended; a step's score is given before its answer is seen, and A* holds
the luck of that answer. Measured for the bundled model (64 rollouts of dev, 465 steps, 12 roll-ins
a state): the text is bound to its action (100 % against 25 % by chance) and shuffling it spoils the
fit (mean squared error of the sum .29, shuffled .46; .26 and .34 after ten updates), but the scores
do not find the deciding step: Pearson .06 with A*, R / T .23, the annotating rules themselves .15.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr

from ..policy.rollout import roll
from ..policy.step_view import StepView, step_views
from ..policy.warmup import open_policy
from ..seeds import child_seed, generator
from ..train.arco import VARIANTS, Arco, open_arco
from ..trajectory import Group, Trajectory
from ..worlds.desk import OrdersDesk
from .oracle import Valued, value

ORDER = ("arco", "arco_frozen", "arco_no_rubric", "arco_no_adaptive", "arco_no_prefix", "agentprm")


def valued_rollouts(
    tasks: int = 16, members: int = 4, samples: int = 12, pool: str = "dev", seed: int = 0
) -> list[Valued]:
    """Return rollouts of the untrained policy with A* of every step; no gradients."""
    model, words = open_policy("main")
    world = OrdersDesk()
    every = world.tasks(pool)
    each = [every[i * len(every) // tasks] for i in range(tasks) for _ in range(members)]
    seeds = [child_seed(seed, "rubric models", t.id, k % members) for k, t in enumerate(each)]
    made = roll(model, words, world, each, seeds)
    return value(model, words, world, each, seeds, made, samples=samples, seed=seed, sketch=0)


def train_groups(tasks: int = 16, members: int = 6, seed: int = 0) -> list[Group]:
    """Return groups of the untrained policy on the training pool, to learn outcomes from."""
    model, words = open_policy("main")
    world = OrdersDesk()
    every = world.tasks("train")
    rng = generator(seed, "rubric model groups")
    each = [every[i] for i in rng.permutation(len(every))[:tasks] for _ in range(members)]
    seeds = [child_seed(seed, "rubric model groups", t.id, k) for k, t in enumerate(each)]
    made = [s.trajectory for s in roll(model, words, world, each, seeds)]
    return [Group(made[i].task, tuple(made[i : i + members])) for i in range(0, len(made), members)]


def binding(model: Any, views: Sequence[Sequence[StepView]], texts: Sequence[Sequence[str]],
            others: int = 3, seed: int = 0) -> dict[str, float]:  # fmt: skip
    """Return how often a step's text is likeliest for its own action, and what chance gives.

    Args:
        model: a RubricModel that writes.
        views, texts: of each rollout's steps.
        others: most other actions of the rollout that it is compared with.
        seed: of their choice.
    """
    rng, rows, said, first = generator(seed, "binding"), [], [], []
    for vs, cs in zip(views, texts, strict=True):
        for v, c in zip(vs, cs, strict=True):
            pool = sorted({o.action for o in vs} - {v.action})
            if not pool or not c:
                continue
            chosen = [pool[i] for i in rng.permutation(len(pool))[:others]]
            first.append((len(rows), len(chosen) + 1))
            rows += [v, *(StepView(v.task, v.past, v.left, a) for a in chosen)]
            said += [c] * (len(chosen) + 1)
    if not rows:
        return {"binding": float("nan"), "chance": float("nan")}
    fit = model.loglik(rows, said).numpy()
    hits = [fit[i] > fit[i + 1 : i + n].max() for i, n in first]
    return {
        "binding": float(np.mean(hits)),
        "chance": float(np.mean([1 / n for _, n in first])),
    }


def named(views: Sequence[StepView], texts: Sequence[str]) -> float:
    """Share of texts that name the action's tool and one of its arguments; no model is asked."""
    hits = []
    for v, c in zip(views, texts, strict=True):
        tool, *arguments = v.action.split() or [""]
        words = set(c.split())
        hits.append(tool in words and (not arguments or bool(words & set(arguments))))
    return float(np.mean(hits))


def correlations(score: NDArray, truth: NDArray) -> dict[str, float]:
    """Pearson and Spearman over steps; NaN where a side does not vary."""
    if np.ptp(score) == 0 or np.ptp(truth) == 0:
        return {"pearson": float("nan"), "spearman": float("nan")}
    return {
        "pearson": float(pearsonr(score, truth)[0]),
        "spearman": float(spearmanr(score, truth)[0]),
    }


def even_split(rollouts: Sequence[Trajectory]) -> NDArray[np.float64]:
    """R / T of every step."""
    return np.concatenate([np.full(len(t), (t.outcome or 0.0) / len(t)) for t in rollouts])


def gain(score: NDArray, base: NDArray, truth: NDArray, cut: NDArray, resamples: int = 400) -> list:
    """95 % interval of Pearson(score) - Pearson(base), rollouts drawn anew."""
    rng, found = generator(0, "rubric model intervals"), []
    parts = np.split(np.arange(len(truth)), cut)
    for _ in range(resamples):
        at = np.concatenate([parts[i] for i in rng.integers(0, len(parts), len(parts))])
        a, b = (correlations(x[at], truth[at])["pearson"] for x in (score, base))
        found.append(a - b)
    return [float(x) for x in np.nanpercentile(found, [2.5, 97.5])]


def examine(arco: Arco, valued: Sequence[Valued], seed: int = 0) -> dict[str, Any]:
    """Return the four answers for one rubric model, on rollouts it has not learned from."""
    rollouts = [v.trajectory for v in valued]
    views = [step_views(t, arco.budget) for t in rollouts]
    flat = [v for vs in views for v in vs]
    truth = np.concatenate([v.advantages() for v in valued])
    began = time.perf_counter()
    texts = arco.model.write(flat)
    written = time.perf_counter() - began
    cut = np.cumsum([len(vs) for vs in views])[:-1]
    s = _scores(arco, flat, texts, cut)
    base = even_split(rollouts)
    R = np.array([t.outcome or 0.0 for t in rollouts])
    out: dict[str, Any] = {"steps": len(flat), "rollouts": len(rollouts), **correlations(s, truth)}
    out["gain_over_even"] = gain(s, base, truth, cut)
    out["even"] = correlations(base, truth)
    if not arco.opaque:
        out["fit"] = float(np.mean((np.add.reduceat(s, [0, *cut]) - R) ** 2))
    if any(texts):
        order = generator(seed, "shuffled criteria").permutation(len(flat))
        other = [texts[i] for i in order]
        moved = _scores(arco, flat, other, cut)
        out["shuffled"] = correlations(moved, truth)
        out["shuffled"]["fit"] = float(np.mean((np.add.reduceat(moved, [0, *cut]) - R) ** 2))
        out["shuffled"]["change"] = float(np.mean(np.abs(moved - s)))
        each = [a.tolist() for a in np.split(np.array(texts, dtype=object), cut)]
        out |= binding(arco.model, views, each, seed=seed)
        out["named"], out["named_shuffled"] = named(flat, texts), named(flat, other)
        count = sum(len(arco.model.ids(t)) + 1 for t in texts)
        out["tokens_per_second"] = round(count / written, 1)
    return out


def _scores(arco: Arco, flat: Sequence[StepView], texts: Sequence[str], cut) -> NDArray:
    """A step's own score; for an opaque model what the step added to Q."""
    s = arco.model.scores(flat, texts).mean(1).double().numpy()
    if arco.opaque:
        return np.concatenate([np.diff(q, prepend=q[:1]) for q in np.split(s, cut)])
    return s


def study(
    variants: Sequence[str] = ORDER,
    *,
    updates: int = 8,
    seed: int = 0,
    valued: Sequence[Valued] | None = None,
    folder: str | Path | None = None,
    **sizes: int,
) -> Mapping[str, Any]:
    """Return the answers of each variant, before and after it learned from outcomes.

    Args:
        variants: names of ``VARIANTS``.
        updates: batches of fresh groups that each learns from.
        seed: of everything.
        valued: rollouts with A*; default ``valued_rollouts(**sizes)``.
        folder: where rubric_models.json is written.
        sizes: of ``valued_rollouts``.
    """
    valued = valued_rollouts(seed=seed, **sizes) if valued is None else valued
    batches = [train_groups(seed=child_seed(seed, "batch", u)) for u in range(updates)]
    rows = {}
    for name in variants:
        arco = open_arco(name, seed)
        rows[name] = {"warmed": examine(arco, valued, seed)}
        if not VARIANTS[name].frozen:
            fits = []
            for groups in batches:
                arco(groups)
                fits.append(arco.told["fit"])
            rows[name] |= {"learned": examine(arco, valued, seed), "fits": fits, **arco.told}
        if folder is not None:
            path = Path(folder) / "rubric_models.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def as_text(rows: Mapping[str, Any]) -> str:
    """The rows as a table of plain text: correlation with A*, fit, text."""
    head = ("variant", "phase", "pearson", "spearman", "even split", "fit", "shuffled", "binding")
    lines = ["".join(f"{h:>18}" for h in head)]
    for name, row in rows.items():
        for phase in ("warmed", "learned"):
            if phase not in row:
                continue
            r = row[phase]
            cells = [name, phase, *(f"{r[k]:.3f}" for k in ("pearson", "spearman"))]
            cells += [f"{r['even']['pearson']:.3f}", f"{r['fit']:.3f}" if "fit" in r else "-"]
            moved = r.get("shuffled")
            cells.append(f"{moved['pearson']:.3f}/{moved['fit']:.3f}" if moved else "-")
            cells.append(f"{r['binding']:.2f} ({r['chance']:.2f})" if "binding" in r else "-")
            lines.append("".join(f"{c:>18}" for c in cells))
    return "\n".join(lines)
