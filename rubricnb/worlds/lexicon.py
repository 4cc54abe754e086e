"""The words of the two bundled desks: one engine, two vocabularies.

A desk has people, things that belong to them and bills that belong to things. The orders desk
calls them customer, order and payment; the library desk member, loan and fee. Every word is one
token of the tiny policy's vocabulary, so the lists are short on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Argument kinds of each role, in the order in which a compact call writes them.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "find": ("name",),
    "person": ("name", "city", "person_id"),
    "list": ("name", "city", "person_id"),
    "thing": ("item", "day", "thing_id"),
    "cancel": ("item", "day", "thing_id"),
    "move": ("item", "day", "thing_id", "to"),
    "bill": ("item", "day", "thing_id"),
    "refund": ("item", "bill_id"),
    "address": ("name", "city", "person_id", "street"),
    "note": ("name", "city", "person_id", "word"),
    "notes": ("name", "city", "person_id"),
    "finish": ("outcome",),
}
CHANGES = ("cancel", "move", "refund", "address", "note")
OUTCOMES = ("done", "blocked")
GLUE = (":", ";", ".", "of", "the", "latest", "to", "ok", "error", "none", "end")
ERRORS = ("timeout", "unknown", "syntax")


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Every word that one desk uses.

    Args:
        name: the desk's name.
        tools: role -> tool name; a role that is left out does not exist at this desk.
        person, thing, bill: the desk's nouns.
        open, closed, stuck: the states of a thing; a stuck one cannot be closed.
        paid, refunded: the states of a bill.
        due: the word before a thing's movable date.
        ids: prefix and count of the identifiers of people, things and bills.
    """

    name: str
    tools: Mapping[str, str]
    person: str
    thing: str
    bill: str
    open: str
    closed: str
    stuck: str
    paid: str
    refunded: str
    due: str
    items: tuple[str, ...]
    ids: Mapping[str, tuple[str, int]]
    names: tuple[str, ...] = (
        *("anna", "ben", "carl", "dora", "emma"),
        *("felix", "gina", "hugo", "ida", "jack"),
    )
    cities: tuple[str, ...] = ("rome", "oslo", "bern", "kyiv", "lima", "cairo", "quito", "delhi")
    days: tuple[str, ...] = tuple(f"d{i}" for i in range(1, 13))
    streets: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    roles: Mapping[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "roles", {tool: role for role, tool in self.tools.items()})

    def identifiers(self, kind: str) -> tuple[str, ...]:
        """All identifiers of "person", "thing" or "bill"."""
        prefix, count = self.ids[kind]
        return tuple(f"{prefix}{i}" for i in range(1, count + 1))

    def vocabulary(self) -> tuple[str, ...]:
        """Every word of this desk once, in a fixed order."""
        words = [
            *GLUE,
            *OUTCOMES,
            *ERRORS,
            *self.tools.values(),
            *(self.person, self.thing, self.bill),
            *(self.open, self.closed, self.stuck, self.paid, self.refunded, self.due),
            *self.names,
            *self.cities,
            *self.days,
            *self.items,
            *self.streets,
            *self.words,
            *(i for kind in ("person", "thing", "bill") for i in self.identifiers(kind)),
        ]
        return tuple(dict.fromkeys(words))


ORDERS = Lexicon(
    name="orders",
    tools={
        "find": "find",
        "person": "customer",
        "list": "orders",
        "thing": "order",
        "cancel": "cancel",
        "move": "move",
        "bill": "payment",
        "refund": "refund",
        "address": "address",
        "note": "note",
        "notes": "notes",
        "finish": "finish",
    },
    person="customer",
    thing="order",
    bill="payment",
    open="open",
    closed="cancelled",
    stuck="shipped",
    paid="paid",
    refunded="refunded",
    due="delivery",
    items=(
        *("chair", "sofa", "lamp", "desk", "shelf", "rug"),
        *("mirror", "stool", "clock", "vase", "bench", "couch"),
    ),
    ids={"person": ("c", 12), "thing": ("o", 30), "bill": ("p", 30)},
    streets=("oak", "elm", "birch", "cedar", "maple", "pine"),
    words=("fragile", "gift", "urgent", "vip", "call", "ring"),
)

LIBRARY = Lexicon(
    name="library",
    tools={
        "find": "search",
        "person": "member",
        "list": "loans",
        "thing": "loan",
        "cancel": "close",
        "move": "renew",
        "bill": "fee",
        "refund": "waive",
        "finish": "finish",
    },
    person="member",
    thing="loan",
    bill="fee",
    open="active",
    closed="closed",
    stuck="overdue",
    paid="charged",
    refunded="waived",
    due="due",
    items=("atlas", "novel", "comic", "film", "map", "poem"),
    ids={"person": ("m", 8), "thing": ("l", 12), "bill": ("f", 12)},
)

LEXICONS: Mapping[str, Lexicon] = {"orders": ORDERS, "library": LIBRARY}


def vocabulary() -> tuple[str, ...]:
    """Every word of both desks once, in a fixed order: the tiny policy's token list.

    >>> len(vocabulary()) == len(set(vocabulary())) and 190 <= len(vocabulary()) <= 230
    True
    """
    return tuple(dict.fromkeys((*ORDERS.vocabulary(), *LIBRARY.vocabulary())))
