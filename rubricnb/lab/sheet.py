"""Human labels: an offline sheet of sampled verdicts, and what people and judge agree on.

The sheet shows a rollout and a criterion, never the judge's verdict; that stays in a key beside
it. Answers come back as JSON from the page itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import FormatError
from ..figures.texts import clip, script_safe
from ..files import content_hash
from ..rubric import GradedGroup, Label, Verdict
from ..seeds import generator
from ..trajectory import Step
from .opinions import judge_name

TEMPLATE = Path(__file__).with_name("sheet.html")
UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class Item:
    """One question of a sheet, and the judge's answer to it.

    Args:
        id: within the sheet.
        task_id, trajectory_id, criterion_id: what it is about.
        judge: who gave the label.
        label: the judge's label.
        steps: the steps that it cites.
        n_steps: steps of the rollout.
    """

    id: str
    task_id: str
    trajectory_id: str
    criterion_id: str
    label: str
    steps: tuple[int, ...]
    n_steps: int
    judge: str = "the file's judge"


@dataclass(frozen=True, slots=True)
class Answers:
    """What one person answered: item id -> (label or "unsure", steps)."""

    labeller: str
    by_item: Mapping[str, tuple[str, tuple[int, ...]]]


def export_sheet(
    graded: Iterable[GradedGroup],
    folder: str | os.PathLike[str],
    n: int = 60,
    *,
    seed: int = 0,
    chars: int = 4000,
) -> dict[str, Path]:
    """Write ``sheet.html`` for people and ``key.json`` with the judge's answers; return the paths.

    Verdicts are drawn evenly among all that are not failed judgements, so that figures hold for
    the file; the page works offline and sends nothing.

    Args:
        graded: graded groups.
        folder: made where it is missing.
        n: questions; fewer where there are fewer verdicts.
        seed: of the draw.
        chars: characters shown of each text of a step.
    Raises:
        FormatError: where no verdict is there, or n < 1.
    """
    pool = [
        (g, i, k)
        for g in graded
        for i, row in enumerate(g.judgements)
        for k, j in enumerate(row)
        if isinstance(j, Verdict)
    ]
    if n < 1 or not pool:
        raise FormatError(f"want n >= 1 and a graded verdict; got n = {n}, {len(pool)} verdicts")
    order = generator(seed, "sheet").permutation(len(pool))[:n]
    items, shown = [], []
    for number, at in enumerate(order, start=1):
        g, i, k = pool[at]
        t, c, j = g.group.trajectories[i], g.rubric.criteria[k], g.judgements[i][k]
        item = Item(f"q{number}", g.group.task.id, t.id, c.id, j.label.value, j.steps, len(t),
                    judge_name(g))  # fmt: skip
        items.append(item)
        shown.append(
            {
                "id": item.id,
                "title": c.title,
                "instruction": c.instruction or c.description,
                "task": clip(g.group.task.prompt, 2 * chars),
                "steps": [_shown(s, m, chars) for m, s in enumerate(t.steps, start=1)],
            }
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name = content_hash([seed, shown])[:12]  # what people saw: answers fit no other text
    data = script_safe(json.dumps({"id": name, "items": shown}, ensure_ascii=False))
    page = TEMPLATE.read_text(encoding="utf-8").replace("{{ data }}", data)
    out = {"sheet": folder / "sheet.html", "key": folder / "key.json"}
    out["sheet"].write_text(page, encoding="utf-8", errors="backslashreplace")
    key = {"rubricnb": 1, "kind": "key", "sheet": name,
           "items": [asdict(i) for i in items]}  # fmt: skip
    out["key"].write_text(json.dumps(key, indent=1) + "\n", encoding="utf-8")
    return out


def _shown(step: Step, number: int, chars: int) -> dict[str, Any]:
    """A step as the sheet shows it."""
    parts = [("reasoning", step.thinking), ("agent", step.text)]
    parts += [(f"call {c.name}", c.arguments) for c in step.calls]
    parts += [(f"{o.role} {o.name}".strip(), o.text) for o in step.observations]
    return {
        "number": number,
        "parts": [{"who": w[:80], "text": clip(t, chars)} for w, t in parts if t],
    }


def read_key(path: str | os.PathLike[str]) -> tuple[str, tuple[Item, ...]]:
    """Return a sheet's id and its items with the judge's answers.

    Raises:
        FormatError: for anything but a key.
    """
    found = _json(path, "key")
    try:
        items = tuple(
            Item(**{**row, "label": Label(row["label"]).value, "steps": tuple(row["steps"])})
            for row in found["items"]
        )
    except (TypeError, KeyError, ValueError) as e:
        raise FormatError(f"{path}: want a sheet's key; got fields that do not fit ({e})") from e
    return str(found.get("sheet", "")), items


def read_answers(path: str | os.PathLike[str], key: str | os.PathLike[str]) -> Answers:
    """Return one person's answers to the sheet of this key.

    Raises:
        FormatError: for another sheet's answers, an unknown question or label, a question that
            is answered twice, or a step that the rollout does not have.
    """
    sheet, items = read_key(key)
    found = _json(path, "labels")
    if found.get("sheet") != sheet:
        raise FormatError(
            f"{path}: want answers to sheet {sheet!r}; got those of {found.get('sheet')!r}"
        )
    known = {i.id: i for i in items}
    labels = {x.value for x in Label} | {UNSURE}
    out: dict[str, tuple[str, tuple[int, ...]]] = {}
    rows = found.get("answers") or []
    if not isinstance(rows, list):
        raise FormatError(f"{path}: want a list of answers; got {type(rows).__name__}")
    for n, row in enumerate(rows, start=1):
        item = known.get(str(row.get("id"))) if isinstance(row, dict) else None
        if item is None or str(row.get("verdict")) not in labels:
            raise FormatError(f"{path}, answer {n}: want a known question and label; got {row!r}")
        if item.id in out:
            raise FormatError(
                f"{path}, answer {n}: want one answer a question; got {item.id} twice"
            )
        steps = row.get("steps") or []
        if not isinstance(steps, list) or not all(
            type(s) is int and 1 <= s <= item.n_steps for s in steps
        ):  # True is no step
            raise FormatError(f"{path}, answer {n}: want steps in 1..{item.n_steps}; got {steps}")
        out[item.id] = (row["verdict"], tuple(sorted(set(steps))))
    return Answers(str(found.get("labeller", ""))[:80], out)


def _json(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as e:
        raise FormatError(f"{path}: want a file of kind {kind!r}; got {e}") from e
    if not isinstance(found, dict) or found.get("kind") != kind:
        raise FormatError(f"{path}: want a file of kind {kind!r}; got another")
    return found


def citation_overlap(a: Sequence[int], b: Sequence[int]) -> float:
    """Return the Jaccard index of two sets of steps, NaN where both are empty.

    >>> citation_overlap([1, 2], [2, 3])
    0.3333333333333333
    """
    x, y = set(a), set(b)
    return len(x & y) / len(x | y) if x | y else float("nan")
