"""Values to JSON Lines and back, streaming, versioned; and the content hash of any value.

One line is one value: ``{"rubricnb": 1, "kind": "trajectory", ...}``. Kinds are "trajectory"
(with its task inside, so that any line can be read alone), "graded" (a graded group) and
"credit" (what a rule gave to one rollout, a plain mapping). A path that ends in ".gz" is
compressed.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import math
import os
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from .errors import ConfigError, FormatError
from .rubric import Criterion, FailedJudgement, GradedGroup, Label, Rubric, Verdict
from .trajectory import Group, Observation, Step, Task, ToolCall, Trajectory

VERSION = 1


@lru_cache(maxsize=64)
def _defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    """A dataclass's field names with their defaults: looked up once, records are many."""
    return tuple(
        (f.name, f.default_factory() if callable(f.default_factory) else f.default)
        for f in dataclasses.fields(kind)
    )


def to_json(value: Any) -> Any:
    """Return a value as JSON types; fields that hold their default are left out.

    NaN and infinities become None: JSON has no word for them, and a missing number is no number.
    """
    if value is None or isinstance(value, str):
        return value.value if isinstance(value, Label) else value
    if isinstance(value, Label):
        return value.value
    if dataclasses.is_dataclass(value):
        out = {}
        for name, default in _defaults(type(value)):
            v = getattr(value, name)
            if v is not default and v != default:
                out[name] = to_json(v)
        if isinstance(value, FailedJudgement):
            out["failed"] = True
        return out
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(v) for v in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        return to_json(value.tolist())
    return value


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, no NaN."""
    return json.dumps(
        to_json(value),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )


def content_hash(value: Any) -> str:
    """Return the SHA-256, in hex, of a value's canonical JSON: equal values, equal hashes."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def _steps(rows: Iterable[Mapping[str, Any]]) -> tuple[Step, ...]:
    return tuple(
        Step(
            **{
                **row,
                "calls": tuple(ToolCall(**c) for c in row.get("calls", ())),
                "observations": tuple(Observation(**o) for o in row.get("observations", ())),
            }
        )
        for row in rows
    )


def trajectory_from_json(row: Mapping[str, Any], task: Task | None = None) -> Trajectory:
    """Return the trajectory that ``to_json`` made this mapping of."""
    fields = dict(row)
    own = fields.pop("task", None)
    if own is not None or task is None:
        task = Task(**own)
    fields["steps"] = _steps(fields.get("steps", ()))
    fields["warnings"] = tuple(fields.get("warnings", ()))
    return Trajectory(task=task, **fields)


def _judgement(row: Mapping[str, Any]) -> Verdict | FailedJudgement:
    fields = dict(row)
    fields["flags"] = tuple(fields.get("flags", ()))
    if fields.pop("failed", False):
        return FailedJudgement(**fields)
    fields["steps"] = tuple(fields.get("steps", ()))
    fields["label"] = Label(fields["label"])
    return Verdict(**fields)


def graded_to_json(graded: GradedGroup) -> dict[str, Any]:
    """Return a graded group as JSON types, its task written once.

    A rollout keeps a task of its own where that differs: a simulated user opens each one anew.
    """
    task = graded.group.task
    return {
        "task": to_json(task),
        "trajectories": [
            {k: v for k, v in to_json(t).items() if k != "task" or t.task != task}
            for t in graded.group.trajectories
        ],
        "rubric": to_json(graded.rubric),
        "judgements": to_json(graded.judgements),
        "failures": list(graded.failures),
        "record": to_json(graded.record),
    }


def graded_from_json(row: Mapping[str, Any]) -> GradedGroup:
    """Return the graded group that ``graded_to_json`` made this mapping of."""
    task = Task(**row["task"])
    rubric = row["rubric"]
    return GradedGroup(
        group=Group(task, tuple(trajectory_from_json(t, task) for t in row["trajectories"])),
        rubric=Rubric(
            tuple(Criterion(**c) for c in rubric.get("criteria", ())), rubric.get("task_id", "")
        ),
        judgements=tuple(tuple(_judgement(j) for j in r) for r in row["judgements"]),
        failures=tuple(row.get("failures", ())),
        record=row.get("record", {}),
    )


def encode(value: Trajectory | GradedGroup | Mapping[str, Any]) -> str:
    """Return one line of JSON Lines, without the line break.

    A mapping is written as kind "credit". NaN is written as null.
    """
    if isinstance(value, Trajectory):
        kind, body = "trajectory", to_json(value)
    elif isinstance(value, GradedGroup):
        kind, body = "graded", graded_to_json(value)
    else:
        kind, body = "credit", to_json(value)
    return json.dumps({"rubricnb": VERSION, "kind": kind, **body}, allow_nan=False)


