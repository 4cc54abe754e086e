"""`rubricnb reproduce`: run the study's notebooks, train what is missing, write the tables."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ..experiments.profiles import PROFILES
from ..experiments.profiles import profile as profile_of
from . import app


def _say(line: str) -> None:
    print(line, flush=True)


@app.command()
def reproduce(
    profile: Annotated[
        str,
        typer.Option(
            help="; ".join(
                f"{p.name}: {len(p.seeds)} seed(s), {p.steps} steps, about {p.minutes} min or less"
                for p in PROFILES.values()
            )
        ),
    ] = "small",
    out: Annotated[Path, typer.Option(help="folder of all runs")] = Path("runs"),
    notebooks: Annotated[
        Path | None, typer.Option(help="folder of notebooks NN_*.ipynb; default: the project's")
    ] = None,
) -> None:
    """Reproduce the study: rollouts, rubrics, verdicts, step credit, training, tables, figures.

    What is finished and verified is reused, so that the same command goes on after an interruption.
    """
    chosen = profile_of(profile)
    from ..experiments import reproduce as study  # papermill: only when it is needed

    start = time.monotonic()
    try:
        done = study.reproduce(chosen, out, notebooks=notebooks, say=_say)
    except KeyboardInterrupt:
        text = "rubricnb: interrupted; what was finished is kept, the same command goes on from it"
        print(text, file=sys.stderr)
        raise typer.Exit(130) from None
    _say("")
    _say(study.summary(done, (out / chosen.name).resolve(), time.monotonic() - start))
