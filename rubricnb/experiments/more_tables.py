"""The smaller tables: difficulty, turns, endings, consistency and costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..metrics import retention
from .cells import Cell, Table, label, ours, published_cell, section
from .paper import published
from .profiles import POLICIES
from .records import Run
from .scores import Evaluations
from .tables import _kept, _put, arms_of, head, ks, notes, splits_of

LEVELS = {1: "easy", 2: "medium", 3: "hard"}
TOKENS = ("prompt", "cached", "completion")  # Tokens; the first is without the cached ones.


def difficulty_table(ev: Evaluations) -> Table:
    """pass^1 by difficulty, for the splits whose tasks have one."""
    paper, sections = published(), []
    for policy, told in POLICIES.items():
        for split in splits_of(ev):
            rows = []
            for arm in arms_of(ev, policy):
                cells = head(ev, arm)
                for metric in ("TGC", "SGC"):
                    for level, word in LEVELS.items():
                        score = ev.score(arm, split, metric, difficulty=level)
                        about = {"split": split, "metric": metric, "difficulty": level}
                        _put(cells, f"{metric} {word}", ours(score, **about, unit="percent"))
                        headed = paper.label(policy, split)
                        path = ("/".join(arm), split, metric, str(level))
                        figure = paper.at("difficulty", *path)
                        _put(cells, f"{metric} {word}: {headed}", published_cell(figure, headed))
                rows.append(cells)
            if any("TGC easy" in r or "TGC medium" in r or "TGC hard" in r for r in rows):
                sections.append(section(f"{told}, {split}: pass^1, percent", rows))
    return Table("difficulty", "By difficulty", _kept(sections), notes(ev, ev.arms()))


def turns_table(ev: Evaluations) -> Table:
    """Mean turns a rollout."""
    paper, sections = published(), []
    for policy, told in POLICIES.items():
        rows = []
        for arm in arms_of(ev, policy):
            cells = head(ev, arm)
            for split in splits_of(ev):
                score = ev.mean(arm, split, "turns")
                _put(cells, split, ours(score, 1.0, 2, split=split, unit="turns"))
                headed = paper.label(policy, split)
                _put(cells, headed, published_cell(paper.at("turns", "/".join(arm), split), headed))
            rows.append(cells)
        sections.append(section(f"{told}: mean turns", rows))
    return Table("turns", "Turns", _kept(sections), notes(ev, ev.arms()))


def endings_table(ev: Evaluations) -> Table:
    """How rollouts end: finished, at the turn limit, cut by length, ..."""
    sections = []
    for policy, told in POLICIES.items():
        for split in splits_of(ev):
            rows = []
            for arm in arms_of(ev, policy):
                cells = head(ev, arm)
                for name, score in ev.endings(arm, split).items():
                    about = {"split": split, "termination": name, "unit": "percent"}
                    _put(cells, name or "unknown", ours(score, **about))
                rows.append(cells)
            sections.append(section(f"{told}, {split}: share of rollouts, percent", rows))
    return Table("endings", "Termination", _kept(sections), notes(ev, ev.arms()))


def consistency_table(ev: Evaluations) -> Table:
    """Discovery (pass@k) against consistency (pass^k) and how much is retained."""
    paper, sections, k = published(), [], max(ks(ev))
    for policy, told in POLICIES.items():
        for split in splits_of(ev):
            for metric in ("SR",) if split == "transfer" else ("TGC", "SGC"):
                rows = []
                for arm in arms_of(ev, policy):
                    one, hat = (ev.score(arm, split, metric, n) for n in (1, k))
                    at = ev.score(arm, split, metric, k, "pass@")
                    if one is None or hat is None:
                        continue
                    cells = head(ev, arm)
                    about = {"split": split, "metric": metric, "unit": "percent"}
                    _put(cells, "pass^1", ours(one, **about, rate="pass^1"))
                    _put(cells, f"pass^{k}", ours(hat, **about, rate=f"pass^{k}"))
                    _put(cells, f"pass@{k}", ours(at, **about, rate=f"pass@{k}"))
                    cells[f"pass^{k} / pass^1"] = _ratio(one, hat, split, metric)
                    name, headed = "/".join(arm), paper.label(policy, split)
                    figures = [paper.success(name, split, metric, n) for n in (1, k)]
                    if all(figures):
                        r = retention(*(f.value for f in figures))
                        record = {"where": figures[0].where, "published_as": headed}
                        cells[f"pass^{k} / pass^1 from {headed}"] = Cell(
                            f"{r:.3f}", "published", round(r, 6), record
                        )
                    rows.append(cells)
                sections.append(section(f"{told}, {split}, {metric}", rows))
    return Table("consistency", "Discovery and consistency", _kept(sections), notes(ev, ev.arms()))


def _ratio(one, hat, split: str, metric: str) -> Cell:
    r = retention(one.value, hat.value)
    if r != r:
        return Cell("undefined", "ours", None, {"runs": list(one.runs)})
    record = {"runs": list(one.runs), "split": split, "metric": metric, "unit": "ratio"}
    return Cell(f"{r:.3f}", "ours", round(r, 6), record)


def judge_bill(run: Run) -> dict[str, Any]:
    """Return calls, tokens, seconds and dollars of a training's judge, over all phases.

    Dollars are None unless every phase has a price: an unknown price is unknown, not 0.
    """
    phases: Mapping[str, Mapping[str, Any]] = run.json("judge.json").get("phases", {})
    bill: dict[str, Any] = {
        key: sum(p.get(key) or 0 for p in phases.values())
        for key in ("calls", "retries", "seconds", "unknown", *TOKENS)
    }
    prices = [p.get("dollars") for p in phases.values()]
    bill["dollars"] = sum(prices) if prices and None not in prices else None
    return bill


def costs_table(ev: Evaluations) -> Table:
    """What evaluation and judge cost, against success on test_normal."""
    sections = []
    for policy, told in POLICIES.items():
        rows, phases = [], []
        for arm in arms_of(ev, policy):
            cells = head(ev, arm)
            score = ev.score(arm, "test_normal", "TGC")
            about = {"split": "test_normal", "metric": "TGC", "unit": "percent"}
            _put(cells, "test_normal TGC, percent", ours(score, **about))
            for split in splits_of(ev):
                mean = ev.mean(arm, split, "tokens")
                cell = ours(mean, 1.0, 1, split=split, unit="policy tokens")
                _put(cells, f"{split}: policy tokens a rollout", cell)
            runs = ev.runs[arm]
            bills = [judge_bill(r) for r in runs]
            if any(b["calls"] for b in bills):
                _put_bill(cells, runs, bills)
                phases += _by_phase(ev, arm)
            rows.append(cells)
        sections.append(section(f"{told}: cost against success", rows))
        if phases:
            sections.append(section(f"{told}: the judge by phase, mean of a training", phases))
    extra = (
        "Dollars are shown only where a price table covers every call; a simulated judge sends "
        "nothing and has no price.",
    )
    return Table("costs", "Costs", _kept(sections), (*notes(ev, ev.arms()), *extra))


def _put_bill(cells: dict[str, Cell], runs, bills) -> None:
    names = [str(r.key) for r in runs]
    steps = [max(int(r.done["global_step"]), 1) for r in runs]

    def mean(values) -> float:
        return sum(values) / len(values)

    tokens = [sum(b[t] for t in TOKENS) for b in bills]
    for title, totals, unit in (
        ("judge calls a step", [b["calls"] for b in bills], "calls"),
        ("judge tokens a step", tokens, "tokens"),
    ):
        values = [t / n for t, n in zip(totals, steps, strict=True)]
        value = mean(values)
        cells[title] = Cell(f"{value:.1f}", "ours", round(value, 6), {"runs": names, "unit": unit})
    dollars = [b["dollars"] for b in bills]
    if None in dollars:
        cells["judge dollars a training"] = label("no price")
    else:
        value = mean(dollars)
        record = {"runs": names, "unit": "US dollars"}
        cells["judge dollars a training"] = Cell(f"{value:.2f}", "ours", round(value, 6), record)


def _by_phase(ev: Evaluations, arm) -> list[dict[str, Cell]]:
    rows, runs = [], ev.runs[arm]
    ledgers = [r.json("judge.json").get("phases", {}) for r in runs]
    for phase in dict.fromkeys(p for ledger in ledgers for p in ledger):
        cells = head(ev, arm) | {"phase": label(phase)}
        for key in ("calls", *TOKENS, "retries", "seconds"):
            values = [ledger.get(phase, {}).get(key) for ledger in ledgers]
            if None not in values:
                value = sum(values) / len(values)
                record = {"runs": [str(r.key) for r in runs], "phase": phase, "unit": key}
                cells[key] = Cell(f"{value:.0f}", "ours", round(value, 6), record)
        rows.append(cells)
    return rows
