"""The tables of the study, computed from sealed run folders alone.

Every cell of ours carries its seeds, intervals, checkpoints and trainings; every cell of the
paper's stands in a column that says so. Nothing is typed in here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..metrics import paired_difference
from ..worlds.pools import POOLS
from .cells import Cell, Section, Table, difference, label, ours, published_cell, section
from .paper import published
from .profiles import ARMS, ENOUGH_SEEDS, POLICIES, SPLITS
from .records import Run
from .scores import Evaluations, Score, combine

Arm = tuple[str, str]
# What success columns show: split, metric, as in the paper's main table.
FIGURES = (
    ("test_normal", "TGC"),
    ("test_normal", "SGC"),
    ("test_challenge", "TGC"),
    ("test_challenge", "SGC"),
    ("transfer", "SR"),
)
ABLATION = ("base", "outcome", "static", "static_credit", "dynamic", "draco")
SELF_JUDGE = ("base", "outcome", "draco", "draco_self_k3", "draco_self_k1")
# (a, b, what the difference a - b is called)
ABLATION_PAIRS = (
    ("draco", "dynamic", "step credit, on dynamic rubrics"),
    ("static_credit", "static", "step credit, on the static rubric"),
    ("dynamic", "static", "dynamic rubrics, without step credit"),
    ("draco", "static", "both"),
)
MAIN_PAIRS = (
    *((a, "base", f"{ARMS[a]} over base") for a in ARMS if a != "base"),
    *((a, "outcome", f"{ARMS[a]} over outcome reward") for a in ("dynamic", "draco")),
)
SELF_PAIRS = (
    ("draco_self_k3", "draco", "self-judge, k=3, over the first judge"),
    ("draco_self_k3", "draco_self_k1", "k=3 over k=1"),
    ("draco_self_k3", "outcome", "self-judge, k=3, over outcome reward"),
)


def judge_of(run: Run) -> str:
    """Return the judge's name with its noise, as shown beside every result of it."""
    judge = run.json("judge.json")
    if not judge:
        return "none"
    name = str(judge.get("name", "unnamed judge"))
    if not judge.get("simulated"):
        return name
    noise = ", ".join(
        f"{k.replace('_', ' ')} {v:g}" if isinstance(v, (int, float)) else f"{k} {v}"
        for k, v in sorted(judge.get("noise", {}).items())
    )
    return f"{name} (simulated{'; ' + noise if noise else ''})"


def arms_of(ev: Evaluations, policy: str, names: Iterable[str] = ARMS) -> list[Arm]:
    """The arms of a policy that were trained, in the order of the study."""
    return [(policy, a) for a in names if (policy, a) in ev.rows]


def head(ev: Evaluations, arm: Arm) -> dict[str, Cell]:
    """The first cells of a row: setting, judge and seeds."""
    runs = ev.runs[arm]
    judges = dict.fromkeys(judge_of(r).split(" (simulated")[0] for r in runs)
    simulated = any(r.json("judge.json").get("simulated") for r in runs)
    return {
        "setting": label(ARMS.get(arm[1], arm[1])),
        "judge": label(", ".join(judges) + (" (simulated)" if simulated else "")),
        "seeds": label(f"{len(runs)} ({', '.join(str(r.key.seed) for r in runs)})"),
    }


def column(split: str, metric: str) -> str:
    """What a column of ours is headed by."""
    return "average of five" if split == "average" else f"{split} {metric}"


def figure_of(
    ev: Evaluations, arm: Arm, split: str, metric: str, k: int, rate: str = "pass^"
) -> Score | None:
    """A success figure; split "average" is the mean of the five, the paper's last column."""
    if split == "average":
        return combine([ev.score(arm, s, m, k, rate) for s, m in FIGURES])
    return ev.score(arm, split, metric, k, rate)


def success(ev: Evaluations, arms: Sequence[Arm], title: str, k: int, rate: str) -> Section:
    """One section of success figures in percent, the paper's beside ours."""
    paper = published()
    rows = []
    for arm in arms:
        cells = head(ev, arm)
        for split, metric in (*FIGURES, ("average", "AVG")):
            name = column(split, metric)
            score = figure_of(ev, arm, split, metric, k, rate)
            about = {"split": split, "metric": metric, "rate": f"{rate}{k}", "unit": "percent"}
            _put(cells, name, ours(score, **about))
            if rate == "pass^":
                told = paper.label(arm[0], split)
                figure = paper.success("/".join(arm), split, metric, k)
                _put(cells, f"{metric}: {told}", published_cell(figure, told))
        rows.append(cells)
    return section(title, rows)


def spread(ev: Evaluations, arms: Sequence[Arm], title: str) -> Section:
    """SD over the evaluated checkpoints, mean over seeds, beside the paper's."""
    paper = published()
    rows = []
    for arm in arms:
        cells = head(ev, arm)
        for split, metric in FIGURES:
            score = ev.score(arm, split, metric)
            if score is not None and score.checkpoint_sd == score.checkpoint_sd:
                sd = 100 * score.checkpoint_sd
                record = {"runs": list(score.runs), "checkpoints": list(score.checkpoints)}
                about = {"split": split, "metric": metric, "unit": "percentage points"}
                cells[f"{split} {metric}"] = Cell(f"{sd:.1f}", "ours", round(sd, 6), record | about)
            told = paper.label(arm[0], split)
            figure = paper.at("spread", "/".join(arm), split, metric)
            _put(cells, f"{metric}: {told}", published_cell(figure, told))
        rows.append(cells)
    return section(title, rows)


