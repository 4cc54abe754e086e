"""Run a training study and write its table, figure and finding, from sealed run folders alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from ..errors import RunError
from ..figures.paired import differences as drawn
from ..figures.saving import save_page
from ..figures.training import curves
from ..metrics import Interval, paired_difference, t_interval
from .cells import Table, difference, label, ours, section
from .profiles import ENOUGH_SEEDS, Profile
from .records import Run, RunKey, verify, write_json
from .rules_table import RULE_STUDY
from .runner import train_all
from .scores import Evaluations, Score
from .studies import POOLS, Condition, Study, by_policy, conditions, size, told
from .tables import judge_of
from .writing import Written, finished, record, write_table, write_tables

TRAIN = "rubricnb.train.run:train_condition"


@dataclass(frozen=True)
class Result:
    """A study's sealed runs, their scores by condition, and the answers to its contrasts."""

    study: Study
    profile: Profile
    runs: tuple[Run, ...]
    scores: dict[str, Score]
    differences: tuple[tuple[str, str, str, Interval], ...]

    @property
    def seeds(self) -> int:
        """The fewest paired seeds behind a difference; 0 where there is none."""
        return min((d.n for *_, d in self.differences), default=0)


def run_study(
    chosen: Study,
    profile: Profile,
    out: str | os.PathLike[str] = "runs",
    *,
    only: Sequence[str] = (),
    say: Callable[[str], None] | None = None,
    train: str = TRAIN,
) -> list[Run]:
    """Train what is missing of a study, all conditions of a seed before the next, and return it.

    A command that was killed goes on where it was; commands of other seeds may run beside it.
    """
    rows = conditions(chosen, profile, only)
    by_name = {c.name: c for c in rows}
    lock = ".lock-" + "-".join(map(str, profile.seeds))
    return train_all(
        profile,
        out,
        study=by_policy(rows),
        train=train,
        told=lambda key: told(by_name[key.arm], profile),
        lock=lock,
        say=say,
    )


def read_study(chosen: Study, profile: Profile, out: str | os.PathLike[str] = "runs") -> Result:
    """Return what is finished and verified of a study.

    Raises:
        RunError: where nothing is.
    """
    home, runs = Path(out) / profile.name, []
    for c in chosen.conditions:
        for seed in profile.seeds:
            key = RunKey(c.policy, c.name, seed)
            if (key.folder(home) / "done.json").exists():
                runs.append(verify(key.folder(home), key, told(c, profile)))
    if not runs:
        raise RunError(f"{home}: want at least one finished training; got none (train first)")
    ev = Evaluations.read(runs, [test for _, test in POOLS.values()])
    scores = {c.name: s for c in chosen.conditions if (s := _score(ev, c)) is not None}
    pairs = [
        (a, b, name, paired_difference(scores[a].by_seed, scores[b].by_seed))
        for a, b, name in chosen.contrasts
        if a in scores and b in scores and {*scores[a].by_seed} & {*scores[b].by_seed}
    ]
    return Result(chosen, profile, tuple(runs), scores, tuple(pairs))


def _score(ev: Evaluations, c: Condition) -> Score | None:
    arm = (c.policy, c.name)
    return ev.score(arm, POOLS[c.horizon][1], "TGC") if arm in ev.rows else None


def largest(
    chosen: Study,
    profile: str,
    out: str | os.PathLike[str] = "runs",
    *,
    say: Callable[[str], None] | None = None,
) -> Result:
    """Return a study at a profile if any of it was trained, else at the quick size, trained now.

    The larger sizes take hours, which a notebook must not spend unasked.
    """
    wanted = size(chosen, profile)
    if profile != "quick" and list((Path(out) / wanted.name).glob("arms/*/*/seed*/done.json")):
        return read_study(chosen, wanted, out)
    quick = size(chosen, "quick")
    run_study(chosen, quick, out, say=say)
    return read_study(chosen, quick, out)


def claim(result: Result) -> str:
    """Return what the numbers allow to be said: differences of enough paired seeds, no others."""
    enough = [(name, d) for _, _, name, d in result.differences if d.n >= ENOUGH_SEEDS]
    few = [d.n for *_, d in result.differences if d.n < ENOUGH_SEEDS]
    if not enough:
        return (
            f"No claim with fewer than {ENOUGH_SEEDS} seeds: the fewest paired seeds here are "
            f"{result.seeds}."
        )
    said = [_sentence(name, d) for name, d in enough]
    if len(enough) > 1:
        said.append(f"{len(enough)} differences are shown without correction for their number.")
    if few:
        said.append(f"Nothing is said of {len(few)} with fewer than {ENOUGH_SEEDS} paired seeds.")
    return " ".join(said)


