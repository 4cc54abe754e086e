"""The paper's figures, read from the one data file that holds them. None is typed anywhere else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ..errors import ConfigError


@dataclass(frozen=True, slots=True)
class Figure:
    """One published figure: its value in the unit of its table, and where it stands."""

    value: float
    where: str


@dataclass(frozen=True)
class Published:
    """The published figures. Rows are named "policy/arm"; success is in percent.

    ``data`` holds everything, as in the file, for what has no method of its own.
    """

    data: Mapping[str, Any]

    def label(self, policy: str, split: str) -> str:
        """What a column of published figures must be headed by, for a policy and a split."""
        try:
            return self.data["labels"][policy][split]
        except KeyError:
            raise ConfigError(
                f"want a policy of {list(self.data['labels'])} and a split of "
                f"{list(self.data['labels']['main'])}; got {policy!r}, {split!r}"
            ) from None

    def success(self, row: str, split: str, metric: str, k: int = 1) -> Figure | None:
        """pass^k of a row in percent, or None where the paper gives none."""
        for table in self.data["success"]:
            values = table["rows"].get(row, {}).get(split, {}).get(metric, ())
            if len(values) >= k:
                return Figure(values[k - 1], table["where"])
        return None

    def difference(self, a: str, b: str, split: str, metric: str, k: int = 1) -> Figure | None:
        """Difference of two published rows in percentage points, or None where one is missing."""
        x, y = self.success(a, split, metric, k), self.success(b, split, metric, k)
        if x is None or y is None:
            return None
        where = x.where if x.where == y.where else f"{x.where} and {y.where}"
        return Figure(round(x.value - y.value, 1), f"difference within {where}")

    def at(self, name: str, *path: str) -> Figure | None:
        """A figure of another table by its keys under "rows" (turns, difficulty, spread, ...)."""
        value: Any = self.data[name]["rows"]
        for key in path:
            if not isinstance(value, Mapping) or key not in value:
                return None
            value = value[key]
        return Figure(value, self.data[name]["where"])


@cache
def published() -> Published:
    """Return the published figures.

    >>> published().success("main/draco", "test_normal", "TGC", 3)
    Figure(value=72.8, where='Table 2')
    """
    text = resources.files(__package__).joinpath("published.json").read_text(encoding="utf-8")
    return Published(json.loads(text))
