"""The explorer's controls: ipywidgets that show an ``Explorer`` and call its methods, no more.

Text from trajectories and judges reaches the page in three ways only: as the value of plain text
controls, escaped into HTML by markupsafe, or inside figures whose labels are made inert.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ipywidgets as w

from ..credit import RULES
from ..errors import ConfigError
from ..figures.coloured import transcript
from ..figures.drawing import draw
from ..figures.numbers import all_rules
from ..figures.texts import clip, number, sound
from ..figures.verdicts import MARK, WORD, state
from .display import as_details, guarded, html_table, live, output, status
from .stepping import step_html

PICTURES = ("timeline", "heatmap", "verdicts", "flow", "rules", "transcript")
WIDE = {"description_width": "7em"}
FULL = w.Layout(width="99%")


def _rules(x: Any) -> list[str]:
    """The rules that this group has the evidence for, and the one that was asked for."""
    known = all_rules(x.graded, x.member)[0]
    return [name for name in RULES if name in known or name == x.rule]


class Act(w.Button):
    """A button whose errors are not swallowed: ``click()`` from Python raises them."""

    def __init__(self, text: str, tip: str, action: Callable[[], None]) -> None:
        super().__init__(description=text, tooltip=tip, layout=w.Layout(width="auto"))
        self._action = action
        self.on_click(lambda _: action())

    def click(self) -> None:
        """Do it, as a press does; ipywidgets' own dispatcher would only log an error."""
        self._action()


