"""One random shop for one variant of a template: people, things, bills, and the goals in them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import WorldError
from .base import WorldTask
from .engine import BILL, DAY, DUE, ITEM, NOTES, OWNER, PAID, STATE, STREET
from .lexicon import Lexicon
from .templates import difficulty_of

TRIES = 200


class _Shop:
    """One random shop: people who share first names, their things, their bills."""

    def __init__(self, rng: random.Random, lex: Lexicon) -> None:
        self.rng, self.lex = rng, lex
        self.free = {k: rng.sample(lex.identifiers(k), len(lex.identifiers(k))) for k in lex.ids}
        self.people: dict[str, list] = {}
        self.things: dict[str, list] = {}
        self.bills: dict[str, list] = {}

    def person(self, name: str, city: str) -> str:
        key = self.free["person"].pop()
        street = self.rng.choice(self.lex.streets) if self.lex.streets else ""
        words = (
            self.rng.sample(self.lex.words, self.rng.choice((0, 0, 1))) if self.lex.words else []
        )
        self.people[key] = [name, city, street, words]
        return key

    def thing(self, owner: str, item: str, day: str) -> str:
        key, bill = self.free["thing"].pop(), self.free["bill"].pop()
        state = self.lex.stuck if self.rng.random() < 0.25 else self.lex.open
        due = self.rng.choice(self.lex.days)
        paid = self.lex.refunded if self.rng.random() < 0.1 else self.lex.paid
        self.things[key] = [owner, item, day, state, due, bill]
        self.bills[bill] = [key, paid]
        return key

    def things_for(self, owner: str, count: int) -> list[str]:
        days = sorted(self.rng.sample(range(len(self.lex.days)), count))
        items = self.rng.sample(self.lex.items, count)
        # By day: the last is the latest.
        return [self.thing(owner, i, self.lex.days[d]) for i, d in zip(items, days, strict=True)]


def _target(shop: _Shop, goal: dict, own: list[str], used: set[str], who: str) -> dict | None:
    """Fill in one goal and prepare the shop for it; None where this shop cannot offer it."""
    lex, rng, kind = shop.lex, shop.rng, goal["kind"]
    if kind in ("address", "note"):
        options = lex.streets if kind == "address" else lex.words
        now = shop.people[who][STREET if kind == "address" else NOTES]
        value = rng.choice([o for o in options if o != now and o not in now])
        return {"kind": kind, "value": value, "person": who}
    thing = own[-1] if goal["latest"] else rng.choice(own)
    if thing in used:
        return None
    used.add(thing)
    row = shop.things[thing]
    if kind == "cancel":
        row[STATE] = lex.stuck if goal["stuck"] else lex.open
    if kind == "refund":
        shop.bills[row[BILL]][PAID] = lex.paid
    out = {"kind": kind, "ref": "latest" if goal["latest"] else row[ITEM], "thing": thing}
    if kind == "move":
        out["value"] = rng.choice([d for d in lex.days if d not in (row[DUE], row[DAY])])
    return out


def _expected(shop: _Shop, goal: Mapping[str, Any], stuck: bool) -> list[list[Any]]:
    """The cells (table, key, column, value) that reach one goal; none where it is blocked."""
    lex, kind = shop.lex, goal["kind"]
    if kind == "address":
        return [["people", goal["person"], STREET, goal["value"]]]
    if kind == "note":
        words = [*shop.people[goal["person"]][NOTES], goal["value"]]
        return [["people", goal["person"], NOTES, words]]
    if kind == "cancel":
        return [] if stuck else [["things", goal["thing"], STATE, lex.closed]]
    if kind == "move":
        return [["things", goal["thing"], DUE, goal["value"]]]
    return [["bills", shop.things[goal["thing"]][BILL], PAID, lex.refunded]]


def _populate(shop: _Shop, template: list) -> tuple[list[dict], dict[str, list[str]]]:
    """Put people and their things into the shop; return who is asked for, and who owns what."""
    rng, lex = shop.rng, shop.lex
    small = lex.name == "library"
    names = rng.sample(lex.names, len(template) + 1)
    asked: list[dict] = []
    sizes: list[tuple[str, int]] = []
    for name, part in zip(names, template, strict=False):
        shared = 2 if small or len(template) > 1 else rng.choice((2, 3))
        cities = rng.sample(lex.cities, shared)
        members = [(city, k == 0) for k, city in enumerate(cities)]
        rng.shuffle(members)
        need = sum(g["kind"] in ("cancel", "move", "refund") for g in part)
        person = ""
        for city, meant in members:
            key = shop.person(name, city)
            size = max(need + 1, rng.choice((2, 3, 4))) if meant else rng.choice((2, 3))
            sizes.append((key, min(size, 3 if meant else 2) if small else size))
            person = key if meant else person
        asked.append({"name": name, "city": cities[0], "person": person, "goals": []})
    if not small:
        sizes.append((shop.person(names[-1], rng.choice(lex.cities)), 2))
    return asked, {key: shop.things_for(key, size) for key, size in sizes}


def _attempt(rng: random.Random, lex: Lexicon, template: list) -> dict[str, Any] | None:
    """The spec of one variant, or None where this draw cannot offer what the template asks."""
    shop = _Shop(rng, lex)
    asked, owned = _populate(shop, template)
    for who, part in zip(asked, template, strict=True):
        used: set[str] = set()
        for goal in part:
            made = _target(shop, goal, owned[who["person"]], used, who["person"])
            if made is None:
                return None
            who["goals"].append(made)
    if _lacks_trap(shop, asked):
        return None
    pairs = [
        (made, goal["stuck"])
        for who, part in zip(asked, template, strict=True)
        for made, goal in zip(who["goals"], part, strict=True)
    ]
    expected = [_expected(shop, made, stuck) for made, stuck in pairs]
    return {
        "desk": lex.name,
        "people": shop.people,
        "things": shop.things,
        "bills": shop.bills,
        "goals": asked,
        "expected": expected,
        "targets": sorted({key for goal in expected for _, key, _, _ in goal}),
        "blocked": [made["thing"] for made, stuck in pairs if stuck],
    }


def _lacks_trap(shop: _Shop, asked: list) -> bool:
    """True where an item named in the task is not also owned by a namesake or a bystander."""
    named = {g["ref"] for who in asked for g in who["goals"] if g.get("ref", "latest") != "latest"}
    mine = {who["person"] for who in asked}
    others = {t[ITEM] for t in shop.things.values() if t[OWNER] not in mine}
    return bool(named) and not named & others


def prompt_of(lex: Lexicon, asked: Sequence[Mapping[str, Any]]) -> str:
    """The task in compact words: ``anna of rome : cancel the chair order ; note gift .``"""
    parts = []
    for who in asked:
        lines = []
        for g in who["goals"]:
            verb = lex.tools[g["kind"]]
            ref = f" the {g['ref']} {lex.thing}" if "ref" in g else ""
            value = f" to {g['value']}" if "value" in g else ""
            lines.append(f"{verb}{ref}{value}")
        parts.append(f"{who['name']} of {who['city']} : " + " ; ".join(lines) + " .")
    return " ".join(parts)


def make_task(
    rng: random.Random, lex: Lexicon, template: list, *, id: str, scenario: str, split: str
) -> WorldTask:
    """One variant of a template.

    Raises:
        WorldError: after 200 shops that could not offer what the template asks.
    """
    for _ in range(TRIES):
        spec = _attempt(rng, lex, template)
        if spec is not None:
            kinds = [g["kind"] for who in spec["goals"] for g in who["goals"]]
            prompt = prompt_of(lex, spec["goals"])
            return WorldTask(id, scenario, split, prompt, difficulty_of(kinds), spec)
    raise WorldError(f"want a shop that offers {template}; got none in {TRIES} tries")
