"""The scorepad of one match: how it is read, and which output is too long to be scored at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...errors import ConfigError
from ...trajectory import Trajectory
from ..protocol import Reply
from .common import read_object

SIGMA = 1.5  # not determined by the source
TOP = 2  # highest score of one criterion
Pad = Mapping[str, int]


@dataclass(frozen=True)
class Verbosity:
    """Which output is too long: length above sigma times l0.

    Args:
        l0: the cold-start model's mean length on such prompts, in the unit of ``length``.
        sigma: factor, > 0.
        length: length of a rollout; default: characters that the agent wrote.
    """

    l0: float
    sigma: float = SIGMA
    length: Callable[[Trajectory], float] = lambda t: sum(len(s.authored) for s in t.steps)

    def __post_init__(self) -> None:
        if not self.l0 > 0 or not self.sigma > 0:
            raise ConfigError(f"want l0 > 0 and sigma > 0; got {self.l0!r} and {self.sigma!r}")

    def over(self, t: Trajectory) -> bool:
        """Whether the rollout is beyond the budget."""
        return self.length(t) > self.sigma * self.l0


@dataclass(frozen=True)
class Pads:
    """Each candidate's scores and who the reply says has won, or the problem."""

    pads: Mapping[str, Pad] | None = None
    said: str = ""
    problem: str = ""
    cut: bool = False


def read_pads(
    reply: Reply | str, names: Sequence[str], ids: Sequence[str], untrusted: str = ""
) -> Pads:
    """Return each candidate's score per criterion; anything missing or out of 0..2 is a problem.

    >>> read_pads('{"scorepad": {"A": {"C1": 2}}}', ["A"], ["C1"]).pads
    {'A': {'C1': 2}}
    >>> read_pads('{"scorepad": {"A": {"C1": 3}}}', ["A"], ["C1"]).problem
    'want for A and C1 a whole number from 0 to 2; got 3'
    """
    found = read_object(reply, "scorepad", untrusted)
    if found.value is None:
        return Pads(problem=found.problem, cut=found.cut)
    table, out = found.value["scorepad"], {}
    for name in names:
        row = table.get(name) if isinstance(table, dict) else None
        if not isinstance(row, dict):
            return Pads(problem=f'want "{name}" in the scorepad; got none', cut=found.cut)
        for cid in ids:
            score = row.get(cid)
            if type(score) is not int or not 0 <= score <= TOP:
                problem = f"want for {name} and {cid} a whole number from 0 to {TOP}; got {score!r}"
                return Pads(problem=problem[:200], cut=found.cut)
        out[name] = {cid: row[cid] for cid in ids}
    return Pads(out, str(found.value.get("winner", "")), cut=found.cut)
