"""The study: profiles, trainings, records, tables and the notebooks that show them.

Names are looked up on first use, so that a worker process imports only what it needs.
"""

from ..names import looked_up

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

__getattr__, __dir__ = looked_up(__name__, _WHERE)
