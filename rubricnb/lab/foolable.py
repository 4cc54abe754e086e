"""How foolable judges are: rewritten reasoning, judge views, reply attacks, defences, credit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..judge.protocol import Judge
from ..metrics.gaming import CreditChange, Effect, effect
from ..metrics.intervals import cluster_bootstrap
from ..rubric import Rubric
from ..trajectory import Group, Trajectory
from .attacks import WORST, Factory, attacks_on, credit_attacks, desk_factories, judge_says
from .gullible import CAVEATS, TextJudge, gullible_judge, reply_judges
from .logs import Logs
from .opinions import desk_rubric
from .rewrites import REPLY_ATTACKS, attack_reply, rewrite
from .section import SIMULATED, Section, columns_of, percent, skipped, span
from .views import VIEWS
from .written import ASKED, rewrite_with

QUESTION = "How foolable is the judge by reasoning alone, and what helps?"
DEFENCES: tuple[tuple[str, str, str, int], ...] = (
    ("none", "full", "", 1),
    ("view: no reasoning", "no reasoning", "", 1),
    ("prompt", "full", CAVEATS, 1),
    ("3 votes", "full", "", 3),
    ("prompt and 3 votes", "full", CAVEATS, 3),
)


def how_foolable(
    logs: Logs,
    judges: Mapping[str, Factory] | None = None,
    *,
    views: Sequence[str] = tuple(VIEWS),
    writer: Judge | None = None,
    defended: Judge | None = None,
    rubric: Rubric | None = None,
    most: int = 160,
    seed: int = 0,
) -> Section:
    """Return the section on gaming: strategies by view, reply attacks, defences, credit.

    Args:
        logs: rollouts with outcomes; the first ``most`` of whole groups are used.
        judges: name -> function from a view's name to a judge of rollouts; None: the bag-of-words
            judge, and on desk rollouts the rule judges.
        views: names of ``VIEWS``.
        writer: an endpoint that rewrites the reasoning, one call a rollout and strategy; None:
            templates.
        defended: the judge of the defences and credit tables; None: the gullible desk judge,
            on desk rollouts only.
        rubric: what it grades on; None: the desk's criteria.
        most: rollouts that are attacked.
        seed: of rewrites, folds and intervals.
    """
    logs = _first(logs, most)
    if not logs.labelled or min((logs.success_N == 0).sum(), (logs.success_N == 1).sum()) < 5:
        return skipped("gaming", QUESTION, "want five successes and five failures; got fewer")
    desk = all("side_effect" in t.labels for t in logs.trajectories)
    if judges is None:
        judges = (
            desk_factories(logs) if desk else {TextJudge.name: lambda v: TextJudge(logs, VIEWS[v])}
        )
    made = None if writer is None else _written(logs, writer)
    found = attacks_on(logs, judges, views=views, rewrites=made, seed=seed)
    tables: dict[str, Any] = {"attacks": columns_of([_row(*k, e) for k, e in found.items()])}
    replies = _replies(logs, seed)
    tables["reply_attacks"] = columns_of(replies)
    values: dict[str, Any] = {"attacks": found, "replies": replies}
    said = [_words(found, judges), _reply_words(replies)]
    if made is not None:
        n = sum(t is None for rows in made.values() for t in rows)
        calls = len(made) * len(logs.trajectories)
        said.insert(0, f"{writer.name} wrote the rewrites; {n} of {calls} are unusable, left out.")
    if defended is None and desk:
        defended, rubric = gullible_judge(), desk_rubric("success")
    if defended is not None and rubric is not None:
        rows = _defences(logs, defended, rubric, seed)
        tables["defences"] = columns_of([{"judge": defended.name, **r} for r in rows])
        change = credit_attacks(logs, defended, rubric, WORST, seed=seed)
        tables["credit"] = columns_of(
            [{"judge": defended.name, **_change_row(i, c)} for i, c in enumerate(change, start=1)]
        )
        values |= {"defences": rows, "credit": change}
        said += [_defence_words(rows, defended.name), _credit_words(change, defended.name)]
    figures = _figures(found, logs)
    return Section("gaming", QUESTION, " ".join(said), tables, figures, values)


def _written(logs: Logs, writer: Judge) -> dict[str, list[Trajectory | None]]:
    return {s: rewrite_with(logs.trajectories, writer, ASKED[s]) for s in ASKED}


def _first(logs: Logs, most: int) -> Logs:
    """Whole groups while they hold at most so many rollouts; several of each, shortened evenly."""
    if len(logs.trajectories) <= most:
        return logs
    each = max(2, most // len(logs.groups))
    groups, n = [], 0
    for g in logs.groups:
        some = g.trajectories[:each]
        if n + len(some) > most:
            break
        n += len(some)
        groups.append(Group(g.task, some))
    return Logs(logs.source, tuple(groups))


def _row(judge: str, view: str, strategy: str, e: Effect) -> dict[str, Any]:
    row: dict[str, Any] = {
        "judge": judge, "view": view, "strategy": strategy, "failures": e.failures,
        "successes": e.successes, "missing": e.missing,
    }  # fmt: skip
    for name, i in e.intervals.items():
        row |= {name: i.mean, f"{name} low": i.low, f"{name} high": i.high}
    return row


def _replies(logs: Logs, seed: int) -> list[dict[str, Any]]:
    runs, rows = logs.trajectories, []
    for name, says in reply_judges(logs, seed).items():
        before = says(runs)
        for attack in REPLY_ATTACKS:
            after = says([attack_reply(t, attack) for t in runs])
            e = effect(before, after, logs.success_N, logs.task_N, resamples=300, seed=seed)
            rows.append(_row(name, "reply", attack, e))
    return rows


def _defences(logs, judge, rubric, seed) -> list[dict[str, Any]]:
    changed = [rewrite(t, WORST, seed) for t in logs.trajectories]
    rows = []
    for name, view, caveats, votes in DEFENCES:
        says = judge_says(logs, judge, rubric, view, caveats=caveats, votes=votes)
        e = effect(says(logs.trajectories), says(changed), logs.success_N, logs.task_N,
                   resamples=300, seed=seed)  # fmt: skip
        rows.append({"defence": name, "calls": votes, **_row(judge.name, view, "fabricated", e)})
    return rows


def _change_row(number: int, c: CreditChange) -> dict[str, Any]:
    return {
        "group": number, "change of R": c.reward, "change of A": c.advantage,
        "citations changed": c.citations, "fail to pass": c.flipped, "criteria": c.criteria,
    }  # fmt: skip


def _words(found: Mapping[Any, Effect], judges: Mapping[str, Any]) -> str:
    parts = []
    for name in judges:
        own = {k: e for k, e in found.items() if k[0] == name and k[1] == "full"}
        worst = max(own, key=lambda k: np.nan_to_num(own[k].delta, nan=-1))
        e = own[worst]
        flip = e.intervals["flip_rate"]
        parts.append(
            f"{name}: false passes {percent(e.fpr_before)} before, after {worst[2]} "
            f"{percent(e.fpr_after)}, {span(e.intervals['delta'])} more, "
            f"{percent(flip.mean)} of its noes turned (at most {percent(flip.high)})"
        )
    return (
        "With actions and observations the same to the byte, the worst of "
        f"{len({k[2] for k in found})} rewrites of the reasoning does this, judge by judge: "
        + "; ".join(parts)
        + ". Having picked the worst, its interval is too narrow by a little."
    )


def _reply_words(rows: Sequence[Mapping[str, Any]]) -> str:
    worst = max(rows, key=lambda r: np.nan_to_num(r["delta"], nan=-1))
    if not worst["delta"] > 0:
        names = " and ".join(dict.fromkeys(r["judge"] for r in rows))
        return f"Of judges that read the reply alone, {names}, no phrase put before it moves any."
    return (
        f"Of judges that read the reply alone, {worst['judge']} is fooled most, by "
        f"{worst['strategy']}: false passes {percent(worst['fpr_before'])} to "
        f"{percent(worst['fpr_after'])} ({worst['delta low']:+.2f} to {worst['delta high']:+.2f})."
    )


def _defence_words(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    return (
        f"Against fabricated progress, {name} passes more failures by "
        + ", ".join(
            f"{r['delta']:+.2f} ({r['delta low']:.2f} to {r['delta high']:.2f}) with {r['defence']}"
            for r in rows
        )
        + " (recall changes by "
        + ", ".join(f"{r['recall_before'] - rows[0]['recall_before']:+.2f}" for r in rows)
        + ")."
    )


def _credit_words(change: Sequence[CreditChange], name: str) -> str:
    known = [c for c in change if np.isfinite(c.reward)]
    if not known:
        return "No group allowed a change of credit to be measured."
    r, a = (
        cluster_bootstrap([getattr(c, f) for c in known], range(len(known)), resamples=500)
        for f in ("reward", "advantage")
    )
    cited = [c.citations for c in known if np.isfinite(c.citations)]
    turned = percent(float(np.mean(cited)) if cited else float("nan"))
    return (
        f"In {len(known)} groups, rewriting one failed rollout moves its R by {span(r)} and its A "
        f"by {span(a)} on average under {name}; {turned} of its citations change."
    )


def _figures(found: Mapping[Any, Effect], logs: Logs) -> dict[str, Any]:
    from ..figures import lab as draw

    out = {}
    for name in dict.fromkeys(k[0] for k in found):
        rows = [
            {"what": strategy, "series": view, "value": e.delta,
             "low": e.intervals["delta"].low, "high": e.intervals["delta"].high}
            for (judge, view, strategy), e in found.items()
            if judge == name
        ]  # fmt: skip
        stem = re.sub(r"\W+", "_", name.split(" (")[0].removeprefix(SIMULATED)).strip("_")
        out[f"attacks_{stem}"] = draw.intervals(
            rows,
            title=f"Rise of false passes by rewritten reasoning: {name} ({logs.source})",
            axis="change of the false-pass rate",
            description="By strategy and by what the judge is shown (views other than the full one "
            "with the strongest strategy only); intervals over tasks.",
            reference=0.0,
        )
    return out
