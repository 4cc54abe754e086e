"""Does credit land on the right step? Every rule against the true advantage of each step.

The table, its figures and its finding come from one call or one command, ``rubricnb fidelity``.

    run_fidelity             everything: rows, rows on human labels, files
    SIZES, size_of           quick, small, full
    CONDITIONS               the judges: exact, noisy, miscited, biased, by citation style
    make_oracle, value       A* = V(after) - V(before) by roll-ins from saved states
    score_rules              rules x judges against A*
    Truth, Scorer            the scores, with intervals over tasks
    data_sets, score_people  the same against labels that people gave
    finding                  one paragraph made from the numbers
"""

from ..names import looked_up

_WHERE = {
    "run_fidelity": "run",
    "home_of": "run",
    "figures": "run",
    "Size": "sizes",
    "SIZES": "sizes",
    "size_of": "sizes",
    "Condition": "sizes",
    "CONDITIONS": "sizes",
    "make_oracle": "oracle",
    "value": "oracle",
    "Valued": "oracle",
    "score_rules": "benchmark",
    "Results": "benchmark",
    "Truth": "scores",
    "Scorer": "scores",
    "METRICS": "scores",
    "data_sets": "people",
    "score_people": "people",
    "fidelity_table": "report",
    "finding": "telling",
}
__all__ = list(_WHERE)

__getattr__, __dir__ = looked_up(__name__, _WHERE)
