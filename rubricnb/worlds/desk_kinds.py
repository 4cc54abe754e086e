"""The kinds of criteria that the offline rule judge writes, each in two wordings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import desk_findings as rules


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of criterion.

    Args:
        scope: "goal", "person" or "task".
        stage: "task" where the task alone suggests it, "rollout" where a slip does.
        rule: how a reader decides it.
        wordings: (title, instruction), first wording and paraphrase.
        about: the description.
    """

    scope: str
    stage: str
    rule: rules.Rule
    wordings: tuple[tuple[str, str], tuple[str, str]]
    about: str


KINDS: Mapping[str, Kind] = {
    "reached": Kind(
        "goal",
        "task",
        rules.reached,
        (
            (
                "Part {n} reached: {short}",
                'Part {n} of the task: "{words}" for {who}. Met if the change was acknowledged on '
                "the right record with the right value and nothing later shows it missing, or if "
                "the desk shows that it refuses it. Failed if it was not tried, went to another "
                "record, or was last seen missing.",
            ),
            (
                "Part {n} left undone: {short}",
                'The failure to look for: the rollout ends without "{words}" in place for {who}. '
                "Met if a change on the right record was acknowledged and not seen missing later, "
                "or was refused by the desk. Failed otherwise.",
            ),
        ),
        "One part of the task is in place at the end.",
    ),
    "right_person": Kind(
        "person",
        "task",
        rules.right_person,
        (
            (
                "Acts for {who} only",
                "Several people share the first name. Met if the person picked is {who} and no "
                "namesake's record is changed. Failed if a change goes to a namesake, or only a "
                "namesake is looked at. Not applicable if the rollout never picks anybody.",
            ),
            (
                "Mistakes a namesake for {who}",
                "The failure to look for: somebody else with the first name of {who} is worked "
                "on. Met if the changes stay with {who}; failed if not; not applicable if nobody "
                "is picked at all.",
            ),
        ),
        "The city tells which person is meant.",
    ),
    "right_thing": Kind(
        "person",
        "task",
        rules.right_thing,
        (
            (
                "Changes what {who} named",
                "Among the {thing}s of {who}, met if every change hits a {thing} that the task "
                "names and does to it what was asked, failed if one hits another {thing}. Not "
                "applicable if none of them is changed.",
            ),
            (
                "Takes the wrong {thing} of {who}",
                "The failure to look for: a {thing} of {who} that was not named, or not for this, "
                "is changed. Met if all changes among them are the ones asked for; not applicable "
                "if there are none.",
            ),
        ),
        "The item, or the latest one, tells which is meant.",
    ),
    "honest_close": Kind(
        "task",
        "task",
        rules.honest_close,
        (
            (
                "Closing claim fits the transcript",
                "Met if the rollout closes with done and every part is in place, or closes with "
                "blocked and the desk refused a part. Failed if it claims more or less than the "
                "transcript shows, or never closes.",
            ),
            (
                "Claims what was not achieved",
                "The failure to look for: the closing word does not match the results: done with "
                "a part missing or refused, blocked with nothing refused, or no closing word. "
                "Met if it matches.",
            ),
        ),
        "Done and blocked mean what they say.",
    ),
    "read_back": Kind(
        "goal",
        "task",
        rules.read_back,
        (
            (
                "Reads back part {n}: {short}",
                'After the last acknowledged change for "{words}" ({who}), met if the record is '
                "looked at again, failed if not. Not applicable if no such change was "
                "acknowledged.",
            ),
            (
                "Trusts the acknowledgement of part {n}",
                'The failure to look for: "{words}" for {who} is acknowledged and never verified '
                "by a later look. Met if it is verified; not applicable without an "
                "acknowledgement.",
            ),
        ),
        "Acknowledged changes can be lost.",
    ),
    "retried": Kind(
        "task",
        "rollout",
        rules.retried,
        (
            (
                "Tries again after a timeout",
                "If a change timed out: met if the same change is made again, failed if it is "
                "left. Not applicable if nothing timed out.",
            ),
            (
                "Gives up on a timeout",
                "The failure to look for: a change times out and is abandoned. Met if it is "
                "repeated; not applicable where no timeout occurs.",
            ),
        ),
        "A timeout is no refusal.",
    ),
    "redone": Kind(
        "task",
        "rollout",
        rules.redone,
        (
            (
                "Repeats a change that was lost",
                "If a look at the record shows that an acknowledged change is missing: met if it "
                "is made again, failed if not. Not applicable if no change was seen missing.",
            ),
            (
                "Ignores that a change is missing",
                "The failure to look for: a read-back shows the old value and nothing is done. "
                "Met if the change is made once more; not applicable if all looks show it.",
            ),
        ),
        "A read-back is worth only what follows from it.",
    ),
    "no_loop": Kind(
        "task",
        "rollout",
        rules.no_loop,
        (
            (
                "No look-up repeated for nothing",
                "Failed if the same look-up is made twice with the same answer and no change in "
                "between; met if not.",
            ),
            (
                "Repeats look-ups in a loop",
                "The failure to look for: identical look-ups with identical answers. Met if each "
                "look-up has a reason.",
            ),
        ),
        "Every turn counts against the limit.",
    ),
    "understood": Kind(
        "task",
        "rollout",
        rules.understood,
        (
            (
                "Calls name things that exist",
                "Failed if the desk answers a call with error unknown or error syntax; met if it "
                "makes sense of every call.",
            ),
            (
                "Invents identifiers or call forms",
                "The failure to look for: calls with identifiers or forms that the desk does not "
                "know. Met if there are none.",
            ),
        ),
        "Identifiers come from earlier answers.",
    ),
}
# Importance, first to last: results, then mix-ups, then the claim, then habits.
ORDER = tuple(KINDS)
