"""The messages of each phase, filled into the templates beside this file.

What is long and shared comes first and is the same to the byte in every call that reads the same
rollout: the system message, then the fenced task, then the fenced rollout. The job and its
criteria come last. Providers that cache prompt prefixes then charge the rollout once.

Templates are filled in one pass: text put into one is never looked at again for placeholders.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..rubric import Criterion
from .render import Rendered

PROMPT_VERSION = "1"
LIMITS = {"task_rubric": 15, "rollout_rubric": 10, "union": 24}
FOLDER = Path(__file__).parent / "prompts"

Messages = tuple[Mapping[str, str], ...]

_environment = Environment(
    loader=FileSystemLoader(FOLDER),
    undefined=StrictUndefined,
    autoescape=False,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_GROUNDING = {
    "task_rubric": ("the task as it is shown", "the task"),
    "rollout_rubric": ("something that is seen in the rollout", "the rollout, with its step,"),
    "union": ("the candidates and the rollouts", "the candidates"),
}


@lru_cache(maxsize=64)
def template(name: str):
    """Return a compiled template by its file's name without ".txt"."""
    return _environment.get_template(f"{name}.txt")


def caveats(name: str) -> str:
    """Return the shipped caveats on an environment, for ``JudgeConfig(caveats=...)``.

    >>> caveats("appworld").startswith("- A call of complete_task")
    True
    """
    return (FOLDER / f"caveats_{name}.txt").read_text(encoding="utf-8").strip()


def system(caveats: str = "") -> Mapping[str, str]:
    """Return the system message that all calls of a run share."""
    return {"role": "system", "content": template("system").render(caveats=caveats.strip())}


def prefix(task: Rendered, rollouts: Sequence[Rendered] = ()) -> str:
    """Return the shared first part of the user message: task, then rollouts, fenced."""
    return "\n\n".join([task.text, *(r.text for r in rollouts)]) + "\n\n"


def messages(head: Mapping[str, str], shared: str, job: str, problem: str = "") -> Messages:
    """Return system message and user message; ``problem`` is said at the end of a retry."""
    if problem:
        job = f"{job}\n\n{template('retry').render(problem=problem)}"
    return (head, {"role": "user", "content": shared + job})


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return one JSON object a line, each starting with its id."""
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def criterion_row(c: Criterion, *, evidence: bool = False) -> dict[str, Any]:
    """Return a criterion as prompts show it."""
    row = {"id": c.id, "title": c.title}
    if c.description:
        row["description"] = c.description
    row["instruction"] = c.instruction or c.description or c.title
    if evidence and c.evidence:
        row["evidence"] = c.evidence
    return row


def rubric_job(phase: str, items: str = "", n_rollouts: int = 0) -> str:
    """Return the job text of one of the three phases that write criteria."""
    grounding, evidence_of = _GROUNDING[phase]
    return template(phase).render(
        limit=LIMITS[phase],
        grounding=grounding,
        evidence_of=evidence_of,
        items=items or "(none)",
        n_rollouts=n_rollouts,
    )


def scoring_job(items: str, *, clipped: bool, inline: bool, repair: bool = False) -> str:
    """Return the job text of scoring, with step citations where ``inline``."""
    return template("scoring").render(items=items, clipped=clipped, inline=inline, repair=repair)


def attribution_job(items: str, *, n_steps: int, summary: bool, repair: bool = False) -> str:
    """Return the job text of step attribution."""
    return template("attribution").render(
        items=items, n_steps=n_steps, summary=summary, repair=repair
    )


def _text(limit: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": limit}


def _object(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields),
        "additionalProperties": False,
    }


@lru_cache(maxsize=256)
def criteria_schema(phase: str) -> Mapping[str, Any]:
    """Return the JSON schema of a reply that lists criteria."""
    fields = {"title": _text(120), "description": _text(600), "instruction": _text(1200)}
    if phase == "union":
        fields["merges"] = {"type": "array", "items": _text(16)}
    else:
        fields["evidence"] = _text(600)
    items = {"type": "array", "items": _object(fields), "maxItems": LIMITS[phase]}
    return _object({"criteria": items})


@lru_cache(maxsize=256)
def verdict_schema(ids: tuple[str, ...], *, steps: bool, evidence: bool, clipped: bool):
    """Return the JSON schema of a reply that answers these criteria."""
    fields: dict[str, Any] = {"id": {"type": "string", "enum": list(ids)}, "reason": _text(600)}
    if evidence:
        fields["evidence"] = _text(300)
    if steps:
        fields["steps"] = {"type": "array", "items": {"type": "integer"}}
    labels = ["pass", "fail", "not_applicable", *(["insufficient"] if clipped else [])]
    fields["verdict"] = {"type": "string", "enum": labels}
    n = len(ids)
    return _object(
        {"verdicts": {"type": "array", "items": _object(fields), "minItems": n, "maxItems": n}}
    )
