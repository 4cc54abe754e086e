"""A transcript with every token coloured by its credit, as HTML that runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from ..errors import CreditError
from ..trajectory import Step, Trajectory
from .rollout import row_of
from .texts import clip, number

STYLE = """
.rnb-t{font:13px/1.5 system-ui,'DejaVu Sans',sans-serif;max-width:72em;color:inherit}
.rnb-t .s{margin:.5em 0;padding:.3em .6em;border-left:4px solid #8a8a8a}
.rnb-t .s.up{border-color:#0072b2}.rnb-t .s.down{border-color:#d55e00}
.rnb-t .h{font-size:12px;opacity:.85}.rnb-t pre{white-space:pre-wrap;margin:.2em 0;
overflow-wrap:anywhere;font:12px/1.5 'DejaVu Sans Mono',ui-monospace,monospace}
.rnb-t details{opacity:.85}.rnb-t .tok{border-radius:2px}
"""


@dataclass(frozen=True)
class Html:
    """HTML for a notebook, with its text form; ``str()`` gives the text, display the HTML."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __str__(self) -> str:
        return self.text


def shade(value: float, top: float) -> str:
    """Return the CSS background of a credit: see-through, so that it works on any page.

    >>> shade(1.0, 2.0), shade(-2.0, 2.0), shade(float("nan"), 2.0)
    ('rgba(0,114,178,0.25)', 'rgba(213,94,0,0.50)', 'transparent')
    """
    if not np.isfinite(value) or value == 0 or top <= 0:
        return "transparent"
    rgb = "0,114,178" if value > 0 else "213,94,0"
    return f"rgba({rgb},{min(1.0, abs(value) / top) * 0.5:.2f})"


def transcript(
    trajectory: Trajectory,
    credit_S: Sequence[float],
    *,
    pieces_S: Sequence[Sequence[str]] | None = None,
    credit_ST: Sequence[Sequence[float]] | None = None,
    observation_limit: int = 600,
) -> Html:
    """Return a rollout's text, coloured by credit, as HTML in which all of its text is inert.

    Without ``pieces_S`` all that the agent wrote in a step has the step's colour, as every token
    of a step has the same credit. With pieces, each token is a span of its own with its value
    under the pointer. A sign and the number stand at the head of each step, so that colour is
    never the only cue.

    Args:
        trajectory: S steps.
        credit_S: (S,) credit of each token of a step; NaN where unknown.
        pieces_S: for each step the tokens that its text decodes to.
        credit_ST: for each step one value a piece; default the step's.
        observation_limit: characters of each observation that are kept (head and tail).
    Raises:
        CreditError: where lengths do not fit.
    """
    n = len(trajectory)
    credit = row_of(credit_S, n, "credit_S")
    for name, rows in (("pieces_S", pieces_S), ("credit_ST", credit_ST)):
        if rows is not None and len(rows) != n:
            raise CreditError(f"want {name} with {n} rows, one a step; got {len(rows)}")
    finite = np.abs(credit[np.isfinite(credit)])
    top = float(finite.max()) if finite.size else 1.0
    blocks, lines = [], []
    for i, step in enumerate(trajectory.steps):
        head = f"S{i + 1} · {number(float(credit[i]), 4)} a token"
        pieces = None if pieces_S is None else pieces_S[i]
        values = None if credit_ST is None else credit_ST[i]
        body = _authored(step, float(credit[i]), top, pieces, values, i)
        way = "up" if credit[i] > 0 else "down" if credit[i] < 0 else ""
        blocks.append(
            Markup('<div class="s {}"><div class="h">{} {}</div>{}{}</div>').format(
                way,
                {"up": "▲", "down": "▼", "": "•"}[way],
                head,
                body,
                _observations(step, observation_limit),
            )
        )
        lines.append(f"{head}: {clip(step.authored, 200)}")
    page = Markup('<div class="rnb-t"><style>{}</style>{}</div>').format(
        Markup(STYLE), Markup("").join(blocks)
    )
    return Html(str(page), "\n".join(lines))


def _authored(
    step: Step,
    value: float,
    top: float,
    pieces: Sequence[str] | None,
    values: Sequence[float] | None,
    index: int,
) -> Markup:
    """The agent's own text, one span a token or one for the whole step."""
    if pieces is not None:
        each = [value] * len(pieces) if values is None else [float(v) for v in values]
        if len(each) != len(pieces):
            raise CreditError(
                f"want one value a piece in step {index + 1}, {len(pieces)}; got {len(each)}"
            )
        spans = Markup("").join(
            Markup('<span class="tok" style="background:{}" title="{}">{}</span>').format(
                shade(v, top), number(v, 4), p
            )
            for p, v in zip(pieces, each, strict=True)
        )
        return Markup("<pre>{}</pre>").format(spans)
    parts = [p for p in (step.thinking, step.text) if p]
    parts += [f"{c.name}({c.arguments})" for c in step.calls]
    return Markup("").join(
        Markup('<pre style="background:{}">{}</pre>').format(shade(value, top), p) for p in parts
    )


def _observations(step: Step, limit: int) -> Markup:
    """What came back, folded and clipped."""
    return Markup("").join(
        Markup("<details><summary>{}</summary><pre>{}</pre></details>").format(
            " ".join(w for w in (o.role, o.name) if w) + f", {len(o.text)} characters",
            escape(clip(o.text, limit)),
        )
        for o in step.observations
    )
