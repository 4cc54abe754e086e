"""From what a judge said to what a credit rule reads: arrays, counts, and votes of several calls.

A failed judgement becomes NaN, never a number; it cites nothing and fails no criterion. A rollout
that could not be graded at all is a row of NaN. Discriminative dropout happens here, between the
verdicts and the citation counts, as the formulas force it: score, drop, then count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .credit.batch import CreditBatch, stack
from .credit.common import Array, choice, discriminative, rubric_reward
from .errors import CreditError
from .rubric import FailedJudgement, GradedGroup, Judgement, Label, Rubric, Verdict
from .trajectory import Group, Step, Trajectory

Tokens = str | Callable[[str], "int | Sized"] | None
OVERRIDE = "override:"  # A flag "override:pass" says that attribution disagreed with scoring.


@dataclass(frozen=True, eq=False)
class GradedArrays:
    """A graded group as arrays; K counts the criteria before dropout.

    Args:
        verdict_GK: +1, -1, 0, NaN where the judgement failed or the rollout is ungraded.
        cite_GKS: bool, the step is cited for that criterion.
        keep_K: bool, the criteria that dropout retains.
        weight_K: the criteria's weights, which RaR alone reads.
        pass_GS, fail_GS: retained passes and fails that cite each step.
        tokens_GS: n_j in ``unit``; 0 is padding.
        kind_GS: step types; "" is padding.
        outcome_G: the world's verdict, NaN where unknown; for evaluation.
        reward_G: ``rubric_reward`` of the retained criteria.
        unit: what n_j counts: "tokens" (sampled ids), "tokenizer" or "chars".
    """

    verdict_GK: Array
    cite_GKS: NDArray[np.bool_]
    keep_K: NDArray[np.bool_]
    weight_K: Array
    pass_GS: Array
    fail_GS: Array
    tokens_GS: Array
    kind_GS: NDArray[np.str_]
    outcome_G: Array
    reward_G: Array
    unit: str

    def batch(self) -> CreditBatch:
        """The same as a CreditBatch of one group, with retained criteria only."""
        return CreditBatch(
            self.tokens_GS,
            verdict_GK=self.verdict_GK[:, self.keep_K],
            cite_GKS=self.cite_GKS[:, self.keep_K],
            weight_GK=np.tile(self.weight_K[self.keep_K], (len(self.reward_G), 1)),
            pass_GS=self.pass_GS,
            fail_GS=self.fail_GS,
            reward_G=self.reward_G,
            outcome_G=self.outcome_G,
            kind_GS=self.kind_GS,
        )


def arrays(
    graded: GradedGroup,
    tokens: Tokens = None,
    *,
    dropout: bool = True,
    override: str = "scoring",
    closing_turn: str = "step",
) -> GradedArrays:
    """Return a graded group as arrays: verdicts, citations, counts, lengths, step types, reward.

        pass[g, s] = #{retained k: verdict[g, k] = +1 cites s};   fail likewise with -1
        reward = rubric_reward of the retained criteria

    Laws: failed judgements are NaN, cite nothing and drop nothing; a rollout in ``failures`` has
    only NaN and the reward NaN, and so has every rollout where the rubric is empty.

    Args:
        graded: the group and its judgements.
        tokens: where n_j comes from: None, ``Step.tokens``; "chars", characters of
            ``Step.authored``; "auto", Step.tokens where every step has it, else characters; or a
            tokenizer: text -> number of tokens or sequence of ids.
        dropout: False keeps criteria that nobody failed.
        override: "scoring", or "trust": where attribution disagreed (flag "override:pass", ...)
            its verdict counts for Q. Dropout and reward always follow scoring, and an override to
            not applicable always deletes the criterion's citations.
        closing_turn: "step", or "gap": a last step without a tool call gets 0 tokens.
    Returns:
        GradedArrays.
    Raises:
        CreditError: a step's length is unknown, or a citation is out of range; names where.
    Reference: DRACO (arXiv 2609.04094) section 3.2, Eqs. 3-4.
    """
    choice("override", override, ("scoring", "trust"))
    choice("closing_turn", closing_turn, ("step", "gap"))
    trajectories = graded.group.trajectories
    G, K = len(trajectories), len(graded.rubric)
    S = max((len(t) for t in trajectories), default=0)
    verdict, quality = np.full((G, K), np.nan), np.full((G, K), np.nan)
    cite = np.zeros((G, K, S), dtype=bool)
    for g, row in enumerate(graded.judgements):
        if _ungraded(graded, g):
            continue
        for k, judgement in enumerate(row):
            if isinstance(judgement, Verdict):
                verdict[g, k] = judgement.value
                quality[g, k] = _for_quality(judgement, override)
                cite[g, k, _cited(judgement, trajectories[g])] = True
    cite &= (np.abs(quality) == 1)[:, :, None]
    keep = discriminative(verdict) if dropout else np.ones(K, dtype=bool)
    reward = rubric_reward(verdict[:, keep])
    reward[[_ungraded(graded, g) for g in range(G)]] = np.nan
    n, unit = _lengths(trajectories, S, tokens, closing_turn)
    kept = cite[:, keep]
    return GradedArrays(
        verdict_GK=verdict,
        cite_GKS=cite,
        keep_K=keep,
        weight_K=np.array([c.weight for c in graded.rubric.criteria], dtype=float),
        pass_GS=(kept & (quality[:, keep] == 1)[:, :, None]).sum(axis=1).astype(float),
        fail_GS=(kept & (quality[:, keep] == -1)[:, :, None]).sum(axis=1).astype(float),
        tokens_GS=n,
        kind_GS=_kinds(trajectories, S),
        outcome_G=np.array([np.nan if t.outcome is None else t.outcome for t in trajectories]),
        reward_G=reward,
        unit=unit,
    )


def batch(
    graded: GradedGroup | Sequence[GradedGroup], tokens: Tokens = None, **options
) -> CreditBatch:
    """Return one CreditBatch of one or many graded groups, each a group of its own.

    Args:
        graded: a group or several.
        tokens, options: as ``arrays``.
    Raises:
        CreditError: as ``arrays``, or groups count n_j in different units ("auto").
    """
    groups = [graded] if isinstance(graded, GradedGroup) else list(graded)
    made = [arrays(g, tokens, **options) for g in groups]
    units = sorted({m.unit for m in made})
    if len(units) > 1:
        raise CreditError(f"want one unit of length in all groups; got {units}: set tokens='chars'")
    return stack([m.batch() for m in made])


def unanimous(rows: Sequence[Sequence[Judgement]]) -> tuple[Judgement, ...]:
    """Return one row of judgements from k calls that answered the same criteria.

        any fail among the answered -> fail;  else all k passed -> pass;
        else some call failed -> failed judgement;  else not applicable

    A verdict is the first call's that agrees with the result, with its reason and citations.

    Args:
        rows: k rows of K judgements in the same order.
    Returns:
        K judgements.
    Raises:
        CreditError: no row is given, or rows answer different criteria.
    Reference: DRACO section 4.3, App. A.1 (a pass needs all three calls); the rest is ours.

    >>> yes, no = Verdict("c1", Label.PASS), Verdict("c1", Label.FAIL, "late refund")
    >>> unanimous([[yes], [no], [yes]])[0].reason
    'late refund'
    """
    if not rows:
        raise CreditError("want at least one row of judgements; got none")
    ids = [tuple(j.criterion_id for j in row) for row in rows]
    for i, other in enumerate(ids):
        if other != ids[0]:
            raise CreditError(f"want every row to answer {ids[0]}; got, in row {i}, {other}")
    return tuple(_vote(votes) for votes in zip(*rows, strict=True))


def _vote(votes: tuple[Judgement, ...]) -> Judgement:
    """One criterion's k votes as one judgement."""
    answered = [v for v in votes if isinstance(v, Verdict)]
    failed = [v for v in votes if isinstance(v, FailedJudgement)]
    label = Label.NOT_APPLICABLE
    if any(v.label is Label.FAIL for v in answered):
        label = Label.FAIL
    elif failed:
        reason = f"{len(failed)} of {len(votes)} calls failed: {failed[0].reason}"
        return FailedJudgement(votes[0].criterion_id, reason, failed[0].flags)
    elif all(v.label is Label.PASS for v in answered):
        label = Label.PASS
    return next(v for v in answered if v.label is label)


