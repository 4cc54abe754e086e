"""Training and evaluation: curves with seed bands, and the pictures that go with the tables.

All take rows (one mapping a measurement), as run records hold them, and read nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.colors import hex_to_rgb
from plotly.subplots import make_subplots

from ..errors import ConfigError
from .base import DASHES, DOWN, SERIES, SYMBOLS, UP, empty, finish
from .texts import label, number, short

Row = Mapping[str, Any]

# Eight arms do not fit beside a title.
BESIDE = {"orientation": "v", "x": 1.01, "xanchor": "left", "y": 1.0, "yanchor": "top"}


def _need(rows: Iterable[Row], names: Sequence[str]) -> list[Row]:
    """Return the rows, or raise naming the first row and column that is not there."""
    rows = list(rows)
    for i, row in enumerate(rows):
        for name in names:
            if name not in row:
                raise ConfigError(f"want a column {name!r} in every row; got none in row {i}")
    return rows


def _curve(rows: list[Row], y: str) -> tuple[list[float], list[list[float]]]:
    """Return the steps, and at each step the finite values of the seeds."""
    at: dict[float, list[float]] = {}
    for row in rows:
        v = row[y]
        if v is not None and math.isfinite(v):
            at.setdefault(row["step"], []).append(float(v))
    return sorted(at), [at[x] for x in sorted(at)]


def _bands(fig: go.Figure, rows: list[Row], y: str, arms: list[str], row: int) -> int:
    """Add one mean line and one seed band an arm; return the smallest number of seeds."""
    fewest = 10**9
    for i, arm in enumerate(arms):
        x, values = _curve([r for r in rows if r["arm"] == arm], y)
        if not x:
            continue
        fewest = min(fewest, *(len(v) for v in values))
        colour = SERIES[i % len(SERIES)]
        rgba = "rgba({},{},{},.16)".format(*hex_to_rgb(colour))
        low, high = [min(v) for v in values], [max(v) for v in values]
        fig.add_scatter(
            x=x + x[::-1],
            y=high + low[::-1],
            mode="lines",
            fill="toself",
            fillcolor=rgba,
            line={"width": 0},
            hoverinfo="skip",
            showlegend=False,
            legendgroup=f"arm{i}",
            row=row,
            col=1,
        )
        fig.add_scatter(
            x=x,
            y=[float(np.mean(v)) for v in values],
            mode="lines" if len(x) > 1 else "markers",
            line={"color": colour, "dash": DASHES[i % len(DASHES)], "width": 2},
            name=short(arm, 28),
            legendgroup=f"arm{i}",
            showlegend=row == 1,
            customdata=[f"{number(a)} to {number(b)}" for a, b in zip(low, high, strict=True)],
            hovertemplate=f"{label(arm)}, step %{{x}}<br>"
            "%{y:.3f} (%{customdata})<extra></extra>",
            row=row,
            col=1,
        )
    return 0 if fewest == 10**9 else fewest


def curves(
    rows: Iterable[Row],
    y: str | Sequence[str],
    *,
    title: str = "",
    names: Mapping[str, str] | None = None,
) -> go.Figure:
    """Return training curves: the mean over seeds and a band from the lowest to the highest seed.

    Args:
        rows: mappings with "arm", "seed", "step" and each column of ``y``; a value that is None
            or NaN is left out, never drawn as 0.
        y: one column, or several that are stacked under one another.
        title: replaces the title.
        names: column -> axis title.
    Raises:
        ConfigError: for a missing column.
    """
    ys = [y] if isinstance(y, str) else list(y)
    rows = _need(rows, ["arm", "seed", "step", *ys])
    names = dict(names or {})
    heading = title or "Training: " + ", ".join(names.get(v, v) for v in ys)
    if not rows:
        return empty(heading, "No training record yet.")
    arms = list(dict.fromkeys(str(r["arm"]) for r in rows))
    fig = make_subplots(rows=len(ys), shared_xaxes=True, vertical_spacing=0.07)
    seeds = [_bands(fig, rows, v, arms, r) for r, v in enumerate(ys, start=1)]
    for r, v in enumerate(ys, start=1):
        fig.update_yaxes(title_text=names.get(v, v), row=r, col=1)
    fig.update_xaxes(title_text="training step", row=len(ys), col=1)
    fig.update_layout(legend=BESIDE)
    few = min(seeds)
    return finish(
        fig,
        title=heading,
        description=(
            (
                "One seed an arm."
                if few < 2
                else "Lines are means over seeds, bands reach from the lowest to the highest seed "
                f"({few} at the fewest)."
            )
            + (" Fewer than 5 seeds support no claim." if few < 5 else "")
        ),
        columns={k: [r[k] for r in rows] for k in ("arm", "seed", "step", *ys)},
        height=110 + 250 * len(ys),
    )


def pass_and_inert(rows: Iterable[Row], *, title: str = "") -> go.Figure:
    """Return the pass rate of criteria and the share of inert credit over training.

    Rows have "arm", "seed", "step", "pass_rate" and "inert_share", each in [0, 1].
    """
    return curves(
        rows,
        ["pass_rate", "inert_share"],
        title=title or "Pass rate and inert credit over training",
        names={"pass_rate": "pass rate", "inert_share": "inert share"},
    )


def _error(rows: list[Row], mid: str, low: str, high: str) -> dict[str, Any] | None:
    """Return asymmetric error bars where the rows carry an interval."""
    if not all(low in r and high in r for r in rows):
        return None
    return {
        "type": "data",
        "symmetric": False,
        "array": [r[high] - r[mid] if r[high] is not None else None for r in rows],
        "arrayminus": [r[mid] - r[low] if r[low] is not None else None for r in rows],
        "thickness": 1,
        "width": 4,
    }


def consistency(rows: Iterable[Row], *, title: str = "") -> go.Figure:
    """Return consistency against discovery: pass^k over pass@k, one path an arm, k along it.

    Rows have "arm", "k", "pass_at_k" (some of k runs succeeds) and "pass_hat_k" (all do). Both
    are the mean success rate at k = 1, so that each path starts on the diagonal; a path that
    falls steeply succeeds by luck, one that stays near the diagonal succeeds reliably.
    """
    rows = _need(rows, ["arm", "k", "pass_at_k", "pass_hat_k"])
    heading = title or "Consistency against discovery"
    if not rows:
        return empty(heading, "No evaluation record yet.")
    fig = go.Figure()
    fig.add_scatter(
        x=[0, 1], y=[0, 1], mode="lines", line={"color": "#9AA3AE", "dash": "dot", "width": 1},
        hoverinfo="skip", showlegend=False,
    )  # fmt: skip
    for i, arm in enumerate(dict.fromkeys(str(r["arm"]) for r in rows)):
        own = sorted((r for r in rows if r["arm"] == arm), key=lambda r: r["k"])
        fig.add_scatter(
            x=[r["pass_at_k"] for r in own],
            y=[r["pass_hat_k"] for r in own],
            mode="lines+markers",
            line={"color": SERIES[i % len(SERIES)], "width": 1.5},
            marker={"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 9},
            name=short(arm, 28),
            customdata=[r["k"] for r in own],
            hovertemplate=f"{label(arm)}, k = %{{customdata}}<br>"
            "pass@k %{x:.3f}, pass^k %{y:.3f}<extra></extra>",
        )
    fig.update_xaxes(title_text="discovery: pass@k", range=[0, 1.02])
    fig.update_yaxes(title_text="consistency: pass^k", range=[0, 1.02])
    fig.update_layout(legend=BESIDE)
    return finish(
        fig,
        title=heading,
        description="Each path starts at k = 1 on the diagonal; right and down as k grows.",
        columns={k: [r[k] for r in rows] for k in ("arm", "k", "pass_at_k", "pass_hat_k")},
        height=460,
    )


def cost(
    rows: Iterable[Row], *, unit: str = "judge tokens", title: str = "", log: bool = True
) -> go.Figure:
    """Return cost against success, one point an arm.

    Rows have "arm", "cost", "success" and, if known, "low" and "high" of the success. A cost of
    None is unknown and is listed in the text, not drawn at 0.
    """
    rows = _need(rows, ["arm", "cost", "success"])
    heading = title or "Cost against success"
    known = [r for r in rows if r["cost"] is not None and r["success"] is not None]
    unknown = [str(r["arm"]) for r in rows if r["cost"] is None or r["success"] is None]
    if not known:
        return empty(heading, "No arm has both a known cost and a success rate.")
    fig = go.Figure()
    for i, r in enumerate(known):
        fig.add_scatter(
            x=[r["cost"]],
            y=[r["success"]],
            error_y=_error([r], "success", "low", "high"),
            mode="markers",
            name=short(r["arm"], 24),
            marker={
                "size": 11,
                "symbol": SYMBOLS[i % len(SYMBOLS)],
                "color": SERIES[i % len(SERIES)],
            },
            hovertemplate=f"{label(str(r['arm']))}<br>%{{x:.4g}} {label(unit)}<br>"
            "%{y:.3f}<extra></extra>",
        )
    # A logarithmic axis cannot show an arm that costs nothing.
    log = log and all(r["cost"] > 0 for r in known)
    fig.update_xaxes(title_text=label(unit), type="log" if log else "linear")
    fig.update_yaxes(title_text="success", rangemode="tozero")
    fig.update_layout(legend=BESIDE, showlegend=True)
    names = [k for k in ("arm", "cost", "success", "low", "high") if all(k in r for r in rows)]
    return finish(
        fig,
        title=heading,
        description=f"{len(known)} arms."
        + (f" Cost or success unknown, not drawn: {', '.join(unknown)}." if unknown else ""),
        columns={k: [r[k] for r in rows] for k in names},
        height=440,
    )


def by_kind(rows: Iterable[Row], *, title: str = "", most: int = 24) -> go.Figure:
    """Return the mean credit of each type of step, the most pushed up first.

    Rows have "kind", "mean" and "n" and, if known, "low" and "high".
    """
    rows = _need(rows, ["kind", "mean", "n"])
    heading = title or "Mean credit by type of step"
    rows = [r for r in rows if r["mean"] is not None and math.isfinite(r["mean"])]
    if not rows:
        return empty(heading, "No step has credit yet.")
    often = sorted(rows, key=lambda r: -r["n"])[:most]
    shown = sorted(often, key=lambda r: r["mean"])
    fig = go.Figure(
        go.Bar(
            x=[r["mean"] for r in shown],
            y=[f"{short(r['kind'], 36)} ({r['n']})" for r in shown],
            orientation="h",
            error_x=_error(shown, "mean", "low", "high"),
            marker={"color": [UP if r["mean"] >= 0 else DOWN for r in shown], "line_width": 0},
            hovertemplate="%{y}<br>%{x:.4g}<extra></extra>",
        )
    )
    fig.update_xaxes(title_text="mean credit a token")
    names = [k for k in ("kind", "n", "mean", "low", "high") if all(k in r for r in rows)]
    return finish(
        fig,
        title=heading,
        description=f"The {len(shown)} most frequent of {len(rows)} types; counts in brackets.",
        columns={k: [r[k] for r in rows] for k in names},
        height=130 + 24 * len(shown),
    )
