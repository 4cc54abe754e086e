"""Criteria x rollouts: each verdict with its sign, colour and citations."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from ..rubric import FailedJudgement, GradedGroup, Judgement
from .base import VERMILION, YELLOW, empty, finish
from .group import names
from .texts import label, short

MARK = {"pass": "✓", "fail": "✗", "not_applicable": "–", "failed": "?"}
WORD = {
    "pass": "passed",
    "fail": "failed",
    "not_applicable": "not applicable",
    "failed": "judge failed",
}
CODE = {"fail": 0, "not_applicable": 1, "pass": 2, "failed": 3}
COLOUR = {"fail": VERMILION, "not_applicable": "#D5D8DC", "pass": "#4C9BC9", "failed": YELLOW}


def state(judgement: Judgement) -> str:
    """Return "pass", "fail", "not_applicable" or "failed": the judge's failure is its own word."""
    return "failed" if isinstance(judgement, FailedJudgement) else judgement.label.value


def verdict_matrix(
    graded: GradedGroup, *, kept_K: Sequence[bool] | None = None, title: str = ""
) -> go.Figure:
    """Return criteria x rollouts with each verdict's sign, colour and cited steps.

    Passed ✓, failed ✗, not applicable – and the judge's own failure ? differ by sign and by
    colour. Cells show the cited steps while there is room; the judge's words are under the
    pointer.

    Args:
        graded: G rollouts on K criteria.
        kept_K: (K,) which criteria survive dropout; the others' names are in brackets.
        title: replaces the title.
    """
    G, K = len(graded.group), len(graded.rubric)
    if K == 0:
        why = next((f for f in graded.failures if f), "the rubric has no criteria")
        return empty(title or f"No verdicts: {short(graded.group.task.id, 48)}", why)
    kept = [True] * K if kept_K is None else [bool(v) for v in kept_K]
    cells = [[graded.judgements[g][k] for g in range(G)] for k in range(K)]
    titles = [
        f"{k}. {short(c.title, 40)}" if kept[k - 1] else f"[{k}. {short(c.title, 40)}]"
        for k, c in enumerate(graded.rubric.criteria, start=1)
    ]
    colours = sorted(CODE, key=CODE.__getitem__)
    bounds = [[(i + e) / 4, COLOUR[c]] for i, c in enumerate(colours) for e in (0, 1)]
    fig = go.Figure(
        go.Heatmap(
            z=[[CODE[state(j)] for j in row] for row in cells],
            x=names(graded.group),
            y=titles,
            text=[[_cell(j, G) for j in row] for row in cells],
            customdata=[[_why(j) for j in row] for row in cells],
            texttemplate="%{text}",
            textfont={"size": 12, "color": "#14171A"},
            hovertemplate="%{y}<br>%{x}<br>%{customdata}<extra></extra>",
            colorscale=bounds,
            zmin=-0.5,
            zmax=3.5,
            xgap=2,
            ygap=2,
            showscale=False,
        )
    )
    for word in ("pass", "fail", "not_applicable", "failed"):
        fig.add_scatter(
            x=[None],
            y=[None],
            mode="markers",
            marker={"symbol": "square", "size": 11, "color": COLOUR[word]},
            name=f"{MARK[word]} {WORD[word]}",
        )
    fig.update_yaxes(autorange="reversed", showgrid=False, zeroline=False)
    fig.update_xaxes(side="bottom", showgrid=False, zeroline=False, tickangle=-35 if G > 4 else 0)
    count = {w: sum(state(j) == w for row in cells for j in row) for w in CODE}
    flat = [(k, g) for k in range(K) for g in range(G)]
    return finish(
        fig,
        title=title or f"Verdicts: {short(graded.group.task.id, 48)}",
        description=(
            f"{K} criteria x {G} rollouts: {count['pass']} passed, {count['fail']} failed, "
            f"{count['not_applicable']} not applicable, {count['failed']} judge failed."
            + ("" if all(kept) else " Criteria in brackets are dropped: nobody failed them.")
        ),
        columns={
            "criterion": [graded.rubric.criteria[k].title for k, _ in flat],
            "rollout": [graded.group.trajectories[g].id for _, g in flat],
            "verdict": [WORD[state(cells[k][g])] for k, g in flat],
            "steps": [" ".join(f"S{s}" for s in _steps(cells[k][g])) for k, g in flat],
            "kept": [kept[k] for k, _ in flat],
        },
        height=170 + 30 * K,
    )


def _steps(j: Judgement) -> tuple[int, ...]:
    return () if isinstance(j, FailedJudgement) else j.steps


def _cell(j: Judgement, members: int) -> str:
    mark = MARK[state(j)]
    steps = _steps(j)
    if members > 12 or not steps:
        return mark
    shown = ",".join(f"S{s}" for s in steps[:3]) + ("…" if len(steps) > 3 else "")
    return f"{mark} {shown}"


def _why(j: Judgement) -> str:
    cited = " ".join(f"S{s}" for s in _steps(j))
    flags = ", ".join(j.flags)
    words = [f"<b>{WORD[state(j)]}</b> {cited}", label(j.reason, 240)]
    return "<br>".join(words + ([label(flags)] if flags else []))
