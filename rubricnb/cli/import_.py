"""`rubricnb import`: a log of any known format becomes trajectories in our JSON lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import files, importers
from ..errors import ConfigError
from . import app


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(help="a log file, or a folder of one experiment")],
    output: Annotated[Path, typer.Option("-o", "--output", help="where to write our JSON lines")],
    format: Annotated[str | None, typer.Option(help="name the format instead of guessing")] = None,
    redact: Annotated[
        bool, typer.Option(help="replace e-mail addresses, keys and phone numbers")
    ] = False,
    pattern: Annotated[
        list[str] | None, typer.Option(help="a regular expression of what else to replace")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="also write the report, as JSON")] = None,
) -> None:
    """Read a log, say what format it is and how sure that is, write trajectories, account for all.

    Every message of the log is in the report: in a task, a step, an observation, or dropped with
    its line and the reason.
    """
    if output.exists() and path.exists() and output.samefile(path):
        raise ConfigError(f"{output}: want another file to write than the log itself; got the log")
    reading = importers.read(path, format, redact=redact, patterns=pattern or ())
    n = files.write_jsonl(output, reading)
    print(reading.report)
    if report is not None:
        report.write_text(json.dumps(reading.report.to_dict(), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {n} trajectories to {output}", file=sys.stderr)
