"""Tables to CSV, Markdown and HTML, and the record that traces every cell to its trainings."""

from __future__ import annotations

import hashlib
import html
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import RunError
from . import more_tables, rules_table, tables
from .cells import Section, Table
from .profiles import STUDY, Profile
from .records import Run, verify, versions, write_json
from .runner import keys
from .scores import Evaluations

TABLES: dict[str, Callable[[Evaluations], Table]] = {
    "main": tables.main_table,
    "ablation": tables.ablation_table,
    "self_judge": tables.self_judge_table,
    "difficulty": more_tables.difficulty_table,
    "turns": more_tables.turns_table,
    "endings": more_tables.endings_table,
    "consistency": more_tables.consistency_table,
    "costs": more_tables.costs_table,
    "rules": rules_table.rules_table,
}
DASH = "–"
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;max-width:110rem}"
    "table{border-collapse:collapse;margin:.6rem 0 1.6rem}"
    "th,td{padding:.25rem .6rem;border-bottom:1px solid #ccc;text-align:left;vertical-align:top}"
    "th{font-weight:600;font-size:.85em;max-width:8rem;vertical-align:bottom}"
    "td:nth-child(-n+2){min-width:11rem}td{white-space:nowrap}td:nth-child(-n+2){white-space:normal}"
    "td.published,th.published{color:#555;font-style:italic}"
)


@dataclass(frozen=True)
class Written:
    """The files of one table."""

    name: str
    csv: Path
    markdown: Path
    html: Path


def frame(section: Section) -> pd.DataFrame:
    """Return a section as it is shown: text cells, a dash where there is no figure."""
    return pd.DataFrame(
        [[r[c].text if c in r else DASH for c in section.columns] for r in section.rows],
        columns=list(section.columns),
    )


def tidy(table: Table) -> pd.DataFrame:
    """Return a table with one line a figure: what it is of, its value, intervals and seeds."""
    rows = []
    for s in table.sections:
        for r in s.rows:
            words = {c: r[c].text for c in r if r[c].kind == "label"}
            for column, cell in r.items():
                if cell.kind == "label":
                    continue
                about = cell.record
                seeds, tasks = about.get("over_seeds") or {}, about.get("over_tasks") or {}
                rows.append(
                    {
                        "table": table.name,
                        "section": s.title,
                        "row": words.get("setting") or words.get("difference"),
                        "phase": words.get("phase"),
                        "judge": words.get("judge"),
                        "seeds": words.get("seeds") or words.get("paired seeds"),
                        "column": column,
                        "kind": cell.kind,
                        "value": cell.value,
                        "seeds_low": seeds.get("low"),
                        "seeds_high": seeds.get("high"),
                        "seeds_sd": seeds.get("sd"),
                        "seeds_n": seeds.get("n"),
                        "tasks_low": tasks.get("low"),
                        "tasks_high": tasks.get("high"),
                        "checkpoint_sd": about.get("checkpoint_sd"),
                        "unit": about.get("unit"),
                        "published_in": about.get("where"),
                    }
                )
    return pd.DataFrame(rows)


def markdown(table: Table) -> str:
    """Return a table as Markdown, notes first where they say that it supports no claim."""
    parts = [f"# {table.title}", *(f"> {n}" for n in table.notes[:1]), ""]
    for s in table.sections:
        parts += [f"## {s.title}", "", frame(s).to_markdown(index=False, disable_numparse=True), ""]
    parts += [f"- {n}" for n in table.notes[1:]]
    return "\n".join(parts) + "\n"


