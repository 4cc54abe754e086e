"""What judging a group costs in tokens, rule by rule, beside what the policy itself generated.

Two things are kept apart. The *published* accounting of a tournament charges a pair like one
trajectory; a pair judge reads two, so the *corrected* one charges two. And a group that is scored
once per candidate on a shared scorepad can be compared without any pair calls at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import comb, isfinite
from types import MappingProxyType

from ..errors import CreditError

CALLS = ("task_rubric", "rollout_rubric", "union", "scoring", "attribution")
ARMS = MappingProxyType(
    {
        "static rubric": CALLS[3:4],
        "static rubric + step credit": CALLS[3:],
        "dynamic rubric": CALLS[:4],
        "dynamic rubric + step credit": CALLS,
    }
)


@dataclass(frozen=True, slots=True)
class Workload:
    """One training step's judging, in tokens.

    Args:
        groups: N prompts a step, >= 1.
        rollouts: K rollouts of each, >= 2.
        trajectory: tokens of one rendered rollout, what a judge reads.
        policy: tokens that the policy generated in one rollout.
        rubric: tokens of the rubric in a prompt.
        score: tokens of one scoring reply.
        task: tokens of the task alone, which the task rubric is written from.
        summary: tokens of a rollout as step attribution reads it.
        steps: training steps, >= 1.
    """

    groups: float = 64
    rollouts: int = 8
    trajectory: float = 24_000
    policy: float = 9_000
    rubric: float = 300
    score: float = 500
    task: float = 0
    summary: float = 0
    steps: float = 1

    def __post_init__(self) -> None:
        least = {"groups": 1, "rollouts": 2, "steps": 1}
        for f in fields(self):
            value = getattr(self, f.name)
            if not isfinite(value) or value < least.get(f.name, 0):
                raise CreditError(f"want {f.name} >= {least.get(f.name, 0)}; got {value!r}")


@dataclass(frozen=True, slots=True)
class JudgingCost:
    """The tokens of one way to judge, over all groups and steps of a workload.

    Args:
        calls: judge calls.
        full_reads: rollouts that are read in full, counted once a reading.
        prompt: tokens read, of which ``cached`` were the start of an earlier prompt.
        cached: see above; 0 where prompts share no start.
        completion: tokens written.
        policy: tokens that the policy generated meanwhile.
    """

    calls: float
    full_reads: float
    prompt: float
    cached: float
    completion: float
    policy: float

    @property
    def tokens(self) -> float:
        """All tokens, cached or not."""
        return self.prompt + self.completion

    @property
    def ratio(self) -> float:
        """Judge tokens over policy tokens, NaN without policy tokens."""
        return self.tokens / self.policy if self.policy else float("nan")

    def effective(self, cached_price: float = 0.1) -> float:
        """Tokens with the cached ones at a fraction of the price, in [0, 1]."""
        if not 0 <= cached_price <= 1:
            raise CreditError(f"want cached_price in [0, 1]; got {cached_price}")
        return self.tokens - (1 - cached_price) * self.cached

    def dollars(self, prompt: float, cached: float, completion: float) -> float:
        """Dollars, at dollars per million tokens of each kind: the user's own price table."""
        fresh = self.prompt - self.cached
        return (fresh * prompt + self.cached * cached + self.completion * completion) / 1e6


def _cost(w: Workload, calls: float, reads: float, prompt: float, completion: float, cached=0.0):
    """The cost of one group, over all groups and steps."""
    n = w.groups * w.steps
    policy = n * w.rollouts * w.policy
    return JudgingCost(calls * n, reads * n, prompt * n, cached * n, completion * n, policy)


def pointwise(w: Workload) -> JudgingCost:
    """Return the cost of scoring each rollout once.

        N K (L_traj + L_rubric + L_score)

    It is also the cost of a scorepad whose totals are compared without pair calls.

    >>> c = pointwise(Workload())
    >>> round(c.tokens / 1e6, 1), round(c.ratio, 2)
    (12.7, 2.76)
    """
    k = w.rollouts
    return _cost(w, k, k, k * (w.trajectory + w.rubric), k * w.score)


def tournament_published(w: Workload) -> JudgingCost:
    """Return the cost of a full tournament as it was published: a pair costs one trajectory.

        N C(K, 2) (L_traj + L_rubric + L_score) = (K - 1) / 2 * pointwise

    >>> c = tournament_published(Workload())
    >>> round(c.tokens / 1e6, 1), round(c.ratio, 3)
    (44.4, 9.644)
    """
    pairs = comb(w.rollouts, 2)
    return _cost(w, pairs, pairs, pairs * (w.trajectory + w.rubric), pairs * w.score)


