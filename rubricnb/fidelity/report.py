"""The fidelity table from the rows alone, and the files: table, finding, and their record."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import Any

from ..credit import RULES
from ..experiments.cells import Cell, Section, Table, bounds, label, row, section, shown
from ..experiments.records import file_hash, versions, write_json
from ..experiments.writing import write_table
from ..metrics import Interval
from .benchmark import PAIRED, Results, difference
from .people import PeopleRow
from .scores import METRICS, TITLES
from .sizes import CONDITIONS, Size
from .telling import finding

# The paper's own counts of unanimous rollouts (DRACO, App. B.3), in percent.
PAPER_INERT = {"DRACO": 48.1, "static rubric": 76.4}


def figure_cell(interval: Interval, **about: Any) -> Cell | None:
    """A cell "mean [low, high]" over tasks; None where the figure is not defined."""
    if math.isnan(interval.mean):
        return None
    text = shown(interval, 1.0, 2)
    return Cell(text, "ours", round(interval.mean, 6), {"over_tasks": bounds(interval, 1), **about})


def condition_section(results: Results, pool: str, name: str) -> Section:
    """One judge: its rules, the best mean within-rollout correlation first."""
    mine = [r for r in results.rows if (r.pool, r.condition) == (pool, name)]
    mine.sort(key=lambda r: -r.scores["within"].mean if r.scores else 9.0)
    frame = [r for r in results.rows if (r.pool, r.condition) == (pool, "")]
    rows = [
        row(
            setting=label(r.rule),
            **{TITLES[m]: figure_cell(r.scores[m], pool=pool, judge=name) for m in r.scores},
            **({"no score": label(r.missing)} if r.missing else {}),
        )
        for r in [*frame, *mine]
    ]
    return section(f"{CONDITIONS[name].title if name in CONDITIONS else name} ({pool})", rows)


def difference_section(results: Results, pool: str) -> Section:
    """What a rule has over uniform credit, and what each judge takes from a rule: paired."""
    uniform, rows = results.find(pool, "exact", "grpo"), []
    mine = [r for r in results.rows if (r.pool, r.condition) == (pool, "exact") and r.scores]
    pairs = [(f"{r.rule} - grpo, exact verdicts", r, uniform) for r in mine if r is not uniform]
    for name in results.inert[pool]:
        a, b = (results.find(pool, c, "draco") for c in (name, "exact"))
        if name != "exact" and a is not None and a.scores and b is not None:
            title = CONDITIONS[name].title if name in CONDITIONS else name
            pairs.append((f"draco: {title} - exact", a, b))
    for title, a, b in pairs:
        cells = {TITLES[m]: _gap_cell(difference(a, b, m)) for m in PAIRED}
        rows.append(row(difference=label(title), **cells))
    return section(f"Differences, paired over tasks ({pool})", rows)


def _gap_cell(gap: Interval) -> Cell | None:
    if math.isnan(gap.mean):
        return None
    text = shown(gap, 1.0, 2, sign=True)
    return Cell(text, "ours", round(gap.mean, 6), {"over_tasks": bounds(gap, 1)})


def citation_section(results: Results) -> Section:
    """What the cited steps are truly worth: does the judge point at the right ones?"""
    rows = []
    for pool, by_condition in results.cited.items():
        for name, found in by_condition.items():
            cells = {
                f"A* of steps cited for {k}": Cell(
                    f"{found[k]:+.3f} ({100 * found[f'{k}_share']:.0f} %)", "ours", found[k]
                )
                for k in ("passes", "fails", "both", "nothing")
                if not math.isnan(found[k])
            }
            title = CONDITIONS[name].title if name in CONDITIONS else name
            rows.append(row(setting=label(title), phase=label(pool), **cells))
    return section("True advantage of the steps that the judge cites (and share of steps)", rows)


def inert_section(results: Results) -> Section:
    """How often credit tells no step from another: ours by two counts, the paper's beside it."""
    rows = []
    for pool, by_condition in results.inert.items():
        for name, found in by_condition.items():
            exact, paper = 100 * found["exact"], 100 * found["unanimous"]
            rows.append(
                row(
                    setting=label(f"{CONDITIONS[name].title if name in CONDITIONS else name}"),
                    phase=label(pool),
                    **{
                        "exactly inert, %": Cell(f"{exact:.1f}", "ours", exact),
                        "unanimous (the paper's count), %": Cell(f"{paper:.1f}", "ours", paper),
                    },
                )
            )
    for name, value in PAPER_INERT.items():
        cell = Cell(f"{value:.1f}", "published", value, {"where": "DRACO App. B.3"})
        rows.append(
            row(
                setting=label(f"published: {name}"),
                phase=label("AppWorld"),
                **{"unanimous (the paper's count), %": cell},
            )
        )
    return section("Rollouts whose credit is inert", rows)


