"""One step of a rollout as HTML in which all of its text is inert."""

from __future__ import annotations

from markupsafe import Markup

from ..figures.numbers import Numbers
from ..figures.texts import clip, number


def step_html(view: Numbers, member: int, step: int, limit: int = 2000) -> Markup:
    """Return a step's credit, what the agent wrote and what came back, each text clipped.

    Args:
        view: R, A and credit of the group.
        member: the rollout, from 0.
        step: the step, from 1.
        limit: characters kept of each text.
    """
    t = view.graded.group.trajectories[member]
    if not t.steps:
        return Markup("<p>This rollout has no steps.</p>")
    s, i = t.steps[step - 1], step - 1
    credit, tokens = view.row(member)
    head = (
        f"S{step} {clip(s.kind, 80)}: {number(float(credit[i]), 4)} "
        f"a {view.arrays.unit.removesuffix('s')} x "
        f"{number(float(tokens[i]))} {view.arrays.unit} = {number(float(credit[i] * tokens[i]), 4)}"
    )
    texts = [p for p in (s.thinking, s.text) if p]
    texts += [f"{c.name}({c.arguments})" for c in s.calls]
    texts += [f"<- {o.role} {o.name}: {o.text}" for o in s.observations]
    body = Markup("").join(
        Markup('<pre style="white-space:pre-wrap;margin:.2em 0">{}</pre>').format(clip(p, limit))
        for p in texts
    )
    return Markup("<div><b>{}</b>{}</div>").format(head, body)
