"""Every credit rule against the true advantage, under every judge: the rows of the table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..credit import RULES, CreditBatch, stack
from ..errors import CreditError
from ..experiments.records import write_json
from ..files import content_hash
from ..metrics import Interval, inert_share
from ..seeds import child_seed, generator
from ..trajectory import Group
from .evidence import Evidence, gather
from .oracle import Valued
from .scores import Array, Scorer, Truth, ceiling, interval
from .sizes import CONDITIONS, Condition, Size


def _draco_by_step(batch: CreditBatch) -> Array:
    """DRACO's shares without the 1 / n_j: a_j = A M rho_j for every token of step j.

    The factor n_j / (N / M) puts each step's push, n_j a_j, where its credit per token was.
    """
    n, M = batch.tokens_GS, batch.live_GS.sum(axis=1, keepdims=True)
    return RULES["draco"](batch) * n * M / np.maximum(n.sum(axis=1, keepdims=True), 1)


def _outcome(batch: CreditBatch) -> Array:
    return RULES["grpo"](batch, base="outcome")


# Beside every rule at its defaults: what tells which part of a rule does what.
VARIANTS: Mapping[str, Callable[[CreditBatch], Array]] = {
    "grpo, outcome": _outcome,
    "draco, without 1/n": _draco_by_step,
}
EVIDENCE = 3  # counts up when what the rules read changes: kept rows are then made again
PAIRED = ("pearson", "within", "push", "cosine")  # what differences are told of
REFERENCES = ("oracle", "oracle, other half", "shuffled oracle")


@dataclass(frozen=True)
class Row:
    """Scores of one rule under one condition.

    Args:
        pool: the split of the desk.
        condition: a name of ``CONDITIONS``; "" for the references.
        rule: a name of ``RULES`` or ``VARIANTS``, or a reference.
        scores: metric -> interval over tasks; {} where the rule could not run.
        missing: why it could not run.
        drawn: metric of ``PAIRED`` -> the sample's figure and each resample's, for differences.
    """

    pool: str
    condition: str
    rule: str
    scores: Mapping[str, Interval]
    missing: str = ""
    drawn: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """All rows, and what is said about the truth and the judges.

    Args:
        rows: by pool, condition and rule.
        truth: per pool: steps, rollouts, tasks, success, standard error, shares, ceiling.
        inert: per pool and condition: ``InertShare`` as a mapping.
        cited: per pool and condition: mean A* and share of the steps that the judge cites for
            passes alone, for fails alone, for both, and not at all.
    """

    rows: tuple[Row, ...]
    truth: Mapping[str, Mapping[str, float]]
    inert: Mapping[str, Mapping[str, Mapping[str, float]]]
    cited: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)

    def find(self, pool: str, condition: str, rule: str) -> Row | None:
        """The row of these names, if any."""
        same = (pool, condition, rule)
        return next((r for r in self.rows if (r.pool, r.condition, r.rule) == same), None)


def grouped(valued: Sequence[Valued]) -> list[list[Valued]]:
    """Return the rollouts of each task and seed together, in order."""
    groups: dict[tuple[str, str], list[Valued]] = {}
    for v in valued:
        seed = v.trajectory.id.rpartition("/")[2].partition(".")[0]
        groups.setdefault((v.trajectory.task.id, seed), []).append(v)
    return list(groups.values())


def truth_of(groups: Sequence[Sequence[Valued]], half: int | None = None) -> Truth:
    """Return the true advantages of all steps in the order of ``flat``."""
    each = [v for g in groups for v in g]
    return Truth(
        np.concatenate([v.advantages(half) for v in each]),
        np.concatenate([v.errors() for v in each]) * (1 if half is None else np.sqrt(2)),
        [v.trajectory.id for v in each for _ in v.trajectory.steps],
        [v.trajectory.task.id for v in each for _ in v.trajectory.steps],
        np.concatenate([v.gradient_JD for v in each]),
        np.array([float(s.tokens or 1) for v in each for s in v.trajectory.steps]),
    )


def flat(batch: CreditBatch, credit_GS: np.ndarray) -> np.ndarray:
    """(N,) the credit of all steps with tokens, rollout after rollout."""
    return credit_GS[batch.live_GS]


def credits(found: Sequence[Evidence]) -> dict[str, np.ndarray | str]:
    """Return every rule's credit per step of all groups, or why it has none, by name."""
    out: dict[str, np.ndarray | str] = {}
    for name, rule in {**RULES, **VARIANTS}.items():
        batch = stack([e.of(name) for e in found])
        try:
            out[name] = flat(batch, rule(batch))
        except CreditError as e:
            out[name] = str(e)
    return out


def score_condition(
    pool: str,
    name: str,
    condition: Condition,
    groups: Sequence[Sequence[Valued]],
    scorer: Scorer,
    memory: MutableMapping[Any, Any],
) -> tuple[list[Row], dict[str, float], dict[str, float]]:
    """Return the rows of one condition, how often its credit is inert, and what it cites."""
    by_seed: dict[str, list[int]] = {}
    for i, g in enumerate(groups):
        by_seed.setdefault(g[0].trajectory.id.rpartition("/")[2].partition(".")[0], []).append(i)
    found: dict[int, Evidence] = {}
    for seed, at in by_seed.items():
        asked = [
            Group(groups[i][0].trajectory.task, tuple(v.trajectory for v in groups[i])) for i in at
        ]
        found.update(zip(at, gather(asked, condition, int(seed), memory), strict=True))
    ordered = [found[i] for i in range(len(groups))]
    rows = [
        Row(pool, name, rule, {}, credit)
        if isinstance(credit, str)
        else scored(pool, name, rule, credit, scorer)
        for rule, credit in credits(ordered).items()
    ]
    batch = stack([e.batch for e in ordered])
    A = batch.advantage(rule="draco")
    inert = asdict(inert_share(batch.pass_GS, batch.fail_GS, batch.tokens_GS, A))
    return rows, inert, citations(batch, scorer.truth)


