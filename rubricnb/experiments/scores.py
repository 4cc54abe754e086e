"""From evaluated rollouts to figures: one value a seed, with every interval beside it.

A figure of an arm is computed in this order: rates over the runs of each task; mean over tasks (or
scenarios); mean over the evaluated checkpoints of one training; mean over training seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ..errors import RunError
from ..metrics import (
    Interval,
    checkpoint_spread,
    cluster_bootstrap,
    pass_at_k_tasks,
    pass_hat_k_tasks,
    scenario_success,
    t_interval,
)
from .profiles import SPLITS
from .records import Run

OPTIONAL = ("termination", "tokens")
NEEDS = ("step", "split", "scenario", "task_id", "difficulty", "run", "success", "turns")
RATES: dict[str, Callable] = {"pass^": pass_hat_k_tasks, "pass@": pass_at_k_tasks}


@dataclass(frozen=True)
class Score:
    """One figure of one arm.

    Args:
        seeds: mean over training seeds with Student's t interval.
        tasks: the same mean with a bootstrap interval over scenarios; None where it has no tasks.
        by_seed: seed -> value.
        checkpoint_sd: SD over the evaluated checkpoints, mean over seeds.
        runs: names of the trainings behind it.
    """

    seeds: Interval
    by_seed: Mapping[int, float]
    runs: tuple[str, ...]
    tasks: Interval | None = None
    checkpoint_sd: float = float("nan")
    checkpoints: tuple[int, ...] = ()

    @property
    def value(self) -> float:
        """The mean over training seeds."""
        return self.seeds.mean


@dataclass
class Evaluations:
    """The evaluated rollouts of all runs, by arm; the success matrices are made once."""

    rows: dict[tuple[str, str], pd.DataFrame]
    runs: dict[tuple[str, str], tuple[Run, ...]]
    _matrices: dict = field(default_factory=dict, repr=False)
    _scores: dict = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, runs: Iterable[Run], splits: Sequence[str] = SPLITS) -> Evaluations:
        """Read the eval.jsonl of every run.

        Raises:
            RunError: for a run without evaluated rollouts or a row without a needed field.
        """
        by_arm: dict[tuple[str, str], list[Run]] = {}
        for run in runs:
            by_arm.setdefault((run.key.policy, run.key.arm), []).append(run)
        frames = {
            arm: pd.concat([_frame(r, splits) for r in members]) for arm, members in by_arm.items()
        }
        return cls(frames, {arm: tuple(members) for arm, members in by_arm.items()})

    def arms(self) -> list[tuple[str, str]]:
        """(policy, arm) of everything that was read."""
        return list(self.rows)

    def names(self, arm: tuple[str, str]) -> tuple[str, ...]:
        """The trainings behind an arm."""
        return tuple(str(r.key) for r in self.runs[arm])

    def checkpoints(self, arm: tuple[str, str]) -> tuple[int, ...]:
        """The global steps that were evaluated."""
        return tuple(sorted(int(s) for s in self.rows[arm]["step"].unique()))

    def cells(self, arm: tuple[str, str], split: str, difficulty: int | None = None):
        """(seed, step) -> success (N, R), the scenarios (N,); in order of seed and step.

        Raises:
            RunError: where tasks were not all run equally often.
        """
        key = (arm, split, difficulty)
        if key not in self._matrices:
            rows = self.rows[arm]
            rows = rows[rows["split"] == split]
            if difficulty is not None:
                rows = rows[rows["difficulty"] == difficulty]
            self._matrices[key] = {
                at: _matrix(part, f"{'/'.join(arm)}, seed {at[0]}, step {at[1]}, {split}")
                for at, part in rows.groupby(["seed", "step"], sort=True)
            }
        return self._matrices[key]

    def score(
        self,
        arm: tuple[str, str],
        split: str,
        metric: str,
        k: int = 1,
        rate: str = "pass^",
        difficulty: int | None = None,
    ) -> Score | None:
        """Return a success figure as a share, or None where the split was not evaluated.

        Args:
            arm: (policy, arm).
            split: a split's name.
            metric: "TGC" or "SR" (tasks), "SGC" (whole scenarios).
            k: of pass^k or pass@k, up to the number of runs.
            rate: "pass^" or "pass@".
            difficulty: only tasks of this difficulty.
        """
        key = (arm, split, metric, k, rate, difficulty)
        if key not in self._scores:
            self._scores[key] = self._score(*key)
        return self._scores[key]

    def _score(self, arm, split, metric, k, rate, difficulty) -> Score | None:
        matrices = self.cells(arm, split, difficulty)
        if not matrices:
            return None
        each: dict[int, list[np.ndarray]] = {}
        names: dict[int, Sequence[object]] = {}
        for (seed, _), (success, scenario) in matrices.items():
            units = scenario
            if metric == "SGC":
                success, units = scenario_success(success, scenario)
            each.setdefault(int(seed), []).append(RATES[rate](success, k))
            names[int(seed)] = units
        by_seed = {s: float(np.mean([v.mean() for v in values])) for s, values in each.items()}
        sds = [checkpoint_spread([v.mean() for v in values])[1] for values in each.values()]
        pooled = np.concatenate([np.mean(values, axis=0) for values in each.values()])
        clusters = [c for s in each for c in names[s]]
        return Score(
            seeds=t_interval(list(by_seed.values())),
            tasks=cluster_bootstrap(pooled, clusters),
            by_seed=by_seed,
            checkpoint_sd=float(np.mean(sds)),
            runs=self.names(arm),
            checkpoints=self.checkpoints(arm),
        )

    def mean(
        self, arm: tuple[str, str], split: str, column: str, *, completed: bool = False
    ) -> Score | None:
        """Return the mean of a column (turns, tokens) over rollouts, or None where it is absent.

        ``completed`` keeps the rollouts that succeeded.
        """
        rows = self.rows[arm]
        rows = rows[rows["split"] == split]
        if completed:
            rows = rows[rows["success"].astype(bool)]
        if rows.empty or column not in rows or rows[column].isna().any():
            return None
        at = rows.groupby(["seed", "step"])[column].mean().groupby("seed")
        by_seed = {int(s): float(v) for s, v in at.mean().items()}
        clusters = rows["scenario"].tolist()
        return Score(
            seeds=t_interval(list(by_seed.values())),
            tasks=cluster_bootstrap(rows[column].to_numpy(float), clusters),
            by_seed=by_seed,
            checkpoint_sd=float(np.mean(at.std().to_numpy(float))),
            runs=self.names(arm),
            checkpoints=self.checkpoints(arm),
        )

    def endings(self, arm: tuple[str, str], split: str) -> dict[str, Score]:
        """Return the share of rollouts by the way they ended, sorted by name."""
        rows = self.rows[arm]
        rows = rows[rows["split"] == split]
        if rows.empty or "termination" not in rows:
            return {}
        share = (
            rows.groupby("seed")["termination"].value_counts(normalize=True).unstack(fill_value=0)
        )
        return {
            str(name): Score(
                seeds=t_interval(values.tolist()),
                by_seed={int(s): float(v) for s, v in values.items()},
                runs=self.names(arm),
                checkpoints=self.checkpoints(arm),
            )
            for name, values in sorted(share.items())
        }


def combine(scores: Sequence[Score | None]) -> Score | None:
    """Return the mean of several figures of one arm (the paper's average), or None if one is."""
    known = [s for s in scores if s is not None]
    if len(known) < len(scores) or not known:
        return None
    by_seed = {s: float(np.mean([x.by_seed[s] for x in known])) for s in known[0].by_seed}
    return Score(
        seeds=t_interval(list(by_seed.values())),
        by_seed=by_seed,
        runs=known[0].runs,
        checkpoints=known[0].checkpoints,
    )


def _frame(run: Run, splits: Sequence[str] = SPLITS) -> pd.DataFrame:
    """The rows of the tables' splits, at the checkpoints that count."""
    keep = {*NEEDS, *OPTIONAL}
    rows = [{k: v for k, v in r.items() if k in keep} for r in run.rows("eval.jsonl")]
    rows = [r for r in rows if r.get("split", splits[0]) in splits]
    if run.done["global_step"] > 0:
        steps = run.done["settings"].get("checkpoints", ())
        rows = [r for r in rows if not steps or r.get("step", steps[0]) in steps]
    frame = pd.DataFrame(rows)
    if frame.empty:
        raise RunError(
            f"{run.path}/eval.jsonl: want evaluated rollouts of {tuple(splits)}; got none"
        )
    lacks = [c for c in NEEDS if c not in frame or frame[c].isna().any()]
    if lacks:
        raise RunError(f"{run.path}/eval.jsonl: want {lacks[0]} in every row; got a row without")
    return frame.assign(seed=run.key.seed)


def _matrix(part: pd.DataFrame, where: str) -> tuple[np.ndarray, list]:
    if part.duplicated(["task_id", "run"]).any():
        raise RunError(f"{where}: want each run of a task once; got one twice")
    wide = part.pivot(index="task_id", columns="run", values="success")
    if wide.isna().any(axis=None):
        task = wide.index[wide.isna().any(axis=1)][0]
        raise RunError(f"{where}: want as many runs of every task; got fewer of {task}")
    scenario = part.drop_duplicates("task_id").set_index("task_id")["scenario"]
    return wide.to_numpy(dtype=float), scenario[wide.index].tolist()
