"""From criteria to steps: which citations carry a rollout's verdicts."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ..errors import CreditError
from ..rubric import FailedJudgement, GradedGroup, Label
from .base import BLUE, GREY, VERMILION, empty, finish
from .group import kind
from .texts import short
from .verdicts import COLOUR, MARK, state


def flow(graded: GradedGroup, member: int, *, most: int = 30, title: str = "") -> go.Figure:
    """Return how one rollout's verdicts flow from criteria to the steps that they cite.

    Left the criteria that gave a verdict, right the steps; each citation is one strand, blue
    from a pass and vermilion from a fail. A step's colour tells its pass fraction Q_j. Beyond
    ``most`` cited steps, the least cited ones are drawn as one.

    Raises:
        CreditError: where the group has no such member.
    """
    if not 0 <= member < len(graded.group):
        raise CreditError(f"want a member of 0..{len(graded.group) - 1}; got {member}")
    t = graded.group.trajectories[member]
    pairs = [
        (k, s, j.label is Label.PASS)
        for k, j in enumerate(graded.judgements[member])
        if not isinstance(j, FailedJudgement) and j.label is not Label.NOT_APPLICABLE
        for s in j.steps
    ]
    name = title or f"From criteria to steps: {short(t.id, 48)}"
    if not pairs:
        return empty(name, "No criterion cites a step of this rollout, so no step stands out.")
    tally: dict[int, list[int]] = {}
    for _, s, passed in pairs:
        tally.setdefault(s, [0, 0])[0 if passed else 1] += 1
    shown = sorted(sorted(tally, key=lambda s: -sum(tally[s]))[:most])
    rest = [s for s in tally if s not in set(shown)]
    criteria = sorted({k for k, _, _ in pairs})
    left = {k: i for i, k in enumerate(criteria)}
    right = {s: len(left) + i for i, s in enumerate(shown)}
    right |= {s: len(left) + len(shown) for s in rest}
    labels = [
        f"{MARK[state(graded.judgements[member][k])]} {short(graded.rubric.criteria[k].title, 44)}"
        for k in criteria
    ]
    labels += [f"S{s} {kind(t, s - 1)}" for s in shown]
    labels += [f"{len(rest)} further steps"] if rest else []
    colours = [COLOUR[state(graded.judgements[member][k])] for k in criteria]
    colours += [_q_colour(*tally[s]) for s in shown] + ([GREY] if rest else [])
    fig = go.Figure(
        go.Sankey(
            arrangement="snap",
            node={
                "label": labels,
                "color": colours,
                "pad": 10,
                "thickness": 14,
                "line": {"width": 0},
            },
            link={
                "source": [left[k] for k, _, _ in pairs],
                "target": [right[s] for _, s, _ in pairs],
                "value": [1] * len(pairs),
                "color": [
                    "rgba(0,114,178,.38)" if p else "rgba(213,94,0,.45)" for _, _, p in pairs
                ],
                "hovertemplate": "%{source.label} → %{target.label}<extra></extra>",
            },
            textfont={"size": 12},
        )
    )
    return finish(
        fig,
        title=name,
        description=(
            f"{len(pairs)} citations from {len(criteria)} criteria to {len(tally)} of {len(t)} "
            "steps. Blue strands come from passed criteria, vermilion ones from failed criteria."
        ),
        columns={
            "criterion": [graded.rubric.criteria[k].title for k, _, _ in pairs],
            "verdict": ["passed" if p else "failed" for _, _, p in pairs],
            "step": [f"S{s}" for _, s, _ in pairs],
        },
        height=int(np.clip(140 + 30 * max(len(criteria), len(shown)), 260, 1100)),
    )


def _q_colour(passed: int, failed: int) -> str:
    """Blue where only passes cite a step, vermilion where only fails do, grey between."""
    return BLUE if not failed else VERMILION if not passed else GREY
