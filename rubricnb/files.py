"""Values to JSON Lines and back, streaming, versioned; and the content hash of any value.

One line is one value: ``{"rubricnb": 1, "kind": "trajectory", ...}``. Kinds are "trajectory"
(with its task inside, so that any line can be read alone), "graded" (a graded group) and
"credit" (what a rule gave to one rollout, a plain mapping).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import FormatError
from .rubric import Criterion, FailedJudgement, GradedGroup, Label, Rubric, Verdict
from .trajectory import Group, Observation, Step, Task, ToolCall, Trajectory

VERSION = 1


def to_json(value: Any) -> Any:
    """Return a value as JSON types; fields that hold their default are left out."""
    if isinstance(value, Label):
        return value.value
    if dataclasses.is_dataclass(value):
        out = {}
        for f in dataclasses.fields(value):
            v = getattr(value, f.name)
            default = f.default_factory() if callable(f.default_factory) else f.default
            if v != default:
                out[f.name] = to_json(v)
        if isinstance(value, FailedJudgement):
            out["failed"] = True
        return out
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(v) for v in value]
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
    if task is None:
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
    """Return a graded group as JSON types, its task written once."""
    return {
        "task": to_json(graded.group.task),
        "trajectories": [
            {k: v for k, v in to_json(t).items() if k != "task"} for t in graded.group.trajectories
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
    except json.JSONDecodeError as e:
        raise FormatError(f"{where}: want one JSON object; got broken JSON ({e})") from e
    if not isinstance(row, dict) or "rubricnb" not in row:
        raise FormatError(
            f'{where}: want an object with "rubricnb" and "kind"; got {line[:60]!r} '
            "(a log of another format? try `rubricnb import` first)"
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
    except (TypeError, KeyError, ValueError, AttributeError) as e:
        raise FormatError(f"{where}: want a {kind}; got fields that do not fit ({e})") from e
    raise FormatError(f"{where}: want kind trajectory, graded or credit; got {kind!r}")


def write_jsonl(path: str | os.PathLike[str], values: Iterable[Any]) -> int:
    """Write values to a file, one a line as they come, and return how many.

    The file appears under its name only when it is whole; until then it is ``<name>.part``.
    """
    path = Path(path)
    part = path.with_name(path.name + ".part")
    n = 0
    with open(part, "w", encoding="utf-8") as f:
        for n, value in enumerate(values, start=1):  # noqa: B007
            f.write(encode(value) + "\n")
    os.replace(part, path)
    return n


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Yield the values of a file, one line in memory at a time.

    Raises:
        FormatError: with file and line, for a line that cannot be read or a file without values.
    """
    n = 0
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, start=1):
            if line.strip():
                n += 1
                yield decode(line, f"{path}, line {number}")
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
    at = 0
    with open(path, "rb") as f:
        for number, line in enumerate(f, start=1):
            if line.strip():
                value = decode(line.decode("utf-8"), f"{path}, line {number}")
                if not isinstance(value, Trajectory):
                    raise FormatError(f"{path}, line {number}: want a trajectory; got another kind")
                offsets.setdefault(value.task.id, []).append((at, number))
            at += len(line)
        if not offsets:
            raise FormatError(f"{path}: want at least one trajectory; got an empty file")
        for spots in offsets.values():
            members = []
            for spot, number in spots:
                f.seek(spot)
                line = f.readline().decode("utf-8")
                members.append(decode(line, f"{path}, line {number}"))
            yield Group(members[0].task, tuple(members))
