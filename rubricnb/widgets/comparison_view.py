"""The comparison's controls: ipywidgets that show a ``Comparison`` and call its methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as w

from ..figures.texts import clip
from .controls import Constant, constants
from .display import guarded, html_table, live, output, status


class ComparisonView:
    """Widgets over a comparison; ``root`` is what is displayed.

    ``controls[rule][constant]`` is the slider or list of a constant.
    """

    def __init__(self, comparison: Any) -> None:
        self.comparison = comparison
        self.member = w.Dropdown(
            options=[
                (f"{g}. {clip(t.id, 60)}", g - 1)
                for g, t in enumerate(comparison.graded.group.trajectories, start=1)
            ],
            value=comparison.member,
            description="Rollout",
            tooltip="Which rollout",
        )
        self.member.observe(self._to(lambda v: comparison.go(v)), names="value")
        self.controls: dict[str, dict[str, Any]] = {}
        for rule in comparison.credit:
            self.controls[rule] = {c.name: self._control(rule, c) for c in constants(rule)}
        shown = {r: c for r, c in self.controls.items() if c}
        self.canvas, self.message = w.Output(), w.HTML(status("Ready."))
        self.missing = w.HTML(
            str(
                html_table(
                    {
                        "rule": list(comparison.missing),
                        "not shown because": list(comparison.missing.values()),
                    }
                )
            )
            if comparison.missing
            else ""
        )
        self.root = w.VBox(
            [
                self.member,
                w.Accordion(
                    [w.VBox(list(c.values())) for c in shown.values()],
                    titles=tuple(f"Constants of {r}" for r in shown),
                    selected_index=0 if shown else None,
                ),
                self.canvas,
                self.missing,
                self.message,
            ]
        )
        comparison.watchers.append(self.refresh)
        self.refresh()

    def _to(self, action: Callable[[Any], Any]) -> Callable[[Any], None]:
        def moved(change: Any) -> None:
            guarded(
                lambda: self._say(action(change["new"])),
                lambda m: setattr(self.message, "value", m),
                lambda: not live(),
            )

        return moved

    def _say(self, _: Any) -> None:
        self.message.value = status(repr(self.comparison))

    def _control(self, rule: str, c: Constant) -> Any:
        shared = {
            "value": self.comparison.options[rule].get(c.name, c.default),
            "description": c.name,
            "tooltip": f"{c.name} of {rule}; default {c.default}",
            "style": {"description_width": "9em"},
            "layout": w.Layout(width="32em"),
        }
        if c.choices:
            control = w.Dropdown(options=c.choices, **shared)
        elif isinstance(c.default, int):
            control = w.IntSlider(
                min=int(c.low), max=int(c.high), step=int(c.step), continuous_update=False, **shared
            )
        else:
            control = w.FloatSlider(
                min=c.low, max=c.high, step=c.step, continuous_update=False, **shared
            )
        control.observe(self._to(lambda v: self.comparison.set(rule, **{c.name: v})), names="value")
        return control

    def refresh(self) -> None:
        """Show the comparison as it is."""
        self.canvas.outputs = (output(self.comparison.figure(), self.comparison.theme),)
