"""Judging for the methods beside DRACO, over any judge, with the same fence, repairs and ledger.

    label_roles    TRIAGE: one role a step, from a window of five steps on either side
    operators      TRCA: which items of a transition rubric each step sets off
    tournament     Kimi K3: one rubric a group, a scorepad, every pair in both orders
    rank_groups    RULER: one call scores a whole group
    weighted       RaR: a weighted rubric for the whole rollout

Each takes groups and a judge (an endpoint, a recording, any function of a Call) and returns one
value a group, in order. What failed stays without a number: None, with the reason beside it.
"""

from ...names import looked_up

_WHERE = {
    "ROLES": "roles",
    "Roles": "roles",
    "label_roles": "roles",
    "Item": "transitions",
    "Operators": "transitions",
    "operators": "transitions",
    "Rewarded": "results",
    "Verbosity": "scorepad",
    "tournament": "matches",
    "rank_groups": "ruler",
    "weighted": "weighing",
    "PROTOCOLS": "protocols",
}

__all__ = [*_WHERE]

__getattr__, __dir__ = looked_up(__name__, _WHERE)
