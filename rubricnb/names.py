"""Names of a package that are looked up on first use, so that importing it stays cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def looked_up(
    package: str, where: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__`` (PEP 562).

    Args:
        package: its ``__name__``.
        where: name -> the module within the package that has it. No name may be that of a module
            of the package, which would take its place once it is imported.
    """

    def __getattr__(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f".{where[name]}", package), name)

    def __dir__() -> list[str]:
        return sorted(where)

    return __getattr__, __dir__
