"""Untrusted text and numbers made fit to be shown: clipped, inert, and never a 0 for a missing one.

No plotly here: reports use it, too.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any


def sound(text: str) -> str:
    """Return text that can be written as UTF-8: a lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def clip(text: str, limit: int = 240) -> str:
    """Return the head and tail of a long text, with what was left out counted between them.

    >>> clip("a" * 1000, 20)
    'aaaaaaaaaaaaaa [... 980 characters ...] aaaaaa'
    """
    if len(text) <= limit:
        return sound(text)
    head = limit * 7 // 10
    tail = limit - head
    return sound(f"{text[:head]} [... {len(text) - limit} characters ...] {text[-tail:]}")


def label(text: str, limit: int = 240, width: int = 72) -> str:
    """Return untrusted text as a plotly label: clipped, wrapped, with all markup inert.

    Plotly reads a small HTML in labels and, where MathJax is about, TeX between dollar signs.

    >>> label("<b>$5$</b>")
    '&lt;b&gt;&#36;5&#36;&lt;/b&gt;'
    """
    lines = []
    for line in clip(str(text), limit).splitlines() or [""]:
        # At spaces; a word longer than the line is broken.
        lines += textwrap.wrap(line, width, break_on_hyphens=False) or [""]
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


def script_safe(text: str) -> str:
    """Return JSON text that is safe inside a script element: no tag, comment or line separator.

    >>> print(script_safe('"</script><!--"'))
    "\\u003c/script\\u003e\\u003c!--"
    """
    for bad in "<>&\u2028\u2029":
        text = text.replace(bad, f"\\u{ord(bad):04x}")
    return text
