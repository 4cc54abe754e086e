"""All pictures of a graded group under one rule."""

from __future__ import annotations

import plotly.graph_objects as go

from .flowing import flow
from .group import heatmap
from .numbers import Numbers, all_rules, check_member
from .rollout import rules, timeline
from .verdicts import verdict_matrix


def draw(view: Numbers, member: int = 0, only: str | None = None) -> dict[str, go.Figure]:
    """Return the pictures of a graded group by name, one rollout of it in detail.

    Args:
        view: what a rule made of the group.
        member: which rollout, from 0.
        only: the name of a single picture: timeline, heatmap, verdicts, flow or rules.
    Raises:
        CreditError: where the group has no such member.
    """
    graded, a = view.graded, view.arrays
    trajectory = check_member(graded.group, member)
    credit, tokens = view.row(member)

    def side_by_side() -> go.Figure:
        ours = {view.rule: dict(view.options)}
        return rules(trajectory, all_rules(graded, member, options=ours)[0], tokens)

    makers = {
        "timeline": lambda: timeline(
            trajectory,
            credit,
            tokens,
            rubric=graded.rubric,
            judgements=graded.judgements[member],
            unit=a.unit,
        ),
        "heatmap": lambda: heatmap(
            graded.group,
            view.credit_GS,
            a.tokens_GS,
            reward_G=None if view.by_outcome else view.reward_G,
            outcome_G=a.outcome_G if view.by_outcome else None,
            advantage_G=view.shown_G,
        ),
        "verdicts": lambda: verdict_matrix(graded, kept_K=a.keep_K),
        "flow": lambda: flow(graded, member),
        "rules": side_by_side,
    }
    return {name: make() for name, make in makers.items() if only in (None, name)}
