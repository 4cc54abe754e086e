"""What a small auditor reads at each step: numbers that depend on the steps so far and no later."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import CreditError
from ..trajectory import Step, Trajectory

_WORD = re.compile(r"[a-z0-9]{3,}")
_ERROR = re.compile(
    r"\b(error|exception|traceback|failed|invalid|not found|unknown|denied)\b", re.I
)
_HEDGE = re.compile(
    r"\b(assum\w+|probabl\w+|perhaps|might|unclear|unfortunately|cannot|unable|guess\w*)\b", re.I
)
_SURE = re.compile(r"\b(success\w*|complete\w*|done|verified|confirm\w*|correct\w*)\b", re.I)

NAMES = (
    "step number",
    "first step",
    "closing (no call)",
    "characters written",
    "calls",
    "characters returned",
    "nothing returned",
    "error words returned",
    "same call as before",
    "same result as before",
    "tool not used before",
    "share of new words in the call or text",
    "overlap with the task",
    "overlap with results so far",
    "hedging words",
    "words of certainty",
    "errors so far",
    "calls repeated so far",
)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text[:20_000].lower()))


def _overlap(words: set[str], seen: set[str]) -> float:
    return len(words & seen) / len(words) if words else 0.0


def step_features(trajectory: Trajectory) -> NDArray[np.float64]:
    """Return (S, F) features of a rollout, F as in ``NAMES``; row t reads steps 1..t only.

    Law: the features of a prefix are the prefix of the features.

    >>> from rubricnb import Step, Task, Trajectory
    >>> t = Trajectory("a", Task("t", "say hello"), (Step("hello"), Step("bye")))
    >>> step_features(t).shape == (2, len(NAMES))
    True
    """
    task = _words(trajectory.task.prompt)
    seen: set[str] = set()
    calls: set[tuple[str, str]] = set()
    results: set[str] = set()
    tools: set[str] = set()
    errors = repeats = 0
    rows = []
    for number, step in enumerate(trajectory.steps, start=1):
        got = [o.text for o in step.observations]
        made = [(c.name, c.arguments) for c in step.calls]
        words = _words(step.text + " " + " ".join(a for _, a in made))
        again = any(c in calls for c in made)
        wrong = any(_ERROR.search(g[:2000]) for g in got)
        errors += wrong
        repeats += again
        rows.append(
            [
                np.log1p(number),
                float(number == 1),
                float(not made),
                np.log1p(len(step.authored)),
                len(made),
                np.log1p(sum(map(len, got))),
                float(not any(g.strip() for g in got)),
                float(wrong),
                float(again),
                float(any(g in results for g in got if g)),
                float(any(n not in tools for n, _ in made)),
                1 - _overlap(words, seen | task),
                _overlap(words, task),
                _overlap(words, seen),
                _count(_HEDGE, step),
                _count(_SURE, step),
                errors,
                repeats,
            ]
        )
        calls.update(made)
        tools.update(n for n, _ in made)
        results.update(g for g in got if g)
        for g in got:
            seen |= _words(g)
        seen |= words
    return np.array(rows, dtype=float).reshape(len(trajectory), len(NAMES))


def _count(pattern: re.Pattern[str], step: Step) -> float:
    return float(np.log1p(len(pattern.findall((step.thinking + " " + step.text)[:20_000]))))


def prefix_features(trajectory: Trajectory) -> NDArray[np.float64]:
    """Return (S, 2 F): each step's own features and their running mean, for outcome scores."""
    x = step_features(trajectory)
    mean = np.cumsum(x, axis=0) / np.arange(1, len(x) + 1)[:, None] if len(x) else x
    return np.hstack([x, mean])


def cross_scores(
    features: Sequence[NDArray[np.float64]],
    success_N: NDArray[np.float64],
    cluster_N: Sequence[object],
    *,
    folds: int = 5,
    seed: int = 0,
) -> list[NDArray[np.float64]]:
    """Return, per rollout and step, an out-of-fold score in [0, 1] that it will succeed.

    One logistic regression over all steps, each weighted so that every rollout counts once.

    Args:
        features: per rollout (S, F), row t from steps 1..t.
        success_N: (N,) of 0 and 1.
        cluster_N: (N,) tasks; a task is never in both train and test.
        folds: at most the number of clusters.
        seed: of the folds.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    names: dict[object, int] = {}
    group = np.array([names.setdefault(c, len(names)) for c in cluster_N])
    out: list[NDArray[np.float64]] = [np.zeros(0)] * len(features)
    split = StratifiedGroupKFold(min(folds, len(names)), shuffle=True, random_state=seed)
    for train, test in split.split(success_N, success_N, group):
        _score_others(out, features, success_N, train, test)
    return out


def fitted_scores(
    features: Sequence[NDArray[np.float64]],
    success_N: NDArray[np.float64],
    cluster_N: Sequence[object],
    fit: NDArray[np.intp],
    *,
    seed: int = 0,
) -> list[NDArray[np.float64]]:
    """Return scores of every rollout that no label outside of ``fit`` has touched.

    Rows of ``fit`` are scored out of fold among themselves; all others by one model of all of
    ``fit``, so that calibration and test rollouts are scored alike and know nothing of another.

    Args:
        features, success_N, cluster_N, seed: as ``cross_scores``.
        fit: rows that may be learnt from, both classes among them.
    """
    out: list[NDArray[np.float64]] = [np.zeros(0)] * len(features)
    tasks = [cluster_N[i] for i in fit]
    own = cross_scores([features[i] for i in fit], success_N[fit], tasks, seed=seed)
    for i, s in zip(fit, own, strict=True):
        out[i] = s
    rest = np.setdiff1d(np.arange(len(features)), fit)
    _score_others(out, features, success_N, fit, rest)
    return out


def _score_others(out, features, success_N, train, test) -> None:
    """Put the scores of the test rows, by a model of the training rows, into ``out``."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    live = [i for i in train if len(features[i])]
    if not live:
        raise CreditError("want rollouts with steps to learn from; got none")
    x = np.concatenate([features[i] for i in live])
    y = np.concatenate([np.full(len(features[i]), success_N[i]) for i in live])
    if not 0 < y.mean() < 1:  # one class teaches nothing: the base rate
        for i in test:
            out[i] = np.full(len(features[i]), y.mean())
        return
    w = np.concatenate([np.full(len(features[i]), 1 / len(features[i])) for i in live])
    scaler = StandardScaler().fit(x)
    model = LogisticRegression(C=0.1, class_weight="balanced", max_iter=500)
    model.fit(scaler.transform(x), y, sample_weight=w)
    for i in test:
        if len(features[i]):
            out[i] = model.predict_proba(scaler.transform(features[i]))[:, 1]
