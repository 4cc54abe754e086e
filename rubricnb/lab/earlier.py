"""How early a failing rollout can be stopped, and what a false alarm costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..errors import CreditError
from ..judge.protocol import Judge
from ..metrics.early import (
    Alarms,
    alarm_steps,
    anytime_threshold,
    fit_ratio,
    measure_alarms,
    pac_minimum,
    pac_threshold,
    peaks,
)
from ..metrics.intervals import Interval
from ..metrics.resampled import cluster_share
from ..metrics.step_features import fitted_scores, prefix_features
from ..rubric import Rubric
from ..seeds import generator
from ..trajectory import Trajectory
from .audits import audits, error_step, flags_of
from .logs import Logs
from .section import Section, columns_of, percent, skipped, span

QUESTION = "How early can a failing rollout be stopped, and what do the false alarms cost?"


ANYTIME, BY_TASK, BY_ROLLOUT = "anytime", "PAC by task", "PAC by rollout"


@dataclass(frozen=True)
class Outcome:
    """What one threshold did over the splits: alarms by split, and every tested row and hit."""

    alarms: list[Alarms]
    rows: list[int]
    hits: list[bool]

    def share(self, who_N: np.ndarray, cluster_N: Sequence[object]) -> Interval:
        """The alarmed share of some rollouts, each as often as it was tested; over tasks."""
        use = [(h, j) for h, j in zip(self.hits, self.rows, strict=True) if who_N[j]]
        return cluster_share([float(h) for h, _ in use], [cluster_N[j] for _, j in use])


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
    scores: Sequence[Any] | Callable[[np.ndarray], Sequence[Any]],
    success_N: Any,
    cluster_N: Sequence[object],
    tokens: Sequence[Any],
    *,
    alpha: float,
    delta: float,
    splits: int = 5,
    seed: int = 0,
) -> tuple[list[dict[str, Any]], dict[str, Outcome]]:
    """Return rows on every threshold, over several splits of the tasks in fit, calibrate, test.

    The PAC threshold comes twice. ``BY_TASK`` takes one success a task, drawn at random: those
    are independent draws where tasks are, and the promise holds for a success of a new task.
    ``BY_ROLLOUT`` takes them all, as published, and is a promise only where rollouts of one task
    are independent.

    Args:
        scores: per rollout, a verifier's score at each step; or a function from the rows that may
            be learnt from to such scores of all rollouts.
        success_N: (N,) of 0 and 1.
        cluster_N: (N,) tasks: none is in two parts.
        tokens: per rollout, tokens of each step.
        alpha, delta: of the guarantees.
        splits: how many random splits.
        seed: of the splits and of the draw.
    """
    y = np.asarray(success_N, float)
    made = {name: Outcome([], [], []) for name in (ANYTIME, BY_TASK, BY_ROLLOUT)}
    rows = []
    for i in range(splits):
        rng = generator(seed, "split", i)
        fit, held, test = split_clusters(cluster_N, (0.4, 0.3, 0.3), rng)
        if min(y[fit].sum(), (1 - y[fit]).sum()) < 1 or not len(test):
            continue
        if callable(scores) and len({cluster_N[j] for j in fit}) < 2:
            continue  # a verifier is scored on tasks that it has not seen
        at = scores(fit) if callable(scores) else scores
        model = fit_ratio([at[j] for j in fit], y[fit])
        good = [j for j in held if y[j] == 1]
        alone = _one_a_task(good, cluster_N, rng)
        peak = dict(zip(good, peaks(model.ratios([at[j] for j in good])), strict=True))
        ratios, spent = model.ratios([at[j] for j in test]), [tokens[j] for j in test]
        for name, use, threshold in (
            (ANYTIME, [], anytime_threshold(alpha)),
            (BY_TASK, alone, pac_threshold([peak[j] for j in alone], alpha, delta)),
            (BY_ROLLOUT, good, pac_threshold([peak[j] for j in good], alpha, delta)),
        ):
            a = measure_alarms(ratios, y[test], threshold, spent)
            made[name].alarms.append(a)
            made[name].rows.extend(test.tolist())
            made[name].hits.extend((alarm_steps(ratios, threshold) > 0).tolist())
            rows.append(_alarm_row(i + 1, name, len(use), a))
    return rows, made


def _one_a_task(rows: Sequence[int], cluster_N: Sequence[object], rng) -> list[int]:
    """One row of each cluster, drawn at random."""
    shuffled = [rows[i] for i in rng.permutation(len(rows))]
    return sorted({cluster_N[j]: j for j in shuffled}.values())


def _alarm_row(split: int, name: str, held: int, a: Alarms) -> dict[str, Any]:
    return {
        "split": split,
        "threshold kind": name,
        "held-out successes": held,
        "threshold": a.threshold if np.isfinite(a.threshold) else "never alarms",
        "successes": a.false_alarm.n,
        "false alarms": a.false_alarm.mean,
        "failures": a.power.n,
        "power": a.power.mean,
        "tokens saved": a.tokens_saved,
        "tokens lost": a.tokens_lost,
        "mean alarm step": a.mean_step,
    }


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
            features, in each split on its first part alone.
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
        features = [prefix_features(t) for t in runs]
        # Trained anew in every split, on its first part alone: no label of a calibration or test
        # rollout may have touched a score, or the promise is not one.
        made: Any = partial(fitted_scores, features, y, cluster, seed=seed)
        who = "a small verifier on step features"
    else:
        if len(scores) != len(logs.trajectories):
            raise CreditError(
                f"want scores of each rollout, {len(logs.trajectories)}; got {len(scores)}"
            )
        made, who = [scores[i] for i in known], "the given scores"
    spent = [step_tokens(t) for t in runs]
    rows, found = early_stopping(made, y, cluster, spent, alpha=alpha, delta=delta, seed=seed)
    need = pac_minimum(alpha, delta)
    if not rows:
        said.append(
            "No alarm is measured: want tasks enough for three parts, with successes and failures "
            f"in the first; got {len(set(cluster))} tasks."
        )
        return
    tables["alarms"] = columns_of(rows)
    if not rows:
        said.append(
            f"Nothing is measured: want tasks enough to fit, calibrate and test apart; got "
            f"{len(set(cluster))} with labels."
        )
    for name, one in found.items():
        if not one.alarms:
            continue
        false, power = one.share(y == 1, cluster), one.share(y == 0, cluster)
        saved = float(np.mean([a.tokens_saved for a in one.alarms]))
        values[name] = {"false_alarm": false, "power": power, "saved": saved}
        held = max(r["held-out successes"] for r in rows if r["threshold kind"] == name)
        unit = "tasks with a success" if name == BY_TASK else "successes"
        if all(not np.isfinite(a.threshold) for a in one.alarms):
            said.append(
                f"The {name} threshold needs {need} held-out {unit} at alpha {alpha:g} and delta "
                f"{delta:g}; with {held} it never alarms."
            )
            continue
        enough = "" if name == ANYTIME else f" ({need} held-out {unit} needed, {held} there)"
        said.append(
            f"With {who}, the {name} threshold at alpha {alpha:g}{enough} alarms "
            f"{span(false)} of the successes and {span(power)} of the failures, which saves "
            f"{percent(saved, 1)} of all tokens (mean over {len(one.alarms)} splits of the tasks)."
        )
    said.append(
        "Intervals resample tasks. PAC by task draws one success a task and promises what it says "
        "for a success of a new task; PAC by rollout takes rollouts of one task as independent, "
        "which they are not, so its promise is weaker than it reads. The anytime threshold has no "
        "exact guarantee with an estimated ratio, and all lapse when the policy changes."
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
        description=f"Alpha is {alpha:g}; intervals over tasks, with {who}.",
        reference=alpha,
    )
