"""Verdicts from a reply: per criterion a verdict, or a failed judgement. Never a number.

An answer belongs to a criterion by its id, else by its title, never by its place. Two answers
that differ are no answer. What the reply adds is dropped and counted; what it lacks is failed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..rubric import Criterion, FailedJudgement, Judgement, Rubric, Verdict
from .answers import flagged, judge
from .items import ID_KEYS, INDEX_KEYS, find_items
from .protocol import Reply
from .replies import NotJSON, Pairs, final_text, was_cut


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says.

    Args:
        judgements: one per criterion, in order.
        evidence: criterion id -> the quotation that the judge gave.
        invented: answers to criteria that do not exist.
        problem: why nothing at all could be read, in words for a retry; else "".
        repaired: whether the repair library had to guess.
        cut: whether the reply ends early.
    """

    judgements: tuple[Judgement, ...]
    evidence: Mapping[str, str]
    invented: int = 0
    problem: str = ""
    repaired: bool = False
    cut: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """Ids of the criteria without a verdict."""
        return tuple(j.criterion_id for j in self.judgements if isinstance(j, FailedJudgement))


def read_verdicts(
    reply: Reply | str,
    criteria: Rubric | Iterable[Criterion | str],
    n_steps: int,
    *,
    clipped: bool = False,
) -> tuple[Judgement, ...]:
    """Return one Verdict or FailedJudgement per criterion, in the order of the criteria.

    Reads ``{"verdicts": [{"id" or "name", "reason", "steps", "verdict"}]}`` from the final text:
    strict JSON first, a repair library only where that fails, nothing from thinking and nothing
    from an item that the reply's end cuts. A verdict is pass / fail / not_applicable (or met /
    not_met / insufficient, or +1 / -1 / 0); anything else is a failed judgement.
    "insufficient" is a fail where the judge saw the whole transcript, and not applicable where
    text was clipped; it is flagged "insufficient" either way.

    Args:
        reply: a Reply, or its text.
        criteria: a rubric, criteria or plain ids.
        n_steps: steps of the rollout; citations outside 1..n_steps are dropped and counted.
        clipped: whether the judge saw a clipped transcript.

    >>> read_verdicts('{"verdicts": [{"id": "a", "reason": "r", "verdict": "met"}]}', ["a"], 6)
    (Verdict(criterion_id='a', label=<Label.PASS: 'pass'>, reason='r', ...no_evidence',)),)
    >>> read_verdicts('{"score": NaN}', ["a"], 6)[0].reason
    'want "verdicts" in the reply; got none'
    """
    return read_reply(reply, criteria, n_steps, clipped=clipped).judgements


def read_reply(
    reply: Reply | str,
    criteria: Rubric | Iterable[Criterion | str],
    n_steps: int,
    *,
    clipped: bool = False,
    untrusted: str = "",
) -> Reading:
    """Return all that a reply says: see ``read_verdicts`` and ``Reading``.

    ``untrusted`` is text that the judge read: a JSON value that stands in it word for word is a
    quotation and not an answer.
    """
    table = _Table(criteria)
    cut = was_cut(reply)
    try:
        items, repaired, cut = find_items(final_text(reply), cut, untrusted)
    except NotJSON as e:
        return table.failed(f"{e}", cut)
    if not items:
        problem = "the reply is cut before its first verdict" if cut else _NONE
        return table.failed(problem, cut)
    answers: dict[str, list[Mapping[str, Any]]] = {}
    invented = 0
    for item in items:
        owner = table.owner(item)
        if owner is None:
            invented += 1
        else:
            answers.setdefault(owner, []).append(item)
    evidence: dict[str, str] = {}
    out: list[Judgement] = []
    for cid in table.ids:
        given = answers.get(cid)
        if not given:
            out.append(FailedJudgement(cid, "cut off" if cut else "no answer"))
            continue
        judgement, quote = judge(cid, given, n_steps, clipped)
        if repaired and isinstance(judgement, Verdict):
            judgement = flagged(judgement, "repaired")
        out.append(judgement)
        if quote:
            evidence[cid] = quote
    return Reading(tuple(out), evidence, invented, "", repaired, cut)


_NONE = 'want "verdicts" in the reply; got none'


class _Table:
    """The criteria of a reading, and whose answer an item is."""

    def __init__(self, criteria: Rubric | Iterable[Criterion | str]) -> None:
        if isinstance(criteria, (str, Criterion)):  # one, and not its letters
            criteria = (criteria,)
        rows = criteria.criteria if isinstance(criteria, Rubric) else tuple(criteria)
        self.ids = tuple(c.id if isinstance(c, Criterion) else str(c) for c in rows)
        self.exact = set(self.ids)
        self.plain: dict[str, str | None] = {}
        self.numbers = _numbers(self.ids)
        for text, cid in [(i, i) for i in self.ids] + [
            (c.title, c.id) for c in rows if isinstance(c, Criterion) and c.title
        ]:
            key = plain(text)
            # Two criteria of one name: the name tells nothing.
            self.plain[key] = cid if self.plain.get(key, cid) == cid else None

    def owner(self, item: Mapping[str, Any]) -> str | None:
        """The id of the criterion that an item answers, None where there is none."""
        if isinstance(item, Pairs) and item.twice & set(ID_KEYS):
            return None
        names = [str(item[k]).strip() for k in ID_KEYS if _is_name(item.get(k))]
        for name in names:
            if name in self.exact:
                return name
        for name in names:
            cid = self.plain.get(plain(name))
            if cid is not None:
                return cid
            if name in self.numbers:
                return self.numbers[name]
        for key in INDEX_KEYS:
            i = item.get(key)
            if isinstance(i, int) and not isinstance(i, bool) and 1 <= i <= len(self.ids):
                return self.ids[i - 1]
        return None

    def failed(self, problem: str, cut: bool = False) -> Reading:
        rows = tuple(FailedJudgement(i, problem) for i in self.ids)
        return Reading(rows, {}, 0, problem, False, cut)


def plain(text: str) -> str:
    """Return a title as it is compared: case, accents' form, quotes and punctuation aside.

    >>> plain("  “Reads-back the ORDER”. ") == plain("reads back the order")
    True
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"[^\W_]+", folded)) or folded.strip()


def _numbers(ids: tuple[str, ...]) -> dict[str, str]:
    """ "3" -> "C3" where the ids are one letter row with numbers: judges drop the letter."""
    split = [re.fullmatch(r"([A-Za-z]+)([1-9][0-9]*)", i) for i in ids]
    if not all(split) or len({m[1] for m in split}) != 1:
        return {}
    return {m[2]: i for m, i in zip(split, ids, strict=True)}


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)