def _ungraded(graded: GradedGroup, g: int) -> bool:
    """Whether the rollout has no grade at all."""
    return not len(graded.rubric) or bool(graded.failures and graded.failures[g])


def _for_quality(verdict: Verdict, override: str) -> int:
    """The verdict's value for Q: scoring's, or attribution's where it is trusted."""
    said = [f.removeprefix(OVERRIDE) for f in verdict.flags if f.startswith(OVERRIDE)]
    if not said:
        return verdict.value
    try:
        other = Label(said[0]).score
    except ValueError:
        allowed = tuple(label.value for label in Label)
        raise CreditError(
            f"want a flag {OVERRIDE}LABEL with LABEL in {allowed}; "
            f"got {OVERRIDE}{said[0]} at criterion {verdict.criterion_id!r}"
        ) from None
    return other if override == "trust" or other == 0 else verdict.value


def _cited(verdict: Verdict, trajectory: Trajectory) -> list[int]:
    """0-based indices of the steps that a verdict cites."""
    for step in verdict.steps:
        if not 1 <= step <= len(trajectory):
            raise CreditError(
                f"want citations in 1..{len(trajectory)}; got {step} at criterion "
                f"{verdict.criterion_id!r} of rollout {trajectory.id!r}"
            )
    return [step - 1 for step in verdict.steps]


