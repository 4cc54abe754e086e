"""Explorers over plain functions: load, grade, show, explore, compare.

Nothing here imports ipywidgets until a view is displayed; elsewhere than in a live notebook the
same values display as static figures and tables.
"""

from ..names import looked_up

_WHERE = {
    "load": "door",
    "grade": "door",
    "show": "door",
    "explore": "explorer",
    "Explorer": "explorer",
    "compare": "comparison",
    "Comparison": "comparison",
    "ExplorerState": "state",
    "Gallery": "display",
    "live": "display",
    "constants": "controls",
}
__all__ = list(_WHERE)

__getattr__, __dir__ = looked_up(__name__, _WHERE)
