"""Inspect logs: ``.eval`` archives and ``.json`` files, one trajectory for each sample and epoch.

Long texts are kept once in a sample's attachments; they are put back where messages point to them.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from typing import Any

from ..errors import FormatError
from ..trajectory import Trajectory
from .archive import Archive
from .dialects import is_message, messages
from .pull import BrokenJSON, decode
from .records import carry, finish, outcome_of, pick, rows_of, table
from .source import Row, Source
from .turns import Turns

NAME = "inspect"
ATTACHED = re.compile(r"attachment://([0-9a-f]{8,64})")
LIMITS = {"message": "turn_limit", "turn": "turn_limit", "token": "length", "context": "length"}


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that this is an Inspect log, and why."""
    if source.kind == "zip":
        names = Archive(source.path).names()
        if any(n.startswith("samples/") for n in names) or "header.json" in names:
            return 0.97, "an archive with a header and samples"
        return 0.0, "an archive of something else"
    head = source.head if source.kind == "json" else None
    if isinstance(head, dict) and isinstance(head.get("eval"), dict):
        return 0.95, "an eval with its plan and samples"
    if isinstance(head, dict) and isinstance(head.get("samples"), list):
        return 0.7, "samples"
    if isinstance(head, dict) and is_sample(head):
        return 0.8, "one sample with its epoch and messages"
    return 0.0, "no eval"


def is_sample(raw: Any) -> bool:
    """Whether this is one sample of a log."""
    found = isinstance(raw, dict) and "epoch" in raw and ("input" in raw or "target" in raw)
    return found and "messages" in raw


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory a sample."""
    if source.kind == "zip":
        yield from read_archive(source)
        return
    header = source.header("samples", "reductions")
    if is_sample(header):
        yield sample(source.document(), {}, source)
        return
    for row in source.items("samples"):
        if isinstance(row.value, dict):
            yield sample(row, table(header, "eval"), source)
        else:
            source.report.damaged(row.place, "no sample: not an object")


def read_archive(source: Source) -> Iterator[Trajectory]:
    """Yield the samples of an .eval archive, one in memory at a time."""
    archive = Archive(source.path)
    head: Any = {}
    for name in ("header.json", "_journal/start.json"):
        if name in archive.names() and not head:
            try:
                head = decode(archive.text(name))
            except (BrokenJSON, FormatError) as e:
                source.report.warn(name, f"the header cannot be read: {e}")
    for name in archive.names():
        if not name.startswith("samples/") or not name.endswith(".json"):
            continue
        source.report.records += 1
        try:
            raw = decode(archive.text(name))
        except (BrokenJSON, FormatError, zipfile.BadZipFile) as e:
            source.report.damaged(name, f"a sample that cannot be read ({e})")
            continue
        if isinstance(raw, dict):
            yield sample(Row(raw, 1, name), table(head, "eval"), source)
        else:
            source.report.damaged(name, "no sample: not an object")


def sample(row: Row, run: dict[str, Any], source: Source) -> Trajectory:
    """Return one sample as a trajectory."""
    report = source.report
    raw = row.value
    turns = Turns(report)
    attached = table(raw, "attachments")
    for index, one in enumerate(conversation(raw)):
        place = row.at(index, "messages")
        report.met()
        if row.is_cut("messages", index):
            report.drop(place, "the file is cut in this message")
            continue
        for m in messages(put_back(one, attached), place, report):
            if m.role == "tool":
                m.name = m.name or pick(one, ("function",), report)
                error = pick(table(one, "error"), ("message",), report)
                m.text = m.text or error
            turns.add(m)
    scores = table(raw, "scores") or ({"score": raw["score"]} if raw.get("score") else {})
    name = pick(run, ("task",), report)
    own = pick(raw, ("id",), report)
    epoch = pick(raw, ("epoch",), report)
    limit = pick(table(raw, "limit"), ("type",), report)
    stop = [c.get("stop_reason") for c in rows_of(raw, "output", "choices") if isinstance(c, dict)]
    ended = {"stop": "finished", "max_tokens": "length", "model_length": "length"}
    return finish(
        source,
        row,
        turns,
        NAME,
        id="/".join(p for p in (name, own, epoch) if p),
        task_id=f"{name}/{own}" if name and own else own,
        task_meta=carry({k: raw.get(k) for k in ("target", "choices", "metadata")}, (), report),
        outcome=score(scores, turns, row),
        termination="error"
        if raw.get("error")
        else LIMITS.get(limit, limit) or ended.get(str(stop[0]) if stop else "", ""),
        model=pick(run, ("model",), report) or pick(table(raw, "output"), ("model",), report),
        meta={
            "scores": {
                str(k): carry(v if isinstance(v, dict) else {"value": v}, ("metadata",), report)
                for k, v in scores.items()
            },
            **carry({k: raw.get(k) for k in ("epoch", "error", "limit", "total_time")}, (), report),
        },
    )


def conversation(raw: dict[str, Any]) -> list[Any]:
    """Return a sample's messages; where they were not kept, its input and its answer."""
    if found := rows_of(raw, "messages"):
        return found
    given = raw.get("input")
    asked = given if isinstance(given, list) else [{"role": "user", "content": given}]
    said = [c.get("message") for c in rows_of(raw, "output", "choices")[:1] if isinstance(c, dict)]
    return [*(asked if given else []), *(m for m in said if is_message(m))]


def put_back(raw: Any, attached: dict[str, Any]) -> Any:
    """Return a message with its attachments in the places that point to them."""
    if isinstance(raw, str):
        whole = attached.get(m[1]) if (m := ATTACHED.fullmatch(raw)) else None
        return whole if isinstance(whole, str) else raw
    if isinstance(raw, dict):
        return {k: put_back(v, attached) for k, v in raw.items()}
    return [put_back(v, attached) for v in raw] if isinstance(raw, list) else raw


def score(scores: dict[str, Any], turns: Turns, row: Row) -> float | None:
    """Return the outcome that the first score says; the others stay in meta."""
    for name, one in scores.items():
        value = one.get("value") if isinstance(one, dict) else one
        outcome = outcome_of(value)
        if outcome is None:
            turns.warn(row.place, f"score {name:.40} is no outcome in [0, 1]; it is kept in meta")
        elif len(scores) > 1:
            turns.warn(row.place, f"of several scores, {name:.40} is taken as the outcome")
        return outcome
    return None
