"""Pictures of credit fidelity: rules with intervals, rules by judges, human labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from .base import GREY, SERIES, empty, finish
from .texts import label, short

Row = Mapping[str, Any]
SHOWN = ("pearson", "within", "cosine")


def landing(rows: Sequence[Row], pool: str, titles: Mapping[str, str]) -> go.Figure:
    """Return every rule's agreement with the true advantage, three scores side by side.

    Args:
        rows: rule, reference (grey), and for each of pearson, within and cosine its value and
            "_low" and "_high" bounds.
        pool: what the rollouts are of, for the title.
        titles: what each score is called.
    """
    title = label(f"Credit against the true advantage of each step, exact verdicts ({pool})")
    if not rows:
        return empty(title, "no rule was scored")
    rows = sorted(rows, key=lambda r: (bool(r["reference"]), r["within"]))
    names = [short(str(r["rule"]), 30) for r in rows]
    heads = [titles.get(m, m) for m in SHOWN]
    fig = make_subplots(1, len(SHOWN), shared_yaxes=True, subplot_titles=heads)
    for at, m in enumerate(SHOWN, start=1):
        value = [r[m] for r in rows]
        fig.add_trace(_dots(names, value, rows, m, [bool(r["reference"]) for r in rows]), 1, at)
        fig.add_vline(x=0, line_width=1, line_color=GREY, row=1, col=at)
    columns: dict[str, list] = {"rule": [r["rule"] for r in rows]}
    for m in SHOWN:
        for end in ("", "_low", "_high"):
            columns[m + end] = [r[m + end] for r in rows]
    return finish(
        fig,
        title=title,
        description="Each dot is a credit rule, with its 95 % interval over tasks; 1 is the true "
        "advantage itself, 0 says nothing. Grey: the oracle, half of it against the other half, "
        "and the oracle shuffled.",
        columns=columns,
        height=140 + 26 * len(rows),
    )


def _dots(names, value, rows, m: str, grey: Sequence[bool]) -> go.Scatter:
    return go.Scatter(
        x=value,
        y=names,
        mode="markers",
        marker={"size": 8, "color": [GREY if g else SERIES[0] for g in grey]},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": _gap(rows, m, "_high", 1),
            "arrayminus": _gap(rows, m, "_low", -1),
            "thickness": 1,
            "color": GREY,
        },
        showlegend=False,
        hovertemplate="%{y}<br>%{x:.3f}<extra></extra>",
    )


def _gap(rows: Sequence[Row], m: str, end: str, sign: int) -> list[float]:
    gaps = [sign * (r[m + end] - r[m]) for r in rows]
    return [0.0 if math.isnan(g) else max(g, 0.0) for g in gaps]


def condition_map(rows: Sequence[Row], pool: str) -> go.Figure:
    """Return rules by judges, coloured by the correlation with A* inside rollouts.

    Args:
        rows: rule, judge, value.
        pool: for the title.
    """
    title = label(f"Credit inside rollouts, by rule and judge ({pool})")
    if not rows:
        return empty(title, "no rule was scored")
    rules = list(dict.fromkeys(r["rule"] for r in rows))
    judges = list(dict.fromkeys(r["judge"] for r in rows))
    of = {(r["rule"], r["judge"]): r["value"] for r in rows}
    z = [[of.get((rule, j), float("nan")) for j in judges] for rule in rules]
    text = [["–" if math.isnan(v) else f"{v:.2f}" for v in line] for line in z]
    fig = go.Figure(
        go.Heatmap(
            x=[short(j, 34) for j in judges],
            y=rules,
            z=z,
            text=text,
            texttemplate="%{text}",
            zmid=0,
            zmin=-0.6,
            zmax=0.6,
            colorscale="RdBu",
            colorbar={"title": "r"},
            hovertemplate="%{y}<br>%{x}<br>r %{z:.3f}<extra></extra>",
        )
    )
    fig.update_yaxes(autorange="reversed")
    fig.update_xaxes(tickangle=-35)
    return finish(
        fig,
        title=title,
        description="Pearson r of credit and true advantage after each rollout's mean is taken "
        "off both. Rules that read no verdict do not change from judge to judge.",
        columns={
            "rule": [r["rule"] for r in rows],
            "judge": [r["judge"] for r in rows],
            "r": [r["value"] for r in rows],
        },
        height=260 + 24 * len(rules),
    )


def people_figure(rows: Sequence[Row], data: str) -> go.Figure:
    """Return rules under each judge, and floors, against human labels.

    Args:
        rows: name, floor (grey), value, low, high, metric (what the value is).
        data: the data set, for the title.
    """
    title = label(f"Credit against human step labels: {data}")
    rows = sorted((r for r in rows if not math.isnan(r["value"])), key=lambda r: r["value"])
    if not rows:
        return empty(title, "no labelled rollouts")
    ends = [{**r, "v": r["value"], "v_low": r["low"], "v_high": r["high"]} for r in rows]
    names = [short(str(r["name"]), 44) for r in rows]
    dots = _dots(names, [r["value"] for r in rows], ends, "v", [bool(r["floor"]) for r in rows])
    fig = go.Figure(dots)
    fig.update_xaxes(title=label(str(rows[0]["metric"])))
    return finish(
        fig,
        title=title,
        description="With 95 % intervals over tasks. Grey: floors that read no judge.",
        columns={k: [r[k] for r in rows] for k in ("name", "floor", "value", "low", "high")},
        height=140 + 24 * len(rows),
    )