def citations(batch: CreditBatch, truth: Truth) -> dict[str, float]:
    """Return mean A* and share of the steps by what the judge cites them for; NaN where none."""
    p, f = flat(batch, batch.pass_GS) > 0, flat(batch, batch.fail_GS) > 0
    out = {}
    for name, of in {"passes": p & ~f, "fails": f & ~p, "both": p & f, "nothing": ~p & ~f}.items():
        out[name] = float(truth.advantage_N[of].mean()) if of.any() else float("nan")
        out[f"{name}_share"] = float(of.mean())
    return out


def scored(pool: str, condition: str, rule: str, credit: np.ndarray, scorer: Scorer) -> Row:
    """Return the row of one credit."""
    drawn = scorer.draws(credit)
    kept = {m: [round(float(x), 5) for x in drawn[m]] for m in PAIRED}
    scores = {m: interval(x, scorer.tasks) for m, x in drawn.items()}
    return Row(pool, condition, rule, scores, drawn=kept)


def difference(a: Row, b: Row, metric: str) -> Interval:
    """Return a's figure minus b's with its interval, both on the same resampled tasks.

    Args:
        a, b: rows of one pool.
        metric: one of ``PAIRED``.
    """
    gap = np.array(a.drawn[metric], dtype=float) - np.array(b.drawn[metric], dtype=float)
    return interval(gap, a.scores[metric].n)


def references(pool: str, groups: Sequence[Sequence[Valued]], scorer: Scorer) -> list[Row]:
    """Return the rows that frame the others: the oracle, its two halves, and the oracle shuffled.

    "oracle, other half" scores one half of the roll-ins against the other: what a second oracle of
    half the size would reach.
    """
    A = scorer.truth.advantage_N
    halves = truth_of(groups, 0), truth_of(groups, 1)
    second = Scorer(halves[0], scorer.resamples, scorer.seed)(halves[1].advantage_N)
    mixed = generator(0, "shuffled oracle").permutation(A)
    scores = (scorer(A), second, scorer(mixed))
    return [Row(pool, "", n, s) for n, s in zip(REFERENCES, scores, strict=True)]


def about(groups: Sequence[Sequence[Valued]], scorer: Scorer) -> dict[str, float]:
    """Return what the truth is made of, its standard error and its noise ceiling."""
    each = [v for g in groups for v in g]
    first, second = (truth_of(groups, h).advantage_N for h in (0, 1))
    t = scorer.truth
    return {
        "tasks": scorer.tasks,
        "rollouts": len(each),
        "steps": len(t.advantage_N),
        "success": float(np.mean([v.trajectory.outcome or 0.0 for v in each])),
        "mean_error": float(t.error_N.mean()),
        "spread": float(t.advantage_N.std()),
        "clear": float(t.clear().mean()),
        **scorer.base_rates(),
        **ceiling(first, second),
    }


def score_rules(
    size: Size,
    valued: Sequence[Valued],
    folder: str | os.PathLike[str],
    *,
    conditions: Mapping[str, Condition] = CONDITIONS,
    say: Callable[[str], None] = print,
) -> Results:
    """Return every rule's scores under every condition; finished conditions are read, not redone.

    Args:
        size: its pools and resamples.
        valued: the oracle's rollouts.
        folder: one file a pool and condition, each of stated inputs.
        conditions: the judges.
        say: told about each condition.
    """
    rows: list[Row] = []
    truth: dict[str, Any] = {}
    inert: dict[str, Any] = {}
    cited: dict[str, Any] = {}
    for pool in size.pools:
        mine = [v for v in valued if v.trajectory.task.meta.get("split") == pool]
        groups = grouped(mine)
        scorer = Scorer(truth_of(groups), size.resamples, child_seed(0, "fidelity bootstrap"))
        truth[pool] = about(groups, scorer)
        rows += references(pool, groups, scorer)
        memory: dict[Any, Any] = {}
        inert[pool], cited[pool] = {}, {}
        inputs = content_hash([[v.trajectory.id, v.success_JK.tolist()] for v in mine])
        for name, condition in conditions.items():
            mark = content_hash(
                [EVIDENCE, inputs, asdict(condition), sorted(RULES), list(VARIANTS), size.resamples]
            )
            path = Path(folder) / f"{pool}.{name}.json"
            done = _kept(path, mark)
            if done is None:
                made = score_condition(pool, name, condition, groups, scorer, memory)
                done = _remember(path, mark, *made)
                say(f"fidelity: {pool}, {condition.title}")
            rows += done[0]
            inert[pool][name], cited[pool][name] = done[1:]
    return Results(tuple(rows), truth, inert, cited)


def _remember(path: Path, mark: str, rows: list[Row], inert: dict, cited: dict):
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = [asdict(r) for r in rows]
    write_json(path, {"mark": mark, "rows": plain, "inert": inert, "cited": cited})
    return _kept(path, mark)


def _kept(path: Path, mark: str) -> tuple[list[Row], dict[str, float], dict[str, float]] | None:
    """The rows of an earlier run with the same inputs."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if value.get("mark") != mark:
        return None
    rows = [
        Row(**{**r, "scores": {k: Interval(**x) for k, x in r["scores"].items()}})
        for r in value["rows"]
    ]
    return rows, value["inert"], value["cited"]
