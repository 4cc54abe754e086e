"""Whether a rollout's closing turns claim that the task is done: explicit statuses, else words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..trajectory import Step, Trajectory

# Closing calls of agent frameworks, and the arguments that say how it went.
_CLOSING = re.compile(
    r"(^|_)(finish|complete|completed|complete_task|submit|done|stop|end_task|final_answer|answer)$"
)
_STATUS = ("outcome", "status", "state", "result", "success")
_YES = {"done", "success", "succeeded", "successful", "complete", "completed", "true", "pass", "ok"}
_NO = {"blocked", "fail", "failed", "failure", "error", "false", "give_up", "infeasible", "aborted"}
_HANDED_ON = re.compile(r"transfer_to|hand_?off|escalate", re.I)

_DONE = re.compile(
    r"\b(?:has|have) (?:now |also |already |both |all )*been (?:\w+ly |now |also )*"
    r"(?!denied|unable)\w+(?:ed|t|n)\b"
    r"|\bsuccessfully \w+"
    r"|\b(?:is|are|was|were) (?:now |all |fully )*"
    r"(?:complete|completed|confirmed|done|booked|cancel+ed|updated|scheduled|fixed)\b"
    r"|\bi(?:'ve| have) (?:now |also |just |successfully )*(?!found|checked|reviewed|looked|noted|"
    r"received|considered|tried|identified|verified|searched|explained|understood|attempted)"
    r"(?:\w+ed|sent|made|set|done|put|built|written)\b"
    r"|\ball set\b|\btask (?:is )?(?:complete|completed|done)\b|<answer>|\\boxed\{"
    r"|\bfinal answer\b|^\s*terminate\s*$",
    re.I | re.M,
)
_REFUSED = re.compile(
    r"\b(?:not|unable|cannot|can't|couldn't|can not|unfortunately|wasn't|isn't|haven't|hasn't|"
    r"would|if|once|before|should|failed)\b",
    re.I,
)
_GAVE_UP = re.compile(
    r"\b(?:i (?:am|was|'m) (?:unable|not able)|i (?:cannot|can't|could not|couldn't) "
    r"(?:complete|proceed|finish|fulfil+)|transfer(?:ring)? you to a human|"
    r"(?:task|request) (?:could not|cannot) be (?:completed|done))",
    re.I,
)
_COURTESY = re.compile(
    r"^\W*(?:you're (?:very )?welcome|thank(?:s| you)|glad|great|happy to|no problem|have a|"
    r"goodbye|take care|safe travels)",
    re.I,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Claim:
    """What the closing turns say.

    Args:
        claimed: True where they claim completion.
        explicit: whether a closing call said so, instead of words.
        step: the step that decided it, 0 where the rollout says nothing.
        words: the sentence or status that decided it, "" for none.
    """

    claimed: bool
    explicit: bool = False
    step: int = 0
    words: str = ""


def closing_claim(trajectory: Trajectory) -> Claim:
    """Return whether the closing turns claim completion.

    In this order: a closing call with a status; a hand-over to somebody else, which claims
    nothing; else the last message that is more than courtesy: it claims completion where one of
    its sentences reports something as done without a word of refusal, and none gives up. The
    words are English. Reasoning that was logged apart is not read.

    >>> from rubricnb import Step, Task, ToolCall
    >>> def run(*steps):
    ...     return Trajectory("a", Task("t", "cancel it"), tuple(steps))
    >>> closing_claim(run(Step("Your booking has been cancelled."))).claimed
    True
    >>> closing_claim(run(Step("I am unable to cancel it."))).claimed
    False
    >>> closing_claim(run(Step("", (ToolCall("finish", '{"outcome": "blocked"}'),)))).explicit
    True
    """
    said = _explicit(trajectory.steps)
    if said is not None:
        return said
    steps = trajectory.steps
    if steps and any(_HANDED_ON.search(c.name) for c in steps[-1].calls):
        return Claim(False, step=len(steps), words=steps[-1].calls[-1].name[:80])
    messages = [(i, s.text) for i, s in enumerate(steps, start=1) if s.text.strip()]
    for number, text in reversed(messages[-3:]):
        sentence = _completion(text)
        if sentence:
            return Claim(True, step=number, words=sentence)
        if not (_COURTESY.match(text) and len(text) < 300):
            return Claim(False, step=number, words=" ".join(text.split())[:160])
    return Claim(False)


def _explicit(steps: Sequence[Step]) -> Claim | None:
    """The status of a closing call in the last two steps."""
    for number in range(len(steps), max(0, len(steps) - 2), -1):
        for call in steps[number - 1].calls:
            if not _CLOSING.search(call.name.lower()):
                continue
            status = _status(call.arguments)
            if status:
                return Claim(status in _YES, True, number, f"{call.name} {status}"[:80])
    return None


def _status(arguments: str) -> str:
    """The closing status in a call's arguments, lower case; "" where they hold none we know."""
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    values = [found.get(k) for k in _STATUS] if isinstance(found, dict) else [found]
    for value in values:
        word = str(value).strip().lower()
        if word in _YES or word in _NO:
            return word
    return ""


def _completion(text: str) -> str:
    """The first sentence that reports something as done, "" where there is none or it gives up."""
    if _GAVE_UP.search(text):
        return ""
    for sentence in _SENTENCE.split(text[:8000]):
        if _DONE.search(sentence) and not _REFUSED.search(sentence):
            return " ".join(sentence.split())[:160]
    return ""