def _lengths(
    trajectories: Sequence[Trajectory], S: int, tokens: Tokens, closing_turn: str
) -> tuple[Array, str]:
    """(G, S) lengths of the steps, and their unit."""
    if not callable(tokens):
        choice("tokens", tokens, (None, "chars", "auto"))
    if tokens == "auto":
        known = all(s.tokens is not None for t in trajectories for s in t.steps)
        tokens = None if known else "chars"
    n = np.zeros((len(trajectories), S))
    for g, t in enumerate(trajectories):
        for s, step in enumerate(t.steps):
            n[g, s] = _length(step, tokens, f"step {s + 1} of rollout {t.id!r}")
        if closing_turn == "gap" and t.steps and not t.steps[-1].calls:
            n[g, len(t) - 1] = 0
    return n, {None: "tokens", "chars": "chars"}.get(tokens, "tokenizer")


def _length(step: Step, tokens: Tokens, where: str) -> int:
    """One step's n_j."""
    if tokens == "chars":
        return len(step.authored)
    if callable(tokens):
        count = tokens(step.authored)
        return len(count) if isinstance(count, Sized) else int(count)
    if step.tokens is None:
        raise CreditError(
            f"want the token count of every step; got none at {where}: "
            "give a tokenizer, or tokens='chars'"
        )
    return step.tokens


def _kinds(trajectories: Sequence[Trajectory], S: int) -> NDArray[np.str_]:
    """(G, S) step types, "" behind the last step."""
    rows = [[s.kind for s in t.steps] + [""] * (S - len(t)) for t in trajectories]
    return np.array(rows, dtype=str).reshape(len(trajectories), S)


def without_judge(group: Group, tokens: Tokens = "auto") -> CreditBatch:
    """Return what is known of a group before anybody has judged it: lengths, types, outcomes.

    Args:
        group: G rollouts.
        tokens: as ``arrays``.
    Returns:
        A CreditBatch of one group without verdicts; ``grpo(batch, base="outcome")`` reads it.

    >>> from rubricnb import Group, Step, Task, Trajectory
    >>> task = Task("t", "p")
    >>> pair = [Trajectory(str(i), task, (Step("hi"),), outcome=i) for i in (0, 1)]
    >>> without_judge(Group(task, tuple(pair))).outcome_G.tolist()
    [0.0, 1.0]
    """
    empty = GradedGroup(group, Rubric(()), tuple(() for _ in group.trajectories))
    made = arrays(empty, tokens)
    return CreditBatch(made.tokens_GS, outcome_G=made.outcome_G, kind_GS=made.kind_GS)
