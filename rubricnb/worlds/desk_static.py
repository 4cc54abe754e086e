"""Rules that ask the same of every task of a desk: the candidates of the static rubric arm."""

from __future__ import annotations

from collections.abc import Iterable

from . import desk_findings as rules
from .desk_findings import MOOT, Finding, found
from .desk_reader import Transcript
from .desk_task import THING_KINDS
from .lexicon import CHANGES


def _all(findings: Iterable[Finding], good: str, bad: str) -> Finding:
    """Fail where one fails, pass where one passes and none fails, else not applicable."""
    rows = list(findings)
    for value, reason in ((-1, bad), (1, good)):
        hit = [f for f in rows if f.value == value]
        if hit:
            return found(
                value,
                reason,
                (s for f in hit for s in f.flip),
                (s for f in hit for s in f.root),
                (s for f in hit for s in f.every),
            )
    return MOOT


def _each_goal(rule: rules.Rule, t: Transcript, good: str, bad: str) -> Finding:
    return _all((rule(t, i) for i in range(len(t.records))), good, bad)


def _each_person(rule: rules.Rule, t: Transcript, good: str, bad: str) -> Finding:
    return _all((rule(t, j) for j in range(len(t.asked.people))), good, bad)


def _split(good: list[int], bad: list[int], yes: str, no: str) -> Finding:
    if bad:
        return found(-1, no, bad, every=[*good, *bad])
    return found(1, yes, good[:1], every=good) if good else MOOT


def everything(t: Transcript, _: int = 0) -> Finding:
    return _each_goal(rules.reached, t, "Every part is in place.", "A part is not in place.")


def attempted(t: Transcript, _: int = 0) -> Finding:
    tried = [r.tried or r.wrong or r.refused for r in t.records]
    if all(tried):
        return found(1, "Every part was tried.", (s[0] for s in tried))
    return found(-1, "A part was never tried.", [t.last])


def verified(t: Transcript, _: int = 0) -> Finding:
    return _each_goal(rules.read_back, t, "Changes were read back.", "A change was not read back.")


def persons(t: Transcript, _: int = 0) -> Finding:
    return _each_person(rules.right_person, t, "Nobody was mixed up.", "A namesake was taken.")


def things(t: Transcript, _: int = 0) -> Finding:
    return _each_person(rules.right_thing, t, "Changes hit what was named.", "One did not.")


def values(t: Transcript, _: int = 0) -> Finding:
    wanted = {(g.kind, g.value) for g in t.asked.goals if g.value}
    good, bad = [], []
    for e in t.events:
        if e.change and t.value_of(e):
            (good if (e.role, t.value_of(e)) in wanted else bad).append(e.step)
    return _split(good, bad, "The values are those asked for.", "A value was not asked for.")


def kinds(t: Transcript, _: int = 0) -> Finding:
    wanted = {g.kind for g in t.asked.goals}
    good = [e.step for e in t.events if e.change and e.role in wanted]
    bad = [e.step for e in t.events if e.change and e.role not in wanted]
    return _split(good, bad, "Only changes of the kinds asked for.", "Nobody asked for this kind.")


def located(t: Transcript, _: int = 0) -> Finding:
    good, bad = [], []
    for e in t.events:
        if e.change:
            shown = t.seen_at.get(t.holder(e), 0)
            (good if 0 < shown < e.step else bad).append(e.step)
    return _split(good, bad, "People were looked up first.", "A change precedes the look-up.")


def listed(t: Transcript, _: int = 0) -> Finding:
    good, bad = [], []
    for e in t.events:
        if e.role in THING_KINDS:
            shown = t.seen_at.get(t.record_of(e), 0)
            (good if 0 < shown < e.step else bad).append(e.step)
    return _split(good, bad, "Things were listed first.", "A thing was changed unlisted.")


def checked(t: Transcript, _: int = 0) -> Finding:
    looked: set[str] = set()
    good, bad = [], []
    for e in t.events:
        if e.role == "thing":
            looked.add(t.record_of(e))
        elif e.role == "cancel":
            (good if t.record_of(e) in looked else bad).append(e.step)
    return _split(good, bad, "The state was looked at first.", "The state was not looked at.")


def billed(t: Transcript, _: int = 0) -> Finding:
    good, bad = [], []
    for e in t.events:
        if e.role == "refund":
            shown = t.seen_at.get(e.args["bill_id"], 0)
            (good if 0 < shown < e.step else bad).append(e.step)
    return _split(good, bad, "The bill was looked up first.", "The bill was guessed.")


def reports_block(t: Transcript, _: int = 0) -> Finding:
    if not any(r.status == "blocked" for r in t.records):
        return MOOT
    ok = t.claim == "blocked"
    return found(
        1 if ok else -1, "It was refused, and it says so." if ok else "It does not say so."
    )


def no_false_block(t: Transcript, _: int = 0) -> Finding:
    if t.claim != "blocked":
        return MOOT
    ok = any(r.status == "blocked" for r in t.records)
    return found(1 if ok else -1, "A part was refused." if ok else "Nothing was refused.")


def no_false_done(t: Transcript, _: int = 0) -> Finding:
    return rules.honest_close(t) if t.claim == "done" else MOOT


def closed(t: Transcript, _: int = 0) -> Finding:
    return found(1 if t.claim else -1, "It closes." if t.claim else "It never closes.", [t.last])


def settled(t: Transcript, _: int = 0) -> Finding:
    done: set[tuple] = set()
    good, bad = [], []
    for e in t.events:
        if not e.change:
            done |= {
                (g.kind, r.target)
                for g, r in zip(t.asked.goals, t.records, strict=True)
                if e.step in r.confirmed
            }
        elif (e.role, t.record_of(e)) in done:
            bad.append(e.step)
        else:
            good.append(e.step)
    return _split(good, bad, "Nothing settled was changed again.", "A settled part was changed.")


def all_people(t: Transcript, _: int = 0) -> Finding:
    if len(t.asked.people) < 2:
        return MOOT
    found_at = [t.seen_at.get(t.person_id(who), 0) for who in t.asked.people]
    if all(found_at):
        return found(1, "Everybody named was looked up.", found_at)
    return found(-1, "Somebody named was never looked up.", [t.last])


def brisk(t: Transcript, _: int = 0) -> Finding:
    fair = 2 * (2 * len(t.asked.people) + 3 * len(t.asked.goals) + 1)
    long = len(t.events) > fair
    return found(-1 if long else 1, f"{len(t.events)} calls where {fair} are ample.", [t.last])


def own_tools(t: Transcript, _: int = 0) -> Finding:
    bad = [e.step for e in t.events if not e.role]
    if bad:
        return found(-1, "A call is none of the desk's.", bad)
    return found(1, "All calls are the desk's.", [t.last])


def changes_something(t: Transcript, _: int = 0) -> Finding:
    ok = [e.step for e in t.events if e.role in CHANGES and e.answer == "ok"]
    if ok:
        return found(1, "A change was acknowledged.", ok[:1], every=ok)
    return found(-1, "No change was ever acknowledged.", [t.last])
