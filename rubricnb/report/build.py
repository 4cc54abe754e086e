"""Graded groups to one self-contained HTML file.

Everything that a trajectory or a judge wrote goes into the page as JSON in a data block that the
page's own script turns into text nodes; none of it is ever parsed as HTML. The page's policy
allows that one script and that one style sheet, by hash, and no load from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ..credit import RULES, draco_details
from ..errors import ConfigError, CreditError, FormatError
from ..figures.numbers import Numbers, numbers_of
from ..figures.texts import script_safe
from ..files import part_of
from ..grading import Tokens
from ..rubric import FailedJudgement, GradedGroup, Judgement
from ..trajectory import Step, Trajectory

LIMIT = 20_000
SMALLEST = 500


@dataclass(frozen=True)
class Report:
    """A built page and what it holds.

    Args:
        html: the page.
        rollouts, groups: how many.
        limit: characters kept of each text; longer ones keep head and tail and say so.
        cut: how many texts were longer.
    """

    html: str
    rollouts: int
    groups: int
    limit: int
    cut: int


class _Clip:
    """Keeps head and tail of long texts and counts them."""

    def __init__(self, limit: int) -> None:
        self.limit, self.cut = limit, 0

    def __call__(self, text: str) -> str:
        if len(text) <= self.limit:
            return text
        self.cut += 1
        head, tail = self.limit * 7 // 10, self.limit * 3 // 10
        left_out = len(text) - head - tail
        return f"{text[:head]}\n[... {left_out:,} characters left out ...]\n{text[-tail:]}"


def _num(value: Any) -> float | None:
    """A number for JSON: six significant digits, None where there is none."""
    value = float(value)
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _judgement(j: Judgement, clip: _Clip) -> dict[str, Any]:
    failed = isinstance(j, FailedJudgement)
    row: dict[str, Any] = {"v": "failed" if failed else j.label.value, "reason": clip(j.reason)}
    if not failed and j.steps:
        row["steps"] = list(j.steps)
    if j.flags:
        row["flags"] = list(j.flags)
    return row


def _step(step: Step, n: float, clip: _Clip) -> dict[str, Any]:
    return {
        "kind": clip(step.kind),
        "n": _num(n),
        "agent": step.agent,
        "thinking": clip(step.thinking),
        "text": clip(step.text),
        "calls": [[c.name, clip(c.arguments)] for c in step.calls],
        "seen": [[o.role, o.name, len(o.text), clip(o.text)] for o in step.observations],
    }


def _rollout(view: Numbers, g: int, credit: Mapping[str, np.ndarray], clip: _Clip) -> dict:
    graded = view.graded
    t: Trajectory = graded.group.trajectories[g]
    quality = draco_details(
        view.advantage_G, view.arrays.pass_GS, view.arrays.fail_GS, view.arrays.tokens_GS
    ).Q_GS
    ungraded = math.isnan(view.reward_G[g])
    return {
        "id": t.id,
        "outcome": None if t.outcome is None else _num(t.outcome),
        "termination": t.termination,
        "model": t.model,
        "labels": json.loads(
            json.dumps(dict(t.labels), default=str), parse_constant=lambda _: None
        ),
        "R": _num(view.reward_G[g]),
        "A": None if ungraded else _num(view.advantage_G[g]),
        "failure": graded.failures[g] if graded.failures else "",
        "warnings": [clip(w) for w in t.warnings],
        "verdicts": [_judgement(j, clip) for j in graded.judgements[g]],
        "credit": {k: [_num(v) for v in a[g, : len(t)]] for k, a in credit.items()},
        "Q": [_num(v) for v in quality[g, : len(t)]],
        "cited": [
            [int(p), int(f)]
            for p, f in zip(
                view.arrays.pass_GS[g, : len(t)], view.arrays.fail_GS[g, : len(t)], strict=True
            )
        ],
        "steps": [_step(s, view.arrays.tokens_GS[g, i], clip) for i, s in enumerate(t.steps)],
    }


def _group(graded: GradedGroup, names: list[str], tokens: Tokens, clip: _Clip) -> dict[str, Any]:
    base = numbers_of(graded, "grpo", tokens=tokens)
    credit: dict[str, np.ndarray] = {}
    for name in names:
        try:
            credit[name] = numbers_of(graded, name, tokens=tokens).credit_GS
        except CreditError:
            continue  # The rule needs evidence that this group lacks; the page lists those it has.
    task = graded.group.task
    return {
        "task": {"id": task.id, "prompt": clip(task.prompt), "system": clip(task.system)},
        "unit": base.arrays.unit,
        "judge": clip(str(graded.record.get("judge", "unknown"))),
        "criteria": [
            {
                "title": clip(c.title),
                "description": clip(c.description),
                "instruction": clip(c.instruction),
                "source": c.source,
                "kept": bool(base.arrays.keep_K[k]),
            }
            for k, c in enumerate(graded.rubric.criteria)
        ],
        "rollouts": [_rollout(base, g, credit, clip) for g in range(len(graded.group))],
    }


def report_data(
    groups: Iterable[GradedGroup],
    *,
    rule: str = "draco",
    tokens: Tokens = "auto",
    limit: int = LIMIT,
    title: str = "Graded rollouts",
) -> tuple[dict[str, Any], int]:
    """Return what the page shows as JSON types, and how many texts were cut to ``limit``.

    Raises:
        ConfigError: for an unknown rule.
        FormatError: where there is no graded group.
    """
    if rule not in RULES:
        raise ConfigError(f"want a rule among {sorted(RULES)}; got {rule!r}")
    clip = _Clip(limit)
    names = [rule, *(r for r in RULES if r != rule)]
    made = [_group(g, names, tokens, clip) for g in groups]
    if not made:
        raise FormatError("want at least one graded group for a report; got none")
    have = {k for g in made for r in g["rollouts"] for k in r["credit"]}
    data = {
        "title": title,
        "rules": [n for n in names if n in have],
        "limit": limit,
        "groups": made,
    }
    return data, clip.cut


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _page(data: Mapping[str, Any]) -> str:
    here = files(__package__)
    style = here.joinpath("report.css").read_text(encoding="utf-8")
    script = here.joinpath("report.js").read_text(encoding="utf-8")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    env = Environment(autoescape=True, undefined=StrictUndefined)
    template = env.from_string(here.joinpath("report.html").read_text(encoding="utf-8"))
    text = script_safe(json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    # A lone surrogate cannot be written as UTF-8; as an escape it is valid JSON.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return template.render(
        title=data["title"].encode("utf-8", "replace").decode("utf-8"),
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        data=Markup(text),
    )


def build(
    groups: Iterable[GradedGroup],
    *,
    rule: str = "draco",
    tokens: Tokens = "auto",
    limit: int = LIMIT,
    max_bytes: int = 20_000_000,
    title: str = "Graded rollouts",
) -> Report:
    """Return the report as one HTML page that opens offline.

    Long texts keep head and tail. Where the page would exceed ``max_bytes`` they are cut further,
    to 500 characters at the least; the page says how many were cut and to what.

    Args:
        groups: graded groups.
        rule: the credit rule shown first; the others that can be computed are in the page, too.
        tokens: where n_j comes from, as ``rubricnb.grading.arrays`` takes it.
        limit: characters kept of each text.
        max_bytes: the size that the page should not exceed.
        title: the page's.
    Raises:
        ConfigError, FormatError: as ``report_data``; ConfigError where it does not fit.
    """
    groups = list(groups)
    while True:
        data, cut = report_data(groups, rule=rule, tokens=tokens, limit=limit, title=title)
        data["cut"] = cut
        html = _page(data)
        size = len(html.encode("utf-8"))
        if size <= max_bytes:
            count = sum(len(g["rollouts"]) for g in data["groups"])
            return Report(html, count, len(groups), limit, cut)
        if limit <= SMALLEST:
            raise ConfigError(
                f"want a report of at most {max_bytes:,} bytes; got {size:,} with texts cut to "
                f"{limit} characters: give fewer groups or a larger max_bytes"
            )
        limit = max(SMALLEST, limit // 2)


def write(groups: Iterable[GradedGroup], path: str | os.PathLike[str], **options: Any) -> Report:
    """Write the report of ``build`` to a file, whole or not at all, and return it."""
    part = part_of(path)
    made = build(groups, **options)
    part.write_text(made.html, encoding="utf-8")
    os.replace(part, path)
    return made
