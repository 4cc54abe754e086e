"""The stated noise of the offline rule judge, a function of names and never of a call's order."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

from ..errors import ConfigError


@dataclass(frozen=True, slots=True)
class JudgeNoise:
    """How the offline judge errs. All are chances in [0, 1]; the same for every rubric kind.

    Args:
        false_pass: a failed criterion is called passed.
        false_fail: a passed criterion is called failed.
        hesitate: a verdict becomes not applicable, or not applicable becomes failed.
        missing: a criterion is left out of the reply.
        miscite: the cited steps are replaced by one random step.
        overlook: a criterion that should be written is not.
        paraphrase: a slip that the task rubric names already is named again in other words.
        keep: the union keeps a criterion that no rollout fails.
        correlation: share of errors that repeated calls have in common (0: independent votes,
            1: k votes are one vote).
        seed: another seed is another judge with the same rates.
    """

    false_pass: float = 0.06
    false_fail: float = 0.02
    hesitate: float = 0.01
    missing: float = 0.002
    miscite: float = 0.10
    overlook: float = 0.05
    paraphrase: float = 0.5
    keep: float = 0.3
    correlation: float = 0.6
    seed: int = 0

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name != "seed" and not 0.0 <= value <= 1.0:
                raise ConfigError(f"want {f.name} in [0, 1]; got {value!r}")

    def draw(self, *names: object) -> float:
        """A number in [0, 1) that depends on the seed and the names alone."""
        text = "\x1f".join([str(self.seed), *map(str, names)])
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2.0**64

    def voted(self, sample: int, *names: object) -> float:
        """The same for one of several votes: in common with chance ``correlation``.

        Each vote's number is uniform whatever the correlation is, so no rate depends on it.
        """
        common = self.draw("common?", sample, *names) < self.correlation
        return self.draw("common", *names) if common else self.draw("own", sample, *names)


_RATES = ("false_pass", "false_fail", "hesitate", "missing", "miscite", "overlook", "keep")
EXACT = JudgeNoise(**dict.fromkeys(_RATES, 0.0))
STRICT = JudgeNoise()
# The rates that a self-judge was measured at against a strong judge (false pass 30.4 %, false
# fail 1.3 %, 1.3 % unanswered), with fewer criteria written and more idle ones kept.
LENIENT = JudgeNoise(
    false_pass=0.304,
    false_fail=0.013,
    hesitate=0.01,
    missing=0.013,
    miscite=0.2,
    overlook=0.3,
    keep=0.7,
)