def differences(ev: Evaluations, pairs, title: str, k: int, policy: str = "main") -> Section:
    """Paired differences between arms by training seed, in percentage points."""
    paper = published()
    rows = []
    for a, b, name in pairs:
        x, y = (policy, a), (policy, b)
        if x not in ev.rows or y not in ev.rows:
            continue
        cells = {"difference": label(name)}
        for split, metric in (*FIGURES, ("average", "AVG")):
            one, other = (figure_of(ev, arm, split, metric, k) for arm in (x, y))
            if one is None or other is None:
                continue
            d = paired_difference(one.by_seed, other.by_seed)
            cells.setdefault("paired seeds", label(d.n))
            cells[column(split, metric)] = difference(
                d,
                split=split,
                metric=metric,
                rate=f"pass^{k}",
                unit="percentage points",
                a="/".join(x),
                b="/".join(y),
                runs=[*one.runs, *other.runs],
            )
            told = paper.label(policy, split)
            figure = paper.difference(f"{policy}/{a}", f"{policy}/{b}", split, metric, k)
            _put(cells, f"{metric}: {told}", published_cell(figure, told, sign=True))
        rows.append(cells)
    return section(title, rows)


def _put(cells: dict[str, Cell], name: str, cell: Cell | None) -> None:
    if cell is not None:
        cells[name] = cell


def notes(ev: Evaluations, arms: Sequence[Arm]) -> tuple[str, ...]:
    """What must be read with a table, the claim that it supports first."""
    seeds = min((len(ev.runs[a]) for a in arms), default=0)
    if seeds < ENOUGH_SEEDS:
        out = [
            f"This table supports no claim: it has {seeds} training seed(s) where a claim wants "
            f"at least {ENOUGH_SEEDS}."
        ]
    else:
        out = [f"{seeds} training seeds; where an interval holds 0, no difference is shown."]
    judges: dict[str, dict[str, None]] = {}
    for arm in arms:
        for run in ev.runs[arm]:
            judges.setdefault(judge_of(run), {})[ARMS.get(arm[1], arm[1])] = None
    judges.pop("none", None)
    out += [f"Judge of {', '.join(who)}: {judge}." for judge, who in judges.items()]
    out.append(
        "Our figures: mean over training seeds [95 % t interval over seeds; none for one seed], "
        "each the mean over the evaluated checkpoints without selection. Intervals over tasks "
        "(bootstrap by scenario) are in the CSV and in record.json."
    )
    out.append(_evaluated_on(ev, arms))
    out.append(
        'Columns headed "as published" are DRACO\'s own figures (arXiv 2609.04094) for a model '
        "and a benchmark of another scale; they are no measurement of this package, and ours are "
        "no measurement of that model."
    )
    return tuple(out)


def _evaluated_on(ev: Evaluations, arms: Sequence[Arm]) -> str:
    """How many tasks of each split stand behind the figures, of how many."""
    frames = [ev.rows[a] for a in arms]
    said = []
    for split in dict.fromkeys(s for f in frames for s in f["split"].unique()):
        seen = {t for f in frames for t in f.loc[f["split"] == split, "task_id"]}
        whole = f" of {sum(POOLS[split].tasks)}" if split in POOLS else ""
        said.append(f"{split} {len(seen)}{whole} tasks")
    runs = max((int(f["run"].max()) + 1 for f in frames), default=0)
    return f"Evaluated on {', '.join(said)}, {runs} runs a task."


def main_table(ev: Evaluations) -> Table:
    """Every setting against the base, with the paper's figures beside them."""
    sections = []
    for policy, told in POLICIES.items():
        arms = arms_of(ev, policy)
        if not arms:
            continue
        for k in ks(ev):
            sections.append(success(ev, arms, f"{told}: pass^{k}, percent", k, "pass^"))
        k = max(ks(ev))
        if k > 1:
            sections.append(success(ev, arms, f"{told}: pass@{k}, percent", k, "pass@"))
        title = f"{told}: SD of pass^1 over the evaluated checkpoints, percentage points"
        sections.append(spread(ev, arms, title))
    title = "main policy: differences of pass^1, paired by seed, percentage points"
    sections.append(differences(ev, MAIN_PAIRS, title, 1))
    return Table("main", "Main table", _kept(sections), notes(ev, ev.arms()))


def ablation_table(ev: Evaluations) -> Table:
    """Rubric made per group or fixed, with and without step credit."""
    return _compared(ev, "ablation", "Ablation", ABLATION, ABLATION_PAIRS)


def self_judge_table(ev: Evaluations) -> Table:
    """The policy's own kind of judge in place of the first judge, with k calls a verdict."""
    return _compared(ev, "self_judge", "Self-judge", SELF_JUDGE, SELF_PAIRS)


def _compared(ev: Evaluations, name: str, title: str, names, pairs) -> Table:
    arms = arms_of(ev, "main", names)
    sections = [success(ev, arms, f"pass^{k}, percent", k, "pass^") for k in ks(ev)]
    for k in sorted({1, max(ks(ev))}):
        text = f"differences of pass^{k}, paired by seed, percentage points"
        sections.append(differences(ev, pairs, text, k))
    return Table(name, title, _kept(sections), notes(ev, arms))


def ks(ev: Evaluations) -> list[int]:
    """1 up to the number of runs a task, which every arm shares."""
    runs = min(int(rows["run"].nunique()) for rows in ev.rows.values())
    return list(range(1, runs + 1))


def _kept(sections: Iterable[Section]) -> tuple[Section, ...]:
    return tuple(s for s in sections if s.rows)


def splits_of(ev: Evaluations) -> list[str]:
    """The splits that were evaluated, in the order of the study."""
    seen: set[Any] = set()
    for rows in ev.rows.values():
        seen |= set(rows["split"].unique())
    return [s for s in SPLITS if s in seen]
