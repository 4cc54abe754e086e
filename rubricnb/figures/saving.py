"""Figures to files: JSON, self-contained HTML, the text form and a CSV of what is plotted."""

from __future__ import annotations

import csv
import html
import json
import os
from collections.abc import Mapping
from pathlib import Path

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from .base import TEMPLATES, fig_text
from .texts import script_safe

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root{{color-scheme:light dark}}
body{{font:15px/1.5 system-ui,'DejaVu Sans',sans-serif;margin:1.5rem auto;
max-width:76rem;padding:0 1rem;
background:#fff;color:#1b1f24}}
figure{{margin:0 0 2rem}}
figcaption{{font-size:13px}}
pre{{overflow:auto;font-size:12px}}
@media (prefers-color-scheme:dark){{body{{background:#16191d;color:#e6e8eb}}}}
</style>
<script>{plotlyjs}</script></head><body>
<h1>{title}</h1>
{figures}
<script>
const TEMPLATES = {templates};
const dark = matchMedia("(prefers-color-scheme: dark)");
function draw() {{
  for (const el of document.querySelectorAll("[data-figure]")) {{
    const spec = JSON.parse(document.getElementById(el.dataset.figure).textContent);
    spec.layout.template = TEMPLATES[dark.matches ? "dark" : "light"];
    Plotly.react(el, spec.data, spec.layout, {{responsive: true, displaylogo: false}});
  }}
}}
dark.addEventListener("change", draw);
draw();
</script></body></html>
"""
FIGURE = """<figure>
<div role="img" aria-label="{label}" data-figure="f{index}"></div>
<script type="application/json" id="f{index}">{spec}</script>
<figcaption>{description}</figcaption>
<details><summary>As text</summary><pre>{text}</pre></details>
</figure>"""


def page(figures: Mapping[str, go.Figure], title: str) -> str:
    """Return one offline HTML page with the figures, plotly.js embedded once.

    It follows the reader's light or dark preference, and gives each figure's text form.
    """
    blocks = []
    for i, fig in enumerate(figures.values()):
        bare = go.Figure(fig)
        meta = bare.layout.meta or {}
        text = fig_text(fig)
        bare.update_layout(meta=None, template=None)
        blocks.append(
            FIGURE.format(
                label=html.escape(f"{meta['title']}. {meta['description']}", quote=True),
                index=i,
                spec=script_safe(bare.to_json()),
                description=html.escape(meta["description"]),
                text=html.escape(text),
            )
        )
    themes = {k: v.to_plotly_json() for k, v in TEMPLATES.items()}
    return PAGE.format(
        title=html.escape(title),
        plotlyjs=get_plotlyjs(),
        figures="\n".join(blocks),
        templates=script_safe(json.dumps(themes)),
    )


def _inert(cell: object) -> object:
    """A cell that a spreadsheet will not run as a formula."""
    if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + cell
    return cell


def write_csv(path: str | os.PathLike[str], columns: Mapping[str, list]) -> Path:
    """Write columns as CSV and return the path; a missing value is an empty cell."""
    path = Path(path)
    with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="") as f:
        out = csv.writer(f)
        out.writerow([_inert(k) for k in columns])
        for row in zip(*columns.values(), strict=True):
            out.writerow([_inert("" if v is None else v) for v in row])
    return path


def save(fig: go.Figure, stem: str | os.PathLike[str]) -> dict[str, Path]:
    """Write ``stem``.json, .html, .txt and .csv and return their paths by suffix.

    The HTML opens offline: plotly.js is inside (4.9 MB). For several figures use
    :func:`save_page`, which embeds it once.
    """
    stem = Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    text = fig_text(fig)
    out = {s: stem.with_name(f"{stem.name}.{s}") for s in ("json", "html", "txt", "csv")}
    out["json"].write_text(fig.to_json(), encoding="utf-8", errors="backslashreplace")
    out["html"].write_text(
        page({stem.name: fig}, fig.layout.meta["title"]),
        encoding="utf-8",
        errors="backslashreplace",
    )
    out["txt"].write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
    write_csv(out["csv"], fig.layout.meta["table"])
    return out


def save_page(
    figures: Mapping[str, go.Figure], folder: str | os.PathLike[str], title: str
) -> dict[str, Path]:
    """Write ``folder``/index.html with all figures, and JSON, text and CSV of each."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    out = {"index": folder / "index.html"}
    for name, fig in figures.items():
        (folder / f"{name}.json").write_text(
            fig.to_json(), encoding="utf-8", errors="backslashreplace"
        )
        (folder / f"{name}.txt").write_text(
            fig_text(fig) + "\n", encoding="utf-8", errors="backslashreplace"
        )
        out[name] = write_csv(folder / f"{name}.csv", fig.layout.meta["table"])
    out["index"].write_text(page(figures, title), encoding="utf-8", errors="backslashreplace")
    return out
