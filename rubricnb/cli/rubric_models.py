"""``rubricnb rubric-models``: does the text of a rubric model matter, and are its scores right?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import app


@app.command("rubric-models")
def rubric_models(
    out: Annotated[Path, typer.Option(help="Folder of rubric_models.json.")] = Path(
        "runs/rubric_models"
    ),
    variants: Annotated[str, typer.Option(help="Names, comma-separated; empty: all.")] = (
        "arco,arco_frozen"
    ),
    tasks: Annotated[int, typer.Option(help="Tasks with a true advantage.")] = 16,
    samples: Annotated[int, typer.Option(help="Roll-ins a state.")] = 12,
    updates: Annotated[int, typer.Option(help="Batches that each variant learns from.")] = 8,
    seed: Annotated[int, typer.Option()] = 0,
) -> None:
    """Examine ARCO's rubric model, its ablations and an opaque process reward (a few minutes each).

    A variant other than arco is warmed up first and kept in the cache.
    """
    from ..fidelity.rubric_models import ORDER, as_text, study

    names = [v for v in variants.split(",") if v] or list(ORDER)
    rows = study(names, updates=updates, seed=seed, folder=out, tasks=tasks, samples=samples)
    print(as_text(rows))
