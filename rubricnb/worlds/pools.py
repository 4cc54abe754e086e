"""Templates, scenarios and tasks: who asks for what, in which shop, for every split.

A template fixes what is asked and where the trap is; a scenario is one template; its three
variants have other people, items, days and streets.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import WorldError
from ..seeds import child_seed
from .base import WorldTask
from .engine import BILL, DAY, ITEM, NOTES, OWNER, STATE, STREET
from .lexicon import LEXICONS, Lexicon

VARIANTS = 3
TRIES = 200

# What RL trains on; anything else is a combination that test_challenge may ask for.
TRAIN_COMBINATIONS: tuple[tuple[str, ...], ...] = (
    ("cancel",),
    ("move",),
    ("refund",),
    ("address",),
    ("cancel", "move"),
    ("cancel", "address"),
    ("move", "move"),
    ("cancel", "refund"),
    ("refund", "refund"),
    ("cancel", "cancel", "move"),
    ("cancel", "move", "refund"),
    ("address", "cancel", "refund"),
    ("move", "move", "refund", "refund"),
)
# Held out from RL. "note" and "notes" are the tools of an app that RL never uses.
CHALLENGE_COMBINATIONS: tuple[tuple[str, ...], ...] = (
    ("note",),
    ("move", "refund"),
    ("address", "move"),
    ("address", "refund"),
    ("cancel", "cancel"),
    ("cancel", "note"),
    ("move", "note"),
    ("note", "refund"),
    ("address", "note"),
    ("move", "note", "refund"),
    ("cancel", "move", "note"),
    ("cancel", "note", "refund"),
    ("address", "move", "refund"),
    ("cancel", "cancel", "refund"),
    ("address", "cancel", "move", "note"),
    ("cancel", "move", "note", "refund"),
)
LIBRARY_COMBINATIONS: tuple[tuple[str, ...], ...] = (
    ("cancel",),
    ("move",),
    ("refund",),
    ("cancel", "move"),
    ("move", "refund"),
    ("cancel", "refund"),
    ("cancel", "move", "refund"),
)


@dataclass(frozen=True)
class Pool:
    """How the tasks of one split are made.

    Args:
        name: the split's name; together with ``seed`` it names the random stream.
        tasks: how many tasks per difficulty, easy to hard.
        combinations: what may be asked for together.
        desk: "orders" or "library".
        blocked: share of the templates with a "cancel" in which that thing is stuck.
        two_people: share of the hard templates that concern two people.
        seed: another seed is a fresh pool.
    """

    name: str
    tasks: tuple[int, int, int]
    combinations: tuple[tuple[str, ...], ...] = TRAIN_COMBINATIONS
    desk: str = "orders"
    blocked: float = 0.25
    two_people: float = 0.5
    seed: int = 0


ALL_COMBINATIONS = (*TRAIN_COMBINATIONS, *CHALLENGE_COMBINATIONS)
POOLS: Mapping[str, Pool] = {
    p.name: p
    for p in (
        Pool("train", (36, 30, 24)),
        Pool("dev", (42, 36, 42)),
        Pool("dev_challenge", (24, 48, 48), CHALLENGE_COMBINATIONS),
        Pool("test_normal", (57, 48, 63)),
        Pool("test_challenge", (72, 150, 195), CHALLENGE_COMBINATIONS),
        Pool("transfer", (36, 36, 25), LIBRARY_COMBINATIONS, desk="library"),
    )
}


def difficulty_of(kinds: Sequence[str]) -> int:
    """1 for one goal, 2 for two, 3 for more."""
    return min(len(kinds), 3)


@dataclass
class _Goal:
    kind: str
    stuck: bool = False
    latest: bool = False
    value: str = ""
    thing: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


def make_template(rng: random.Random, pool: Pool, difficulty: int) -> list[list[dict[str, Any]]]:
    """What one scenario asks, person by person: kind, latest or by item, stuck or not."""
    choices = [c for c in pool.combinations if difficulty_of(c) == difficulty]
    if not choices:
        raise WorldError(f"want a combination of difficulty {difficulty} in pool {pool.name!r}")
    kinds = list(rng.choice(choices))
    rng.shuffle(kinds)
    split = len(kinds)
    if difficulty == 3 and rng.random() < pool.two_people:
        split = rng.randint(1, len(kinds) - 1)
    people = [part for part in (kinds[:split], kinds[split:]) if part]
    stuck = rng.random() < pool.blocked
    template = []
    for part in people:
        latest = rng.randrange(len(part)) if rng.random() < 0.5 else -1
        goals = []
        for i, kind in enumerate(part):
            by_thing = kind in ("cancel", "move", "refund")
            goals.append(
                {
                    "kind": kind,
                    "latest": by_thing and i == latest,
                    "stuck": kind == "cancel" and stuck,
                }
            )
            stuck = stuck and kind != "cancel"
        template.append(goals)
    return template


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
        shop.bills[row[BILL]][1] = lex.paid
    out = {"kind": kind, "ref": "latest" if goal["latest"] else row[ITEM], "thing": thing}
    if kind == "move":
        out["value"] = rng.choice([d for d in lex.days if d not in (row[4], row[DAY])])
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
        return [["things", goal["thing"], 4, goal["value"]]]
    return [["bills", shop.things[goal["thing"]][BILL], 1, lex.refunded]]


def _attempt(rng: random.Random, lex: Lexicon, template: list) -> dict[str, Any] | None:
    shop = _Shop(rng, lex)
    library = lex.name == "library"
    names = rng.sample(lex.names, len(template) + 1)
    asked, expected, blocked = [], [], []
    shoppers: list[tuple[str, int]] = []
    for i, part in enumerate(template):
        name = names[i]
        shared = 2 if library or len(template) > 1 else rng.choice((2, 3))
        cities = rng.sample(lex.cities, shared)
        who = {"name": name, "city": cities[0]}
        members = [(c, k == 0) for k, c in enumerate(cities)]
        rng.shuffle(members)
        need = sum(g["kind"] in ("cancel", "move", "refund") for g in part)
        for city, meant in members:
            key = shop.person(name, city)
            size = max(need + 1, rng.choice((2, 3, 4))) if meant else rng.choice((2, 3))
            size = min(size, 3 if meant else 2) if library else size
            shoppers.append((key, size))
            if meant:
                who["person"] = key
        asked.append({**who, "goals": []})
    if not library:
        shoppers.append((shop.person(names[-1], rng.choice(lex.cities)), 2))
    owned = {key: shop.things_for(key, size) for key, size in shoppers}
    for who, part in zip(asked, template, strict=True):
        used: set[str] = set()
        for goal in part:
            made = _target(shop, goal, owned[who["person"]], used, who["person"])
            if made is None:
                return None
            who["goals"].append(made)
    for who, part in zip(asked, template, strict=True):
        for made, goal in zip(who["goals"], part, strict=True):
            expected.append(_expected(shop, made, goal["stuck"]))
            if goal["stuck"]:
                blocked.append(made["thing"])
    if _lacks_trap(shop, asked):
        return None
    return {
        "desk": lex.name,
        "people": shop.people,
        "things": shop.things,
        "bills": shop.bills,
        "goals": asked,
        "expected": expected,
        "targets": sorted({key for goal in expected for _, key, _, _ in goal}),
        "blocked": blocked,
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


def make_pool(pool: Pool) -> tuple[WorldTask, ...]:
    """All tasks of a pool, three variants a scenario, the last scenario cut where it must be."""
    lex, out = LEXICONS[pool.desk], []
    scenario = 0
    for difficulty, count in enumerate(pool.tasks, start=1):
        for start in range(0, count, VARIANTS):
            name = f"{pool.name}_{scenario:03d}"
            rng = random.Random(child_seed(pool.seed, "pool", pool.name, scenario))
            template = make_template(rng, pool, difficulty)
            for v in range(1, min(VARIANTS, count - start) + 1):
                draw = random.Random(child_seed(pool.seed, "task", pool.name, scenario, v))
                task = make_task(
                    draw, lex, template, id=f"{name}_{v}", scenario=name, split=pool.name
                )
                out.append(task)
            scenario += 1
    return tuple(out)


def warm_up_tasks(seed: int, *, library: float = 0.2, unseen: float = 0.5) -> Iterator[WorldTask]:
    """Endless tasks for supervised warm-up, from a stream that no split uses.

    Args:
        seed: names the stream.
        library: share of tasks at the library desk.
        unseen: weight of a combination that RL never trains on, relative to one that it does.
    """
    number = 0
    orders = Pool("warm_up", (1, 1, 1), ALL_COMBINATIONS, seed=seed)
    second = Pool("warm_up", (1, 1, 1), LIBRARY_COMBINATIONS, desk="library", seed=seed)
    easy = {d: [c for c in TRAIN_COMBINATIONS if difficulty_of(c) == d] for d in (1, 2, 3)}
    while True:
        rng = random.Random(child_seed(seed, "warm_up", number))
        pool = second if rng.random() < library else orders
        difficulty = rng.choice((1, 2, 3))
        if pool is orders and rng.random() > unseen / (1 + unseen):
            pool = Pool("warm_up", (1, 1, 1), tuple(easy[difficulty]), seed=seed)
        template = make_template(rng, pool, difficulty)
        name = f"warm_up_{seed}_{number:06d}"
        yield make_task(
            rng, LEXICONS[pool.desk], template, id=f"{name}_1", scenario=name, split="warm_up"
        )
        number += 1
