"""A group of rollouts: credit as a heat map of rollouts x steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from ..errors import CreditError
from ..trajectory import Group, Trajectory
from .base import finish
from .rollout import step_ticks
from .texts import number, short


def names(group: Group) -> list[str]:
    """Short row labels that differ even where ids are long."""
    return [f"{g}. {short(t.id, 24)}" for g, t in enumerate(group.trajectories, start=1)]


def heatmap(
    group: Group,
    credit_GS: np.ndarray,
    tokens_GS: np.ndarray,
    *,
    reward_G: Sequence[float] | None = None,
    outcome_G: Sequence[float] | None = None,
    advantage_G: Sequence[float] | None = None,
    what: str = "total",
    title: str = "",
) -> go.Figure:
    """Return a group's rollouts x steps, coloured by credit on one scale around 0.

    The scale ends at the 98th percentile of the magnitudes, so that one extreme step does not
    bleach the others; what lies beyond has the end colour and its value under the pointer.

    Args:
        group: G rollouts.
        credit_GS: (G, S) credit of each token, in advantage units.
        tokens_GS: (G, S) lengths; 0 is padding and stays empty.
        reward_G, outcome_G, advantage_G: (G,) shown beside each row's name; NaN shows as "–".
        what: "total" (n_j a_j) or "token" (a_j).
        title: replaces the title.
    Raises:
        CreditError: where shapes do not fit or ``what`` is neither.
    """
    credit, tokens = np.asarray(credit_GS, float), np.asarray(tokens_GS, float)
    if credit.shape != tokens.shape or credit.ndim != 2 or len(credit) != len(group):
        raise CreditError(
            f"want credit_GS and tokens_GS of one shape with {len(group)} rows; "
            f"got {credit.shape} and {tokens.shape}"
        )
    if what not in ("total", "token"):
        raise CreditError(f"want what='total' or 'token'; got {what!r}")
    z = np.where(tokens > 0, credit * tokens if what == "total" else credit, np.nan)
    size = np.abs(z[np.isfinite(z)])
    top = float(np.percentile(size, 98)) if size.size else 1.0
    rollouts = names(group)
    side = _side({"R": reward_G, "outcome": outcome_G, "A": advantage_G}, len(group))
    rows = [f"{n}{s}" for n, s in zip(rollouts, side, strict=True)]
    kinds = [[kind(t, s) for s in range(z.shape[1])] for t in group.trajectories]
    fig = go.Figure(
        go.Heatmap(
            z=z,
            x=np.arange(1, z.shape[1] + 1),
            y=rows,
            customdata=kinds,
            coloraxis="coloraxis",
            xgap=1 if z.shape[1] <= 120 else 0,
            ygap=1,
            hoverongaps=False,
            hovertemplate="%{y}<br>S%{x} %{customdata}<br>%{z:.4g}<extra></extra>",
        )
    )
    span = top or 1.0
    fig.update_layout(
        coloraxis={"cmin": -span, "cmax": span, "colorbar": {"title": {"text": what}}},
    )
    fig.update_yaxes(autorange="reversed", showgrid=False, zeroline=False)
    fig.update_xaxes(title_text="step", zeroline=False)
    step_ticks(fig, z.shape[1])
    g, s = np.nonzero(tokens > 0)
    return finish(
        fig,
        title=title or f"Credit by rollout and step: {short(group.task.id, 48)}",
        description=(
            f"{len(group)} rollouts x up to {z.shape[1]} steps; blue is pushed up, orange-brown "
            f"pushed down, near-white 0, empty no step. Scale ends at ±{number(span, 3)}."
        ),
        columns={
            "rollout": [group.trajectories[i].id for i in g],
            "step": s + 1,
            "length": tokens[g, s],
            "credit a token": credit[g, s],
            "step total": (credit * tokens)[g, s],
        },
        height=int(min(1400, 150 + 26 * len(group))),
    )


def kind(trajectory: Trajectory, s: int) -> str:
    steps = trajectory.steps
    return short(steps[s].kind, 40) if s < len(steps) else ""


def _side(columns: Mapping[str, Sequence[float] | None], n: int) -> list[str]:
    """What stands beside each rollout's name."""
    out = [""] * n
    for name, values in columns.items():
        if values is not None:
            out = [f"{o}  {name} {number(float(v), 2)}" for o, v in zip(out, values, strict=True)]
    return out