def page(table: Table) -> str:
    """Return a table as one HTML page that needs no network."""
    title = html.escape(table.title)
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>",
        f"<style>{STYLE}</style><h1>{title}</h1>",
        *(f"<p><strong>{html.escape(n)}</strong></p>" for n in table.notes[:1]),
    ]
    for s in table.sections:
        shade = {c: _published(s, c) for c in s.columns}
        headers = "".join(f"<th{shade[c]}>{html.escape(c)}</th>" for c in s.columns)
        body = "".join(
            "<tr>"
            + "".join(
                f"<td{shade[c]}>{html.escape(r[c].text if c in r else DASH)}</td>"
                for c in s.columns
            )
            + "</tr>"
            for r in s.rows
        )
        parts.append(f"<h2>{html.escape(s.title)}</h2><table><tr>{headers}</tr>{body}</table>")
    parts += ["<ul>", *(f"<li>{html.escape(n)}</li>" for n in table.notes[1:]), "</ul></html>"]
    return "\n".join(parts) + "\n"


def _published(section: Section, column: str) -> str:
    kinds = {r[column].kind for r in section.rows if column in r}
    return " class=published" if kinds == {"published"} else ""


def write_table(table: Table, folder: str | os.PathLike[str]) -> Written:
    """Write ``<name>.csv``, ``.md`` and ``.html`` and return their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = Written(table.name, *(folder / f"{table.name}{x}" for x in (".csv", ".md", ".html")))
    tidy(table).to_csv(files.csv, index=False)
    files.markdown.write_text(markdown(table), encoding="utf-8")
    files.html.write_text(page(table), encoding="utf-8")
    return files


def record(profile: Profile, runs: Sequence[Run], made: Sequence[Table]) -> dict[str, Any]:
    """Return what traces every cell: trainings with hashes and versions, then cells by table."""
    data = resources.files(__package__).joinpath("published.json").read_bytes()
    return {
        "profile": asdict(profile),
        "versions": versions(),
        "published_sha256": hashlib.sha256(data).hexdigest(),
        "runs": {
            str(r.key): {
                "folder": str(r.key.folder(Path())),
                "seed": r.key.seed,
                "judge": tables.judge_of(r),
                **{k: r.done[k] for k in ("global_step", "seconds", "files", "versions")},
            }
            for r in runs
        },
        "tables": {
            t.name: {
                "notes": list(t.notes),
                "cells": [
                    {
                        "section": s.title,
                        "row": " / ".join(r[c].text for c in r if r[c].kind == "label"),
                        "column": column,
                        "text": cell.text,
                        "kind": cell.kind,
                        "value": cell.value,
                        **cell.record,
                    }
                    for s in t.sections
                    for r in s.rows
                    for column, cell in r.items()
                    if cell.kind != "label"
                ],
            }
            for t in made
        },
    }


def finished(
    profile: Profile, out: str | os.PathLike[str] = "runs", study=STUDY, partial: bool = False
) -> list[Run]:
    """Return the verified runs of a profile.

    Raises:
        RunError: for one that is missing or corrupt, unless ``partial`` leaves those out.
    """
    home, runs = Path(out) / profile.name, []
    for key in keys(profile, study):
        try:
            runs.append(verify(key.folder(home), key, profile.settings))
        except RunError:
            if not partial:
                raise
    if not runs:
        raise RunError(f"{home}: want at least one finished training; got none (train first)")
    return runs


def write_tables(
    profile: Profile,
    runs: Sequence[Run],
    folder: str | os.PathLike[str],
    names: Sequence[str] = tuple(TABLES),
) -> dict[str, Written]:
    """Write the named tables and ``record.json`` into a folder, from verified runs alone.

    A record that is there already keeps its other tables where it is of the same trainings.
    """
    ev = Evaluations.read(runs)
    made = [TABLES[n](ev) for n in names]
    files = {t.name: write_table(t, folder) for t in made}
    new, path = record(profile, runs, made), Path(folder) / "record.json"
    if path.exists():
        old = json.loads(path.read_text(encoding="utf-8"))
        if old.get("runs") == json.loads(json.dumps(new["runs"])):
            new["tables"] = {**old["tables"], **new["tables"]}
    write_json(path, new)
    return files
