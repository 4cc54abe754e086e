"""`rubricnb static-rubric`: select the task-agnostic rubric of the static arms on base rollouts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from . import app


@app.command("static-rubric")
def static_rubric(
    output: Annotated[Path, typer.Option("-o", "--output", help="where to write the set, as JSON")],
    path: Annotated[
        Path | None,
        typer.Argument(help="base rollouts of desk tasks, our JSON lines; else scripted ones"),
    ] = None,
    per_task: Annotated[int, typer.Option(help="scripted rollouts of each training task")] = 8,
    seed: Annotated[int, typer.Option(help="seed of the scripted rollouts")] = 0,
    applicable: Annotated[float, typer.Option(help="least share it applies to")] = 0.25,
    least_failed: Annotated[float, typer.Option(help="least share of failures")] = 0.028,
    most_failed: Annotated[float, typer.Option(help="most of them")] = 0.98,
    exact: Annotated[bool, typer.Option(help="a judge without noise")] = False,
) -> None:
    """Measure how often each candidate applies and fails, and keep those that tell rollouts apart.

    The candidates are the bundled desks' own, graded by the offline rule judge.
    """
    from .. import files, worlds
    from ..worlds import static_rubric as static

    limits = static.Limits(applicable, least_failed, most_failed)
    groups = (
        static.base_rollouts(per_task=per_task, seed=seed)
        if path is None
        else files.read_groups(path)
    )
    source = f"scripted, {per_task} a task, seed {seed}" if path is None else str(path)
    judge = worlds.offline_judge(worlds.EXACT if exact else worlds.STRICT)
    rubric, rows = static.select_static(groups, judge, limits=limits)
    static.save_static(output, rows, limits, source, judge.name)
    print(f"{'kept':4}  {'applies':>7}  {'fails':>6}  criterion")
    for r in sorted(rows, key=lambda r: -1 if r.failed is None else r.failed, reverse=True):
        fails = "-" if r.failed is None else f"{r.failed:6.1%}"
        mark = "yes" if r.kept(limits) else ""
        print(f"{mark:4}  {r.applicable:7.1%}  {fails:>6}  {r.criterion.title}")
    print(f"kept {len(rubric)} of {len(rows)}, wrote {output}", file=sys.stderr)
