"""Showing things: with controls where a reader can use them, else as static figures and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio
from markupsafe import Markup

from ..figures.base import fig_text, themed
from ..figures.coloured import Html
from ..figures.notebook import embed_plotlyjs, live
from ..figures.texts import clip, number, sound, text_table

PLOTLY = "application/vnd.plotly.v1+json"
# Renderers whose front ends draw from HTML that plotly writes for them.
FROM_HTML = {"notebook", "notebook_connected", "colab", "kaggle", "azure", "cocalc", "databricks"}
TABLE_STYLE = "border-collapse:collapse;font-size:12px"
CELL_STYLE = "text-align:left;padding:.15em .6em;border-bottom:1px solid rgba(128,128,128,.35)"


def bundle(fig: go.Figure | Html, theme: str = "light", static: bool = False) -> dict[str, Any]:
    """Return the MIME bundle of a figure, its text form included.

    Args:
        fig: the figure.
        theme: "light" or "dark".
        static: with HTML for converters, which draws with the plotly.js that is on the page.
    """
    if isinstance(fig, Html):
        return {"text/html": sound(fig.html), "text/plain": sound(fig.text)}
    drawn = themed(fig, theme)
    text = fig_text(fig)
    drawn.update_layout(meta=None)
    out: dict[str, Any] = {}
    if FROM_HTML & set((pio.renderers.default or "").split("+")):
        out |= drawn._repr_mimebundle_()
    elif static:
        out["text/html"] = drawn.to_html(
            full_html=False, include_plotlyjs=False, include_mathjax=False
        )
    return _plain(out | {PLOTLY: drawn.to_plotly_json(), "text/plain": text})


def _plain(value: Any) -> Any:
    """Arrays as lists: what goes through a comm or into a notebook is JSON."""
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and value != value:
        return None
    return value


def output(fig: go.Figure | Html, theme: str = "light") -> dict[str, Any]:
    """Return a figure as the output of a cell, for ``Output.outputs``."""
    return {"output_type": "display_data", "data": bundle(fig, theme), "metadata": {}}


def html_table(columns: Mapping[str, Sequence[Any]], caption: str = "") -> Markup:
    """Return columns as an HTML table in which all text is inert."""
    head = Markup("").join(
        Markup('<th scope="col" style="{}">{}</th>').format(CELL_STYLE, name) for name in columns
    )
    rows = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup('<td style="{}">{}</td>').format(CELL_STYLE, clip(number(v), 300))
                for v in row
            )
        )
        for row in zip(*columns.values(), strict=True)
    )
    return Markup(
        '<table style="{}"><caption style="text-align:left">{}</caption><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table>"
    ).format(TABLE_STYLE, caption, head, rows)


@dataclass(frozen=True)
class Gallery(Mapping[str, Any]):
    """Figures and tables by name: displays all, ``str()`` gives their text forms.

    Args:
        figures: name -> figure.
        tables: caption -> columns, shown above the figures.
    """

    figures: Mapping[str, go.Figure | Html]
    tables: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.figures)

    def __len__(self) -> int:
        return len(self.figures)

    def __str__(self) -> str:
        parts = [f"{k}\n{text_table(v)}" for k, v in self.tables.items()]
        parts += [f.text if isinstance(f, Html) else fig_text(f) for f in self.figures.values()]
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return f"Gallery of {', '.join(self.figures) or 'nothing'} (print it for its text)"

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        for caption, columns in self.tables.items():
            display(HTML(str(html_table(columns, caption))))
        embed()
        for fig in self.figures.values():
            display(bundle(fig, static=True), raw=True)
            if not isinstance(fig, Html):
                display(HTML(str(as_details(fig_text(fig)))))


def embed() -> None:
    """Put plotly.js into the page once, but for front ends or renderers that bring their own."""
    if not live() and not FROM_HTML & set((pio.renderers.default or "").split("+")):
        embed_plotlyjs()


def as_details(text: str, summary: str = "As text") -> Markup:
    """Return text folded away, for readers who cannot see the figure above it."""
    return Markup(
        '<details><summary>{}</summary><pre style="white-space:pre-wrap">{}</pre></details>'
    ).format(summary, text)


def status(text: str, error: bool = False) -> str:
    """Return a line that screen readers announce when it changes."""
    border = "border-left:4px solid #d55e00;padding-left:.5em" if error else ""
    return str(
        Markup('<div role="status" aria-live="polite" style="{}">{}{}</div>').format(
            border, "Error: " if error else "", sound(text)
        )
    )


def guarded(
    action: Callable[[], None], say: Callable[[str], None], must_raise: Callable[[], bool]
) -> None:
    """Run a control's action: its error shows in the widget, and is raised where none would see it.

    Errors that are not this package's own are raised always, after they are shown.
    """
    from ..errors import RubricNBError

    try:
        action()
    except RubricNBError as e:
        say(status(str(e), error=True))
        if must_raise():
            raise
    except Exception as e:
        say(status(f"{type(e).__name__}: {e}", error=True))
        raise
