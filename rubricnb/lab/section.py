"""What a section of the lab returns: tables, figures and one paragraph, and how they are saved."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..figures.saving import save_page, write_csv
from ..figures.texts import number, plain_list, text_table
from ..metrics.intervals import Interval

Columns = Mapping[str, Sequence[Any]]
# How a judge is called whose errors are drawn from rates. What it stands behind says so: in the
# names of judges, the titles of figures and the names of files.
SIMULATED = "noise-simulated judge"


@dataclass(frozen=True)
class Section:
    """One question of the lab, answered.

    Args:
        name: for files, such as "false_success".
        question: what is asked, in words.
        paragraph: the answer in plain words, made from the numbers; or why there is none.
        tables: name -> columns of equal length.
        figures: name -> figure.
        values: the figures behind the paragraph, by name, for tests and notebooks.
        skipped: why the section could not run, "" where it ran.
    """

    name: str
    question: str
    paragraph: str
    tables: Mapping[str, Columns] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    skipped: str = ""

    def __str__(self) -> str:
        return f"{self.heading}\n{self.paragraph}"

    @property
    def heading(self) -> str:
        """The question, which says so where a judge with drawn errors is among the answers."""
        shown = [
            self.paragraph,
            *self.tables.values(),
            *(v.to_json() for v in self.figures.values()),
        ]
        return f"{self.question} (with a {SIMULATED})" if any(map(_mark, shown)) else self.question

    def _repr_markdown_(self) -> str:
        parts = [f"**{markdown(self.heading)}**", markdown(self.paragraph)]
        for name, columns in self.tables.items():
            parts += [f"*{markdown(name)}*", text_table(escaped(columns), 30)]
        return "\n\n".join(parts)


def skipped(name: str, question: str, why: str) -> Section:
    """Return a section that says why it could not run."""
    return Section(name, question, f"Not answered: {why}", skipped=why)


def markdown(text: str) -> str:
    """Return text whose markup is inert in Markdown and in the HTML that it becomes.

    >>> markdown("<b>*x*</b>")
    '&lt;b&gt;\\\\*x\\\\*&lt;/b&gt;'
    """
    return re.sub(r"([\\\\`*_\[\]$#])", r"\\\1", html.escape(" ".join(text.split()), quote=False))


def escaped(columns: Columns) -> dict[str, list[Any]]:
    """Return columns whose texts are inert in Markdown."""
    return {
        markdown(str(k)): [markdown(v) if isinstance(v, str) else v for v in plain_list(values)]
        for k, values in columns.items()
    }


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return rows as columns; a row without a column has None there.

    >>> columns_of([{"a": 1}, {"a": 2, "b": 3}])
    {'a': [1, 2], 'b': [None, 3]}
    """
    names = list(dict.fromkeys(k for r in rows for k in r))
    return {n: plain_list([r.get(n) for r in rows]) for n in names}


def with_bounds(name: str, interval: Interval, digits: int = 2) -> str:
    """Return "name 0.71 (0.62 to 0.79)", saying where there is no interval.

    >>> with_bounds("recall", Interval(0.5, 0.25, 0.75, 9))
    'recall 0.50 (0.25 to 0.75)'
    """
    return f"{name} {span(interval, digits)}".strip()


def span(interval: Interval, digits: int = 2) -> str:
    """Return "0.71 (0.62 to 0.79)"; a dash where nothing is known."""
    if interval.mean != interval.mean:
        return "not defined"
    if interval.low != interval.low:
        return f"{interval.mean:.{digits}f} (no interval from {interval.n} unit)"
    low, high = f"{interval.low:.{digits}f}", f"{interval.high:.{digits}f}"
    return f"{interval.mean:.{digits}f} ({low} to {high})"


def save(
    sections: Sequence[Section], folder: str | os.PathLike[str], title: str
) -> dict[str, Path]:
    """Write every table (CSV and Markdown), every figure and ``answers.md``; return the paths.

    The file of a table or figure behind which a noise-simulated judge stands ends in "_simulated".

    Args:
        sections: in order; names must differ.
        folder: made where it is missing.
        title: of the page and of the answers.
    Raises:
        ConfigError: for two sections of one name.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    out: dict[str, Path] = {}
    figures: dict[str, Any] = {}
    answers = [f"# {markdown(title)}", ""]
    for s in sections:
        if f"{s.name}" in out:
            raise ConfigError(f"want sections of different names; got {s.name!r} twice")
        answers += [f"## {markdown(s.heading)}", "", markdown(s.paragraph), ""]
        out[s.name] = folder
        for name, columns in s.tables.items():
            plain = {k: plain_list(v) for k, v in columns.items()}
            stem = f"{s.name}_{name}{_mark(plain)}"
            out[f"{stem}.csv"] = write_csv(folder / f"{stem}.csv", plain)
            out[f"{stem}.md"] = folder / f"{stem}.md"
            text = text_table(escaped(columns), 10_000)
            out[f"{stem}.md"].write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
            answers += [f"Table: {stem}.md, {len(next(iter(plain.values()), []))} rows.", ""]
        figures.update({f"{s.name}_{k}{_mark(v.to_json())}": v for k, v in s.figures.items()})
    if figures:
        out["figures"] = save_page(figures, folder / "figures", title)["index"]
    out["answers"] = folder / "answers.md"
    out["answers"].write_text("\n".join(answers), encoding="utf-8", errors="backslashreplace")
    return out


def _mark(shown: Any) -> str:
    """The end of a file's name: whether a judge with drawn errors is in what it shows."""
    return "_simulated" if SIMULATED in str(shown) else ""


def percent(value: float, digits: int = 0) -> str:
    """Return a share as a percentage in words, "unknown" where it is missing."""
    return "unknown" if value is None or value != value else f"{100 * value:.{digits}f} %"


__all__ = ["Section", "columns_of", "number", "percent", "save", "skipped", "span", "with_bounds"]
