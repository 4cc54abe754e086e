"""rubricnb: rubrics for agent trajectories, step credit, and training with it.

Nothing heavy is imported here; names are looked up on first use.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "Task": "trajectory",
    "Step": "trajectory",
    "ToolCall": "trajectory",
    "Observation": "trajectory",
    "Trajectory": "trajectory",
    "Group": "trajectory",
    "Criterion": "rubric",
    "Rubric": "rubric",
    "Verdict": "rubric",
    "FailedJudgement": "rubric",
    "GradedGroup": "rubric",
    "Label": "rubric",
    "load": "widgets",
    "grade": "widgets",
    "show": "widgets",
    "explore": "widgets",
    "compare": "widgets",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module 'rubricnb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
