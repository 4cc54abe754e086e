"""Dated prices of tokens, set by the user; an endpoint that is not in the table has none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from ..errors import ConfigError
from .protocol import Usage

SHIPPED = Path(__file__).with_name("prices.yaml")


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens, and the table that says so."""

    prompt: float
    cached: float
    completion: float
    table: str = ""

    def of(self, usage: Usage) -> float:
        """Return the dollars of these tokens.

        >>> Price(2.0, 0.5, 8.0).of(Usage(prompt=1000, cached=600, completion=100))
        0.0019
        """
        fresh = usage.prompt - usage.cached
        parts = fresh * self.prompt + usage.cached * self.cached
        return (parts + usage.completion * self.completion) / 1e6


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Entries of (base URL pattern, model pattern, price), looked up from the first on."""

    entries: tuple[tuple[str, str, Price], ...] = ()

    def find(self, base_url: str, model: str) -> Price | None:
        """Return the price of a model at an endpoint, None where it is unknown.

        >>> load_prices().find("https://api.example.com/v1", "any") is None
        True
        """
        for url, name, price in self.entries:
            if fnmatchcase(
                base_url + "/", url + ("" if url.endswith("*") else "/")
            ) and fnmatchcase(model, name):
                return price
        return None


def load_prices(path: str | os.PathLike[str] | None = None) -> PriceTable:
    """Return the user's prices (``path``, else RUBRICNB_PRICES), then the shipped ones.

    Raises:
        ConfigError: naming file and entry, for a table that is not of the shipped one's form.
    """
    own = path or os.environ.get("RUBRICNB_PRICES")
    files = ([Path(own)] if own else []) + [SHIPPED]
    return PriceTable(tuple(e for f in files for e in _read(f)))


def _read(path: Path) -> list[tuple[str, str, Price]]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as e:
        raise ConfigError(f"{path}: want a price table in YAML; got {e}") from e
    if not isinstance(data, Mapping) or not isinstance(data.get("prices"), list):
        raise ConfigError(f'{path}: want "version", "date" and a list "prices"; got none')
    if not data.get("date"):
        raise ConfigError(f'{path}: want a "date", since prices change; got none')
    label = f"{path.name} version {data.get('version', '?')} of {data['date']}"
    return [_entry(row, f"{path}, entry {i}", label) for i, row in enumerate(data["prices"], 1)]


def _entry(row: Any, where: str, label: str) -> tuple[str, str, Price]:
    known = {"base_url", "model", "prompt", "cached", "completion", "note"}
    if not isinstance(row, Mapping) or not {"base_url", "model", "prompt", "completion"} <= set(
        row
    ):
        raise ConfigError(f"{where}: want base_url, model, prompt and completion; got {row!r}")
    if unknown := sorted(set(row) - known):
        raise ConfigError(f"{where}: want fields among {sorted(known)}; got {unknown[0]!r}")
    rates = [row["prompt"], row.get("cached", row["prompt"]), row["completion"]]
    if not all(isinstance(r, (int, float)) and not isinstance(r, bool) and r >= 0 for r in rates):
        raise ConfigError(f"{where}: want dollars per million tokens >= 0; got {rates}")
    return str(row["base_url"]), str(row["model"]), Price(*map(float, rates), label)
