"""The `rubricnb` command: one file a command here, each a thin layer over plain functions."""

from __future__ import annotations

import sys

import typer

from ..errors import RubricNBError

app = typer.Typer(
    name="rubricnb",
    help="Rubrics for agent trajectories, step credit, and training with it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Keep sub-commands even while there is only one."""


def main() -> None:
    """Run the command; an expected error is one line on stderr and exit status 1."""
    try:
        app()
    except RubricNBError as e:
        print(f"rubricnb: {e}", file=sys.stderr)
        sys.exit(1)
    except OSError as e:  # no such folder, no permission, a full disk
        where = f" at {e.filename}" if e.filename else ""
        print(
            f"rubricnb: want a file that can be used{where}; got {e.strerror or e}", file=sys.stderr
        )
        sys.exit(1)
    except SystemExit as e:
        if e.code == 130:  # typer's answer to Ctrl-C, which says nothing
            print("rubricnb: interrupted; what was finished is kept", file=sys.stderr)
        raise


# Each command registers itself with the app above when it is imported.
from . import (  # noqa: E402
    credit,  # noqa: F401
    evaluate,  # noqa: F401
    fidelity,  # noqa: F401
    grade,  # noqa: F401
    import_,  # noqa: F401
    install_world,  # noqa: F401
    lab,  # noqa: F401
    report,  # noqa: F401
    reproduce,  # noqa: F401
    rubric_models,  # noqa: F401
    serve,  # noqa: F401
    static_rubric,  # noqa: F401
    study,  # noqa: F401
    train,  # noqa: F401
    warm_up,  # noqa: F401
)
