"""Explorers over plain functions: load, grade, show, explore, compare.

Nothing here imports ipywidgets until a view is displayed; elsewhere than in a live notebook the
same values display as static figures and tables.
"""

from importlib import import_module
from typing import Any

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


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
