"""Whether a judge's measured quality predicts what it is worth as a reward, over trained arms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RunError
from ..experiments.records import Run, RunKey, verify
from ..grading import arrays
from ..metrics.judge_eval import correlations, judge_quality
from ..rubric import GradedGroup
from .opinions import said_by
from .section import SIMULATED, Section, columns_of, skipped

QUESTION = "Does a judge's measured quality predict what it is worth as a reward?"
LEAST = 5  # trainings below which a rank correlation is not worth stating


def finished(home: str | Path) -> Iterator[Run]:
    """Yield the finished and verified trainings under ``<out>/<profile>``; unfinished ones never.

    Raises:
        RunError: for a folder that is corrupt.
    """
    for path in sorted(Path(home).glob("arms/*/*/seed*/done.json")):
        policy, arm, seed = path.parts[-4:-1]
        yield verify(path.parent, RunKey(policy, arm, int(seed.removeprefix("seed"))))


def pair_accuracy(groups: Sequence[GradedGroup]) -> tuple[float, int]:
    """Return how often R ranks a success above a failure of its own group, ties half; and pairs.

    This is what a group-relative reward can use: NaN where no group has both.
    """
    right = pairs = 0.0
    for g in groups:
        a = arrays(g, "chars")
        good, bad = a.outcome_G == 1, a.outcome_G < 1
        known = np.isfinite(a.reward_G)
        d = a.reward_G[good & known][:, None] - a.reward_G[bad & known][None, :]
        right += float((d > 0).sum() + (d == 0).sum() / 2)
        pairs += d.size
    return (right / pairs if pairs else float("nan")), int(pairs)


def success_at_end(run: Run, split: str) -> float:
    """Return the mean success over the last evaluated step of a training."""
    rows = [r for r in run.rows("eval.jsonl") if r["split"] == split]
    last = max((r["step"] for r in rows), default=None)
    return float(np.mean([r["success"] for r in rows if r["step"] == last])) if rows else np.nan


def worth_rows(home: str | Path, split: str = "test_normal") -> list[dict[str, Any]]:
    """Return one row a training that has graded groups: its judge's quality and its gain.

    The gain is over the same policy's base arm, NaN where that was not evaluated.

    Args:
        home: ``<out>/<profile>`` of a study.
        split: what success is measured on.
    """
    runs = list(finished(home))
    base: dict[str, list[float]] = {}
    for r in runs:
        if r.key.arm == "base":
            base.setdefault(r.key.policy, []).append(success_at_end(r, split))
    rows = []
    for r in runs:
        groups = [g for g in r.groups() if len(g.rubric)]
        if not groups:
            continue
        accuracy, pairs = pair_accuracy(groups)
        said = np.concatenate([said_by(g, least=0.5) for g in groups])
        label = np.concatenate([arrays(g, "chars").outcome_G for g in groups])
        label = np.where(np.isnan(label), np.nan, label == 1)
        known = np.isfinite(label).any()
        q = judge_quality(said, label) if known else None
        judge = r.json("judge.json")
        name, simulated = str(judge.get("name", "")), bool(judge.get("simulated", False))
        rows.append(
            {
                "training": str(r.key),
                "judge": f"{SIMULATED}: {name}" if simulated else name,
                "drawn errors": simulated,
                "pair accuracy": accuracy,
                "pairs": pairs,
                "precision on success": q.precision if q else np.nan,
                "balanced accuracy": q.balanced_accuracy if q else np.nan,
                "gain in success": success_at_end(r, split)
                - float(np.mean(base.get(r.key.policy, [np.nan]))),
            }
        )
    return rows


def worth_as_reward(home: str | Path, split: str = "test_normal") -> Section:
    """Return the section on quality against worth, over the finished arms of a study.

    Args:
        home: ``<out>/<profile>``.
        split: what success is measured on.
    Raises:
        RunError: where there is no such folder.
    """
    if not Path(home).is_dir():
        raise RunError(f"{home}: want the folder of a study's profile; got none")
    rows = worth_rows(home, split)
    if not rows:
        return skipped("worth", QUESTION, f"no finished training under {home} has graded groups")
    gain = [r["gain in success"] for r in rows]
    found = {
        name: correlations([r[name] for r in rows], gain)[1]
        for name in ("pair accuracy", "precision on success", "balanced accuracy")
    }
    from ..figures import lab as draw

    simulated = any(r["drawn errors"] for r in rows)
    note = f" ({SIMULATED}s)" if simulated else ""
    figure = draw.lines(
        [{"series": r["training"], "quality": r["pair accuracy"], "gain": r["gain in success"]}
         for r in rows],
        title=f"Judge quality against gain as a reward{note}",
        x="quality",
        y="gain",
        x_title="pair accuracy of R within groups",
        y_title="gain in success over the base policy",
    )  # fmt: skip
    n = len({r["training"] for r in rows})
    said = (
        f"Over {n} trainings{note}, Spearman's correlation of the gain in success is "
        + "; ".join(f"{v:.2f} with {k}" if v == v else f"not defined with {k}"
                    for k, v in found.items())
        + "."
    )  # fmt: skip
    if n < LEAST:
        said += f" With {n} trainings this says nothing yet; {LEAST} are the least."
    said += " Arms differ in more than their judge, so this is association, not cause."
    return Section(
        "worth", QUESTION, said, {"worth": columns_of(rows)}, {"worth": figure}, {"spearman": found}
    )
