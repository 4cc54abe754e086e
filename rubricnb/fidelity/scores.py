"""How well credit agrees with the true advantage, with intervals over resampled tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from ..errors import CreditError
from ..metrics import Interval

Array = NDArray[np.float64]
# metric -> what a table says of it.
METRICS: Mapping[str, str] = {
    "pearson": "Pearson r of credit and A*, over all steps",
    "spearman": "Spearman rank correlation, over all steps",
    "within": "Pearson r after each rollout's mean is taken off both; 0 where credit never tells",
    "push": "the same for the whole step, credit times its tokens",
    "sign": "share of clearly signed steps whose credit has that sign; 0 credit counts half",
    "mse": "mean squared error after the best common scale >= 0, over that of no credit (1)",
    "cosine": "cosine of the policy gradient with the one that A* gives",
    "harmful": "share of all negative credit that lies on truly harmful steps",
    "decisive": "share of all positive credit that lies on truly decisive steps",
}
TITLES: Mapping[str, str] = {  # what its column is called
    "pearson": "Pearson r",
    "spearman": "Spearman",
    "within": "r within rollouts",
    "push": "r within, whole steps",
    "sign": "sign agreement",
    "mse": "scaled error",
    "cosine": "gradient cosine",
    "harmful": "blame on harmful",
    "decisive": "praise on decisive",
}
CLEAR = 2.0  # standard errors away from 0
LARGE = 0.2  # a harmful or decisive step changes the chance of success by at least this much


@dataclass(frozen=True, eq=False)
class Truth:
    """N steps with their true advantages.

    Args:
        advantage_N: A*.
        error_N: its standard errors; 0 where it is known.
        rollout_N, task_N: labels of each step's rollout and task.
        gradient_ND: sketch of each step's policy gradient; None for none.
        tokens_N: policy tokens of each step; None counts all alike.
        large: |A*| of a harmful or decisive step, > 0.
    """

    advantage_N: Array
    error_N: Array
    rollout_N: Sequence[object]
    task_N: Sequence[object]
    gradient_ND: NDArray | None = None
    tokens_N: Array | None = None
    large: float = LARGE

    def clear(self) -> NDArray[np.bool_]:
        """Which steps' A* is away from 0 by more than two standard errors."""
        return np.abs(self.advantage_N) > CLEAR * self.error_N

    def harmful(self) -> NDArray[np.bool_]:
        """Which steps clearly lower the chance of success by a lot."""
        return self.clear() & (self.advantage_N <= -self.large)

    def decisive(self) -> NDArray[np.bool_]:
        """Which steps clearly raise the chance of success by a lot."""
        return self.clear() & (self.advantage_N >= self.large)