def _sentence(name: str, d: Interval) -> str:
    verdict = "gains" if d.low > 0 else "loses" if d.high < 0 else "shows no difference"
    figures = f"{100 * d.mean:+.1f} [{100 * d.low:+.1f}, {100 * d.high:+.1f}] points, n = {d.n}"
    return f"{name[0].upper()}{name[1:]}: {verdict} ({figures})."


def table(result: Result) -> Table:
    """Return a study's table: success by condition, then the paired differences."""
    rows = []
    for c in result.study.conditions:
        if c.name in result.scores:
            score = result.scores[c.name]
            about = {"split": POOLS[c.horizon][1], "metric": "TGC", "unit": "percent"}
            seeds = label(len(score.by_seed))
            told_ = {"condition": label(c.name), "horizon": label(c.horizon), "seeds": seeds}
            rows.append({**told_, "success": ours(score, **about), **_claims(result, c.name)})
    pairs = [
        {
            "difference": label(name),
            "paired seeds": label(d.n),
            "points": difference(
                d, a=a, b=b, unit="percentage points",
                runs=[*result.scores[a].runs, *result.scores[b].runs],
            ),
        }
        for a, b, name, d in result.differences
    ]  # fmt: skip
    sections = [section("Success on fresh test tasks, percent", rows)]
    if pairs:
        sections.append(section("Differences paired by seed, percentage points", pairs))
    judges = dict.fromkeys(judge_of(r) for r in result.runs)
    notes = [
        claim(result),
        result.study.question,
        f"{result.profile.steps} steps; figures are means over checkpoints "
        f"{list(result.profile.checkpoints)} without selection, [95 % t interval over seeds].",
        *(f"Judge: {j}." for j in judges if j != "none"),
    ]
    return Table(result.study.name, result.study.title, tuple(sections), tuple(notes))


def _claims(result: Result, name: str) -> dict[str, Any]:
    """The false claims of the last evaluated checkpoints: closed as done or blocked, untruly."""
    by_seed = {}
    for run in result.runs:
        if run.key.arm == name:
            rows = [r["checks"] for r in run.rows("eval.jsonl")]
            false = [c["finished"] and not c["honest claim"] for c in rows]
            by_seed[run.key.seed] = sum(false) / len(false)
    runs = tuple(str(r.key) for r in result.runs if r.key.arm == name)
    score = Score(t_interval(list(by_seed.values())), by_seed, runs)
    return {"false claims": ours(score, unit="percent", metric="false claims")}


def curve_rows(result: Result, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row a training step of every run: arm, seed, step and the columns."""
    return [
        {"arm": r.key.arm, "seed": r.key.seed, "step": row["step"], **{c: row[c] for c in columns}}
        for r in result.runs
        for row in r.rows("train.jsonl")
    ]


def figure(result: Result) -> go.Figure:
    """Return the figure that carries the finding: differences, or the study's curve."""
    if result.study.curve:
        return curves(
            curve_rows(result, [result.study.curve, "success"]),
            [result.study.curve, "success"],
            title=result.study.title,
            names={"false_claims": "share of false claims", "success": "success in training"},
        )
    rows = [
        {"name": name, "mean": 100 * d.mean, "low": 100 * d.low, "high": 100 * d.high, "n": d.n}
        for _, _, name, d in result.differences
    ]
    return drawn(rows, title=result.study.title)


def write_study(result: Result, out: str | os.PathLike[str] = "runs") -> dict[str, Path]:
    """Write a study's table (CSV, Markdown, HTML), record and figure; return where they are."""
    home = Path(out) / result.profile.name
    made = table(result)
    files = write_table(made, home / "tables")
    write_json(home / "tables" / "record.json", record(result.profile, result.runs, [made]))
    page = save_page({result.study.name: figure(result)}, home / "figures", result.study.title)
    return {"table": files.markdown, "csv": files.csv, "figure": Path(page["index"])}


def rules(profile: Profile, out: str | os.PathLike[str] = "runs", *, train: bool = True) -> Written:
    """Train the arm of every credit rule and return the files of the table of them all.

    The trainings stand beside those of ``rubricnb reproduce`` and are shared with them.

    Args:
        profile: seeds, steps and the rest.
        out: folder that holds the profiles' folders.
        train: False reads what is finished.
    """
    if train:
        train_all(profile, out, study=RULE_STUDY)
    runs = finished(profile, out, RULE_STUDY, partial=not train)
    return write_tables(profile, runs, Path(out) / profile.name / "tables", ("rules",))["rules"]