def tournament(w: Workload, *, both_orders: bool = False) -> JudgingCost:
    """Return the cost of a full tournament in which a pair judge reads both trajectories.

        N C(K, 2) (2 L_traj + L_rubric + 2 L_score), twice that with both orders

    Prompts that start with the same first trajectory share it: of the matches, all but K - 1 (K
    with both orders) find their first one cached.

    >>> c = tournament(Workload())
    >>> round(c.tokens / 1e6, 1), round(c.ratio, 1)
    (88.3, 19.2)
    """
    matches = comb(w.rollouts, 2) * (2 if both_orders else 1)
    firsts = w.rollouts if both_orders else w.rollouts - 1
    prompt = matches * (2 * w.trajectory + w.rubric)
    cached = (matches - firsts) * w.trajectory
    return _cost(w, matches, 2 * matches, prompt, matches * 2 * w.score, cached)


def elimination(w: Workload) -> JudgingCost:
    """Return the cost of a single elimination: K - 1 matches, coarse ranks.

    >>> elimination(Workload()).calls
    448.0
    """
    m = w.rollouts - 1
    return _cost(w, float(m), 2 * m, m * (2 * w.trajectory + w.rubric), m * 2 * w.score)


def phases(
    w: Workload, arm: str = "dynamic rubric + step credit", votes: int = 1
) -> Mapping[str, JudgingCost]:
    """Return the cost of each phase of rubric judging, for one of ``ARMS``.

        task rubric 1, rollout rubrics G, union 1 (it reads all G), scoring k G, attribution G

    Calls a group: 1 + G + 1 + k G + G, which is 20 at G = 6, k = 1 and 32 at k = 3. Full reads:
    (2 + k) G. Scoring finds its rollout cached by the rollout rubric, further votes by the first.

    Args:
        w: the workload; ``summary`` is what attribution reads of a rollout.
        arm: a name of ``ARMS``.
        votes: k scoring calls a rollout, >= 1.
    Raises:
        CreditError: for another arm or votes < 1.
    Reference: DRACO (arXiv 2609.04094), App. F.

    >>> p = phases(Workload(groups=1, rollouts=6))
    >>> sum(c.calls for c in p.values()), sum(c.full_reads for c in p.values())
    (20, 18)
    """
    if arm not in ARMS or votes < 1:
        raise CreditError(f"want an arm of {tuple(ARMS)} and votes >= 1; got {arm!r}, {votes}")
    g, read = w.rollouts, w.trajectory
    scored = votes * g
    earlier = scored if "rollout_rubric" in ARMS[arm] else scored - g
    made = {
        "task_rubric": _cost(w, 1, 0, w.task, w.rubric),
        "rollout_rubric": _cost(w, g, g, g * (read + w.rubric), g * w.rubric),
        "union": _cost(w, 1, g, g * (read + w.rubric) + w.rubric, w.rubric),
        "scoring": _cost(
            w, scored, scored, scored * (read + w.rubric), scored * w.score, earlier * read
        ),
        "attribution": _cost(w, g, 0, g * (w.summary + w.rubric), g * w.score),
    }
    return MappingProxyType({name: made[name] for name in ARMS[arm]})


def total(parts: Mapping[str, JudgingCost]) -> JudgingCost:
    """Return the sum of phases of one workload; the policy's tokens count once.

    >>> total(phases(Workload(groups=1, rollouts=6), votes=3)).calls
    32
    """
    rows = list(parts.values())
    if not rows:
        raise CreditError("want at least one phase; got none")
    names = ("calls", "full_reads", "prompt", "cached", "completion")
    return replace(rows[0], **{n: sum(getattr(r, n) for r in rows) for n in names})


def compare(w: Workload, *, votes: int = 1) -> Mapping[str, JudgingCost]:
    """Return every way to judge a group, by name, from the cheapest accounting to the dearest.

    >>> costs = compare(Workload())
    >>> [round(c.ratio, 2) for c in costs.values()][:3]
    [2.76, 9.64, 19.17]
    """
    k = "" if votes == 1 else f", {votes} votes"
    out = {
        "pointwise": pointwise(w),
        "tournament as published": tournament_published(w),
        "tournament, pairs read in full": tournament(w),
        "tournament, both orders": tournament(w, both_orders=True),
        "single elimination": elimination(w),
    }
    for arm in ARMS:
        out[f"{arm}{k}"] = total(phases(w, arm, votes))
    return MappingProxyType(out)


# The two workloads of the published comparison, and its ratios: pointwise and tournament.
EXAMPLE_A = Workload()
EXAMPLE_B = Workload(trajectory=100_000, policy=37_500)
PUBLISHED = MappingProxyType({"A": (2.76, 9.65), "B": (2.69, 9.41)})


def published_ratio(cost: JudgingCost) -> float:
    """Return judge over policy tokens with the rounding of the published example.

    There both totals are first rounded to a tenth of a million, which makes 9.65 of 9.644.

    >>> [round(published_ratio(f(EXAMPLE_A)), 2) for f in (pointwise, tournament_published)]
    [2.76, 9.65]
    >>> [round(published_ratio(f(EXAMPLE_B)), 2) for f in (pointwise, tournament_published)]
    [2.69, 9.41]
    """
    return round(cost.tokens / 1e6, 1) / round(cost.policy / 1e6, 1)
