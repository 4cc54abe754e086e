"""Notebooks run headless, in order, and held to what they promise.

A notebook has one code cell tagged ``parameters`` that assigns literals, and says in its metadata
which files it leaves, relative to the profile's folder:

    "rubricnb": {"promises": ["tables/main.csv", "figures/*.html"], "trainings": false}

"trainings": false says that it reads no training, so that new ones are no reason to run it again.

papermill alone lets each of these pass with exit status 0: an unknown parameter, a missing tag,
a parameter that another line of the cell recomputes, an output that was not written. Here each is
refused, before the run where it can be known before.
"""

from __future__ import annotations

import ast
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import papermill

from ..errors import RunError
from ..files import content_hash
from .records import file_hash, write_json

KERNEL = "python3"


@dataclass(frozen=True)
class Executed:
    """One notebook after its run: the executed copy, what it left, seconds, reused or not."""

    source: Path
    copy: Path
    files: tuple[Path, ...]
    seconds: float
    reused: bool = False


def ordered(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the notebooks ``NN_name.ipynb`` of a folder in order of their numbers.

    Raises:
        RunError: where there is none, or two share a number.
    """
    found = sorted(p for p in Path(folder).glob("[0-9][0-9]_*.ipynb"))
    numbers = [p.name[:2] for p in found]
    twice = [n for n in dict.fromkeys(numbers) if numbers.count(n) > 1]
    if not found or twice:
        what = f"{twice[0]} twice" if twice else "none"
        raise RunError(
            f"{folder}: want notebooks NN_name.ipynb with numbers that differ; got {what}"
        )
    return found


def parameter_cell(path: Path) -> dict[str, Any]:
    """Return the names and literal values of a notebook's parameter cell.

    Raises:
        RunError: no tagged cell, several, or one that holds anything but literal assignments.
    """
    book = nbformat.read(path, as_version=4)
    tagged = [
        c
        for c in book.cells
        if c.cell_type == "code" and "parameters" in c.get("metadata", {}).get("tags", ())
    ]
    if len(tagged) != 1:
        raise RunError(f"{path}: want one code cell tagged parameters; got {len(tagged)}")
    spec = book.metadata.get("kernelspec", {})
    if (spec.get("name"), spec.get("language")) != (KERNEL, "python"):
        raise RunError(f"{path}: want kernelspec {KERNEL}, language python; got {dict(spec)}")
    values = {}
    try:
        for node in ast.parse(tagged[0].source).body:
            if isinstance(node, ast.AnnAssign) and node.value is not None:
                targets = [node.target]
            elif isinstance(node, ast.Assign):
                targets = node.targets
            else:
                raise ValueError(ast.unparse(node))
            value = ast.literal_eval(node.value)
            values.update({t.id: value for t in targets if isinstance(t, ast.Name)})
    except (ValueError, SyntaxError) as e:
        raise RunError(f"{path}: want literals only in the parameter cell; got {e}") from e
    return values


def check(path: Path, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a notebook promises, after its parameters were checked against those given.

    Raises:
        RunError: as ``parameter_cell``; an unknown parameter; no promise.
    """
    known = parameter_cell(path)
    # papermill's own reading must agree, else it would inject what the cell never sees.
    inspected = set(papermill.inspect_notebook(str(path)))
    unknown = sorted(set(parameters) - set(known)) or sorted(set(parameters) - inspected)
    if unknown:
        raise RunError(f"{path}: want parameters of {sorted(known)}; got {unknown[0]!r}")
    promises = nbformat.read(path, as_version=4).metadata.get("rubricnb", {}).get("promises")
    if not isinstance(promises, list) or not promises:
        raise RunError(
            f"{path}: want the files that it leaves under rubricnb.promises in its metadata; "
            f"got {promises!r}"
        )
    return tuple(promises)


def reads_trainings(path: Path) -> bool:
    """Whether a notebook's result depends on the trainings; so unless its metadata deny it."""
    book = nbformat.read(path, as_version=4)
    return bool(book.metadata.get("rubricnb", {}).get("trainings", True))


def reads_studies(path: Path) -> bool:
    """Whether a notebook's result depends on the trainings of ``rubricnb study``."""
    book = nbformat.read(path, as_version=4)
    return bool(book.metadata.get("rubricnb", {}).get("studies", False))


def own_command(path: Path) -> str:
    """Return the command that makes what a notebook shows; "" where ``reproduce`` does."""
    book = nbformat.read(path, as_version=4)
    return str(book.metadata.get("rubricnb", {}).get("command", ""))


def kept(path: Path, promises: Sequence[str], home: Path, since: float = 0.0) -> tuple[Path, ...]:
    """Return the promised files, each there, not empty and written since a moment.

    Raises:
        RunError: naming the promise that was not kept.
    """
    out: list[Path] = []
    for promise in promises:
        found = sorted(p for p in home.glob(promise) if p.is_file() and p.stat().st_size > 0)
        # File systems keep coarse times: a second of grace.
        fresh = [p for p in found if p.stat().st_mtime >= since - 1.0]
        if not fresh:
            what = "an old file" if found else "no such file"
            raise RunError(f"{path}: want {home / promise}, as it promises; got {what}")
        out += fresh
    return tuple(dict.fromkeys(out))


def run_notebook(
    path: Path,
    home: Path,
    parameters: Mapping[str, Any],
    *,
    say: Callable[[str], None] = print,
    timeout: float | None = None,
) -> Executed:
    """Run one notebook and return what it left; the executed copy goes to ``home/notebooks``.

    What its cells print is passed on line by line, so that a long training shows its progress.

    Args:
        path: the notebook.
        home: the profile's folder; promises are relative to it.
        parameters: name -> literal, each known to the notebook.
        say: where printed lines go.
        timeout: seconds a cell, or none.
    Raises:
        RunError: refused before the run, a cell that raised, or a promise not kept.
    """
    promises = check(path, parameters)
    copy = home / "notebooks" / path.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    start, clock = time.time(), time.monotonic()
    handler = _Lines(say)
    log = logging.getLogger("papermill")
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        papermill.execute_notebook(
            str(path),
            str(copy),
            parameters=dict(parameters),
            kernel_name=KERNEL,
            cwd=str(path.parent),
            progress_bar=False,
            log_output=True,
            execution_timeout=timeout,
            # Its own log would mix with ours; what a cell raises comes back all the same.
            extra_arguments=["--IPKernelApp.log_level=50"],
        )
    except papermill.PapermillExecutionError as e:
        raise RunError(
            f"{path}: want every cell to run; got {e.ename}: {e.evalue} in cell {e.exec_count} "
            f"(see {copy})"
        ) from e
    except KeyboardInterrupt:
        # The client leaves a task behind whose only news is that the kernel is gone.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        raise
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]
    files = kept(path, promises, home, since=start)
    return Executed(path, copy, files, time.monotonic() - clock)


