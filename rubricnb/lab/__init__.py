"""The judge lab: how good a judge is, how foolable, how early, how dear, on your own logs.

Each question is one function that returns a :class:`Section`: tables, figures and a paragraph.

    what_it_costs      judge tokens beside the policy's own
    how_good           judges against labels, precision on success first; ranking of agents
    worth_as_reward    quality of judges against what trainings gained
    how_cheap          cascades of judges with an audited risk
    false_successes    claims of success among failures, and a text detector of them
    how_early          alarms with a promise, and auditing prefix by prefix
"""

from importlib import import_module
from typing import Any

_WHERE = {
    "Logs": "logs",
    "Section": "section",
    "desk_logs": "desk",
    "false_successes": "false_success",
    "how_cheap": "cheaper",
    "how_early": "earlier",
    "how_good": "judged",
    "logs_of": "logs",
    "read_logs": "logs",
    "save": "section",
    "what_it_costs": "dear",
    "worth_as_reward": "worth",
}
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