class ExplorerView:
    """Widgets over an explorer; ``root`` is what is displayed."""

    def __init__(self, explorer: Any) -> None:
        self.explorer = explorer
        self._quiet = False
        self._where()
        self._editing()
        self.picture = w.ToggleButtons(
            options=PICTURES, description="Picture", tooltips=[f"Show the {p}" for p in PICTURES],
            style={"button_width": "auto"},
        )  # fmt: skip
        self.canvas = w.Output()
        self.task_text = w.HTML()
        self.step_text, self.changed, self.message = w.HTML(), w.HTML(), w.HTML(status("Ready."))
        for control in (self.task, self.rollout, self.step, self.rule, self.picture):
            control.observe(self._moved, names="value")
        self.criterion.observe(self._picked, names="value")
        self.root = w.VBox(
            [
                w.HBox([self.task, self.rollout], layout=w.Layout(flex_flow="row wrap")),
                self.task_text,
                w.HBox([self.step, self.rule], layout=w.Layout(flex_flow="row wrap")),
                self.picture,
                self.canvas,
                self.step_text,
                w.Accordion([self.editor], titles=("Criteria and verdicts",), selected_index=0),
                self.changed,
                self.message,
            ]
        )
        explorer.watchers.append(self.refresh)
        self.refresh()

    def _where(self) -> None:
        x = self.explorer
        self.task = w.Dropdown(description="Task", tooltip="Which task", style=WIDE)
        self.rollout = w.Dropdown(description="Rollout", tooltip="Which rollout", style=WIDE)
        self.step = w.IntSlider(
            value=1, min=1, max=1, description="Step", continuous_update=False,
            tooltip="Which step; arrow keys move it", style=WIDE,
        )  # fmt: skip
        self.rule = w.Dropdown(
            options=_rules(x), value=x.rule, description="Credit rule", style=WIDE,
            tooltip="The rule that turns verdicts into credit",
        )  # fmt: skip
        self.task.options = [
            (f"{i}. {clip(s.graded.group.task.id, 60)}", i - 1)
            for i, s in enumerate(x.states, start=1)
        ]

    def _editing(self) -> None:
        x = self.explorer

        def text(name: str, tip: str, **more: Any) -> w.Text:
            return w.Text(description=name, tooltip=tip, style=WIDE, layout=FULL, **more)

        self.criterion = w.Select(
            description="Criterion", rows=7, style=WIDE, layout=FULL,
            tooltip="Criteria with this rollout's verdicts; arrow keys move the choice",
        )  # fmt: skip
        self.title = text("Title", "The criterion's title")
        self.instruction = w.Textarea(
            description="Instruction", tooltip="What the judge is told", style=WIDE, layout=FULL
        )
        self.other = w.Dropdown(description="Merge with", tooltip="The other one", style=WIDE)
        self.label = w.Dropdown(
            options=[(f"{MARK[v]} {WORD[v]}", v) for v in ("pass", "fail", "not_applicable")],
            description="Verdict", tooltip="This rollout's verdict", style=WIDE,
        )  # fmt: skip
        self.steps = text("Cited steps", "Step numbers, such as 3, 5", placeholder="3, 5")
        self.reason = text("Reason", "Why")
        self.path = text("File", "Where to write the graded groups", value="explored.jsonl")
        act = self._act
        self.buttons = {
            "save": act("Save wording", "Reword the chosen criterion", self._save),
            "add": act("Add as new", "Add title and instruction as a new criterion", self._add),
            "drop": act("Drop", "Leave the chosen criterion out", lambda: x.drop(self._chosen())),
            "merge": act("Merge", "Merge the chosen criterion with the other one", self._merge),
            "regrade": act("Grade again", "Let the judge grade the chosen criterion",
                           lambda: x.regrade(self._chosen())),
            "judge": act("Set verdict", "Set this rollout's verdict by hand", self._judge),
            "undo": act("Undo", "Take the last edit back", x.undo),
            "redo": act("Redo", "Make it again", x.redo),
            "export": act("Export", "Write all groups with their edits", self._export),
        }  # fmt: skip
        b = self.buttons
        wrap = w.Layout(flex_flow="row wrap")
        self.editor = w.VBox(
            [
                self.criterion,
                self.title,
                self.instruction,
                w.HBox([b["save"], b["add"], b["drop"], b["regrade"]], layout=wrap),
                w.HBox([self.other, b["merge"]], layout=wrap),
                self.label,
                self.steps,
                self.reason,
                w.HBox([b["judge"], b["undo"], b["redo"]], layout=wrap),
                self.path,
                w.HBox([b["export"]]),
            ]
        )

    # From controls to the explorer

    def _guard(self, action: Callable[[], None]) -> None:
        guarded(action, lambda m: setattr(self.message, "value", m), lambda: not live())

    def _act(self, text: str, tip: str, action: Callable[[], Any]) -> Act:
        def run() -> None:
            done = action()
            if not isinstance(done, str):
                notes = self.explorer.state.notes
                done = f"{text}: {notes[-1] if notes else 'as it was loaded'}."
            self.message.value = status(done)

        return Act(text, tip, lambda: self._guard(run))

    def _moved(self, change: Any) -> None:
        if self._quiet:
            return
        if change["owner"] is self.picture:
            self._guard(self._draw)
            return
        where: dict[str, Any] = {}
        if change["owner"] is self.task:
            where["task"] = self.task.value
        elif change["owner"] is self.rollout:
            where["member"] = self.rollout.value
        elif change["owner"] is self.step:
            where["step"] = self.step.value
        else:
            where["rule"] = self.rule.value
        self._guard(lambda: self._go(where))

    def _go(self, where: dict[str, Any]) -> None:
        self.explorer.go(**where)
        self.message.value = status("Ready.")

    def _chosen(self) -> str:
        if self.criterion.value is None:
            raise ConfigError("want a criterion to be chosen; got none")
        return self.criterion.value

    def _save(self) -> None:
        self.explorer.edit(
            self._chosen(), title=self.title.value, instruction=self.instruction.value
        )

    def _add(self) -> None:
        self.explorer.add(self.title.value, self.instruction.value)
        self.criterion.value = self.explorer.graded.rubric.ids()[-1]

    def _merge(self) -> None:
        if self.other.value is None:
            raise ConfigError("want another criterion to merge with; got none")
        self.explorer.merge(self._chosen(), self.other.value)

    def _judge(self) -> None:
        words = self.steps.value.replace(",", " ").split()
        for word in words:
            if not re.fullmatch(r"[sS]?\d+", word):
                raise ConfigError(f"want step numbers such as 3, 5; got {word!r}")
        cited = [int(word.lstrip("sS")) for word in words]
        self.explorer.judge(self._chosen(), self.label.value, cited, self.reason.value)

    def _export(self) -> str:
        return f"Wrote {self.explorer.export(self.path.value)}."

    # From the explorer to the controls

    def refresh(self) -> None:
        """Show the explorer as it is."""
        x = self.explorer
        group, R, A = x.graded.group, x.now.reward_G, x.now.shown_G
        self._quiet = True
        try:
            self.task.value = x.task
            self.rollout.options = [
                (f"{g + 1}. {clip(t.id, 60)}  R {number(float(R[g]), 2)}  "
                 f"A {number(float(A[g]), 2)}", g)
                for g, t in enumerate(group.trajectories)
            ]  # fmt: skip
            self.rollout.value = x.member
            self.step.max = max(1, len(group.trajectories[x.member]))
            self.step.value = x.step
            self.rule.value = x.rule
            self._criteria()
        finally:
            self._quiet = False
        self._picked(None)
        self.changed.value = str(html_table(x.changes(), "What the last edit did"))
        self.task_text.value = str(as_details(clip(group.task.prompt, 4000), "What was asked"))
        self.step_text.value = str(step_html(x.now, x.member, x.step))
        self._draw()

    def _criteria(self) -> None:
        x, keep = self.explorer, self.criterion.value
        row = x.graded.judgements[x.member]
        options = [
            (f"{MARK[state(j)]} {clip(c.title, 90)}", c.id)
            for c, j in zip(x.graded.rubric.criteria, row, strict=True)
        ]
        ids = [i for _, i in options]
        self.criterion.options = options
        self.criterion.value = keep if keep in ids else (ids[0] if ids else None)

    def _picked(self, _: Any) -> None:
        if self._quiet:
            return
        x, id = self.explorer, self.criterion.value
        others = [(clip(c.title, 60), c.id) for c in x.graded.rubric.criteria if c.id != id]
        # Options alone leave the choice empty.
        self.other.options = others
        self.other.value = others[0][1] if others else None
        if id is None:
            return
        k = x.state.index(id)
        c, j = x.graded.rubric.criteria[k], x.graded.judgements[x.member][k]
        self.title.value, self.instruction.value = sound(c.title), sound(c.instruction)
        self.reason.value = sound(j.reason)
        self.steps.value = ", ".join(str(s) for s in getattr(j, "steps", ()))
        if state(j) != "failed":
            self.label.value = state(j)

    def _draw(self) -> None:
        x, name = self.explorer, self.picture.value
        if name == "transcript":
            fig: Any = transcript(x.graded.group.trajectories[x.member], x.now.row(x.member)[0])
        else:
            figures = draw(x.now, x.member, only=name)
            if name not in figures:
                raise ConfigError(f"want a group that has a picture {name!r}; got one without")
            fig = figures[name]
            if name in ("timeline", "heatmap", "rules"):
                fig.add_vrect(
                    x0=x.step - 0.5,
                    x1=x.step + 0.5,
                    fillcolor="#8A8A8A",
                    opacity=0.25,
                    line_width=0,
                    layer="below",
                )
        self.canvas.outputs = (output(fig, x.theme),)
