"""A table as a value: sections of rows and columns, each cell with its text and its origin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..metrics import Interval
from .paper import Figure
from .scores import Score

PERCENT = 100.0


@dataclass(frozen=True)
class Cell:
    """One cell.

    Args:
        text: what is shown.
        kind: "label", "ours" or "published".
        value: the figure, in the unit of its column; None where there is none.
        record: everything behind it, JSON values only.
    """

    text: str
    kind: str = "label"
    value: float | None = None
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """Rows that share columns. A row maps column to cell; a missing cell is shown as a dash."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Cell], ...]


@dataclass(frozen=True)
class Table:
    """A named table: sections, and the notes that must be read with it."""

    name: str
    title: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()


def section(title: str, rows: Sequence[Mapping[str, Cell]]) -> Section:
    """Return a section whose columns are those of its rows, in order of first appearance."""
    return Section(title, tuple(dict.fromkeys(c for row in rows for c in row)), tuple(rows))


def label(text: object) -> Cell:
    """A cell of words."""
    return Cell(str(text))


def _number(x: float) -> float | None:
    return None if math.isnan(x) else round(float(x), 6)


def bounds(interval: Interval | None, scale: float) -> dict[str, Any] | None:
    """Return an interval as JSON values in the column's unit, NaN as null."""
    if interval is None:
        return None
    return {
        "low": _number(scale * interval.low),
        "high": _number(scale * interval.high),
        "sd": _number(scale * interval.sd),
        "n": interval.n,
        "level": interval.level,
    }


def shown(interval: Interval, scale: float = PERCENT, digits: int = 1, sign: bool = False) -> str:
    """Return "mean [low, high]"; the mean alone where one seed gives no interval.

    >>> shown(Interval(0.436, 0.4, 0.472, 3))
    '43.6 [40.0, 47.2]'
    """
    form = f"{{:{'+' if sign else ''}.{digits}f}}"
    mean = form.format(scale * interval.mean)
    if math.isnan(interval.low):
        return mean
    low, high = form.format(scale * interval.low), form.format(scale * interval.high)
    return f"{mean} [{low}, {high}]"


def ours(score: Score | None, scale: float = PERCENT, digits: int = 1, **about: Any) -> Cell | None:
    """Return a cell of our own: its text, and seeds, intervals and trainings behind it."""
    if score is None:
        return None
    record = {
        "seeds": {str(s): _number(scale * v) for s, v in score.by_seed.items()},
        "over_seeds": bounds(score.seeds, scale),
        "over_tasks": bounds(score.tasks, scale),
        "checkpoint_sd": _number(scale * score.checkpoint_sd),
        "checkpoints": list(score.checkpoints),
        "runs": list(score.runs),
        **about,
    }
    return Cell(shown(score.seeds, scale, digits), "ours", _number(scale * score.value), record)


def difference(interval: Interval, scale: float = PERCENT, **about: Any) -> Cell:
    """Return a cell of a paired difference, with its sign."""
    return Cell(
        shown(interval, scale, sign=True),
        "ours",
        _number(scale * interval.mean),
        {"over_seeds": bounds(interval, scale), **about},
    )


def published_cell(figure: Figure | None, label: str, sign: bool = False) -> Cell | None:
    """Return a cell of the paper's, which says where it is from; None where there is no figure."""
    if figure is None:
        return None
    text = f"{figure.value:+.1f}" if sign else f"{figure.value:.1f}"
    return Cell(
        text, "published", float(figure.value), {"where": figure.where, "published_as": label}
    )


def row(**cells: Cell | None) -> dict[str, Cell]:
    """Return a row of the cells that are there."""
    return {name: cell for name, cell in cells.items() if cell is not None}
