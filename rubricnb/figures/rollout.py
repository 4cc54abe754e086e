"""One rollout: its steps on a line with the credit that each got, and rules side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..errors import CreditError
from ..rubric import FailedJudgement, Judgement, Label, Rubric
from ..trajectory import Step, Trajectory
from .base import BLUE, DOWN, GREY, UP, VERMILION, finish
from .texts import label, number, short


def row_of(values: object, n: int, name: str) -> np.ndarray:
    """Return values as (n,) floats, or raise CreditError naming the argument."""
    row = np.asarray(values, dtype=float)
    if row.shape != (n,):
        raise CreditError(f"want {name} of shape ({n},), one value a step; got {row.shape}")
    return row


def step_hover(number_: int, step: Step) -> str:
    """Return what a step did, clipped and safe, for a hover label."""
    acts = "\n".join(f"{c.name}({c.arguments[:400]})" for c in step.calls)
    seen = step.observations[0].text[:400] if step.observations else ""
    parts = (
        [f"<b>S{number_}</b>", label(step.text[:400], 200)] if step.text else [f"<b>S{number_}</b>"]
    )
    if acts:
        parts.append("▸ " + label(acts, 240))
    if seen:
        parts.append("◂ " + label(seen, 160))
    return "<br>".join(parts)


def cited_by(
    rubric: Rubric | None, judgements: Sequence[Judgement], n: int
) -> tuple[list[list[str]], list[list[str]]]:
    """Return, for each of n steps, the titles of passed and of failed criteria that cite it."""
    passed: list[list[str]] = [[] for _ in range(n)]
    failed: list[list[str]] = [[] for _ in range(n)]
    for criterion, j in zip(rubric.criteria if rubric else (), judgements, strict=True):
        if isinstance(j, FailedJudgement) or j.label is Label.NOT_APPLICABLE:
            continue
        into = passed if j.label is Label.PASS else failed
        for s in j.steps:
            if 1 <= s <= n:
                into[s - 1].append(criterion.title)
    return passed, failed


def timeline(
    trajectory: Trajectory,
    credit_S: Sequence[float],
    tokens_S: Sequence[float],
    *,
    rubric: Rubric | None = None,
    judgements: Sequence[Judgement] = (),
    unit: str = "tokens",
    title: str = "",
) -> go.Figure:
    """Return a rollout's steps with step totals, per-token credit, lengths and citations.

    A step's total is n_j a_j; the totals of a rollout sum to A N. Citations stand under the
    totals: a triangle up for criteria that passed because of the step, one down for failed ones.

    Args:
        trajectory: S steps; only its text is read, for the labels under the pointer.
        credit_S: (S,) credit of every token of a step, in advantage units; NaN where unknown.
        tokens_S: (S,) lengths n_j >= 0.
        rubric, judgements: the criteria and this rollout's row of judgements, for citations.
        unit: what lengths are counted in.
        title: replaces the title.
    Raises:
        CreditError: where a row is not (S,).
    """
    n = len(trajectory)
    credit = row_of(credit_S, n, "credit_S")
    tokens = row_of(tokens_S, n, "tokens_S")
    total = credit * tokens
    passed, failed = cited_by(rubric, judgements, n)
    x = np.arange(1, n + 1)
    fig = make_subplots(rows=3, shared_xaxes=True, vertical_spacing=0.06, row_heights=[3, 2, 1])
    hover = [step_hover(i, s) for i, s in enumerate(trajectory.steps, start=1)]
    colour = [UP if v >= 0 else DOWN for v in total]
    bar = {"marker_color": colour, "marker_line_width": 0, "showlegend": False, "x": x}
    tip = "%{customdata}<br>%{y:.4g}<extra></extra>"
    fig.add_bar(y=total, customdata=hover, hovertemplate=tip, name="total", row=1, col=1, **bar)
    fig.add_bar(y=credit, customdata=hover, hovertemplate=tip, name="a token", row=2, col=1, **bar)
    fig.add_bar(
        x=x,
        y=tokens,
        marker_color=GREY,
        showlegend=False,
        hovertemplate="S%{x}: %{y:.4g} " + unit + "<extra></extra>",
        row=3,
        col=1,
    )
    _citations(fig, passed, failed, total)
    fig.update_yaxes(title_text="step total", row=1, col=1)
    fig.update_yaxes(title_text=f"a {unit.removesuffix('s')}", row=2, col=1)
    fig.update_yaxes(title_text=unit, row=3, col=1)
    fig.update_xaxes(title_text="step", row=3, col=1)
    step_ticks(fig, n)
    fig.update_layout(bargap=0.15 if n < 120 else 0)
    return finish(
        fig,
        title=title or f"Step credit of {short(trajectory.id, 48)}",
        description=(
            f"{n} steps. Bars up (blue) are pushed up, bars down (vermilion) pushed down; "
            f"the step totals sum to {number(float(np.nansum(total)), 4)}. "
            "Triangles mark steps that criteria cite: ▲ passed, ▼ failed."
        ),
        columns={
            "step": x,
            "kind": [s.kind for s in trajectory.steps],
            unit: tokens,
            "credit a token": credit,
            "step total": total,
            "passed citing it": ["; ".join(p) for p in passed],
            "failed citing it": ["; ".join(f) for f in failed],
        },
        height=520,
    )


def _citations(
    fig: go.Figure, passed: list[list[str]], failed: list[list[str]], total: np.ndarray
) -> None:
    """Add one marker a cited step, below the bars of the first row."""
    finite = total[np.isfinite(total)]
    low = min(0.0, float(finite.min())) if finite.size else 0.0
    span = (float(finite.max()) - low if finite.size else 1.0) or 1.0
    for lists, name, symbol, colour, depth in (
        (passed, "▲ cited by a pass", "triangle-up", BLUE, 0.08),
        (failed, "▼ cited by a fail", "triangle-down", VERMILION, 0.18),
    ):
        at = [i for i, titles in enumerate(lists) if titles]
        fig.add_scatter(
            x=[i + 1 for i in at],
            y=[low - depth * span] * len(at),
            mode="markers",
            marker={"symbol": symbol, "color": colour, "size": 9},
            customdata=[label("\n".join(lists[i]), 400) for i in at],
            hovertemplate="S%{x}<br>%{customdata}<extra></extra>",
            name=name,
            row=1,
            col=1,
        )


def _span(rows: Sequence[np.ndarray]) -> list[float]:
    """One axis range for all rows: from their lowest to their highest finite value, with 0."""
    every = np.concatenate([[0.0], *(r[np.isfinite(r)] for r in rows)])
    low, high = float(every.min()), float(every.max())
    pad = 0.06 * ((high - low) or 1.0)
    return [low - pad, high + pad]


def step_ticks(fig: go.Figure, n: int) -> None:
    """Whole-numbered step ticks, at most about twenty of them."""
    every = max(1, round(n / 20))
    fig.update_xaxes(dtick=every, tick0=1, range=[0.4, n + 0.6], showgrid=False)


def rules(
    trajectory: Trajectory,
    credit_by_rule: Mapping[str, Sequence[float]],
    tokens_S: Sequence[float],
    *,
    title: str = "",
) -> go.Figure:
    """Return credit rules side by side on one rollout: step totals left, per-token values right.

    Args:
        trajectory: S steps.
        credit_by_rule: rule name -> (S,) credit a token, in the order to show.
        tokens_S: (S,) lengths n_j.
        title: replaces the title.
    Raises:
        CreditError: where a row is not (S,) or there is no rule.
    """
    n = len(trajectory)
    if not credit_by_rule:
        raise CreditError("want at least one rule to show; got none")
    tokens = row_of(tokens_S, n, "tokens_S")
    rows = {k: row_of(v, n, f"credit of {k!r}") for k, v in credit_by_rule.items()}
    x = np.arange(1, n + 1)
    fig = make_subplots(
        rows=len(rows),
        cols=2,
        shared_xaxes=True,
        vertical_spacing=min(0.04, 0.3 / len(rows)),
        horizontal_spacing=0.08,
        column_titles=["step total  n·a", "each token  a"],
    )
    hover = [f"S{i} {short(s.kind, 40)}" for i, s in enumerate(trajectory.steps, start=1)]
    for r, (name, credit) in enumerate(rows.items(), start=1):
        for c, y in enumerate((credit * tokens, credit), start=1):
            fig.add_bar(
                x=x,
                y=y,
                marker={"color": [UP if v >= 0 else DOWN for v in y], "line_width": 0},
                customdata=hover,
                hovertemplate=f"{label(name)}<br>%{{customdata}}<br>%{{y:.4g}}<extra></extra>",
                showlegend=False,
                name=name,
                row=r,
                col=c,
            )
        fig.update_yaxes(title_text=short(name, 18), row=r, col=1)
    for c, scale in ((1, tokens), (2, np.ones(n))):
        fig.update_xaxes(title_text="step", row=len(rows), col=c)
        fig.update_yaxes(range=_span([v * scale for v in rows.values()]), col=c)
    fig.update_annotations(font_size=12)
    step_ticks(fig, n)
    fig.update_layout(bargap=0.15 if n < 60 else 0)
    sums = ", ".join(f"{k} {number(float(np.nansum(v * tokens)), 3)}" for k, v in rows.items())
    columns: dict[str, object] = {"step": x, "length": tokens}
    for name, credit in rows.items():
        columns[f"{name}: total"] = credit * tokens
        columns[f"{name}: a token"] = credit
    return finish(
        fig,
        title=title or f"Credit rules on {short(trajectory.id, 48)}",
        description=f"One row a rule, on one scale. Sums over the rollout: {sums}.",
        columns=columns,
        height=120 + 130 * len(rows),
    )
