"""The agreement study: a run's judge calls once more, answered by another judge, and compared.

A sealed run holds its graded groups with everything that made their prompts: rollouts, rubric,
settings and nonce. Replaying the scoring calls therefore sends the same text to the byte.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..errors import RunError
from ..judge import Judge, JudgeConfig, grade_group
from ..judge.asking import together
from ..judge.loop import run
from ..metrics import Agreement, agreement, drift
from ..rubric import GradedGroup, Verdict

KEPT = ("caveats", "observation_chars", "budget", "max_tokens", "temperature")
NAN = float("nan")
IN_FLIGHT = 16  # groups asked about at once


@dataclass(frozen=True)
class Replay:
    """Two judges on the same rollouts and criteria; one row of ``frame`` a judgement.

    Columns: task, trajectory, criterion, step (of training), reference, test (+1, -1, 0, NaN),
    reference_steps, test_steps (cited). ``test`` and ``reference`` are the judges' names.
    """

    frame: pd.DataFrame
    test: str
    reference: str

    def agreement(self, resamples: int = 1000) -> Agreement:
        """Agreement with intervals over resampled tasks."""
        f = self.frame
        return agreement(f["test"], f["reference"], f["task"].tolist(), resamples=resamples)

    def drift(self, parts: int = 4, resamples: int = 1000) -> list[Agreement]:
        """Agreement in each part of training, first to last."""
        f = self.frame
        parts = min(parts, f["step"].nunique())
        return drift(
            f["test"],
            f["reference"],
            f["step"],
            parts=parts,
            cluster_N=f["task"].tolist(),
            resamples=resamples,
        )

    def table(self, parts: int = 4, resamples: int = 1000) -> pd.DataFrame:
        """The study as a table: one row for all of training, then one a part of it."""
        rows = [("all", self.agreement(resamples))]
        if self.frame["step"].nunique() > 1:
            several = self.drift(parts, resamples)
            rows += [(f"part {i} of {len(several)}", a) for i, a in enumerate(several, 1)]
        return pd.DataFrame([_row(part, a, self) for part, a in rows])


def _row(part: str, a: Agreement, replay: Replay) -> dict[str, Any]:
    out: dict[str, Any] = {
        "test": replay.test,
        "reference": replay.reference,
        "part": part,
        "judgements": a.n,
        "always_pass": a.always_pass,
        "majority": a.majority,
    }
    for name, interval in a.intervals.items():
        out |= {name: interval.mean, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return out


def _again(graded: GradedGroup, attribution: str) -> JudgeConfig:
    """The settings that make the same scoring calls: the recorded ones, the rubric as it was."""
    told: Mapping[str, Any] = graded.record.get("config", {})
    nonce = graded.record.get("nonce", "")
    if not nonce:
        raise RunError(
            f"group {graded.group.task.id!r}: want the nonce of its prompts in the record; got none"
        )
    return JudgeConfig(
        rubric=graded.rubric,
        attribution=attribution,
        nonce=nonce,
        **{k: told[k] for k in KEPT if k in told},
    )


def regrade(
    groups: Sequence[GradedGroup], judge: Judge, *, attribution: str = "none"
) -> list[GradedGroup]:
    """Return groups graded once more by another judge, on the same rubrics and prompts.

    All groups given are worked on at once; how many calls are in flight is the judge's to limit.

    Raises:
        RunError: where a record does not hold the nonce of its prompts.
        JudgeError: where the judge cannot be called.
    """
    settings = [_again(g, attribution) for g in groups]

    async def work() -> list[GradedGroup]:
        return await together(
            grade_group(g.group, judge, c) for g, c in zip(groups, settings, strict=True)
        )

    return run(work())


def _labels(graded: GradedGroup, g: int) -> list[float]:
    if graded.failures and graded.failures[g]:
        return [NAN] * len(graded.rubric)
    return [j.value if isinstance(j, Verdict) else NAN for j in graded.judgements[g]]


def _cited(graded: GradedGroup, g: int) -> list[tuple[int, ...]]:
    return [j.steps if isinstance(j, Verdict) else () for j in graded.judgements[g]]


def replay(
    groups: Iterable[GradedGroup], judge: Judge, *, every: int = 1, citations: bool = False
) -> Replay:
    """Return what another judge says of a run's archived judgements.

    The judge under test sees one call a rollout, whatever the number of votes was; calls that
    cannot be read are missing answers, which disagree. Rubrics that had failed are left out.

    Args:
        groups: graded groups, such as ``Run.groups()``.
        judge: the judge under test.
        every: only every so many-th group, for a dear judge.
        citations: also ask for step attributions, to compare cited steps.
    Raises:
        RunError: no group with a rubric; a record without its nonce.

    Reference:
        DRACO, arXiv 2609.04094, App. B.1.
    """
    wanted = (g for n, g in enumerate(groups) if n % every == 0 and len(g.rubric))
    attribution = "separate" if citations else "none"
    rows: list[dict[str, Any]] = []
    reference = ""
    while chunk := list(itertools.islice(wanted, IN_FLIGHT)):
        reference = reference or str(chunk[0].record.get("judge", "reference"))
        several = regrade(chunk, judge, attribution=attribution)
        for graded, again in zip(chunk, several, strict=True):
            rows += _rows(graded, again)
    if not rows:
        raise RunError("want at least one group with a rubric to replay; got none")
    return Replay(pd.DataFrame(rows), judge.name, reference)


def _rows(graded: GradedGroup, again: GradedGroup) -> list[dict[str, Any]]:
    step = graded.record.get("step", 0)
    out = []
    for g, trajectory in enumerate(graded.group.trajectories):
        columns = zip(
            graded.rubric.criteria,
            _labels(graded, g),
            _labels(again, g),
            _cited(graded, g),
            _cited(again, g),
            strict=True,
        )
        out += [
            {
                "task": graded.group.task.id,
                "trajectory": trajectory.id,
                "criterion": c.id,
                "step": step,
                "reference": ref,
                "test": test,
                "reference_steps": ref_steps,
                "test_steps": test_steps,
            }
            for c, ref, test, ref_steps, test_steps in columns
        ]
    return out
