"""`rubricnb serve-local`: a small real judge on this machine, to try things with."""

from typing import Annotated

import typer

from ..judge.local_server import serve
from . import app


@app.command("serve-local")
def serve_local(
    port: Annotated[int, typer.Option(help="0 takes a free one")] = 8080,
    threads: Annotated[int, typer.Option(help="threads of the model")] = 2,
    slots: Annotated[int, typer.Option(help="calls answered side by side")] = 1,
) -> None:
    """Serve SmolLM2-135M-Instruct, which ships in a package, as an OpenAI-compatible endpoint.

    It tests the protocol, the reading and the bill: its verdicts are worth nothing.
    """
    serve(port, threads, slots)
