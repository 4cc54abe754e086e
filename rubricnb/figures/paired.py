"""Paired differences with their intervals, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import plotly.graph_objects as go

from ..errors import ConfigError
from .base import DOWN, GREY, UP, empty, finish
from .texts import short

COLUMNS = ("name", "mean", "low", "high", "n")


def differences(rows: Iterable[Mapping[str, Any]], *, title: str = "") -> go.Figure:
    """Return differences with intervals as points on one axis around 0.

    Coloured where the interval leaves 0 out, grey where no difference is shown or one seed gives
    no interval.

    Args:
        rows: name, mean, low, high (NaN: none) in percentage points, and n, the paired seeds.
        title: replaces the title.
    Raises:
        ConfigError: for a missing column.
    """
    rows = list(rows)
    heading = title or "Paired differences"
    for i, row in enumerate(rows):
        lacks = [c for c in COLUMNS if c not in row]
        if lacks:
            raise ConfigError(f"want a column {lacks[0]!r} in every row; got none in row {i}")
    if not rows:
        return empty(heading, "No pair of conditions is finished yet.")
    arms = [(r["high"] - r["mean"], r["mean"] - r["low"]) for r in rows]
    up, down = ([0.0 if math.isnan(a[i]) else a[i] for a in arms] for i in (0, 1))
    colour = [UP if r["low"] > 0 else DOWN if r["high"] < 0 else GREY for r in rows]
    fig = go.Figure(
        go.Scatter(
            x=[r["mean"] for r in rows],
            y=[f"{short(str(r['name']), 48)} ({r['n']})" for r in rows],
            mode="markers",
            marker={"color": colour, "size": 9},
            error_x={"type": "data", "symmetric": False, "array": up, "arrayminus": down},
            hovertemplate="%{y}<br>%{x:+.1f} points<extra></extra>",
        )
    )
    fig.add_vline(x=0, line_width=1)
    fig.update_xaxes(title_text="difference of success, percentage points")
    fig.update_yaxes(autorange="reversed")
    few = min(r["n"] for r in rows)
    return finish(
        fig,
        title=heading,
        description="95 % t intervals over paired seeds, whose number is in brackets; grey where "
        "the interval holds 0." + (" Fewer than 5 seeds support no claim." if few < 5 else ""),
        columns={c: [r[c] for r in rows] for c in COLUMNS},
        height=150 + 28 * len(rows),
    )
