"""The settings that a run was begun with: kept in its store, checked when it goes on."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from .. import files
from ..errors import ConfigError
from ..rubric import Criterion, Rubric
from .config import JudgeConfig
from .messages import PROMPT_VERSION
from .phases import settled
from .protocol import Judge
from .recorded import identity_of
from .store import Store


def begun(store: Store, run: str, judge: Judge, config: JudgeConfig) -> JudgeConfig:
    """Return these settings with the nonce of the run that the store holds, or begin it.

    Raises:
        ConfigError: where the run was begun with other settings, naming the first.
    """
    fresh = settled(config)
    rubric = files.to_json(config.rubric) if isinstance(config.rubric, Rubric) else None
    mine = {
        "identity": identity_of(judge),
        "prompt_version": PROMPT_VERSION,
        "config": fresh.to_json(),
        "rubric": rubric,
    }
    kept = store.open_run(run, mine)
    nonce = kept["config"]["nonce"]
    if not config.nonce:
        mine["config"]["nonce"] = nonce
    mine = json.loads(files.canonical(mine))
    for part, value in mine.items():
        if kept[part] != value:
            raise ConfigError(
                f"{store.path}: want the settings that this run was begun with; got another "
                f"{_differing(part, kept[part], value)} (write to another file instead)"
            )
    if kept.get("quirks") and hasattr(judge, "recall"):
        judge.recall(kept["quirks"])
    return dataclasses.replace(config, nonce=nonce)


def _differing(part: str, was: Any, now: Any) -> str:
    """The first setting that differs, with both values."""
    if isinstance(was, dict) and isinstance(now, dict):
        for name in sorted({*was, *now}):
            if was.get(name) != now.get(name):
                return _differing(name, was.get(name), now.get(name))
    return f"{part}: {str(now)[:60]!r} instead of {str(was)[:60]!r}"


def config_from(record: dict[str, Any]) -> JudgeConfig:
    """Return the settings that a run's record holds."""
    fields = {**record["config"]}
    del fields["count"]  # a recorded run counts characters
    if record["rubric"] is not None:
        rows = record["rubric"]["criteria"]
        fields["rubric"] = Rubric(tuple(Criterion(**c) for c in rows))
    return JudgeConfig(**fields)
