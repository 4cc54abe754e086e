"""A text detector of false successes: rollouts that claim completion where the world says failed.

Word 1-2-gram TF-IDF and a balanced logistic regression. It reads what the agent wrote and the
names of its tools, no results and no outcome. Its figures come from folds that never share a
task, with the vectoriser fitted inside the fold; even so they can be model identity or length,
which is why baselines and a leave-one-model-out split belong beside them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CreditError, FormatError
from ..trajectory import Trajectory

FEATURES = 30_000
PARTS = ("all", "last", "length")
KIND = "rubricnb false-success detector"


def rollout_text(trajectory: Trajectory, part: str = "all") -> str:
    """Return what the detector reads of a rollout.

    Args:
        trajectory: the rollout.
        part: "all" (utterances and tool names), "last" (the last message alone) or "length"
            (no words: a marker for every doubling of characters and of steps).
    Raises:
        CreditError: for another part.

    >>> from rubricnb import Step, Task, ToolCall
    >>> t = Trajectory("a", Task("t", "p"), (Step("I look", (ToolCall("find"),)), Step("Done")))
    >>> rollout_text(t), rollout_text(t, "last")
    ('I look find Done', 'Done')
    """
    if part == "all":
        words = [w for s in trajectory.steps for w in (s.text, *(c.name for c in s.calls)) if w]
        return " ".join(words)
    if part == "last":
        return next((s.text for s in reversed(trajectory.steps) if s.text.strip()), "")
    if part == "length":
        chars = sum(len(s.authored) for s in trajectory.steps)
        rungs = range(int(2 * np.log2(chars + 1)))
        turns = range(int(2 * np.log2(len(trajectory) + 1)))
        return " ".join([*(f"chars{i}" for i in rungs), *(f"turns{i}" for i in turns)])
    raise CreditError(f"want a part of {PARTS}; got {part!r}")


@dataclass(frozen=True, eq=False)
class Detector:
    """A fitted detector as plain arrays: what is saved is exactly this.

    Args:
        terms: (F,) n-grams, sorted.
        idf_F: their inverse document frequencies.
        weight_F: logistic weights.
        bias: intercept.
        about: how it was fitted (JSON values).
    """

    terms: tuple[str, ...]
    idf_F: NDArray[np.float64]
    weight_F: NDArray[np.float64]
    bias: float
    about: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def score(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return (N,) P(false success) in (0, 1), as balanced classes would have it."""
        from sklearn.feature_extraction.text import CountVectorizer

        if not len(texts):
            return np.zeros(0)
        counter = CountVectorizer(ngram_range=(1, 2), vocabulary=list(self.terms))
        x = counter.transform(texts).astype(float)
        x.data = (1 + np.log(x.data)) * self.idf_F[x.indices]
        norm = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())
        z = (x @ self.weight_F) / np.where(norm > 0, norm, 1.0) + self.bias
        return 1 / (1 + np.exp(-z))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the detector as one .npz without pickle. It holds words of the training logs."""
        path = Path(path).with_suffix(".npz")
        np.savez_compressed(
            path,
            about=np.array(json.dumps({"kind": KIND, **self.about})),
            terms=np.array(json.dumps(self.terms)),
            idf=self.idf_F,
            weight=self.weight_F,
            bias=np.array(self.bias),
        )
        return path

    def top(self, n: int = 12) -> list[tuple[str, float]]:
        """Return the n-grams of largest weight on each side, those for false success first."""
        order = np.argsort(-self.weight_F)
        picked = [*order[:n], *order[max(n, order.size - n) :]]
        return [(self.terms[i], float(self.weight_F[i])) for i in picked]


def load_detector(path: str | os.PathLike[str]) -> Detector:
    """Return the detector of a file that ``Detector.save`` wrote; nothing in it is run.

    Raises:
        FormatError: for another file, or arrays that do not fit together.
    """
    try:
        with np.load(path, allow_pickle=False) as f:
            about = json.loads(str(f["about"]))
            terms = json.loads(str(f["terms"]))
            made = Detector(
                tuple(str(t) for t in terms),
                f["idf"].astype(float),
                f["weight"].astype(float),
                float(f["bias"]),
                MappingProxyType({k: v for k, v in about.items() if k != "kind"}),
            )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError) as e:
        raise FormatError(f"{path}: want a detector as .npz; got {type(e).__name__}: {e}") from e
    n = len(made.terms)
    if about.get("kind") != KIND or made.idf_F.shape != (n,) or made.weight_F.shape != (n,):
        raise FormatError(f"{path}: want a {KIND} of one length; got something else")
    if not (np.isfinite(made.idf_F).all() and np.isfinite(made.weight_F).all()):
        raise FormatError(f"{path}: want finite weights; got one that is not")
    return made


def fit_detector(
    texts: Sequence[str], label_N: ArrayLike, *, C: float = 1.0, about: Mapping[str, Any] = {}
) -> Detector:
    """Return a detector fitted on all texts given; take its figures from ``cross_detect``.

    Word 1-2-grams in two texts or more, at most 30,000, sublinear counts, L2 norm; logistic
    regression with an L2 penalty, balanced classes, liblinear.

    Args:
        texts: (N,) as ``rollout_text`` makes them.
        label_N: (N,) 1 for a false success, 0 for a true one.
        C: inverse strength of the penalty.
        about: kept with the detector.
    Raises:
        CreditError: for lengths that differ, one class only, or no n-gram in two texts.
    Reference: false-success detection, arXiv 2606.09863; C, solver and text fields are ours.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    y = np.asarray(label_N, dtype=float)
    if y.shape != (len(texts),) or not np.isin(y, (0, 1)).all() or not 0 < y.mean() < 1:
        raise CreditError(f"want a label of 0 or 1 a text, both in use; got {len(texts)} texts")
    maker = TfidfVectorizer(ngram_range=(1, 2), max_features=FEATURES, min_df=2, sublinear_tf=True)
    try:
        x = maker.fit_transform(texts)
    except ValueError as e:
        raise CreditError(f"want words that occur in two texts; got none ({e})") from e
    model = LogisticRegression(C=C, class_weight="balanced", solver="liblinear", random_state=0)
    model.fit(x, y)
    return Detector(
        tuple(maker.get_feature_names_out().tolist()),
        maker.idf_,
        model.coef_[0],
        float(model.intercept_[0]),
        MappingProxyType({"texts": len(texts), "false": int(y.sum()), "C": C, **about}),
    )


