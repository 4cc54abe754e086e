"""Run folders: where a training keeps its record, how it is sealed, verified and read.

``<out>/<profile>/arms/<policy>/<arm>/seed<k>/`` holds

    config.json       everything that the training was told
    train.jsonl       one line an optimizer step
    eval.jsonl        one line an evaluated rollout: arm, policy, seed, step, split, scenario,
                      task_id, difficulty, run, success, turns, termination, tokens, checks
    judge.json        "name", "simulated", "noise" (name -> number), "phases": the ledger's bills
                      (``Ledger.to_json()["phases"]``); absent where no judge was asked
    groups.jsonl.gz   graded groups, "step" in their record, for diagnostics and replays
    done.json         written last: hashes of the others, settings, global step, versions

A folder without done.json is unfinished and may be continued; one whose hashes differ is corrupt.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import RunError
from ..files import graded_from_json
from ..rubric import GradedGroup

ALWAYS = ("config.json", "eval.jsonl")
SEALED = (*ALWAYS, "train.jsonl", "judge.json", "groups.jsonl.gz")
PACKAGES = ("numpy", "torch", "transformers", "trl", "peft")


@dataclass(frozen=True, order=True)
class RunKey:
    """Which training: policy, arm and seed; ``str`` of it is its name in records."""

    policy: str
    arm: str
    seed: int

    def __str__(self) -> str:
        return f"{self.policy}/{self.arm}/seed{self.seed}"

    def folder(self, home: Path) -> Path:
        """Its folder under a profile's home, ``<out>/<profile>``."""
        return Path(home) / "arms" / self.policy / self.arm / f"seed{self.seed}"


@dataclass(frozen=True)
class Run:
    """A finished and verified training."""

    key: RunKey
    path: Path
    done: Mapping[str, Any]

    def json(self, name: str) -> dict[str, Any]:
        """One of its JSON files; {} where the arm has none."""
        path = self.path / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The lines of one of its JSON Lines files; [] where the arm has none."""
        path = self.path / name
        if not path.exists():
            return []
        with path.open(encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.strip()]

    def groups(self) -> Iterator[GradedGroup]:
        """Its graded groups, one in memory at a time; none where the arm has no judge."""
        path = self.path / "groups.jsonl.gz"
        if path.exists():
            with gzip.open(path, "rt", encoding="utf-8") as f:
                for line in f:
                    row = json.loads(line)
                    yield graded_from_json({k: v for k, v in row.items() if k != "rubricnb"})


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write JSON under its name only when it is whole."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(part, path)


def versions() -> dict[str, str]:
    """Return the versions that a result depends on; "absent" for what is not installed."""
    out = {"rubricnb": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            out[name] = "absent"
    return out


def seal(
    folder: Path, key: RunKey, settings: Mapping[str, Any], *, global_step: int, seconds: float
) -> dict[str, Any]:
    """Write done.json, which says that the folder is whole, and return it.

    Raises:
        RunError: where a file that every training must leave is missing.
    """
    for name in ALWAYS:
        if not (folder / name).is_file():
            raise RunError(f"{folder}: want {name} from a finished training; got no such file")
    done = {
        "policy": key.policy,
        "arm": key.arm,
        "seed": key.seed,
        "global_step": global_step,
        "seconds": round(seconds, 1),
        "settings": dict(settings),
        "versions": versions(),
        "files": {n: file_hash(folder / n) for n in SEALED if (folder / n).is_file()},
    }
    write_json(folder / "done.json", done)
    return done


def verify(folder: Path, key: RunKey, settings: Mapping[str, Any] | None = None) -> Run:
    """Return the finished run of a folder after its hashes were checked.

    Raises:
        RunError: unfinished, corrupt, or made with other settings; says which and what to do.
    """
    path = folder / "done.json"
    if not path.is_file():
        raise RunError(f"{folder}: want a finished training; got no done.json (run it again)")
    try:
        done = json.loads(path.read_text(encoding="utf-8"))
        files = dict(done["files"])
        told = (done["policy"], done["arm"], done["seed"])
        _ = done["settings"], done["global_step"], done["versions"]
    except (ValueError, KeyError, TypeError) as e:
        raise RunError(f"{path}: want the record of a finished training; got {e!r}") from e
    if told != (key.policy, key.arm, key.seed):
        raise RunError(f"{path}: want the record of {key}; got {told}")
    for name in sorted({*ALWAYS, *files}):
        if not (folder / name).is_file() or file_hash(folder / name) != files.get(name):
            raise RunError(f"{folder}: want {name} as it was sealed; got another (corrupt)")
    if settings is not None and done["settings"] != json.loads(json.dumps(dict(settings))):
        differ = [k for k in settings if done["settings"].get(k) != settings[k]]
        raise RunError(f"{folder}: want these settings; got a run with other {differ}")
    return Run(key, folder, done)
