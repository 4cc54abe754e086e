"""The credit rules in one table: how each carries a reward to the steps, at equal trainings.

The paper's own tables stay as they are; this one shows whichever of the arms were trained.
"""

from __future__ import annotations

from collections.abc import Mapping

from .cells import Section, Table, label, ours, section
from .scores import Evaluations
from .tables import _kept, _put, arms_of, differences, head, ks, notes, splits_of, success

# arm -> what the table calls it: the rule, and what it starts from.
RULE_ARMS: Mapping[str, str] = {
    "base": "base",
    "outcome": "GRPO on the outcome",
    "dynamic": "GRPO on judged rubrics",
    "draco": "DRACO on judged rubrics",
    "triage": "TRIAGE on the outcome",
    "triage_blind": "TRIAGE on judged rubrics",
    "trca": "TRCA on the outcome",
    "trca_judged": "TRCA on the outcome, items by a judge",
    "trca_blind": "TRCA without any outcome",
    "arco": "ARCO on the outcome",
}
# Trained for this table: the arms of ``train_all(profile, study=RULE_STUDY)``.
RULE_STUDY: Mapping[str, tuple[str, ...]] = {
    "main": (
        "base",
        "outcome",
        "dynamic",
        "draco",
        "triage",
        "triage_blind",
        "trca",
        "trca_blind",
        "arco",
    )
}
RULE_PAIRS = (
    ("draco", "dynamic", "DRACO over GRPO, judged rubrics"),
    ("triage_blind", "dynamic", "TRIAGE over GRPO, judged rubrics"),
    *((a, "outcome", f"{RULE_ARMS[a]} over GRPO") for a in ("triage", "trca", "arco")),
    *((a, "draco", f"{RULE_ARMS[a]} over DRACO") for a in ("triage", "trca", "arco")),
)
SEES = {
    "outcome": "the world's verdict",
    "triage": "the world's verdict, and a judge's role of each step",
    "trca": "the world's verdict, and rules of the bundled world",
    "trca_judged": "the world's verdict, and what a judge sees each step set off",
    "trca_blind": "rules of the bundled world",
    "arco": "the world's verdict, and a rubric model that learns from it",
    "dynamic": "a judge's verdicts",
    "draco": "a judge's verdicts and citations",
    "triage_blind": "a judge's verdicts, and its role of each step",
}


def rules_table(ev: Evaluations) -> Table:
    """Credit rules side by side; which of them see the outcome is a column of its own."""
    arms = arms_of(ev, "main", RULE_ARMS)
    sections = [_named(success(ev, arms, f"pass^{k}, percent", k, "pass^"), arms) for k in ks(ev)]
    title = "differences of pass^1, paired by seed, percentage points"
    sections.append(differences(ev, RULE_PAIRS, title, 1))
    sections.append(_lengths(ev, arms))
    extra = (
        "Every arm named as on the outcome is trained on the world's own verdict, which "
        "the verifier-free arms never see: compare within what an arm sees before across it.",
    )
    return Table("rules", "Credit rules", _kept(sections), (*notes(ev, arms), *extra))


def _lengths(ev: Evaluations, arms) -> Section:
    """Turns of the rollouts that succeeded: credit on single steps may shorten them."""
    rows = []
    for arm in arms:
        cells = head(ev, arm) | {"setting": label(RULE_ARMS[arm[1]])}
        for split in splits_of(ev):
            score = ev.mean(arm, split, "turns", completed=True)
            cell = ours(score, 1.0, 2, split=split, unit="turns of completed rollouts")
            _put(cells, split, cell)
        rows.append(cells)
    return section("mean turns of completed rollouts", rows)


def _named(part: Section, arms) -> Section:
    """The section with rows named by rule, and with what each arm sees."""
    rows = [
        {"setting": label(RULE_ARMS[name]), "sees": label(SEES.get(name, "")), **_rest(row)}
        for (_, name), row in zip(arms, part.rows, strict=True)
    ]
    columns = ("setting", "sees", *(c for c in part.columns if c != "setting"))
    return Section(part.title, columns, tuple(rows))


def _rest(row):
    return {k: v for k, v in row.items() if k != "setting"}


__all__ = ["RULE_ARMS", "RULE_PAIRS", "RULE_STUDY", "rules_table"]