def decode(line: str, where: str = "") -> Trajectory | GradedGroup | dict[str, Any]:
    """Return the value of one line.

    Raises:
        FormatError: naming ``where``, for broken JSON, another version, an unknown kind or
            fields that the kind does not have.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise FormatError(f"{where}: want one JSON object; got broken JSON ({e})") from e
    if not isinstance(row, dict) or "rubricnb" not in row:
        raise FormatError(
            f'{where}: want an object with "rubricnb" and "kind"; got {line[:60]!r} '
            "(a log of another format? try `rubricnb import` first; what `rubricnb grade "
            "--protocol` writes is not a graded group)"
        )
    if row.pop("rubricnb") != VERSION:
        raise FormatError(f"{where}: want version {VERSION} of the format; got another")
    kind = row.pop("kind", None)
    try:
        if kind == "trajectory":
            return trajectory_from_json(row)
        if kind == "graded":
            return graded_from_json(row)
        if kind == "credit":
            return row
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError) as e:
        raise FormatError(f"{where}: want a {kind}; got fields that do not fit ({e})") from e
    raise FormatError(f"{where}: want kind trajectory, graded or credit; got {kind!r}")


def _open(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open the bytes of a file for reading, through gzip where its name ends in ".gz"."""
    try:
        return gzip.open(path) if str(path).endswith(".gz") else open(path, "rb")  # type: ignore[return-value]
    except OSError as e:
        raise FormatError(f"{path}: want a file that can be opened; got {e.strerror}") from e


def part_of(path: str | os.PathLike[str]) -> Path:
    """Return the ``<name>.part`` beside a file that is to be written whole or not at all.

    Raises:
        ConfigError: where the path is a folder, or in a folder that is not there.
    """
    path = Path(path)
    if path.is_dir():
        raise ConfigError(f"{path}: want a file to write; got a folder")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: want a file in a folder that exists; got none at {path.parent}")
    return path.with_name(path.name + ".part")


def write_jsonl(path: str | os.PathLike[str], values: Iterable[Any]) -> int:
    """Write values to a file, one a line as they come, and return how many.

    The file appears under its name only when it is whole; until then it is ``<name>.part``, which
    stays behind, with the values written so far, where writing stops early.

    Raises:
        ConfigError: where no file can be at the path.
    """
    path, part = Path(path), part_of(path)
    n = 0
    try:
        with open(part, "wb") as raw, ExitStack() as stack:
            f: Any = raw
            if path.suffix == ".gz":
                # No time and no name in the header: equal values give equal files.
                f = stack.enter_context(gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
            for value in values:
                f.write(encode(value).encode("ascii") + b"\n")
                n += 1
    except BaseException:
        if n == 0:
            part.unlink(missing_ok=True)
        raise
    os.replace(part, path)
    return n


def _lines(f: IO[bytes], path: str | os.PathLike[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (offset, number, text) of each line that is not blank."""
    at, number = 0, 0
    try:
        for number, raw in enumerate(f, start=1):
            if raw.strip():
                yield at, number, _text(raw, f"{path}, line {number}")
            at += len(raw)
    except (EOFError, zlib.error, gzip.BadGzipFile) as e:
        raise FormatError(f"{path}, line {number + 1}: want a whole gzip file; got {e}") from e


def _text(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise FormatError(f"{where}: want UTF-8; got byte {raw[e.start]:#04x}") from e


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Yield the values of a file, one line in memory at a time.

    Raises:
        FormatError: with file and line, for a line that cannot be read or a file without values.
    """
    n = 0
    with _open(path) as f:
        for _, number, text in _lines(f, path):
            n += 1
            yield decode(text, f"{path}, line {number}")
    if n == 0:
        raise FormatError(f"{path}: want at least one line; got an empty file")


def group_by_task(trajectories: Iterable[Trajectory]) -> list[Group]:
    """Return the groups that trajectories form by task id, in order of first appearance."""
    members: OrderedDict[str, list[Trajectory]] = OrderedDict()
    for t in trajectories:
        members.setdefault(t.task.id, []).append(t)
    return [Group(ts[0].task, tuple(ts)) for ts in members.values()]


def read_groups(path: str | os.PathLike[str]) -> Iterator[Group]:
    """Yield the groups of a trajectory file, holding one group in memory at a time.

    The file is passed over once for the byte offsets of each task's lines, then each group's
    lines are read.
    """
    offsets: OrderedDict[str, list[tuple[int, int]]] = OrderedDict()
    with _open(path) as f:
        for at, number, text in _lines(f, path):
            value = decode(text, f"{path}, line {number}")
            if not isinstance(value, Trajectory):
                raise FormatError(f"{path}, line {number}: want a trajectory; got another kind")
            offsets.setdefault(value.task.id, []).append((at, number))
        if not offsets:
            raise FormatError(f"{path}: want at least one trajectory; got an empty file")
        for spots in offsets.values():
            members = []
            for spot, number in spots:
                f.seek(spot)
                where = f"{path}, line {number}"
                members.append(decode(_text(f.readline(), where), where))
            yield Group(members[0].task, tuple(members))
