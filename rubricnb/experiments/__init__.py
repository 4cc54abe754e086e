"""The study: profiles, trainings, records, tables and the notebooks that show them.

Names are looked up on first use, so that a worker process imports only what it needs.
"""

from importlib import import_module
from typing import Any

_WHERE = {
    "ARMS": "profiles",
    "PROFILES": "profiles",
    "Profile": "profiles",
    "profile": "profiles",
    "published": "paper",
    "Run": "records",
    "RunKey": "records",
    "seal": "records",
    "verify": "records",
    "train_all": "runner",
    "Evaluations": "scores",
    "finished": "writing",
    "write_tables": "writing",
}

__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