def people_section(rows: Sequence[PeopleRow], data: str) -> Section:
    """One labelled data set: judges and floors."""
    out = [
        row(
            setting=label(f"{r.rule}, {r.judge}" if r.judge else r.rule),
            **{r.titles.get(m, TITLES.get(m, m)): figure_cell(x) for m, x in r.scores.items()},
        )
        for r in rows
        if r.data == data
    ]
    return section(f"Human step labels: {data}", out)


def fidelity_table(size: Size, results: Results, people: Sequence[PeopleRow] = ()) -> Table:
    """Return the whole table: every judge, the inert shares, the human labels."""
    sections = [
        condition_section(results, pool, name)
        for pool in size.pools
        for name in results.inert[pool]
    ]
    sections += [difference_section(results, pool) for pool in size.pools]
    sections += [citation_section(results), inert_section(results)]
    sections += [people_section(people, d) for d in dict.fromkeys(r.data for r in people)]
    notes = [
        f"Profile {size.name}: {len(size.seeds)} seed(s), {size.tasks} tasks of each pool, "
        f"{size.group_size} rollouts a task, {size.samples} roll-ins a state. Intervals: 95 % over "
        "resampled tasks, for this one policy.",
        *(f"{TITLES[m]}: {text}." for m, text in METRICS.items()),
        "A* = V(after) - V(before), by roll-ins; it holds the luck of the step's own answer, which "
        "no judge of the transcript can see. The rows named oracle frame what can be reached.",
        *(_about(pool, t) for pool, t in results.truth.items()),
        "Judges are the bundled rule judge with stated errors (simulated). Rules that start from "
        "the world's verdict at their defaults (gigpo, salt, rtmc, trca, srar, triage) know the "
        "outcome; the rubric's rules do not. arco reads the judge's step scores, not a model's.",
    ]
    return Table("fidelity", "Does credit land on the right step?", tuple(sections), tuple(notes))


def _about(pool: str, t: Mapping[str, float]) -> str:
    return (
        f"{pool}: {t['steps']:.0f} steps of {t['rollouts']:.0f} rollouts, success "
        f"{t['success']:.2f}; mean standard error of A* {t['mean_error']:.3f} beside its spread "
        f"{t['spread']:.3f}; two independent halves correlate at {t['halves']:.2f}, so a second "
        f"oracle of full size would at {t['reliability']:.2f} and the exact A* itself at "
        f"{t['ceiling']:.2f}; {100 * t['harmful']:.1f} % of the steps are harmful, "
        f"{100 * t['decisive']:.1f} % decisive."
    )


def write(
    size: Size,
    results: Results,
    folder: str | os.PathLike[str],
    people: Sequence[PeopleRow] = (),
    parts: Sequence[Path] = (),
) -> dict[str, Path]:
    """Write the table as CSV, Markdown and HTML, the finding, and the record behind both.

    Args:
        size, results, people: as ``fidelity_table``.
        folder: where to.
        parts: the oracle's files, whose hashes the record keeps.
    """
    folder = Path(folder)
    table = fidelity_table(size, results, people)
    files = write_table(table, folder)
    text = folder / "finding.md"
    text.write_text(finding(size, results, people) + "\n", encoding="utf-8")
    record = folder / "record.json"
    write_json(
        record,
        {
            "profile": asdict(size),
            "conditions": {k: asdict(c) for k, c in CONDITIONS.items()},
            "rules": sorted(RULES),
            "versions": versions(),
            "policy": _policy_hash(size.policy),
            "oracle": {"/".join(p.parts[-3:]): file_hash(p) for p in parts},
            "truth": {p: {k: _plain(v) for k, v in t.items()} for p, t in results.truth.items()},
            "inert": results.inert,
            "cited": {
                p: {c: {k: _plain(v) for k, v in x.items()} for c, x in by.items()}
                for p, by in results.cited.items()
            },
            "rows": [
                {
                    **asdict(replace(r, drawn={})),
                    "scores": {
                        k: bounds(x, 1) | {"mean": _plain(x.mean)} for k, x in r.scores.items()
                    },
                }
                for r in results.rows
            ],
        },
    )
    return {
        "csv": files.csv,
        "markdown": files.markdown,
        "html": files.html,
        "finding": text,
        "record": record,
    }


def _plain(x: float) -> float | None:
    return None if math.isnan(x) else float(x)


def _policy_hash(policy: str) -> str | None:
    """The hash of a shipped policy's weights."""
    path = resources.files("rubricnb.policy") / "checkpoints" / policy / "model.safetensors"
    return file_hash(Path(str(path))) if path.is_file() else None
