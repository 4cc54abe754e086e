"""The protocols by name, for a command line or a table: name -> function of groups and a judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .matches import tournament
from .roles import label_roles
from .ruler import rank_groups
from .transitions import operators
from .weighing import weighted

PROTOCOLS: Mapping[str, Callable[..., list[Any]]] = {
    "triage": label_roles,
    "trca": operators,
    "kimi_k3": tournament,
    "kimi_k3_score": partial(tournament, mode="score"),
    "ruler": rank_groups,
    "rar": weighted,
    "rar_implicit": partial(weighted, mode="implicit"),
}
