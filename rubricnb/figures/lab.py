"""Pictures of the judge lab: costs with a slider, figures with intervals, and curves."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from ..errors import ConfigError
from ..metrics.cost_model import JudgingCost, Workload, compare
from .base import DASHES, GREY, SERIES, SYMBOLS, empty, finish
from .texts import label, number, short

Row = Mapping[str, Any]
LENGTHS = (4_000, 8_000, 16_000, 24_000, 50_000, 100_000, 200_000)


def _need(rows: Iterable[Row], names: Sequence[str]) -> list[Row]:
    rows = list(rows)
    for i, row in enumerate(rows):
        for name in names:
            if name not in row:
                raise ConfigError(f"want a column {name!r} in every row; got none in row {i}")
    return rows


def _millions(costs: Mapping[str, JudgingCost]) -> tuple[list[str], list[float]]:
    names = list(costs)[::-1]
    return names, [costs[n].tokens / 1e6 for n in names]


def _bar(costs: Mapping[str, JudgingCost], visible: bool = True) -> go.Bar:
    names, millions = _millions(costs)
    return go.Bar(
        x=millions,
        y=[short(n, 40) for n in names],
        orientation="h",
        marker={"color": SERIES[0], "line_width": 0},
        text=[f"{costs[n].ratio:.2f}x" for n in names],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}<br>%{x:.4g} million tokens<extra></extra>",
        visible=visible,
        showlegend=False,
    )


def cost(
    workload: Workload | None = None,
    *,
    votes: int = 1,
    lengths: Sequence[int] = LENGTHS,
    title: str = "",
) -> go.Figure:
    """Return judge tokens of every way to judge, with a slider over the rollout's length.

    The slider works in saved pages, offline: every position is a trace that it shows or hides.
    The policy's tokens grow with the rollout, in the proportion of the workload.

    Args:
        workload: the position that is shown first; None for the published example A.
        votes: scoring votes of the rubric arms.
        lengths: rollout lengths in tokens, the slider's positions; the workload's own is added.
        title: replaces the title.
    Raises:
        ConfigError: for a length that is not positive.
    """
    w = Workload() if workload is None else workload
    if any(n <= 0 for n in lengths):
        raise ConfigError(f"want rollout lengths > 0; got {list(lengths)}")
    stops = sorted({*lengths, round(w.trajectory)} - {0})
    share = w.policy / w.trajectory if w.trajectory else 0.0
    fig, tables = go.Figure(), {}
    for n in stops:
        at = dataclasses.replace(w, trajectory=n, policy=n * share)
        tables[n] = (at, compare(at, votes=votes))
        fig.add_trace(_bar(tables[n][1], visible=n == round(w.trajectory)))
    heading = title or "Judge tokens a training step"
    buttons = [
        {
            "method": "update",
            "label": f"{n:,}",
            "args": [
                {"visible": [m == n for m in stops]},
                {"shapes": _policy_line(tables[n][0])},
            ],
        }
        for n in stops
    ]
    first = stops.index(round(w.trajectory)) if round(w.trajectory) in stops else 0
    fig.update_layout(
        sliders=[{"active": first, "steps": buttons, "pad": {"t": 44},
                  "currentvalue": {"prefix": "tokens a rollout: "}}],
        shapes=_policy_line(tables[stops[first]][0]),
    )  # fmt: skip
    fig.update_xaxes(title_text="million tokens")
    rows = [(n, name, c) for n, (_, costs) in tables.items() for name, c in costs.items()]
    return finish(
        fig,
        title=label(heading),
        description=(
            f"{w.groups:g} groups of {w.rollouts} rollouts. Bars are judge tokens, the dashed line "
            "what the policy generated meanwhile, the figure at each bar the quotient."
        ),
        columns={
            "tokens a rollout": [n for n, _, _ in rows],
            "way to judge": [name for _, name, _ in rows],
            "calls": [c.calls for _, _, c in rows],
            "full reads": [c.full_reads for _, _, c in rows],
            "judge tokens": [c.tokens for _, _, c in rows],
            "of which cached": [c.cached for _, _, c in rows],
            "over policy tokens": [c.ratio for _, _, c in rows],
        },
        height=480,
    )


def _policy_line(w: Workload) -> list[dict[str, Any]]:
    x = w.groups * w.steps * w.rollouts * w.policy / 1e6
    line = {"dash": "dash", "color": GREY, "width": 2}
    return [{"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}]


def intervals(
    rows: Iterable[Row],
    *,
    title: str,
    axis: str = "",
    description: str = "",
    reference: float | None = None,
) -> go.Figure:
    """Return one point with its interval a row; what has no figure is listed, never drawn at 0.

    Rows have "what", "value" and, where known, "low", "high" and "series" (a colour each).

    Args:
        rows: as above.
        title: one line.
        axis: what the figures are.
        description: added before the legend.
        reference: a value that is marked with a line, such as chance.
    Raises:
        ConfigError: for a missing column.
    """
    rows = _need(rows, ["what", "value"])
    known = [r for r in rows if r["value"] is not None and math.isfinite(r["value"])]
    if not known:
        return empty(label(title), "Nothing here has a figure to draw.")
    fig = go.Figure()
    names = list(dict.fromkeys(str(r["what"]) for r in known))[::-1]
    series = list(dict.fromkeys(str(r.get("series", "")) for r in known))
    for i, one in enumerate(series):
        own = [r for r in known if str(r.get("series", "")) == one]
        # Points of one row lie beside each other, so that intervals can be told apart.
        shift = (i - (len(series) - 1) / 2) * 0.7 / max(len(series), 2)
        fig.add_scatter(
            x=[r["value"] for r in own],
            y=[names.index(str(r["what"])) - shift for r in own],
            error_x=_bounds(own),
            mode="markers",
            name=short(one, 36) if one else "",
            showlegend=len(series) > 1,
            marker={
                "size": 9,
                "color": SERIES[i % len(SERIES)],
                "symbol": SYMBOLS[i % len(SYMBOLS)],
            },
            customdata=[short(str(r["what"]), 60) for r in own],
            hovertemplate="%{customdata}: %{x:.3f}<extra></extra>",
        )
    if reference is not None:
        fig.add_vline(x=reference, line={"dash": "dot", "color": GREY, "width": 1})
    ticks = [label(n, 120, 44) for n in names]
    row = max(30, 8 + 15 * max(t.count("<br>") + 1 for t in ticks))
    fig.update_yaxes(tickvals=list(range(len(names))), ticktext=ticks, zeroline=False)
    fig.update_xaxes(title_text=label(axis))
    missing = [str(r["what"]) for r in rows if r not in known]
    said = f" No figure: {', '.join(missing)}." if missing else ""
    columns = [
        c for c in ("series", "what", "value", "low", "high", "n") if any(c in r for r in rows)
    ]
    return finish(
        fig,
        title=label(title),
        description=f"{description} Bars are intervals where there are any.{said}".strip(),
        columns={c: [r.get(c) for r in rows] for c in columns},
        height=150 + row * len(names) * max(1, round(len(series) / 2)),
    )


def _bounds(rows: list[Row]) -> dict[str, Any]:
    def gap(r: Row, name: str) -> float | None:
        bound = r.get(name)
        if bound is None or not math.isfinite(bound):
            return None
        return abs(bound - r["value"])

    return {
        "type": "data",
        "symmetric": False,
        "array": [gap(r, "high") for r in rows],
        "arrayminus": [gap(r, "low") for r in rows],
        "thickness": 1,
        "width": 4,
    }


def lines(
    rows: Iterable[Row],
    *,
    title: str,
    x: str,
    y: str,
    description: str = "",
    diagonal: bool = False,
    joined: bool = True,
    x_title: str = "",
    y_title: str = "",
) -> go.Figure:
    """Return y over x, one line a "series" of the rows, in the order of x.

    Args:
        rows: with "series" and the columns ``x`` and ``y``; None and NaN are left out.
        title: one line.
        diagonal: also draw y = x, what chance would give.
        joined: whether a series is a line; else its points stand alone.
        description, x_title, y_title: texts.
    Raises:
        ConfigError: for a missing column.
    """
    rows = _need(rows, ["series", x, y])
    known = [r for r in rows if None not in (r[x], r[y]) and math.isfinite(r[x] + r[y])]
    if not known:
        return empty(label(title), "Nothing here has a figure to draw.")
    fig = go.Figure()
    if diagonal:
        fig.add_scatter(
            x=[0, 1], y=[0, 1], mode="lines", hoverinfo="skip", showlegend=False,
            line={"color": GREY, "dash": "dot", "width": 1},
        )  # fmt: skip
    for i, one in enumerate(dict.fromkeys(str(r["series"]) for r in known)):
        own = sorted((r for r in known if str(r["series"]) == one), key=lambda r: r[x])
        fig.add_scatter(
            x=[r[x] for r in own],
            y=[r[y] for r in own],
            mode=("lines+markers" if len(own) < 30 else "lines") if joined else "markers",
            marker={"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 9 if not joined else 6},
            name=short(one, 36),
            line={"color": SERIES[i % len(SERIES)], "dash": DASHES[i % len(DASHES)], "width": 2},
            hovertemplate=f"{label(one)}<br>%{{x:.3f}}, %{{y:.3f}}<extra></extra>",
        )
    fig.update_xaxes(title_text=label(x_title or x))
    fig.update_yaxes(title_text=label(y_title or y))
    ends = {str(r["series"]): number(float(r[y])) for r in known}
    said = "; ".join(f"{k} ends at {v}" for k, v in list(ends.items())[:6]) if joined else ""
    return finish(
        fig,
        title=label(title),
        description=f"{description} {said}.".strip() if said else description,
        columns={c: [r[c] for r in rows] for c in ("series", x, y)},
        height=420,
    )
