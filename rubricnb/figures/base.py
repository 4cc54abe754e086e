"""What every figure shares: palette, themes, safe labels, and the text form beside the picture.

A figure of this package is a plain ``go.Figure``. Beside its traces it carries, in
``layout.meta``, what a reader who cannot see it needs: a description, a text form and the table
of what is plotted. They travel with the figure's JSON.

All colours that depend on the background come from ``layout.template``, so that one assignment
turns a figure from light to dark (:func:`themed`).
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from ..errors import ConfigError

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


def clip(text: str, limit: int = 240) -> str:
    """Return the head and tail of a long text, with what was left out counted between them.

    >>> clip("a" * 1000, 20)
    'aaaaaaaaaaaaaa [... 980 characters ...] aaaaaa'
    """
    if len(text) <= limit:
        return text
    head = limit * 7 // 10
    tail = limit - head
    return f"{text[:head]} [... {len(text) - limit} characters ...] {text[-tail:]}"


def label(text: str, limit: int = 240, width: int = 72) -> str:
    """Return untrusted text as a plotly label: clipped, wrapped, with all markup inert.

    Plotly reads a small HTML in labels and, where MathJax is about, TeX between dollar signs.

    >>> label("<b>$5$</b>")
    '&lt;b&gt;&#36;5&#36;&lt;/b&gt;'
    """
    lines = []
    for line in clip(str(text), limit).splitlines() or [""]:
        lines += [line[i : i + width] for i in range(0, len(line), width)] or [""]
    return "<br>".join(html.escape(line, quote=False).replace("$", "&#36;") for line in lines)


def short(text: str, limit: int = 32) -> str:
    """Return untrusted text as one short line of a plotly label, cut with an ellipsis."""
    flat = " ".join(str(text).split())
    return label(flat if len(flat) <= limit else flat[: limit - 1] + "…", limit + 8, limit + 8)


def number(value: Any, digits: int = 3) -> str:
    """Return a number for reading: "–" where it is missing, never 0 in its place.

    >>> number(float("nan")), number(0.123456), number(3), number(-1e-9)
    ('–', '0.123', '3', '0')
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "–" if math.isnan(value) else str(value)
    out = f"{value:.{digits}f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return "0" if out in ("-0", "") else out


def text_table(columns: Mapping[str, Sequence[Any]], limit: int = 60) -> str:
    """Return columns as a Markdown table of at most ``limit`` rows; the rest is counted.

    >>> print(text_table({"step": ["S1", "S2"], "credit": [0.5, float("nan")]}))
    | step | credit |
    | --- | --- |
    | S1 | 0.5 |
    | S2 | – |
    """
    names = list(columns)
    rows = list(zip(*columns.values(), strict=True))
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    for row in rows[:limit]:
        cells = [" ".join(clip(number(v), 120).split()).replace("|", "\\|") for v in row]
        lines.append("| " + " | ".join(cells) + " |")
    if len(rows) > limit:
        lines.append(f"({len(rows) - limit} more rows)")
    return "\n".join(lines)


def plain_list(values: Any) -> list[Any]:
    """Return an array or sequence as a list of plain Python values, NaN as None."""
    out = []
    for v in values:
        v = v.item() if hasattr(v, "item") else v
        out.append(None if isinstance(v, float) and math.isnan(v) else v)
    return out


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
