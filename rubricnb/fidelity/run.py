"""The whole benchmark in one call: oracle, rules by judge, human labels, table and figures."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..figures.fidelity import condition_map, landing, people_figure
from ..figures.saving import save
from ..files import read_jsonl
from ..judge.protocol import Judge
from ..judge.session import grade_file
from ..rubric import GradedGroup
from .benchmark import REFERENCES, Results, score_rules
from .oracle import make_oracle
from .people import DataSet, PeopleRow, data_sets, score_people
from .report import write
from .scores import TITLES
from .sizes import CONDITIONS, Size


def home_of(size: Size, runs: str | os.PathLike[str]) -> Path:
    """The folder of a size's fidelity files under the runs."""
    return Path(runs) / size.name / "fidelity"


def run_fidelity(
    size: Size,
    runs: str | os.PathLike[str] = "runs",
    *,
    data: str | os.PathLike[str] | None = None,
    judge: Judge | None = None,
    say: Callable[[str], None] = print,
) -> tuple[Results, list[PeopleRow], dict[str, Path]]:
    """Rebuild the fidelity table of a size and return rows, rows on human labels, and files.

    What is finished is read and not redone, so the same call goes on after a kill.

    Args:
        size: of ``SIZES``, or one of your own.
        runs: the folder of all runs; files go to ``<runs>/<size>/fidelity``.
        data: a folder with labelled rollouts (see ``people.data_sets``); None leaves them out.
        judge: a judge to score on the human labels, beside the perfect one.
        say: told what is done.
    """
    home = home_of(size, runs)
    valued = make_oracle(size, home / "oracle", say=say)
    results = score_rules(size, valued, home / "scores", say=say)
    people = []
    for labelled in data_sets(data):
        judged = {} if judge is None else {judge.name: asked(labelled, judge, home / "people")}
        people += score_people(labelled, judged, resamples=size.resamples)
        say(f"fidelity: human labels of {labelled.name}")
    parts = sorted((home / "oracle").glob("*/seed*/*.json.gz"))
    files = write(size, results, home, people, parts)
    for name, fig in figures(results, people).items():
        files[name] = save(fig, home / "figures" / name)["html"]
    return results, people, files


def asked(data: DataSet, judge: Judge, folder: Path) -> list[GradedGroup]:
    """Return a labelled set graded by a judge; replies are kept, so that a kill loses none."""
    name = "".join(c if c.isalnum() else "_" for c in f"{data.name}.{judge.name}")
    path = folder / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    grade_file(data.groups, path, judge, least=1 if data.single else 2)
    found = {g.group.task.id: g for g in read_jsonl(path)}
    return [found[g.task.id] for g in data.groups]


def figures(results: Results, people: Sequence[PeopleRow] = ()) -> Mapping[str, object]:
    """Return the pictures by name: rules with intervals, rules by judges, floors and ceiling."""
    out = {}
    for pool in results.truth:
        rows = [
            {"rule": r.rule, "reference": r.rule in REFERENCES, **_means(r.scores)}
            for r in results.rows
            if r.pool == pool and r.condition in ("", "exact") and r.scores
        ]
        out[f"{pool}.landing"] = landing(rows, pool, TITLES)
        grid = [
            {
                "rule": r.rule,
                "judge": CONDITIONS[r.condition].title
                if r.condition in CONDITIONS
                else r.condition,
                "value": r.scores["within"].mean,
            }
            for r in results.rows
            if r.pool == pool and r.condition and r.scores
        ]
        out[f"{pool}.judges"] = condition_map(grid, pool)
    for data in dict.fromkeys(r.data for r in people):
        rows = [
            {
                "name": f"{r.rule}, {r.judge}" if r.judge else r.rule,
                "floor": not r.judge,
                "value": r.scores[r.headline].mean,
                "low": r.scores[r.headline].low,
                "high": r.scores[r.headline].high,
                "metric": r.titles.get(r.headline, TITLES.get(r.headline, r.headline)),
            }
            for r in people
            if r.data == data
        ]
        out[f"people.{data.replace('&', '_and_')}"] = people_figure(rows, data)
    return out


def _means(scores: Mapping) -> dict[str, float]:
    """Mean and bounds of each metric, flat."""
    out = {}
    for name, x in scores.items():
        out |= {name: x.mean, f"{name}_low": x.low, f"{name}_high": x.high}
    return out