class _Lines(logging.Handler):
    """Passes on what cells print, without papermill's own messages."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage().rstrip()
        own = ("Input Notebook", "Output Notebook", "Executing", "Ending Cell", "Starting Cell")
        if record.name == "papermill" and text and not text.startswith(own):
            self._say("  " + text.replace("\n", "\n  "))


def fingerprint(path: Path, parameters: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """Return the hash of what a notebook's result depends on: itself, parameters and inputs."""
    return content_hash(
        {"notebook": file_hash(path), "parameters": dict(parameters), "inputs": dict(inputs)}
    )


def remember(done: Executed, home: Path, mark: str) -> None:
    """Write down what a notebook left, so that ``recall`` can reuse it."""
    names = {str(p.relative_to(home)): file_hash(p) for p in (done.copy, *done.files)}
    write_json(
        done.copy.with_suffix(".done.json"),
        {"fingerprint": mark, "files": names, "seconds": round(done.seconds, 1)},
    )


def recall(path: Path, home: Path, mark: str) -> Executed | None:
    """Return an earlier run of the same notebook on the same inputs if all its files still hold."""
    copy = home / "notebooks" / path.name
    note = copy.with_suffix(".done.json")
    try:
        told = json.loads(note.read_text(encoding="utf-8"))
        if told["fingerprint"] != mark:
            return None
        if any(file_hash(home / name) != h for name, h in told["files"].items()):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    files = tuple(home / n for n in told["files"] if home / n != copy)
    return Executed(path, copy, files, float(told["seconds"]), reused=True)
