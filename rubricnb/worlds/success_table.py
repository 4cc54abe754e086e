"""The table of an evaluation: success of each model on each split, with intervals, and its cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import FormatError
from ..judge.prices import Price
from ..judge.protocol import Usage
from ..metrics import (
    Interval,
    cluster_bootstrap,
    pass_at_k_tasks,
    pass_hat_k_tasks,
    scenario_success,
)
from ..trajectory import Trajectory

PriceOf = Callable[[str, str], Price | None]  # base URL, model -> price


@dataclass(frozen=True, slots=True)
class Row:
    """One model on one split.

    Args:
        model, world, split: what was run.
        tasks: tasks with every run, those that count.
        of: tasks that were asked for.
        runs: runs of each task, R.
        k: the k of pass^k and pass@k.
        p1: mean success; tasks are drawn by scenario for its interval.
        pass_hat_k: chance that k runs all succeed.
        pass_at_k: chance that one of k runs succeeds.
        sgc: mean over scenarios and runs of "every task of the scenario succeeded".
        turns: mean number of the agent's turns.
        tokens: mean tokens of a rollout, prompt and completion; None where unknown.
        dollars: of all counted rollouts; None without a price in the table.
        at_least: some calls have unknown tokens, so that tokens and dollars are lower bounds.
    """

    model: str
    world: str
    split: str
    tasks: int
    of: int
    runs: int
    k: int
    p1: Interval
    pass_hat_k: Interval
    pass_at_k: Interval
    sgc: Interval
    turns: float
    tokens: float | None
    dollars: float | None
    at_least: bool

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON types; undefined bounds are None."""
        return _plain(asdict(self))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def success_rows(
    rollouts: Iterable[Trajectory], *, k: int | None = None, price_of: PriceOf | None = None
) -> list[Row]:
    """Return one row per model, world and split, in order of first appearance.

    Tasks that lack a run count in ``of`` only. Runs of a task, and tasks of a scenario, are not
    independent: intervals draw whole scenarios.

    Args:
        rollouts: of ``roll_out``.
        k: 1 to the number of runs; None for the number of runs.
        price_of: finds the price of a model at its endpoint.

    Raises:
        FormatError: where two rollouts are the same run of the same task.
    """
    parts: dict[tuple[str, ...], list[Trajectory]] = {}
    for t in rollouts:
        parts.setdefault((t.model, t.meta["world"], t.meta["split"]), []).append(t)
    made = (_row(*name, part, k, price_of) for name, part in parts.items())
    return [row for row in made if row is not None]


def _row(model, world, split, part, k, price_of) -> Row | None:
    by_task: dict[str, dict[int, Trajectory]] = {}
    for t in part:
        runs = by_task.setdefault(t.task.id, {})
        if runs.setdefault(t.meta["run"], t) is not t:
            raise FormatError(
                f"want one rollout a run; got two of {t.task.id}, run {t.meta['run']}"
            )
    most = max(len(runs) for runs in by_task.values())
    whole = [runs for runs in by_task.values() if len(runs) == most]
    counted = [t for runs in whole for t in runs.values()]
    success = np.array([[runs[r].outcome for r in sorted(runs)] for runs in whole], dtype=float)
    scenarios = [next(iter(runs.values())).task.meta["scenario"] for runs in whole]
    k = most if k is None else min(k, most)
    together, names = scenario_success(success, scenarios)
    tokens, unknown = _tokens(counted)
    return Row(
        model,
        world,
        split,
        tasks=len(whole),
        of=max(t.meta["split_tasks"] for t in part),
        runs=most,
        k=k,
        p1=cluster_bootstrap(success.mean(axis=1), scenarios),
        pass_hat_k=cluster_bootstrap(pass_hat_k_tasks(success, k), scenarios),
        pass_at_k=cluster_bootstrap(pass_at_k_tasks(success, k), scenarios),
        sgc=cluster_bootstrap(together.mean(axis=1), names),
        turns=float(np.mean([len(t) for t in counted])),
        tokens=tokens,
        dollars=_dollars(counted, price_of),
        at_least=unknown,
    )


def _usage(t: Trajectory) -> dict[str, int] | None:
    usage = t.meta.get("usage")
    return usage if usage and usage["unknown"] < usage["calls"] else None


def _tokens(counted: Sequence[Trajectory]) -> tuple[float | None, bool]:
    known = [u for u in map(_usage, counted) if u is not None]
    if not known:  # a policy of this process: its own tokens are counted step by step
        own = [sum(s.tokens for s in t.steps) for t in counted if all(s.tokens for s in t.steps)]
        return (float(np.mean(own)) if len(own) == len(counted) else None), False
    unknown = len(known) < len(counted) or any(u["unknown"] for u in known)
    return sum(u["prompt"] + u["completion"] for u in known) / len(counted), unknown


def _dollars(counted: Sequence[Trajectory], price_of: PriceOf | None) -> float | None:
    settings = counted[0].meta["settings"]
    if price_of is None or "base_url" not in settings:
        return None
    price = price_of(settings["base_url"], settings["model"])
    if price is None:
        return None
    if not (known := [u for u in map(_usage, counted) if u is not None]):
        return None
    return math.fsum(price.of(Usage(u["prompt"], u["cached"], u["completion"])) for u in known)


def success_table(rows: Sequence[Row]) -> str:
    """Return the rows as aligned lines of text, in percent with 95 % intervals."""
    head = ("model", "world", "split", "tasks", "runs", "p^1", "p^k", "pass@k", "SGC")
    lines = [(*head, "k", "turns", "tokens", "dollars")]
    for r in rows:
        bound = ">= " if r.at_least else ""
        tokens = "unknown" if r.tokens is None else f"{bound}{r.tokens:,.0f}"
        dollars = "unknown" if r.dollars is None else f"{bound}{r.dollars:,.4f}"
        tasks = f"{r.tasks} of {r.of}"
        rates = map(_percent, (r.p1, r.pass_hat_k, r.pass_at_k, r.sgc))
        names = (r.model, r.world, r.split, tasks, str(r.runs))
        lines.append((*names, *rates, str(r.k), f"{r.turns:.1f}", tokens, dollars))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    padded = (
        [
            c.ljust(w) if i < 3 else c.rjust(w)
            for i, (c, w) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    )
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def _percent(x: Interval) -> str:
    if not math.isfinite(x.low):
        return f"{100 * x.mean:.1f}"
    return f"{100 * x.mean:.1f} [{100 * x.low:.1f}, {100 * x.high:.1f}]"
