"""How groups are graded: one frozen setting object, checked when it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError
from ..rubric import Rubric

ATTRIBUTION = ("separate", "inline", "none")
VIEWS = ("full", "summary")
LEAST_BUDGET = 500


@dataclass(frozen=True)
class JudgeConfig:
    """Settings of the five phases.

    Args:
        rubric: "dynamic" (task, rollout and union phases write it), or a fixed Rubric on which
            every group is graded (the static arms), which skips those phases.
        attribution: "separate" (a call per rollout, as in DRACO), "inline" (steps are cited in
            the scoring reply: cheaper) or "none".
        attribution_view: what a separate attribution reads. "full" is the rollout as scoring read
            it, whose prompt is then cached by the provider; "summary" is DRACO's: actions in
            full, results shortened.
        votes: k scoring calls per rollout, aggregated by unanimity.
        caveats: what a judge must know of the environment, as text; see ``messages.caveats``.
        nonce: the secret behind the fences. "" draws one per run; a recorded one replays it.
        observation_chars: characters that are shown of one observation, None for all.
        budget: most that the material of one prompt may count, in the unit of ``count``; None
            for no limit. Beyond it, text is clipped, which the prompt and the record say.
        count: length of a text: ``len``, or a tokenizer's.
        retries: further tries after a reply that cannot be read at all.
        max_tokens: limit of a completion, doubled on the retry of a reply that was cut.
        temperature: None for the judge's own default.

    Raises:
        ConfigError: for a value out of range, naming it.
    """

    rubric: str | Rubric = "dynamic"
    attribution: str = "separate"
    attribution_view: str = "full"
    votes: int = 1
    caveats: str = ""
    nonce: str = ""
    observation_chars: int | None = 20_000
    budget: int | None = 400_000
    count: Callable[[str], int] = len
    retries: int = 2
    max_tokens: int | None = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.rubric, Rubric) and self.rubric != "dynamic":
            raise ConfigError(f'want rubric "dynamic" or a Rubric; got {self.rubric!r}')
        if isinstance(self.rubric, Rubric) and not self.rubric.criteria:
            raise ConfigError("want a fixed rubric with criteria; got an empty one")
        for name, allowed in (("attribution", ATTRIBUTION), ("attribution_view", VIEWS)):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"want {name} among {allowed}; got {getattr(self, name)!r}")
        for name, least, optional in (
            ("votes", 1, False),
            ("retries", 0, False),
            ("observation_chars", 0, True),
            ("budget", LEAST_BUDGET, True),
            ("max_tokens", 1, True),
        ):
            value = getattr(self, name)
            if optional and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"want {name} >= {least}; got {value!r}")
        if not callable(self.count):
            raise ConfigError(f"want count as a function of a text; got {self.count!r}")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ConfigError(f"want temperature in 0..2; got {self.temperature!r}")

    def to_json(self) -> dict[str, Any]:
        """Return the settings for a record: without the rubric, which a graded group has."""
        out = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        out["rubric"] = "fixed" if isinstance(self.rubric, Rubric) else self.rubric
        out["count"] = getattr(self.count, "__qualname__", type(self.count).__name__)
        return out
