"""Pictures of how far a judge can be trusted, drawn from plain rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from .base import SERIES, empty, finish

KINDS = {
    "measured": ("measured", "markers", None),
    "modelled": ("modelled with the measured correlation", "lines", None),
    "independent": ("if errors were independent", "lines", "dash"),
}


def votes(rows: Any, *, correlation: float = math.nan, title: str = "") -> go.Figure:
    """Return the false-pass rate of k votes under unanimity.

    Args:
        rows: a table (or sequence of mappings) with "k" and "measured_false_pass",
            "modelled_false_pass", "independent_false_pass"; missing values are left out.
        correlation: measured correlation of false passes, for the title.
        title: replaces the title.
    """
    table: list[Mapping[str, Any]] = (
        rows.to_dict("records") if hasattr(rows, "to_dict") else list(rows)
    )
    known = "" if math.isnan(correlation) else f" (errors correlate {correlation:.2f})"
    heading = title or f"False passes of k unanimous votes{known}"
    if not table:
        return empty(heading, "No votes yet.")
    fig, columns = go.Figure(), {"k": [r["k"] for r in table]}
    for i, (kind, (name, mode, dash)) in enumerate(KINDS.items()):
        y = [r.get(f"{kind}_false_pass") for r in table]
        y = [None if v is None or math.isnan(v) else v for v in y]
        fig.add_scatter(
            x=columns["k"],
            y=y,
            name=name,
            mode=mode,
            line={"dash": dash} if dash else None,
            marker={"size": 11, "color": SERIES[i]},
            line_color=SERIES[i],
        )
        columns[kind] = y
    fig.update_xaxes(title_text="votes, all of which must pass", dtick=1)
    fig.update_yaxes(title_text="share of fails that pass", rangemode="tozero")
    return finish(
        fig,
        title=heading,
        description="The gap between the two lines is what correlated errors cost.",
        columns=columns,
        height=380,
    )
