"""Kimi K3's protocol: read, write a rubric, score, keep a scorepad; and a tournament over pairs.

The source gives no schedule and no sigma. Ours: one rubric a group; every pair, judged in both
orders; the winner is who has the higher total on the scorepad.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from ...errors import ConfigError
from ...rubric import Criterion, Rubric
from ...trajectory import Group
from ..asking import together
from ..config import JudgeConfig
from ..criteria import CriteriaReading, read_criteria
from ..messages import criterion_row, json_lines, prefix, template
from ..protocol import Judge, Reply
from .common import Opened, over_groups
from .results import Rewarded
from .scorepad import Pad, Pads, Verbosity, read_pads

LEAST, MOST = 3, 8  # criteria of a group
MODES = ("pair", "score")


def _rubric(reply: Reply) -> CriteriaReading:
    reading = read_criteria(reply, limit=MOST)
    if reading.problem or reading.criteria:
        return reading
    return replace(reading, problem="want at least one criterion with title and instruction")


async def _write(o: Opened, rubric: Rubric | None) -> CriteriaReading:
    if rubric is not None:
        return CriteriaReading(rubric.criteria)
    return await o.asker.ask(
        "group_rubric",
        prefix(o.views.task, o.views.union),
        template("group_rubric").render(
            n_rollouts=len(o.group),
            least=LEAST,
            limit=MOST,
            evidence_of="the rollouts",
            grounding="the rollouts",
        ),
        _rubric,
    )


async def _pads(o: Opened, members: Sequence[int], criteria: Sequence[Criterion]) -> Pads:
    """One call on one rollout, or on two in this order."""
    names = "AB"[: len(members)]
    ids = [c.id for c in criteria]
    untrusted = "\n".join(o.views.untrusted(g) for g in members)
    return await o.asker.ask(
        "scorepad" if len(members) == 1 else "match",
        prefix(o.views.task, [o.views.full(g) for g in members]),
        template("match").render(
            items=json_lines(criterion_row(c) for c in criteria), single=len(members) == 1
        ),
        lambda reply: read_pads(reply, names, ids, untrusted.strip()),
        trajectory_id=" ".join(o.views.ids[g] for g in members),
    )


def _points(x: Pad, y: Pad) -> float:
    """1, 0.5 or 0 for x against y by totals."""
    a, b = sum(x.values()), sum(y.values())
    return 0.5 if a == b else float(a > b)


def match_score(first: float | None, second: float | None) -> float | None:
    """Return a pair's result from both orders: theirs where they agree, else a tie.

    None where one of the orders has failed: one order alone carries its bias.

    >>> match_score(1.0, 1.0), match_score(1.0, 0.0), match_score(1.0, 0.5), match_score(1.0, None)
    (1.0, 0.5, 0.5, None)
    """
    if first is None or second is None:
        return None
    return first if first == second else 0.5


def tournament_reward(score: Mapping[tuple[int, int], tuple[float, float] | None], n: int):
    """Return each member's reward from its matches: 2 u - 1, u the mean over the answered ones.

    Law: where every match has an answer and shares one point, the rewards sum to 0.

    Args:
        score: (a, b) -> points of a and of b, None where the match failed.
        n: members.
    Returns:
        tuple of n numbers in [-1, 1], None for a member without any answered match.

    >>> tournament_reward({(0, 1): (1.0, 0.0), (0, 2): (0.5, 0.5), (1, 2): None}, 3)
    (0.5, -1.0, 0.0)
    """
    points: list[list[float]] = [[] for _ in range(n)]
    for pair, got in score.items():
        if got is not None:
            for member, p in zip(pair, got, strict=True):
                points[member].append(p)
    return tuple(2 * sum(p) / len(p) - 1 if p else None for p in points)


async def _pairs(o: Opened, criteria, over: Sequence[bool]) -> tuple[dict, list[dict[str, Any]]]:
    """Every pair in both orders, one call each."""
    pairs = list(combinations(range(len(o.group)), 2))
    asked = [p for p in pairs if not over[p[0]] and not over[p[1]]]
    pads = await together(_pads(o, m, criteria) for a, b in asked for m in ((a, b), (b, a)))
    rows, score = [], {p: _too_long(*(over[m] for m in p)) for p in pairs}
    for i, (a, b) in enumerate(asked):
        one, two = pads[2 * i], pads[2 * i + 1]
        first = None if one.pads is None else _points(one.pads["A"], one.pads["B"])
        second = None if two.pads is None else _points(two.pads["B"], two.pads["A"])
        got = match_score(first, second)
        score[a, b] = None if got is None else (got, 1 - got)
        rows.append(
            {
                "pair": [a, b],
                "orders": [first, second],
                "scorepads": [one.pads, two.pads],
                "winners": [one.said, two.said],
                "problems": [p.problem for p in (one, two) if p.problem],
            }
        )
    return score, rows


async def _singles(o: Opened, criteria, over: Sequence[bool]) -> tuple[dict, list[dict[str, Any]]]:
    """Every rollout scored once; pairs are compared by their totals."""
    live = [g for g in range(len(o.group)) if not over[g]]
    pads = dict(zip(live, await together(_pads(o, (g,), criteria) for g in live), strict=True))
    score = {}
    for a, b in combinations(range(len(o.group)), 2):
        if over[a] or over[b]:
            score[a, b] = _too_long(over[a], over[b])
            continue
        x, y = pads[a].pads, pads[b].pads
        got = None if x is None or y is None else _points(x["A"], y["A"])
        score[a, b] = None if got is None else (got, 1 - got)
    rows = [
        {"rollout": g, "scorepad": p.pads and p.pads["A"], "problem": p.problem}
        for g, p in pads.items()
    ]
    return score, rows


def _too_long(a: bool, b: bool) -> tuple[float, float] | None:
    """The other wins without a call; where both are too long, neither gets a point."""
    return (float(b and not a), float(a and not b)) if a or b else None


async def _group(o: Opened, mode: str, rubric: Rubric | None, words: Verbosity | None) -> Rewarded:
    n = len(o.group)
    if n == 1:  # no rubric is asked for that nothing could be compared by
        why = ("want at least two rollouts for a match; got one",)
        return Rewarded(o.group, "kimi_k3", (None,), why, o.record("kimi_k3", mode=mode))
    over = [words is not None and words.over(t) for t in o.group.trajectories]
    written = await _write(o, rubric)
    if written.problem:
        why = (f"rubric: {written.problem}",) * n
        return Rewarded(o.group, "kimi_k3", (None,) * n, why, o.record("kimi_k3", mode=mode))
    play = _pairs if mode == "pair" else _singles
    score, rows = await play(o, written.criteria, over)
    rewards = tournament_reward(score, n)
    record = o.record(
        "kimi_k3",
        mode=mode,
        rubric=[criterion_row(c) for c in written.criteria],
        too_long=over,
        scorepad=rows,
        failed_matches=sum(s is None for s in score.values()),
    )
    why = tuple("" if r is not None else "no match of it could be read" for r in rewards)
    return Rewarded(o.group, "kimi_k3", rewards, why, record)


def tournament(
    groups: Iterable[Group] | Group,
    judge: Judge,
    config: JudgeConfig | None = None,
    *,
    mode: str = "pair",
    verbosity: Verbosity | None = None,
    in_flight: int = 16,
) -> list[Rewarded]:
    """Return a reward a rollout from a tournament on one rubric a group.

        m_ab in {1, 0.5, 0} from scorepad totals, 0.5 on a tie or where the two orders disagree
        u_a = mean of its matches;  R_a = 2 u_a - 1

    One rollout over the verbosity budget loses without a call; of two, neither gets a point. A
    match of which an order cannot be read is left out of both members' means.

    Args:
        groups: groups, or one.
        judge: who answers, or any function of a Call.
        config: settings; a fixed rubric there saves the rubric call.
        mode: "pair", G (G - 1) calls on two rollouts each, or "score", G calls on one each.
        verbosity: the budget sigma * l0; None for none.
        in_flight: groups worked on at once.
    Raises:
        ConfigError: another mode.
        JudgeError: where the judge cannot be called further.
    Reference: Kimi K3 (arXiv 2607.24653) section 4.1.2; schedule, scale and sigma are ours.
    """
    if mode not in MODES:
        raise ConfigError(f"want a mode of {MODES}; got {mode!r}")
    fixed = config.rubric if config is not None and isinstance(config.rubric, Rubric) else None
    return over_groups(
        lambda o: _group(o, mode, fixed, verbosity), groups, judge, config, in_flight
    )
