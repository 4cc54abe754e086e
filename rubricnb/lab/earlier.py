"""How early a failing rollout can be stopped, and what a false alarm costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import CreditError
from ..judge.protocol import Judge
from ..metrics.early import (
    Alarms,
    RatioModel,
    anytime_threshold,
    fit_ratio,
    measure_alarms,
    pac_minimum,
    pac_threshold,
    peaks,
)
from ..metrics.exact import clopper_pearson
from ..metrics.step_features import cross_scores, prefix_features
from ..rubric import Rubric
from ..seeds import generator
from ..trajectory import Trajectory
from .audits import audits, error_step, flags_of
from .logs import Logs
from .section import Section, columns_of, percent, skipped, span

QUESTION = "How early can a failing rollout be stopped, and what do the false alarms cost?"


def step_tokens(trajectory: Trajectory) -> list[float]:
    """Return what each step cost: sampled tokens, or characters where they were not counted."""
    counted = all(s.tokens is not None for s in trajectory.steps)
    return [float(s.tokens if counted else len(s.authored)) for s in trajectory.steps]


def split_clusters(cluster_N: Sequence[object], parts: Sequence[float], rng) -> list[np.ndarray]:
    """Return row numbers of disjoint parts that never share a cluster, in these proportions."""
    names = list(dict.fromkeys(cluster_N))
    order = [names[i] for i in rng.permutation(len(names))]
    ends = np.round(np.cumsum(parts) / np.sum(parts) * len(order)).astype(int)
    rows = {c: i for i, c in enumerate(order)}
    place = np.array([rows[c] for c in cluster_N])
    starts = [0, *ends[:-1]]
    return [np.flatnonzero((place >= a) & (place < b)) for a, b in zip(starts, ends, strict=True)]


def early_stopping(
    scores: Sequence[Any],
    success_N: Any,
    cluster_N: Sequence[object],
    tokens: Sequence[Any],
    *,
    alpha: float,
    delta: float,
    splits: int = 5,
    seed: int = 0,
) -> tuple[list[dict[str, Any]], dict[str, list[Alarms]], list[RatioModel]]:
    """Return rows on both thresholds, over several splits of the tasks in fit, calibrate, test.

    Args:
        scores: per rollout, a verifier's score at each step.
        success_N: (N,) of 0 and 1.
        cluster_N: (N,) tasks: none is in two parts.
        tokens: per rollout, tokens of each step.
        alpha, delta: of the guarantees.
        splits: how many random splits.
        seed: of the splits.
    """
    y = np.asarray(success_N, float)
    made: dict[str, list[Alarms]] = {"anytime": [], "PAC": []}
    rows, models = [], []
    for i in range(splits):
        fit, held, test = split_clusters(cluster_N, (0.4, 0.3, 0.3), generator(seed, "split", i))
        if min(y[fit].sum(), (1 - y[fit]).sum()) < 1 or not len(test):
            continue
        model = fit_ratio([scores[j] for j in fit], y[fit])
        models.append(model)
        good = [j for j in held if y[j] == 1]
        pac = pac_threshold(peaks(model.ratios([scores[j] for j in good])), alpha, delta)
        ratios, spent = model.ratios([scores[j] for j in test]), [tokens[j] for j in test]
        for name, threshold in (("anytime", anytime_threshold(alpha)), ("PAC", pac)):
            a = measure_alarms(ratios, y[test], threshold, spent)
            made[name].append(a)
            rows.append(
                {
                    "split": i + 1,
                    "threshold kind": name,
                    "held-out successes": len(good),
                    "threshold": a.threshold if np.isfinite(a.threshold) else "never alarms",
                    "successes": a.false_alarm.n,
                    "false alarms": a.false_alarm.mean,
                    "failures": a.power.n,
                    "power": a.power.mean,
                    "tokens saved": a.tokens_saved,
                    "tokens lost": a.tokens_lost,
                    "mean alarm step": a.mean_step,
                }
            )
    return rows, made, models


def _pooled(alarms: Sequence[Alarms], name: str):
    """The share over all splits, with exact bounds as if the splits' rollouts were one sample.

    A rollout can be in several splits, so the count of cases is divided by the splits.
    """
    shares = [getattr(a, name) for a in alarms]
    n = sum(s.n for s in shares)
    k = sum(round(s.mean * s.n) for s in shares if s.n)
    m = max(1, len(shares))
    return clopper_pearson(round(k / m), round(n / m))


def how_early(
    logs: Logs,
    *,
    scores: Sequence[Any] | None = None,
    alpha: float = 0.1,
    delta: float = 0.1,
    far: float | None = 0.2,
    judge: Judge | None = None,
    rubric: Rubric | None = None,
    most: int = 150,
    seed: int = 0,
) -> Section:
    """Return the section on early stopping and online auditing.

    Args:
        logs: rollouts with outcomes (for alarms), error steps (for auditing) or both.
        scores: per rollout, a judge's score at each step; None trains a small verifier on step
            features, out of fold.
        alpha: share of successes that may be alarmed.
        delta: chance that the PAC promise fails.
        far: false-alarm share that the auditor may have on its training folds; a second auditor
            without that limit is shown beside it.
        judge: also audits, prefix by prefix: one scoring call a step until it objects.
        rubric: what the judge is asked of a prefix; None: whether a decisive error was made.
        most: rollouts that the judge audits, the first ones.
        seed: of splits and folds.
    """
    tables: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    values: dict[str, Any] = {}
    said: list[str] = []
    if logs.labelled:
        _alarms(logs, scores, alpha, delta, seed, tables, figures, values, said)
    errors = np.array([error_step(t) for t in logs.trajectories])
    if (errors > 0).sum() >= 10:
        flags = flags_of(logs, errors, judge, rubric, most)
        audits(logs, errors, far, seed, flags, tables, figures, values, said)
    if not said:
        why = "these rollouts have neither both outcomes nor labelled error steps"
        return skipped("early", QUESTION, why)
    return Section("early", QUESTION, " ".join(said), tables, figures, values)


def _alarms(logs, scores, alpha, delta, seed, tables, figures, values, said) -> None:
    known = np.flatnonzero(np.isfinite(logs.success_N))
    runs = [logs.trajectories[i] for i in known]
    y, cluster = logs.success_N[known], [logs.task_N[i] for i in known]
    if scores is None:
        made = cross_scores([prefix_features(t) for t in runs], y, cluster, seed=seed)
        who = "a small verifier on step features"
    else:
        if len(scores) != len(logs.trajectories):
            raise CreditError(
                f"want scores of each rollout, {len(logs.trajectories)}; got {len(scores)}"
            )
        made, who = [scores[i] for i in known], "the given scores"
    spent = [step_tokens(t) for t in runs]
    rows, alarms, _ = early_stopping(made, y, cluster, spent, alpha=alpha, delta=delta, seed=seed)
    need = pac_minimum(alpha, delta)
    tables["alarms"] = columns_of(rows)
    for name, some in alarms.items():
        if not some:
            continue
        false, power = _pooled(some, "false_alarm"), _pooled(some, "power")
        saved = float(np.mean([a.tokens_saved for a in some]))
        values[name] = {"false_alarm": false, "power": power, "saved": saved}
        never = all(not np.isfinite(a.threshold) for a in some)
        if name == "PAC" and never:
            held = max(r["held-out successes"] for r in rows)
            said.append(
                f"The PAC threshold needs {need} held-out successes at alpha {alpha:g} and delta "
                f"{delta:g}; with {held} it never alarms."
            )
            continue
        held = f" ({need} held-out successes needed)" if name == "PAC" else ""
        said.append(
            f"With {who}, the {name} threshold at alpha {alpha:g}{held} alarms "
            f"{span(false)} of the successes and {span(power)} of the failures, which saves "
            f"{percent(saved, 1)} of all tokens (mean over {len(some)} splits of the tasks)."
        )
    said.append(
        "Both promises treat rollouts as independent draws; those of one task are not, so the true "
        "false-alarm share on new tasks can be larger than stated. The anytime threshold has no "
        "exact guarantee with an estimated ratio, and both lapse when the policy changes."
    )
    from ..figures import lab as draw

    figures["alarms"] = draw.intervals(
        [
            {"what": what, "series": name, "value": i.mean, "low": i.low, "high": i.high, "n": i.n}
            for name, v in values.items()
            if isinstance(v, dict) and "power" in v
            for what, i in (("false alarms", v["false_alarm"]), ("power", v["power"]))
        ],
        title=f"Alarms on running rollouts ({logs.source})",
        axis="share of rollouts",
        description=f"Alpha is {alpha:g}; exact bounds over {who}.",
        reference=alpha,
    )
