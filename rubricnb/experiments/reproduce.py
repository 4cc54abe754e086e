"""The whole study: every notebook in order, trainings and tables included, resumable."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import rubricnb

from ..errors import RunError
from .notebooks import (
    Executed,
    check,
    fingerprint,
    ordered,
    own_command,
    reads_studies,
    reads_trainings,
    recall,
    remember,
    run_notebook,
)
from .profiles import Profile
from .progress import clock
from .records import file_hash, write_json


def notebooks_folder() -> Path:
    """The notebooks beside the package, as in a checkout.

    Raises:
        RunError: for an installation without them.
    """
    folder = Path(rubricnb.__file__).resolve().parents[1] / "notebooks"
    if not folder.is_dir():
        raise RunError(
            f"want the project's notebooks at {folder}; got no such folder: give --notebooks"
        )
    return folder


def inputs(home: Path, trainings: bool = True, studies: bool = False) -> dict[str, str]:
    """Return the hashes of what a notebook reads: the package's files and sealed trainings."""
    package = Path(rubricnb.__file__).resolve().parent
    code = {
        f"code/{p.relative_to(package)}": file_hash(p)
        for p in sorted(package.rglob("*"))
        if p.is_file() and "__pycache__" not in p.parts
    }
    sealed = sorted(home.glob("arms/*/*/seed*/done.json")) if trainings else []
    if studies:
        sealed += sorted(home.parent.glob("studies/*/*/arms/*/*/seed*/done.json"))
    return code | {str(p.relative_to(home.parent)): file_hash(p) for p in sealed}


def reproduce(
    profile: Profile,
    out: str | os.PathLike[str] = "runs",
    *,
    notebooks: str | os.PathLike[str] | None = None,
    extra: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = print,
) -> list[Executed]:
    """Run every notebook of the paper's study in order and return what each left.

    Notebooks on more than that, with a command of their own, are named and left to it.

    Each gets the parameters ``profile`` and ``runs``. One of them trains what is not trained yet.
    A notebook whose text, parameters, code and trainings are as they were, and whose files still
    have their hashes, is not run again.

    Args:
        profile: which size.
        out: folder that holds the profiles' folders.
        notebooks: folder of the notebooks; None for the project's.
        extra: further parameters that every notebook must know.
        say: where lines of progress go.
    Raises:
        RunError: a notebook is refused or fails; those before it are kept.
    """
    folder = Path(notebooks) if notebooks is not None else notebooks_folder()
    home = (Path(out) / profile.name).resolve()
    home.mkdir(parents=True, exist_ok=True)
    parameters = {"profile": profile.name, "runs": str(home.parent), **(extra or {})}
    paths = []
    for path in ordered(folder):
        if command := own_command(path):
            say(f"{path.name}: not of the paper's study; see `{command} --help`")
        else:
            paths.append(path)
    for path in paths:  # All of them before the first runs: a refusal must not cost an hour.
        check(path, parameters)
    start, done = time.monotonic(), []
    for n, path in enumerate(paths, start=1):
        reads = reads_trainings(path), reads_studies(path)
        known = recall(path, home, fingerprint(path, parameters, inputs(home, *reads)))
        if known is not None:
            say(f"[{n}/{len(paths)}] {path.name}: as before, not run again")
            done.append(known)
            continue
        say(f"[{n}/{len(paths)}] {path.name}")
        result = run_notebook(path, home, parameters, say=say)
        # After the run: the trainings that it made are its inputs next time.
        remember(result, home, fingerprint(path, parameters, inputs(home, *reads)))
        done.append(result)
        say(f"[{n}/{len(paths)}] {path.name}: done in {clock(result.seconds)}")
    write_json(home / "reproduce.json", _account(profile, done, home, time.monotonic() - start))
    return done


def _account(profile: Profile, done: list[Executed], home: Path, seconds: float) -> dict[str, Any]:
    return {
        "profile": profile.name,
        "seconds": round(seconds, 1),
        "notebooks": {
            d.source.name: {
                "seconds": round(d.seconds, 1),
                "reused": d.reused,
                "files": [str(p.relative_to(home)) for p in d.files],
            }
            for d in done
        },
    }


def summary(done: list[Executed], home: Path, seconds: float) -> str:
    """Return the closing lines: where tables, figures, record and executed notebooks are."""
    fresh = sum(not d.reused for d in done)
    lines = [
        f"{len(done)} notebooks ({fresh} run, {len(done) - fresh} as before), {clock(seconds)}"
    ]
    for title, pattern in (
        ("tables", "tables/*.md"),
        ("record", "tables/record.json"),
        ("figures", "figures/*.html"),
        ("executed notebooks", "notebooks/*.ipynb"),
    ):
        found = sorted(home.glob(pattern))
        if found:
            lines.append(f"{title}:")
            lines += [f"  {p}" for p in found]
    return "\n".join(lines)
