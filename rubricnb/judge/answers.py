"""One criterion's judgement from the items that answer it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..rubric import FailedJudgement, Judgement, Label, Verdict
from .citations import read_steps
from .items import VERDICT_KEYS, first_of
from .replies import Pairs

_REASON = ("reason", "justification", "explanation")
_STEPS = ("steps", "relevant_steps")
_LABELS = {
    "pass": Label.PASS,
    "met": Label.PASS,
    "+1": Label.PASS,
    "1": Label.PASS,
    "fail": Label.FAIL,
    "not_met": Label.FAIL,
    "-1": Label.FAIL,
    "not_applicable": Label.NOT_APPLICABLE,
    "n/a": Label.NOT_APPLICABLE,
    "0": Label.NOT_APPLICABLE,
}
_INSUFFICIENT = {"insufficient", "insufficient_evidence", "not_enough_evidence"}

_SAYS_FAIL = re.compile(
    r"\b(?:is|was|are|were)(?: \w+){0,3} (?:not|n't) (?:\w+ )?(?:met|satisfied|fulfilled)\b"
    r"|n['’]t (?:\w+ )?(?:met|satisfied|fulfilled)\b|\bnot met\b|\bunmet\b"
    r"|\b(?:violat|fail)(?:es|ed|s)? (?:this|the) criterion\b|\bcriterion (?:is |was )?"
    r"(?:violated|failed|unmet|fails)\b|\b(?:verdict|answer)(?: is|:) (?:fail|not[ _]met)\b",
    re.IGNORECASE,
)
_SAYS_PASS = re.compile(
    r"\bcriterion (?:is|was)(?: (?:in fact|fully|clearly|indeed|therefore|thus))? "
    r"(?:met|satisfied|fulfilled)\b"
    r"|\b(?:meets|satisfies|fulfils|fulfills|passes) (?:this|the) criterion\b"
    r"|\b(?:verdict|answer)(?: is|:) (?:pass|met)\b",
    re.IGNORECASE,
)


def read_label(value: Any) -> Label | str | None:
    """A label, "insufficient", or None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return {1: Label.PASS, -1: Label.FAIL, 0: Label.NOT_APPLICABLE}.get(value)
    if not isinstance(value, str) or len(value) > 100:  # no label is so long
        return None
    word = re.sub(r"[\s_-]+(?=[a-z])", "_", value.strip().replace("\u2212", "-").lower())
    return "insufficient" if word in _INSUFFICIENT else _LABELS.get(word)


def judge(
    cid: str, given: list[Mapping[str, Any]], n_steps: int, clipped: bool
) -> tuple[Judgement, str]:
    """The one judgement that the answers to a criterion agree on, and the quotation given."""
    labels = []
    for item in given:
        twice = item.twice if isinstance(item, Pairs) else frozenset()
        if twice & set(VERDICT_KEYS):
            return FailedJudgement(cid, "want one verdict; got the key twice"), ""
        said = [item[k] for k in VERDICT_KEYS if k in item]
        read = [read_label(v) for v in said]
        if not read or None in read:
            got = f"{said[read.index(None)]!r}"[:80] if read else "none"
            return FailedJudgement(cid, f"want pass, fail or not_applicable; got {got}"), ""
        labels += read
    if len({str(v) for v in labels}) > 1:
        return FailedJudgement(cid, "want one verdict; got answers that differ"), ""
    item, label, flags = given[0], labels[0], []
    if label == "insufficient":
        label = Label.NOT_APPLICABLE if clipped else Label.FAIL
        flags.append("insufficient")
    reason, quote = (as_text(first_of(item, k)) for k in (_REASON, ("evidence", "quote")))
    if reason in ("...", "…"):
        return FailedJudgement(cid, "want a reason; got the reply form copied"), ""
    steps, dropped = _steps(item, n_steps)
    said = reason[:10_000]
    if (label is Label.PASS and _SAYS_FAIL.search(said)) or (
        label is Label.FAIL and _SAYS_PASS.search(said) and not _SAYS_FAIL.search(said)
    ):
        flags.append("contradiction")
    if label is Label.PASS and not steps and not quote:
        flags.append("no_evidence")
    return Verdict(cid, label, reason, steps, dropped, tuple(flags)), quote


def _steps(item: Mapping[str, Any], n_steps: int) -> tuple[tuple[int, ...], int]:
    if isinstance(item, Pairs) and item.twice & set(_STEPS):
        return (), 1
    return read_steps(first_of(item, _STEPS), n_steps)


def as_text(value: Any) -> str:
    """A string, or a list of strings as one; anything else is no text."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (list, tuple)):
        return " ".join(v.strip() for v in value if isinstance(v, str))
    return ""


def flagged(v: Verdict, *flags: str) -> Verdict:
    """The verdict with flags added, each once."""
    return replace(v, flags=tuple(dict.fromkeys((*v.flags, *flags))))
