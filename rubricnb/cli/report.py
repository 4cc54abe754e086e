"""`rubricnb report`: graded rollouts as one offline HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import FormatError
from ..files import read_jsonl
from ..rubric import GradedGroup
from . import app


@app.command("report")
def report(
    graded: Annotated[Path, typer.Argument(help="JSONL that `rubricnb grade` wrote.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")],
    rule: Annotated[str, typer.Option(help="Credit rule that is shown first.")] = "draco",
    title: Annotated[str, typer.Option(help="The page's title.")] = "",
    limit: Annotated[int, typer.Option(min=500, help="Characters kept of each text.")] = 20_000,
    max_mb: Annotated[float, typer.Option(min=0.1, help="Largest size, in 10^6 bytes.")] = 20.0,
) -> None:
    """Write one self-contained page with search, filters and links to steps."""
    from ..report import write

    groups = []
    if not graded.is_file():
        raise FormatError(f"{graded}: want a file of graded groups; got none")
    for i, value in enumerate(read_jsonl(graded), start=1):
        if not isinstance(value, GradedGroup):
            raise FormatError(
                f"{graded}, value {i}: want a graded group; got another kind "
                "(run `rubricnb grade` first)"
            )
        groups.append(value)
    made = write(
        groups,
        output,
        rule=rule,
        title=title or f"Graded rollouts: {graded.name}",
        limit=limit,
        max_bytes=int(max_mb * 1e6),
    )
    size = output.stat().st_size / 1e6
    cut = f"; {made.cut} long texts cut to {made.limit} characters" if made.cut else ""
    typer.echo(
        f"{output}: {made.rollouts} rollouts of {made.groups} tasks, {size:.1f} MB{cut}", err=True
    )
