"""What every figure shares: palette, themes, safe labels, and the text form beside the picture.

A figure of this package is a plain ``go.Figure``. Beside its traces it carries, in
``layout.meta``, what a reader who cannot see it needs: a description, a text form and the table
of what is plotted. They travel with the figure's JSON.

All colours that depend on the background come from ``layout.template``, so that one assignment
turns a figure from light to dark (:func:`themed`).
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from ..errors import ConfigError
from .notebook import use_in_notebooks
from .texts import label, plain_list, text_table

# Okabe and Ito's colours: told apart with any of the common colour-vision deficiencies.
BLUE, VERMILION, GREEN, AMBER = "#0072B2", "#D55E00", "#009E73", "#E69F00"
SKY, PURPLE, YELLOW, GREY = "#56B4E9", "#CC79A7", "#F0E442", "#8A8A8A"
SERIES = (BLUE, VERMILION, GREEN, PURPLE, AMBER, SKY, "#7A5195", "#6B8E23", GREY)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = (
    "circle",
    "diamond",
    "square",
    "triangle-up",
    "x",
    "star",
    "cross",
    "pentagon",
    "hexagon",
)
UP, DOWN = BLUE, VERMILION
# The middle is light in both themes: a step of credit 0 must not look like a step that is absent.
DIVERGING = (
    (0.0, "#A84300"),
    (0.25, "#E8935A"),
    (0.5, "#F3F1EE"),
    (0.75, "#6AAFD9"),
    (1.0, "#005A8F"),
)
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def _template(ink: str, paper: str, grid: str, label: str) -> go.layout.Template:
    axis = {
        "gridcolor": grid,
        "linecolor": grid,
        "zerolinecolor": label,
        "zerolinewidth": 1,
        "automargin": True,
        "title": {"font": {"size": 12}, "standoff": 8},
        "tickfont": {"size": 11},
    }
    layout = go.Layout(
        font={"family": FONT, "color": ink, "size": 12},
        title={
            "font": {"size": 15},
            "x": 0.0,
            "xref": "container",
            "xanchor": "left",
            "pad": {"l": 12},
        },
        paper_bgcolor=paper,
        plot_bgcolor=paper,
        colorway=list(SERIES),
        xaxis=axis,
        yaxis=axis,
        hoverlabel={
            "align": "left",
            "bgcolor": paper,
            "bordercolor": label,
            "font": {"color": ink, "family": FONT, "size": 12},
        },
        annotationdefaults={"font": {"color": ink, "size": 11}},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 1.0, "xanchor": "right"},
        coloraxis={
            "colorscale": [list(c) for c in DIVERGING],
            "cmid": 0,
            "colorbar": {"thickness": 12, "outlinewidth": 0, "tickfont": {"color": ink}},
        },
        margin={"l": 64, "r": 24, "t": 64, "b": 48},
    )
    return go.layout.Template(layout=layout)


use_in_notebooks()

TEMPLATES = {
    "light": _template("#1B1F24", "#FFFFFF", "#E4E7EB", "#6B7280"),
    "dark": _template("#E6E8EB", "#16191D", "#343A42", "#9AA3AE"),
}


def themed(fig: go.Figure, theme: str) -> go.Figure:
    """Return a copy of a figure in the theme "light" or "dark".

    Raises:
        ConfigError: for another theme.
    """
    if theme not in TEMPLATES:
        raise ConfigError(f"want a theme among {sorted(TEMPLATES)}; got {theme!r}")
    return go.Figure(fig).update_layout(template=TEMPLATES[theme])


def finish(
    fig: go.Figure,
    *,
    title: str,
    description: str,
    columns: Mapping[str, Sequence[Any]],
    height: int = 420,
    text: str = "",
) -> go.Figure:
    """Give a figure its title, theme, description, table and text form, and return it.

    Args:
        title: one line, already safe as a plotly label.
        description: one or two sentences saying what is shown and how to read it.
        columns: what is plotted, as equally long columns.
        height: in pixels.
        text: replaces the table in the text form.
    """
    table = {str(k): plain_list(v) for k, v in columns.items()}
    bare = html.unescape(title.replace("<br>", " "))
    fig.update_layout(
        template=TEMPLATES["light"],
        title={"text": title},
        height=height,
        meta={
            "title": bare,
            "description": description,
            "text": f"{bare}\n{description}\n\n{text or text_table(table)}",
            "table": table,
        },
    )
    return fig


def fig_text(fig: go.Figure) -> str:
    """Return a figure's text form: title, description and what it plots, for reading aloud.

    Raises:
        ConfigError: where the figure was not made by this package.
    """
    meta = fig.layout.meta
    if not isinstance(meta, Mapping) or "text" not in meta:
        raise ConfigError("want a figure of rubricnb.figures, with a text form; got one without")
    return meta["text"]


def empty(title: str, why: str) -> go.Figure:
    """Return a figure that says why there is nothing to draw, instead of a blank."""
    fig = go.Figure()
    fig.add_annotation(text=label(why), showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
    fig.update_xaxes(visible=False).update_yaxes(visible=False)
    return finish(fig, title=title, description=why, columns={}, height=180, text=why)
