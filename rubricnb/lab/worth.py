"""Whether a judge's measured quality predicts what it is worth as a reward, over trained arms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RunError
from ..experiments.records import Run, RunKey, verify
from ..grading import arrays
from ..metrics.association import Association, rank_association
from ..metrics.intervals import t_interval
from ..metrics.judge_eval import judge_quality
from ..rubric import GradedGroup
from .opinions import said_by
from .section import SIMULATED, Section, columns_of, number, skipped

MEASURES = ("pair accuracy", "precision on success", "balanced accuracy")
QUESTION = "Does a judge's measured quality predict what it is worth as a reward?"
LEAST = 5  # cells below which no order of theirs is rare enough to state a correlation


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


def success_of(run: Run, split: str) -> float:
    """Return a training's mean success over all evaluated checkpoints, as the tables take it."""
    rows = [r["success"] for r in run.rows("eval.jsonl") if r["split"] == split]
    return float(np.mean(rows)) if rows else float("nan")


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
            base.setdefault(r.key.policy, []).append(success_of(r, split))
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
        judge, config = r.json("judge.json"), r.json("config.json")
        name = str(judge.get("name", "a judge"))
        rows.append(
            {
                "policy": r.key.policy,
                "arm": r.key.arm,
                "seed": r.key.seed,
                "judge": f"{SIMULATED}: {name}" if judge.get("simulated") else name,
                "signal": _signal(config.get("signal")),
                "pair accuracy": accuracy,
                "pairs": pairs,
                "precision on success": q.precision if q else np.nan,
                "balanced accuracy": q.balanced_accuracy if q else np.nan,
                "gain in success": success_of(r, split)
                - float(np.mean(base.get(r.key.policy, [np.nan]))),
            }
        )
    return rows


def _signal(told: Mapping[str, Any] | None) -> str:
    """What an arm is but for its judge: arms that share it differ in their judge alone."""
    judge = ("name", "lenient", "votes", "style")
    return ", ".join(f"{v}" for k, v in (told or {}).items() if k not in judge and v) or "dynamic"


def cells_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row a policy and arm, the mean over its seeds, with the spread of the gain."""
    cells: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for r in rows:
        cells.setdefault((r["policy"], r["arm"]), []).append(r)
    out = []
    for own in cells.values():
        row = {k: own[0][k] for k in ("policy", "arm", "judge", "signal")}
        row["seeds"] = len(own)
        row |= {k: float(np.mean([r[k] for r in own])) for k in (*MEASURES, "gain in success")}
        gains = [r["gain in success"] for r in own]
        known = t_interval(gains) if np.isfinite(gains).all() else None  # no base, no gain
        row |= {
            "gain low": known.low if known else None,
            "gain high": known.high if known else None,
        }
        out.append(row)
    return out


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
    cells = cells_of(rows)
    gain, policy = [c["gain in success"] for c in cells], [c["policy"] for c in cells]
    found = {m: rank_association([c[m] for c in cells], gain, policy) for m in MEASURES}
    note = f" (with a {SIMULATED})" if any(SIMULATED in r["judge"] for r in rows) else ""
    from ..figures import lab as draw

    figure = draw.lines(
        [{"series": f"{r['policy']}, {r['arm']}", "quality": r["pair accuracy"],
          "gain": r["gain in success"]} for r in rows],
        title=f"Judge quality against gain as a reward{note}",
        x="quality",
        y="gain",
        x_title="pair accuracy of R within groups",
        y_title="gain in success over the base policy",
        joined=False,
        description="One point a training, one colour an arm.",
    )  # fmt: skip
    return Section(
        "worth",
        QUESTION,
        _words(rows, cells, found, note),
        {"worth": columns_of(rows), "cells": columns_of(cells)},
        {"worth": figure},
        {"association": found, "cells": cells},
    )


def _words(rows, cells, found: Mapping[str, Association], note: str) -> str:
    n = max(a.n for a in found.values())
    said = f"Over {len(rows)} trainings of {len(cells)} arms and policies{note}: "
    if n < LEAST:
        said += f"{n} arms of one policy can be compared, {LEAST} are the least that say anything. "
    else:
        said += (
            "within a policy, Spearman's correlation of an arm's mean gain in success is "
            + "; ".join(f"{number(a.rho, 2)} with {m} (p {number(a.p, 2)})"
                        for m, a in found.items())
            + f", over {n} arms. "
        )  # fmt: skip
        if all(not a.p < 0.05 for a in found.values()):
            said += "None of it can be told from chance with so few arms. "
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for c in cells:
        alike.setdefault((c["policy"], c["signal"]), []).append(c)
    some = max(alike.values(), key=len)
    if len(some) > 1:
        order = sorted(some, key=lambda c: -np.nan_to_num(c["pair accuracy"], nan=-1))
        said += (
            "Arms that differ in their judge alone, the best judge first: "
            + "; ".join(
                f"{c['arm']}, pair accuracy {number(c['pair accuracy'], 2)}, gain "
                f"{number(c['gain in success'], 2)} ({number(c['gain low'], 2)} to "
                f"{number(c['gain high'], 2)}, {c['seeds']} seeds)"
                for c in order
            )
            + ". "
        )
    return said + "Other arms differ in more than their judge: association, not cause."
