"""`rubricnb warm-up`: make a tiny policy by supervised learning on demonstrations."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import typer

from . import app


@app.command("warm-up")
def warm_up(
    name: Annotated[str, typer.Argument(help="start from the recipe of main or weak")] = "main",
    output: Annotated[Path, typer.Option("-o", "--output", help="cache folder")] = Path("runs"),
    seed: Annotated[int | None, typer.Option(help="another seed")] = None,
    steps: Annotated[int | None, typer.Option(help="another number of steps")] = None,
    faults: Annotated[float | None, typer.Option(help="factor on the demonstrations' faults")] = (
        None
    ),
) -> None:
    """Train a policy from scratch, two minutes on one core, and print its folder.

    The folder is named by the recipe's hash; a policy that is there already is not made again.
    """
    from ..errors import ConfigError
    from ..policy import warmup

    if name not in warmup.CHECKPOINTS:
        raise ConfigError(f"want a recipe among {list(warmup.CHECKPOINTS)}; got {name!r}")
    changes = {"seed": seed, "steps": steps, "faults": faults}
    config = dataclasses.replace(
        warmup.CHECKPOINTS[name], **{k: v for k, v in changes.items() if v is not None}
    )

    def progress(step: int, loss: float) -> None:
        if step % 50 == 0 or step == config.steps:
            print(f"step {step} of {config.steps}, loss {loss:.3f}", file=sys.stderr, flush=True)

    print(warmup.warm_up(config, output, progress=progress))