@dataclass(eq=False)
class Scorer:
    """``scorer(credit) -> {metric: Interval}`` against one truth, resampling tasks.

    Every metric is a function of sums over tasks, so that a resample is one weighted sum. Ranks
    are those of the whole sample.

    Args:
        truth: the steps.
        resamples: of the bootstrap.
        seed: of the bootstrap; equal seeds draw the same tasks for every rule.

    >>> truth = Truth(np.array([1.0, -1.0, 0.5]), np.zeros(3), [0, 0, 1], ["a", "a", "b"])
    >>> scores = Scorer(truth, resamples=10)(2 * truth.advantage_N)
    >>> round(scores["pearson"].mean, 6), round(scores["mse"].mean, 6), scores["sign"].mean
    (1.0, 0.0, 1.0)
    """

    truth: Truth
    resamples: int = 400
    seed: int = 0
    _sums: dict = field(default_factory=dict)

    def __post_init__(self) -> None:
        t = self.truth
        n = len(t.advantage_N)
        if n == 0 or not n == len(t.error_N) == len(t.rollout_N) == len(t.task_N):
            raise CreditError(f"want at least one step with error, rollout and task; got {n}")
        names, self._task = np.unique(np.asarray(t.task_N, dtype=str), return_inverse=True)
        self._rollout = np.unique(np.asarray(t.rollout_N, dtype=str), return_inverse=True)[1]
        T = self.tasks = len(names)
        draws = np.random.default_rng(self.seed).multinomial(T, np.full(T, 1 / T), self.resamples)
        self._weight = np.vstack([np.ones(T), draws])  # the first row is the sample itself
        self._rank = rankdata(t.advantage_N)
        self._inside = self._centred(t.advantage_N)
        if t.gradient_ND is not None:
            self._push = self._weight @ self._gradient(t.advantage_N)

    def __call__(self, credit_N: ArrayLike) -> dict[str, Interval]:
        """Return every metric of this credit with its interval; NaN where it is not defined.

        Args and Raises: as ``draws``.
        """
        return {name: interval(x, self.tasks) for name, x in self.draws(credit_N).items()}

    def draws(self, credit_N: ArrayLike) -> dict[str, Array]:
        """Return every metric of the sample (first) and of each resample, NaN where undefined.

        Resamples are the same for every credit, so that differences of two are paired.

        Args:
            credit_N: (N,) credit per token of each step, finite.
        Raises:
            CreditError: another shape, or a value that is not finite.
        """
        c, t = np.asarray(credit_N, dtype=float), self.truth
        if c.shape != t.advantage_N.shape or not np.isfinite(c).all():
            raise CreditError(
                f"want finite credit of {len(t.advantage_N)} steps; got shape {c.shape}"
            )
        a, inside = t.advantage_N, self._centred(c)
        n = np.ones_like(c) if t.tokens_N is None else t.tokens_N
        agree = np.where(c == 0, 0.5, np.sign(c) == np.sign(a))
        return {
            "pearson": self._correlation(c, a),
            "spearman": self._correlation(rankdata(c), self._rank),
            "within": self._correlation(inside, self._inside, blank=0.0),
            "push": self._correlation(self._centred(n * c), self._inside, blank=0.0),
            "sign": self._share(agree, t.clear() & (a != 0)),
            "mse": self._error(c, a),
            "cosine": self._cosine(c),
            "harmful": self._mass(np.maximum(-c, 0), t.harmful()),
            "decisive": self._mass(np.maximum(c, 0), t.decisive()),
        }

    def base_rates(self) -> dict[str, float]:
        """Return the shares of harmful and decisive steps: what credit spread evenly would get."""
        t = self.truth
        return {"harmful": float(t.harmful().mean()), "decisive": float(t.decisive().mean())}

    def _total(self, *rows: Array) -> list[Array]:
        """Sums over tasks, for the sample and each resample."""
        per = [np.bincount(self._task, x, minlength=self.tasks) for x in rows]
        return [self._weight @ x for x in per]

    def _centred(self, x: Array) -> Array:
        count = np.bincount(self._rollout)
        out = x - (np.bincount(self._rollout, x) / count)[self._rollout]
        # Equal numbers do not centre to exact zeros.
        return np.where(np.abs(out) > 1e-12 * (1 + np.abs(x).max()), out, 0.0)

    def _correlation(self, x: Array, y: Array, blank: float = np.nan) -> Array:
        n, sx, sy, sxx, syy, sxy = self._total(np.ones_like(x), x, y, x * x, y * y, x * y)
        vx, vy = sxx - sx * sx / n, syy - sy * sy / n
        ok = (vx > 1e-12 * np.maximum(sxx, 1e-300)) & (vy > 1e-12 * np.maximum(syy, 1e-300))
        with np.errstate(invalid="ignore", divide="ignore"):
            r = (sxy - sx * sy / n) / np.sqrt(vx * vy)
        return np.where(ok, np.clip(r, -1, 1), blank)

    def _share(self, x: Array, of: NDArray[np.bool_]) -> Array:
        top, whole = self._total(x * of, of.astype(float))
        return np.divide(top, whole, out=np.full_like(top, np.nan), where=whole > 0)

    def _mass(self, x: Array, of: NDArray[np.bool_]) -> Array:
        top, whole = self._total(x * of, x)
        return np.divide(top, whole, out=np.full_like(top, np.nan), where=whole > 0)

    def _error(self, c: Array, a: Array) -> Array:
        cc, aa, ca = self._total(c * c, a * a, c * a)
        scale = np.divide(np.maximum(ca, 0), cc, out=np.zeros_like(cc), where=cc > 0)
        left = aa - 2 * scale * ca + scale * scale * cc
        return np.divide(left, aa, out=np.full_like(aa, np.nan), where=aa > 0)

    def _gradient(self, x: Array) -> Array:
        """(T, D) the policy gradient of each task under this credit."""
        out = np.zeros((self.tasks, self.truth.gradient_ND.shape[1]))
        np.add.at(out, self._task, x[:, None] * self.truth.gradient_ND)
        return out

    def _cosine(self, c: Array) -> Array:
        if self.truth.gradient_ND is None:
            return np.full(len(self._weight), np.nan)
        mine, best = self._weight @ self._gradient(c), self._push
        size = np.linalg.norm(mine, axis=1) * np.linalg.norm(best, axis=1)
        dot = (mine * best).sum(axis=1)
        return np.divide(dot, size, out=np.full_like(dot, np.nan), where=size > 0)


def interval(drawn: Array, tasks: int) -> Interval:
    """Return the sample's figure with its 95 % interval over resamples of so many tasks.

    Args:
        drawn: (1 + R,), the sample first; a difference of two such rows gives a paired interval.
        tasks: clusters behind it.

    >>> interval(np.array([0.5, 0.4, 0.6]), 9).n
    9
    """
    point, known = float(drawn[0]), drawn[1:][np.isfinite(drawn[1:])]
    if tasks == 1 or known.size * 2 <= len(drawn) - 1 or not np.isfinite(point):
        return Interval(point, float("nan"), float("nan"), tasks)
    low, high = np.quantile(known, [0.025, 0.975])
    return Interval(point, float(low), float(high), tasks, sd=float(known.std(ddof=1)))


def ceiling(first_N: ArrayLike, second_N: ArrayLike) -> dict[str, float]:
    """Return how far noise of the oracle lets any credit correlate with it.

        r = Pearson of two independent estimates;  reliability of both together = 2 r / (1 + r)
        ceiling = sqrt(reliability): the Pearson r that the exact A* itself would have

    Args:
        first_N, second_N: A* of the same steps from two halves of the roll-ins.
    Returns:
        {"halves": r, "reliability": ..., "ceiling": ...}; NaN where r <= 0 leaves none.
    Reference: Spearman-Brown.

    >>> ceiling([1, 2, 3], [1, 2, 3])["ceiling"]
    1.0
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        r = round(float(np.corrcoef(first_N, second_N)[0, 1]), 12)
    whole = 2 * r / (1 + r) if r > 0 else float("nan")
    return {"halves": r, "reliability": whole, "ceiling": float(np.sqrt(whole))}
