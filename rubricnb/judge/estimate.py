"""What a run would cost: the calls it would make and the tokens of their prompts, unsent.

The five phases run over a judge that answers at once with replies of a stated size, so that the
prompts counted are the very prompts that would be sent, but for the wording of the criteria.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..rubric import Rubric
from ..trajectory import Group
from .config import JudgeConfig
from .ledger import Ledger
from .prices import Price
from .protocol import Call, CallableJudge, Reply, Usage
from .run import grade
from .shown import read_call

CHARS_PER_TOKEN = 4.0


@dataclass(frozen=True, slots=True)
class Assumed:
    """Sizes that an estimate assumes: criteria of each kind, and completion tokens a phase."""

    task_rubric: int = 8
    rollout_rubric: int = 3
    union: int = 12
    words: int = 40  # of a criterion
    reason: int = 25  # words of a verdict's reason


def calls_of_group(config: JudgeConfig, size: int, *, first: bool = True) -> int:
    """Return the calls that one group costs where no reply needs a retry.

        1 + G + 1 + k G + G when its task is first seen, one less after

    >>> calls_of_group(JudgeConfig(), 6), calls_of_group(JudgeConfig(), 6, first=False)
    (20, 19)
    """
    rubric = 0 if isinstance(config.rubric, Rubric) else int(first) + size + 1
    return rubric + config.votes * size + (size if config.attribution == "separate" else 0)


def estimate(
    groups: Sequence[Group],
    config: JudgeConfig | None = None,
    price: Price | None = None,
    *,
    assumed: Assumed | None = None,
    count: Callable[[str], float] | None = None,
) -> Ledger:
    """Return the ledger that grading these groups would have, without asking anyone.

    Prompt tokens are characters / 4 unless ``count`` (a tokenizer's length) is given; cached
    prompt tokens are not predicted, so dollars are an upper estimate in that respect.

    Args:
        groups: the groups.
        config: settings of the five phases.
        price: None leaves the dollars unknown.
        assumed: sizes of the replies.
        count: text -> tokens.
    """
    sizes, ledger = assumed or Assumed(), Ledger(price)
    tokens = count or (lambda text: len(text) / CHARS_PER_TOKEN)

    def answer(call: Call) -> Reply:
        text = json.dumps(_ANSWERS[call.phase](call, sizes))
        prompt = sum(tokens(m["content"]) for m in call.messages)
        usage = Usage(round(prompt), 0, round(tokens(text)))
        ledger.add(call, usage, 0.0)
        return Reply(text, usage=usage)

    grade(groups, CallableJudge(answer, "estimate"), config)
    return ledger


def _criteria(n: int, sizes: Assumed) -> dict[str, Any]:
    text = "word " * sizes.words
    return {"criteria": [{"title": f"Criterion {i}", "instruction": text} for i in range(n)]}


def _union(call: Call, sizes: Assumed) -> dict[str, Any]:
    return _criteria(min(sizes.union, max(1, len(read_call(call).items))), sizes)


def _verdicts(call: Call, sizes: Assumed) -> dict[str, Any]:
    shown = read_call(call)
    last = shown.rollouts[0][-1].number if shown.rollouts and shown.rollouts[0] else 1
    row = {"reason": "word " * sizes.reason, "evidence": "", "steps": [last], "verdict": "pass"}
    return {"verdicts": [{"id": item["id"], **row} for item in shown.items]}


_ANSWERS: dict[str, Callable[[Call, Assumed], dict[str, Any]]] = {
    "task_rubric": lambda call, sizes: _criteria(sizes.task_rubric, sizes),
    "rollout_rubric": lambda call, sizes: _criteria(sizes.rollout_rubric, sizes),
    "union": _union,
    "scoring": _verdicts,
    "attribution": _verdicts,
}