def task_folds(
    label_N: NDArray[np.float64], cluster_N: Sequence[object], folds: int, seed: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return (train, test) rows: no task on both sides, classes spread as evenly as tasks allow."""
    from sklearn.model_selection import StratifiedGroupKFold

    names: dict[object, int] = {}
    group = np.array([names.setdefault(c, len(names)) for c in cluster_N])
    k = min(folds, len(names), int(label_N.sum()), int((1 - label_N).sum()))
    if k < 2:
        raise CreditError("want at least two tasks and two rollouts of each class; got fewer")
    split = StratifiedGroupKFold(k, shuffle=True, random_state=seed)
    return list(split.split(label_N, label_N, group))


def cross_detect(
    texts: Sequence[str],
    label_N: ArrayLike,
    cluster_N: Sequence[object],
    *,
    folds: int = 5,
    seed: int = 0,
    C: float = 1.0,
) -> NDArray[np.float64]:
    """Return (N,) out-of-fold scores: each text scored by a detector that never saw its task.

    NaN where a training fold has one class only. As ``fit_detector`` otherwise.
    """
    y = np.asarray(label_N, dtype=float)
    out = np.full(len(texts), np.nan)
    for train, test in task_folds(y, cluster_N, folds, seed):
        if not 0 < y[train].mean() < 1:
            continue
        detector = fit_detector([texts[i] for i in train], y[train], C=C)
        out[test] = detector.score([texts[i] for i in test])
    return out


def leave_one_out(
    texts: Sequence[str],
    label_N: ArrayLike,
    model_N: Sequence[str],
    cluster_N: Sequence[object] | None = None,
    *,
    folds: int = 5,
    seed: int = 0,
) -> dict[str, NDArray[np.float64]]:
    """Return, per model, scores of its rollouts by detectors that never saw that model.

    Args:
        texts, label_N, folds, seed: as ``cross_detect``.
        model_N: (N,) who acted.
        cluster_N: (N,) tasks, kept apart, too; None lets train and test share tasks, which shows
            how much of a figure is the task's own words.
    Returns:
        model -> scores of its rollouts in order, NaN where one class only was left to train on.
    """
    y, out = np.asarray(label_N, dtype=float), {}
    everything = np.arange(len(texts))
    parts = [(everything, everything)]
    if cluster_N is not None:
        parts = task_folds(y, cluster_N, folds, seed)
    for model in dict.fromkeys(model_N):
        mine = np.array([m == model for m in model_N])
        scores = np.full(len(texts), np.nan)
        for train, test in parts:
            rest, own = train[~mine[train]], test[mine[test]]
            if rest.size and own.size and 0 < y[rest].mean() < 1:
                detector = fit_detector([texts[i] for i in rest], y[rest])
                scores[own] = detector.score([texts[i] for i in own])
        out[model] = scores[mine]
    return out


def triaged_reward(
    reward_G: ArrayLike, risk_G: ArrayLike, claimed_G: ArrayLike, threshold: float
) -> NDArray[np.float64]:
    """Return rewards without those of rollouts that claim success and look like a false one.

    A flagged rollout's reward becomes NaN: it leaves its group's mean and gets no advantage, as a
    failed judgement would. It is never turned into a number. Without flags nothing changes.

    Args:
        reward_G: (G,) rewards, NaN where there is none.
        risk_G: (G,) the detector's scores.
        claimed_G: (G,) whether the closing turns claim completion.
        threshold: flag on strict >, in [0, 1].
    Raises:
        CreditError: for lengths that differ or a threshold out of range.

    >>> triaged_reward([1.0, 1.0, -1.0], [0.9, 0.1, 0.9], [True, True, False], 0.5).tolist()
    [nan, 1.0, -1.0]
    """
    r, risk = np.asarray(reward_G, dtype=float), np.asarray(risk_G, dtype=float)
    claimed = np.asarray(claimed_G, dtype=bool)
    if not r.shape == risk.shape == claimed.shape or not 0 <= threshold <= 1:
        raise CreditError(
            f"want reward, risk and claim of one length and a threshold in [0, 1]; got {r.shape}, "
            f"{risk.shape}, {claimed.shape}, {threshold}"
        )
    return np.where(claimed & (risk > threshold), np.nan, r)
