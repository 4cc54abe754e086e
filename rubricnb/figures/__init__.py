"""Figures as values: pure functions from values and arrays to ``go.Figure``.

Each figure carries a text form (:func:`fig_text`), a description and the table of what it plots.

    timeline          one rollout: step totals, per-token credit, lengths, citations
    rules             credit rules side by side on one rollout
    heatmap           a group's rollouts x steps
    verdict_matrix    criteria x rollouts, with citations
    flow              from criteria to the steps that they cite
    transcript        the text itself, coloured by credit (HTML)
    numbers_of        R, A and credit of a graded group under one rule
    draw              all pictures of a graded group, by name
    curves            training curves with seed bands
    pass_and_inert    pass rate and inert credit over training
    consistency       pass^k over pass@k
    cost              cost against success
    differences       paired differences with intervals
    by_kind           mean credit by type of step
    votes             false passes of k unanimous votes
    landing           credit rules against the true advantage of each step
    condition_map     the same by rule and judge
    people_figure     the same against human step labels
    save, save_page   JSON, offline HTML, text and CSV
    themed            the same figure in light or dark
"""

from ..names import looked_up

_WHERE = {
    "fig_text": "base",
    "themed": "base",
    "text_table": "texts",
    "timeline": "rollout",
    "rules": "rollout",
    "heatmap": "group",
    "verdict_matrix": "verdicts",
    "flow": "flowing",
    "transcript": "coloured",
    "Numbers": "numbers",
    "numbers_of": "numbers",
    "all_rules": "numbers",
    "draw": "drawing",
    "curves": "training",
    "pass_and_inert": "training",
    "consistency": "training",
    "cost": "training",
    "by_kind": "training",
    "differences": "paired",
    "votes": "judging",
    "landing": "fidelity",
    "condition_map": "fidelity",
    "people_figure": "fidelity",
    "save": "saving",
    "save_page": "saving",
    "page": "saving",
}
__all__ = list(_WHERE)

__getattr__, __dir__ = looked_up(__name__, _WHERE)
