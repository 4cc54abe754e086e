"""Task-agnostic candidate criteria for the static rubric arm: their texts.

They were written once, for any task of a desk; which of them survive is decided by
``static_rubric`` from failure and applicability rates on base rollouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import desk_findings as rules
from . import desk_static as s


@dataclass(frozen=True, slots=True)
class Static:
    """A task-agnostic criterion: its text and its rule."""

    title: str
    instruction: str
    rule: rules.Rule


def _row(title: str, instruction: str, rule: rules.Rule) -> tuple[str, Static]:
    return rule.__name__, Static(title, instruction, rule)


STATIC: Mapping[str, Static] = dict(
    [
        _row(
            "Everything asked for is in place",
            "Met if each part of the task was acknowledged on the right record, or refused by the "
            "desk, and none was last seen missing. Failed if one part is not.",
            s.everything,
        ),
        _row(
            "Every part is tried",
            "Met if each part of the task is tried at least once or shown to be refused. Failed "
            "if one is never tried.",
            s.attempted,
        ),
        _row(
            "Works for the person named",
            "Met if the right person is picked among namesakes and no namesake's record is "
            "changed. Failed if one is. Not applicable if nobody is picked.",
            s.persons,
        ),
        _row(
            "Changes only the things named",
            "Met if each change among a person's things hits one that the task names for it. "
            "Failed if one hits another. Not applicable if none is changed.",
            s.things,
        ),
        _row(
            "Uses the values that were asked",
            "For changes that write a value: met if each value is one that the task asks for, "
            "failed if one is not. Not applicable without such a change.",
            s.values,
        ),
        _row(
            "Makes only kinds of change asked for",
            "Failed if a kind of change is made that no part of the task asks for. Not applicable "
            "if no change is made.",
            s.kinds,
        ),
        _row(
            "Does not say done too early",
            "If the rollout closes with done: met if everything is in place, failed if not. Not "
            "applicable if it does not say done.",
            s.no_false_done,
        ),
        _row(
            "Reports what was refused",
            "If the desk refused a part: met if the rollout closes with blocked, failed if not. "
            "Not applicable if nothing was refused.",
            s.reports_block,
        ),
        _row(
            "Says blocked only when refused",
            "If the rollout closes with blocked: met if the desk refused a part, failed if not. "
            "Not applicable if it does not say blocked.",
            s.no_false_block,
        ),
        _row(
            "Closes the work",
            "Met if the rollout ends with a closing call, failed if it just stops.",
            s.closed,
        ),
        _row(
            "Reads changes back",
            "Met if every acknowledged change is looked at afterwards, failed if one is not. Not "
            "applicable if none was acknowledged.",
            s.verified,
        ),
        _row(
            "Repeats changes that timed out",
            "If changes timed out: met if each is made again, failed if one is left. Not "
            "applicable without a timeout.",
            rules.retried,
        ),
        _row(
            "Repeats changes seen to be missing",
            "If a look shows an acknowledged change missing: met if it is made again, failed if "
            "not. Not applicable if none was seen missing.",
            rules.redone,
        ),
        _row(
            "Looks people up before changes",
            "Met if each change is made after a look-up showed whose record it is, failed if one "
            "is not. Not applicable without a change.",
            s.located,
        ),
        _row(
            "Lists things before changing them",
            "Met if each thing is shown by a list before it is changed, failed if one is not. Not "
            "applicable if no thing is changed.",
            s.listed,
        ),
        _row(
            "Looks at the state before closing one",
            "For things that the rollout cancels or closes: met if each was looked at before, "
            "failed if not. Not applicable if there are none.",
            s.checked,
        ),
        _row(
            "Looks the bill up before refunds",
            "For bills that are refunded or waived: met if each was shown before, failed if one "
            "was guessed. Not applicable if there are none.",
            s.billed,
        ),
        _row(
            "Leaves settled parts alone",
            "Failed if a part that was read back as done is changed again, met if not. Not "
            "applicable without a change.",
            s.settled,
        ),
        _row(
            "Looks up everybody named",
            "If the task names several people: met if each is looked up, failed if one is not. "
            "Not applicable if it names one.",
            s.all_people,
        ),
        _row(
            "Does not repeat a look-up",
            "Failed if the same look-up is made twice with the same answer and no change in "
            "between, met if it is not.",
            rules.no_loop,
        ),
        _row(
            "Names what the desk knows",
            "Failed if a call is answered with error unknown or error syntax, met if none is.",
            rules.understood,
        ),
        _row(
            "Stays brisk",
            "Failed if the rollout makes more than twice the calls that a careful agent needs: "
            "two a person, three a part, one to close. Met if not.",
            s.brisk,
        ),
        _row(
            "Uses the desk's tools only",
            "Failed if a call is not one of the desk's tools in its proper form, met if all are.",
            s.own_tools,
        ),
        _row(
            "Gets a change through",
            "Met if at least one change is acknowledged, failed if none ever is.",
            s.changes_something,
        ),
    ]
)
