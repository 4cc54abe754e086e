"""rubricnb: rubrics for agent trajectories, step credit, and training with it.

Nothing heavy is imported here; names are looked up on first use.
"""

from .names import looked_up

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

__getattr__, __dir__ = looked_up(__name__, _WHERE)
