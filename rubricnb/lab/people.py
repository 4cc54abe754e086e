"""Whether people agree with the judge, corrected for chance, and how many labels are needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import CreditError, FormatError
from ..metrics.agreement import agreement, krippendorff_alpha
from ..metrics.exact import design_effect, kappa_variance, sample_size_kappa, sample_size_share
from ..metrics.intervals import cluster_bootstrap
from ..rubric import Label
from .section import Section, columns_of, number, percent, skipped
from .sheet import UNSURE, Answers, Item, citation_overlap, read_answers, read_key

QUESTION = "Do people agree with the judge?"
SCORE = {label.value: float(label.score) for label in Label}


def with_people(
    key: str | os.PathLike[str],
    answers: Sequence[str | os.PathLike[str]],
    *,
    width: float = 0.2,
    correlation: float = 0.2,
    resamples: int = 1000,
) -> Section:
    """Return the section on human agreement: judge against each person, and people with another.

    Args:
        key: the sheet's key.
        answers: files that people downloaded from the sheet.
        width: full width wished for the interval of kappa.
        correlation: assumed intra-task correlation of disagreements, for the sample size.
        resamples: of the intervals.
    Raises:
        FormatError: for files that do not belong together.
    """
    _, items = read_key(key)
    people = [read_answers(path, key) for path in answers]
    for n, person in enumerate(people):
        if person in people[:n]:
            raise FormatError(f"{answers[n]}: want each person's answers once; got them twice")
    if not any(label != UNSURE for p in people for label, _ in p.by_item.values()):
        return skipped("people", QUESTION, "no answers that a person was sure of were imported")
    return agreement_of(items, people, width=width, correlation=correlation, resamples=resamples)


def agreement_of(
    items: Sequence[Item],
    people: Sequence[Answers],
    *,
    width: float = 0.2,
    correlation: float = 0.2,
    resamples: int = 1000,
) -> Section:
    """Return the section from items and answers already read; see ``with_people``."""
    rows, values = [], {}
    judges = " and ".join(dict.fromkeys(i.judge for i in items))
    for n, person in enumerate(people, start=1):
        name = person.labeller or f"person {n}"
        if all(label == UNSURE for label, _ in person.by_item.values()):
            continue  # sure of nothing: the count of people below still holds them
        row, found = _one(items, person, width, correlation, resamples)
        rows.append({"labeller": name, "judge": judges, **row})
        values[name] = found
    among = _among(items, people)
    values["people"] = among
    from ..figures import lab as draw

    points = [
        {"what": name, "series": r["labeller"], "value": r[name], "low": r[f"{name} low"],
         "high": r[f"{name} high"]}
        for r in rows
        for name in ("agreement", "kappa", "citation overlap")
    ]  # fmt: skip
    figure = draw.intervals(
        points,
        title=f"{judges[:1].upper()}{judges[1:]} against people",
        axis="share, or kappa",
        description="Verdicts the people were sure of; intervals over tasks.",
    )
    text = _words(rows, among, len(people), width)
    return Section(
        "people", QUESTION, text, {"people": columns_of(rows)}, {"people": figure}, values
    )


def _one(
    items: Sequence[Item], person: Answers, width: float, correlation: float, resamples: int
) -> tuple[dict[str, Any], Any]:
    said = [(i, *person.by_item[i.id]) for i in items if i.id in person.by_item]
    sure = [(i, label, steps) for i, label, steps in said if label != UNSURE]
    if not sure:
        raise CreditError(f"want an answer other than {UNSURE!r}; got none of {person.labeller!r}")
    judge, human = [SCORE[i.label] for i, _, _ in sure], [SCORE[x] for _, x, _ in sure]
    tasks = [i.task_id for i, _, _ in sure]
    a = agreement(judge, human, tasks, resamples=resamples)
    row: dict[str, Any] = {"answered": len(said), "unsure": len(said) - len(sure)}
    for name in ("agreement", "kappa", "alpha", "false_pass", "false_fail"):
        i = a.intervals[name]
        row |= {name.replace("_", " "): i.mean, f"{name} low": i.low, f"{name} high": i.high}
    row["always pass"] = a.always_pass
    cited = [
        (citation_overlap(i.steps, steps), i.task_id)
        for i, label, steps in sure
        if label == i.label and (i.steps or steps)
    ]
    row |= dict.fromkeys(("citation overlap", "citation overlap low", "citation overlap high"))
    if cited:
        o = cluster_bootstrap([v for v, _ in cited], [t for _, t in cited], resamples=resamples)
        row |= {"citation overlap": o.mean, "citation overlap low": o.low,
                "citation overlap high": o.high}  # fmt: skip
    design = design_effect([tasks.count(t) for t in dict.fromkeys(tasks)], correlation)
    # Answers that all agree, or all differ, have no spread to plan from; one label has no kappa.
    row["needed for agreement"] = row["needed for kappa"] = None
    if 0 < a.agreement < 1:
        row["needed for agreement"] = sample_size_share(min(1.0, width), a.agreement, design=design)
        table = np.array(a.counts)[:3, :3]
        if np.isfinite(kappa_variance(table)):
            row["needed for kappa"] = sample_size_kappa(width, table, design=design)
    return row, a


def _among(items: Sequence[Item], people: Sequence[Answers]) -> float:
    """Krippendorff's alpha of the people, NaN for one of them."""
    if len(people) < 2:
        return float("nan")
    table = [
        [SCORE.get(p.by_item[i.id][0], np.nan) if i.id in p.by_item else np.nan for i in items]
        for p in people
    ]
    return krippendorff_alpha(table)


def _words(rows: Sequence[dict[str, Any]], among: float, n: int, width: float) -> str:
    def bounds(r: dict[str, Any], name: str) -> str:
        return f"{number(r[name])} ({number(r[name + ' low'])} to {number(r[name + ' high'])})"

    said = [
        f"{r['labeller']} answered {r['answered']} questions, {r['unsure']} of them unsure: "
        f"agreement with {r['judge']} {bounds(r, 'agreement')} where always passing would reach "
        f"{percent(r['always pass'])}, kappa {bounds(r, 'kappa')}, citation overlap "
        f"{number(r['citation overlap'])}; "
        + (
            f"how many answers a kappa interval of width {width:g} needs cannot be told from these."
            if r["needed for kappa"] is None
            else f"a kappa interval of width {width:g} needs {number(r['needed for kappa'])} "
            "answers."
        )
        for r in rows
    ]
    if n > 1:
        said.append(f"Krippendorff's alpha among the {n} people is {number(among)}.")
    else:
        said.append("One person only, so agreement among people is not known.")
    return " ".join(said)
