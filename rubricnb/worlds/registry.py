"""Worlds by name, ours and other people's; an engine is imported when its world is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ..errors import ConfigError
from .base import World


def _desk(name: str, options: Mapping[str, Any]) -> World:
    from .desk import DESKS

    return DESKS[name](**options)


def _bfcl(name: str, options: Mapping[str, Any]) -> World:
    from .bfcl import BfclMultiTurn

    return BfclMultiTurn(**options)


def _textworld(name: str, options: Mapping[str, Any]) -> World:
    from .textworld import Games, TextWorld

    own = {f.name for f in fields(Games)}
    games = Games(**{k: v for k, v in options.items() if k in own})
    return TextWorld(games, **{k: v for k, v in options.items() if k not in own})


def _appworld(name: str, options: Mapping[str, Any]) -> World:
    from .appworld import AppWorld

    return AppWorld(**options)


def _tau2(name: str, options: Mapping[str, Any]) -> World:
    from .tau2 import Tau2

    return Tau2(**options)


def _search(name: str, options: Mapping[str, Any]) -> World:
    from .search import Search

    return Search(**options)


WORLDS: Mapping[str, Callable[[str, Mapping[str, Any]], World]] = {
    "orders": _desk,
    "library": _desk,
    "bfcl": _bfcl,
    "textworld": _textworld,
    "appworld": _appworld,
    "tau2": _tau2,
    "search": _search,
}


def open_world(name: str, **options: Any) -> World:
    """Return a world by its name, with the options of its class.

    Raises:
        ConfigError: for another name, or an option that the world does not have.
        WorldError: where its engine is not installed (some worlds say so on first use only).

    >>> open_world("library").name
    'library'
    """
    if name not in WORLDS:
        raise ConfigError(f"want a world among {tuple(WORLDS)}; got {name!r}")
    try:
        return WORLDS[name](name, options)
    except TypeError as e:
        raise ConfigError(f"want options that the world {name} has; got {options}: {e}") from e
