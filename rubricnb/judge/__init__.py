"""Judges: the five phases from rollouts to cited verdicts, over any endpoint or function.

Names are looked up on first use, so that reading a reply does not import an HTTP client.
"""

from ..names import looked_up

_WHERE = {
    "Budget": "budget",
    "EndpointJudge": "client",
    "Ledger": "ledger",
    "load_prices": "prices",
    "RecordedJudge": "recorded",
    "ReplayJudge": "recorded",
    "Store": "store",
    "Call": "protocol",
    "CallableJudge": "protocol",
    "Judge": "protocol",
    "Reply": "protocol",
    "Usage": "protocol",
    "JudgeConfig": "config",
    "PROMPT_VERSION": "messages",
    "Progress": "run",
    "caveats": "messages",
    "grade": "run",
    "grade_group": "phases",
    "grade_iter": "run",
    "grade_stream": "run",
    "read_call": "shown",
    "read_criteria": "criteria",
    "read_steps": "citations",
    "read_verdicts": "reading",
}

__all__ = [*_WHERE]

__getattr__, __dir__ = looked_up(__name__, _WHERE)
