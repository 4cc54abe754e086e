"""``compare``: credit rules side by side on one rollout, with their constants to move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import plotly.graph_objects as go

from ..credit import RULES
from ..errors import ConfigError, CreditError
from ..figures.numbers import all_rules, check_member, numbers_of
from ..figures.rollout import rules
from ..rubric import GradedGroup
from .controls import constants, options
from .display import Gallery, live


class Comparison:
    """Rules side by side on one rollout of a graded group; group rules read the siblings.

    Displays as controls in a live notebook and as a figure and tables elsewhere. ``set`` moves a
    constant, as a slider does.

    Args:
        graded: the group with its judgements.
        member: the rollout that is shown, from 0.
        names: the rules, in order; default all that the group has the evidence for.
        evidence: fields of ``CreditBatch`` that some rules need (role_GS, score_GS, ...).
        theme: "light" or "dark".
    """

    def __init__(
        self,
        graded: GradedGroup,
        member: int = 0,
        *,
        names: Iterable[str] | None = None,
        evidence: Mapping[str, Any] | None = None,
        theme: str = "light",
    ) -> None:
        if not isinstance(graded, GradedGroup):
            raise ConfigError(
                "want a graded group to compare rules on (rubricnb.grade makes it, explore grades "
                f"by hand, show draws recorded outcomes); got {type(graded).__name__}"
            )
        check_member(graded.group, member)
        unknown = [n for n in names or () if n not in RULES]
        if unknown:
            raise ConfigError(f"want rules among {sorted(RULES)}; got {unknown}")
        self.graded, self.member, self.theme = graded, member, theme
        self.evidence = dict(evidence or {})
        self.names = tuple(RULES if names is None else names)
        self.options: dict[str, dict[str, Any]] = {n: {} for n in self.names}
        self.watchers: list[Callable[[], None]] = []
        self._view: Any = None
        self._compute()

    def _compute(self) -> None:
        self.credit, self.missing = all_rules(
            self.graded,
            self.member,
            self.names,
            options={r: options(r, v) for r, v in self.options.items()},
            evidence=self.evidence,
        )
        self.lengths = numbers_of(self.graded, "grpo").row(self.member)[1]

    def set(self, rule: str, **values: Any) -> Comparison:
        """Move constants of a rule.

        Raises:
            ConfigError: for a rule that is not shown or a constant that it does not have.
            CreditError: for a value out of range. Nothing has changed where an error is raised.
        """
        if rule not in self.options:
            raise ConfigError(f"want a rule among {list(self.options)}; got {rule!r}")
        before = self.options
        self.options = {**before, rule: {**before[rule], **values}}
        try:
            self._compute()
        except (CreditError, ConfigError):
            self.options = before
            raise
        return self._changed()

    def go(self, member: int) -> Comparison:
        """Show another rollout of the group, from 0."""
        check_member(self.graded.group, member)
        self.member = member
        self._compute()
        return self._changed()

    def _changed(self) -> Comparison:
        for watcher in self.watchers:
            watcher()
        return self

    def figure(self) -> go.Figure:
        """The rules side by side.

        Raises:
            CreditError: where no rule has the evidence that it needs, saying what they miss.
        """
        if not self.credit:
            raise CreditError(f"want evidence for at least one rule; got {self.missing}")
        return rules(self.graded.group.trajectories[self.member], self.credit, self.lengths)

    def constants(self) -> dict[str, list[Any]]:
        """The constants as they stand, as columns."""
        rows = [
            (r, c.name, self.options[r].get(c.name, c.default))
            for r in self.credit
            for c in constants(r)
        ]
        return {
            "rule": [r for r, _, _ in rows],
            "constant": [c for _, c, _ in rows],
            "value": [v for _, _, v in rows],
        }

    def gallery(self) -> Gallery:
        """The figure with the constants, and the rules that could not be computed and why."""
        tables: dict[str, Any] = {"Constants": self.constants()}
        if self.missing:
            tables["Not shown"] = {
                "rule": list(self.missing),
                "because": list(self.missing.values()),
            }
        return Gallery({"rules": self.figure()}, tables)

    @property
    def view(self) -> Any:
        """The ipywidgets view, built on first use; its ``root`` is what is displayed."""
        if self._view is None:
            from .comparison_view import ComparisonView

            self._view = ComparisonView(self)
        return self._view

    def __repr__(self) -> str:
        return f"Comparison of {', '.join(self.credit)} on rollout {self.member + 1}"

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.view.root if live() else self.gallery())


def compare(graded: GradedGroup, member: int = 0, **settings: Any) -> Comparison:
    """Return rules side by side on one rollout of a graded group, with sliders for constants.

    Args:
        graded: the group with its judgements; group rules need the siblings.
        member: which rollout, from 0.
        settings: the :class:`Comparison`'s (names, evidence, theme).
    Raises:
        CreditError: where there is no such member.
        ConfigError: for an unknown rule, or what is no graded group.
    """
    return Comparison(graded, member, **settings)
