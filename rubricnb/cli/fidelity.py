"""`rubricnb fidelity`: does credit land on the right step? The table, its figures, its finding."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ..fidelity.sizes import SIZES
from . import app

_SIZES = "; ".join(f"{s.name}: meant for {s.minutes} minutes on two cores" for s in SIZES.values())


@app.command("fidelity")
def fidelity(
    profile: Annotated[str, typer.Option(help=_SIZES)] = "quick",
    runs: Annotated[Path, typer.Option(help="folder of all runs")] = Path("runs"),
    seed: Annotated[
        list[int] | None,
        typer.Option(help="only make the oracle of this seed; repeat for several"),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="folder of rollouts with human step labels")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="a judge for the human labels")] = None,
    model: Annotated[str | None, typer.Option(help="the model's name there")] = None,
) -> None:
    """Score every credit rule against the true advantage of each step, under every judge.

    The true advantage is estimated in the bundled world by roll-ins from saved states. What is
    finished is kept: run it again to go on; with --seed, several processes share the work.
    Table, figures and finding are in RUNS/PROFILE/fidelity, and the finding is printed.
    """
    from ..fidelity import (
        home_of,
        make_oracle,
        run_fidelity,
        size_of,
    )  # torch: only when it is needed

    size, start = size_of(profile), time.monotonic()
    if seed:
        made = make_oracle(size, home_of(size, runs) / "oracle", seeds=seed, say=_say)
        print(f"{len(made)} rollouts with their true advantages")
        return
    judge = None
    if base_url or model:
        from .grade import make_judge

        judge = make_judge("endpoint", base_url, model)
    if data is None and os.environ.get("RUBRICNB_SHARED"):
        data = Path(os.environ["RUBRICNB_SHARED"])
    _, _, files = run_fidelity(size, runs, data=data, judge=judge, say=_say)
    print(files["finding"].read_text(encoding="utf-8"))
    for path in files.values():
        print(path)
    _say(f"{time.monotonic() - start:.0f} s")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
