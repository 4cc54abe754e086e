"""The finding: one paragraph made from the numbers, whatever they say."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..experiments.cells import shown
from ..metrics import Interval
from .benchmark import REFERENCES, Results, difference
from .people import PeopleRow
from .scores import TITLES
from .sizes import CONDITIONS, Size


def _says(interval: Interval) -> str:
    return shown(interval, 1.0, 2)


def finding(size: Size, results: Results, people: Sequence[PeopleRow] = ()) -> str:
    """Return one paragraph that says what the numbers say, whatever it is."""
    out = []
    for pool in size.pools:
        rows = [r for r in results.rows if (r.pool, r.condition) == (pool, "exact") and r.scores]
        best = max(rows, key=lambda r: r.scores["within"].mean)
        draco = results.find(pool, "exact", "draco")
        plain = results.find(pool, "exact", "grpo")
        half = results.find(pool, "", REFERENCES[1])
        d, g = draco.scores, plain.scores
        lands = d["within"].low > 0
        out.append(
            f"On {pool}, with exact verdicts, DRACO's credit correlates with the true advantage at "
            f"r = {_says(d['pearson'])} over all steps (uniform credit: {_says(g['pearson'])}) and "
            f"at {_says(d['within'])} inside rollouts, where uniform credit says nothing: "
            + (
                "it tells right steps from wrong ones better than chance."
                if lands
                else "inside rollouts it is not shown to tell right steps from wrong ones."
            )
            + f" Taking whole steps (credit times tokens) it is {_says(d['push'])}, where uniform "
            f"credit, by length alone, has {_says(g['push'])}. "
            f"The best rule inside rollouts is {best.rule} at {_says(best.scores['within'])} (the "
            f"highest of {len(rows)} on these same tasks, so flattered by the choice); half "
            f"of the oracle against its other half reaches {_says(half.scores['within'])}. "
            + _why(results, pool)
            + _worst(results, pool)
        )
    if people:
        out.append(_people(people))
    out.append(
        f"This is one small policy in one bundled world, {size.tasks} tasks a pool and "
        f"{len(size.seeds)} seed(s): it says how the rules use evidence, not how they train."
    )
    return " ".join(out)


def _why(results: Results, pool: str) -> str:
    """Whether it is the citations or the rule: what cited steps are worth, and the 1 / n_j."""
    found = results.cited[pool]["exact"]
    a, b = (results.find(pool, "exact", r) for r in ("draco, without 1/n", "draco"))
    gap = difference(a, b, "within")
    return (
        f"Steps cited for passes alone have a mean true advantage of {found['passes']:+.3f}, for "
        f"fails alone {found['fails']:+.3f}; without the division by the step's length DRACO's "
        f"credit has {_says(a.scores['within'])} inside rollouts, "
        f"{shown(gap, 1.0, 2, sign=True)} (paired). "
    )


def _worst(results: Results, pool: str) -> str:
    """What the judges' faults do to DRACO's gradient, and how often its credit is inert."""
    exact = results.find(pool, "exact", "draco")
    gap = difference(exact, results.find(pool, "exact", "grpo"), "cosine")
    gaps = {}
    for name in results.inert[pool]:
        other = results.find(pool, name, "draco")
        if name != "exact" and other is not None and other.scores:
            gaps[name] = difference(other, exact, "cosine")
    text = (
        f"Its policy gradient has cosine {_says(exact.scores['cosine'])} with the oracle's, "
        f"{shown(gap, 1.0, 2, sign=True)} against uniform credit (paired over tasks)"
    )
    if gaps:
        low = min(gaps, key=lambda n: gaps[n].mean)
        title = CONDITIONS[low].title if low in CONDITIONS else low
        text += f"; the judge that costs it most is {title} ({shown(gaps[low], 1.0, 2, sign=True)})"
    inert = results.inert[pool].get("exact", {}).get("exact", float("nan"))
    return f"{text}. Its credit is exactly inert in {100 * inert:.0f} % of the rollouts."


def _people(people: Sequence[PeopleRow]) -> str:
    """The perfect judge beside the floors, one clause a data set."""
    out = []
    for data in dict.fromkeys(r.data for r in people):
        mine = [r for r in people if r.data == data]
        key = mine[0].headline
        top = [r for r in mine if r.judge == "perfect labels" and r.rule == "draco"]
        floors = [r for r in mine if not r.judge and not math.isnan(r.scores[key].mean)]
        if top and floors:
            floor = max(floors, key=lambda r: r.scores[key].mean)
            name = top[0].titles.get(key, TITLES.get(key, key))
            out.append(
                f"On {data}, DRACO with a judge that knows the human labels has {name} "
                f"{_says(top[0].scores[key])}; the best floor is {floor.rule} at "
                f"{_says(floor.scores[key])}."
            )
    return " ".join(out)
