"""`rubricnb install-world`: engines that cannot be plain dependencies of this package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError, WorldError
from . import app

# Without dependencies, since theirs pin old versions or bring language models that play no part.
WHEELS = {
    "bfcl": ("bfcl-eval==2026.3.23", "mpmath>=1.3"),
    "textworld": (
        "textworld==1.7.0",
        "jericho==3.3.1",
        "tatsu==5.8.3",
        "hashids==1.3.1",
        "mementos==1.3.1",
        "more-itertools==11.2.1",
        "termcolor==3.3.0",
    ),
}


@app.command("install-world")
def install_world(
    name: Annotated[str, typer.Argument(help="bfcl, textworld or appworld")],
    folder: Annotated[
        Path | None, typer.Option(help="appworld: its virtual environment; default: the cache")
    ] = None,
) -> None:
    """Install the engine of a world that is not ours.

    bfcl and textworld go beside this package, appworld into a virtual environment of its own.
    """
    if name == "appworld":
        from ..worlds.appworld_engine import install

        print(f"AppWorld's engine is in {install(folder)}", file=sys.stderr)
        print("its tasks: appworld download data --root DIR (by that environment)", file=sys.stderr)
        return
    if name not in WHEELS:
        raise ConfigError(f"want a world among {[*WHEELS, 'appworld']}; got {name!r}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", *WHEELS[name]]
    if (status := subprocess.run(command).returncode) != 0:
        raise WorldError(f"{' '.join(command[2:])}: want exit 0; got {status}")
