"""A group of rollouts: credit as a heat map, verdicts as a matrix, citations as a flow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from ..errors import CreditError
from ..rubric import FailedJudgement, GradedGroup, Judgement, Label
from ..trajectory import Group
from .base import BLUE, GREY, VERMILION, YELLOW, empty, finish, label, number, short
from .rollout import step_ticks

MARK = {"pass": "✓", "fail": "✗", "not_applicable": "–", "failed": "?"}
WORD = {
    "pass": "passed",
    "fail": "failed",
    "not_applicable": "not applicable",
    "failed": "judge failed",
}
CODE = {"fail": 0, "not_applicable": 1, "pass": 2, "failed": 3}
COLOUR = {"fail": VERMILION, "not_applicable": "#D5D8DC", "pass": "#4C9BC9", "failed": YELLOW}


def state(judgement: Judgement) -> str:
    """Return "pass", "fail", "not_applicable" or "failed": the judge's failure is its own word."""
    return "failed" if isinstance(judgement, FailedJudgement) else judgement.label.value


def _names(group: Group) -> list[str]:
    """Short row labels that differ even where ids are long."""
    return [f"{g}. {short(t.id, 24)}" for g, t in enumerate(group.trajectories, start=1)]


def heatmap(
    group: Group,
    credit_GS: np.ndarray,
    tokens_GS: np.ndarray,
    *,
    reward_G: Sequence[float] | None = None,
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
        reward_G, advantage_G: (G,) shown beside each row's name; NaN shows as "–".
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
    names = _names(group)
    side = _side(reward_G, advantage_G, len(group))
    rows = [f"{n}{s}" for n, s in zip(names, side, strict=True)]
    kinds = [[_kind(t, s) for s in range(z.shape[1])] for t in group.trajectories]
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


def _kind(trajectory: object, s: int) -> str:
    steps = trajectory.steps
    return short(steps[s].kind, 40) if s < len(steps) else ""


def _side(reward_G: object, advantage_G: object, n: int) -> list[str]:
    out = [""] * n
    for name, values in (("R", reward_G), ("A", advantage_G)):
        if values is not None:
            out = [f"{o}  {name} {number(float(v), 2)}" for o, v in zip(out, values, strict=True)]
    return out


def verdict_matrix(
    graded: GradedGroup, *, kept_K: Sequence[bool] | None = None, title: str = ""
) -> go.Figure:
    """Return criteria x rollouts with each verdict's sign, colour and cited steps.

    Passed ✓, failed ✗, not applicable – and the judge's own failure ? differ by sign and by
    colour. Cells show the cited steps while there is room; the judge's words are under the
    pointer.

    Args:
        graded: G rollouts on K criteria.
        kept_K: (K,) which criteria survive dropout; the others' names are in brackets.
        title: replaces the title.
    """
    G, K = len(graded.group), len(graded.rubric)
    if K == 0:
        why = next((f for f in graded.failures if f), "the rubric has no criteria")
        return empty(title or f"No verdicts: {short(graded.group.task.id, 48)}", why)
    kept = [True] * K if kept_K is None else [bool(v) for v in kept_K]
    cells = [[graded.judgements[g][k] for g in range(G)] for k in range(K)]
    names = [
        f"{k}. {short(c.title, 40)}" if kept[k - 1] else f"[{k}. {short(c.title, 40)}]"
        for k, c in enumerate(graded.rubric.criteria, start=1)
    ]
    colours = sorted(CODE, key=CODE.__getitem__)
    bounds = [[(i + e) / 4, COLOUR[c]] for i, c in enumerate(colours) for e in (0, 1)]
    fig = go.Figure(
        go.Heatmap(
            z=[[CODE[state(j)] for j in row] for row in cells],
            x=_names(graded.group),
            y=names,
            text=[[_cell(j, G) for j in row] for row in cells],
            customdata=[[_why(j) for j in row] for row in cells],
            texttemplate="%{text}",
            textfont={"size": 12, "color": "#14171A"},
            hovertemplate="%{y}<br>%{x}<br>%{customdata}<extra></extra>",
            colorscale=bounds,
            zmin=-0.5,
            zmax=3.5,
            xgap=2,
            ygap=2,
            showscale=False,
        )
    )
    for word in ("pass", "fail", "not_applicable", "failed"):
        fig.add_scatter(
            x=[None],
            y=[None],
            mode="markers",
            marker={"symbol": "square", "size": 11, "color": COLOUR[word]},
            name=f"{MARK[word]} {WORD[word]}",
        )
    fig.update_yaxes(autorange="reversed", showgrid=False, zeroline=False)
    fig.update_xaxes(side="bottom", showgrid=False, zeroline=False, tickangle=-35 if G > 4 else 0)
    count = {w: sum(state(j) == w for row in cells for j in row) for w in CODE}
    flat = [(k, g) for k in range(K) for g in range(G)]
    return finish(
        fig,
        title=title or f"Verdicts: {short(graded.group.task.id, 48)}",
        description=(
            f"{K} criteria x {G} rollouts: {count['pass']} passed, {count['fail']} failed, "
            f"{count['not_applicable']} not applicable, {count['failed']} judge failed."
            + ("" if all(kept) else " Criteria in brackets are dropped: nobody failed them.")
        ),
        columns={
            "criterion": [graded.rubric.criteria[k].title for k, _ in flat],
            "rollout": [graded.group.trajectories[g].id for _, g in flat],
            "verdict": [WORD[state(cells[k][g])] for k, g in flat],
            "steps": [" ".join(f"S{s}" for s in _steps(cells[k][g])) for k, g in flat],
            "kept": [kept[k] for k, _ in flat],
        },
        height=170 + 30 * K,
    )


def _steps(j: Judgement) -> tuple[int, ...]:
    return () if isinstance(j, FailedJudgement) else j.steps


def _cell(j: Judgement, members: int) -> str:
    mark = MARK[state(j)]
    steps = _steps(j)
    if members > 12 or not steps:
        return mark
    shown = ",".join(f"S{s}" for s in steps[:3]) + ("…" if len(steps) > 3 else "")
    return f"{mark} {shown}"


def _why(j: Judgement) -> str:
    cited = " ".join(f"S{s}" for s in _steps(j))
    flags = ", ".join(j.flags)
    words = [f"<b>{WORD[state(j)]}</b> {cited}", label(j.reason, 240)]
    return "<br>".join(words + ([label(flags)] if flags else []))


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
    labels += [f"S{s} {_kind(t, s - 1)}" for s in shown]
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
