"""What judging costs, by phase, group, rollout and training step; unknown stays unknown.

A call whose endpoint gave no usage has unknown tokens, and a call without a price unknown
dollars. Both are counted and neither is a 0: a bill with such calls says "at least".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from .prices import Price
from .protocol import PHASES, Call, Usage


@dataclass(frozen=True, slots=True)
class Entry:
    """One call in the ledger."""

    phase: str
    task_id: str
    trajectory_id: str
    step: int | None
    usage: Usage | None
    seconds: float
    retries: int
    replayed: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class Bill:
    """The sum of some entries.

    Args:
        calls: calls that reached the judge.
        replayed: calls answered from memory; their tokens are in the sums, as first paid.
        failed: calls that ended without a reply.
        retries: attempts beyond each call's first.
        prompt: prompt tokens that were not cached by the provider.
        cached: prompt tokens that were.
        completion: completion tokens.
        unknown: calls whose tokens are unknown.
        seconds: the calls' wall times, added up.
        dollars: of the calls whose cost is known; None where no price is known.
    """

    calls: int = 0
    replayed: int = 0
    failed: int = 0
    retries: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    unknown: int = 0
    seconds: float = 0.0
    dollars: float | None = None

    @property
    def tokens(self) -> int:
        """All tokens whose number is known."""
        return self.prompt + self.cached + self.completion

    def to_json(self) -> dict[str, Any]:
        """Return the bill as JSON types; unknown dollars are None."""
        return asdict(self)


class Ledger:
    """Every call of a run, and sums over them.

    >>> ledger = Ledger(Price(2.0, 0.5, 8.0, "mine"))
    >>> ledger.add(Call("union", ()), Usage(1000, 600, 100), 1.5)
    >>> ledger.bill().dollars, Ledger().bill().dollars
    (0.0019, None)
    """

    def __init__(self, price: Price | None = None) -> None:
        self.price = price
        self.step: int | None = None  # the training step that new entries belong to
        self.entries: list[Entry] = []

    def add(
        self,
        call: Call,
        usage: Usage | None,
        seconds: float,
        *,
        retries: int = 0,
        replayed: bool = False,
        failed: bool = False,
    ) -> None:
        """Book one call."""
        about = (str(call.key.get(name, "")) for name in ("task_id", "trajectory_id"))
        what = (usage, seconds, retries, replayed, failed)
        self.entries.append(Entry(call.phase, *about, self.step, *what))

    def bill(self, entries: Iterable[Entry] | None = None) -> Bill:
        """Return the sum of these entries, by default of all; the order does not matter."""
        rows = list(self.entries if entries is None else entries)
        known = [e.usage for e in rows if e.usage is not None]
        return Bill(
            calls=sum(not e.replayed for e in rows),
            replayed=sum(e.replayed for e in rows),
            failed=sum(e.failed for e in rows),
            retries=sum(e.retries for e in rows),
            prompt=sum(u.prompt - u.cached for u in known),
            cached=sum(u.cached for u in known),
            completion=sum(u.completion for u in known),
            unknown=len(rows) - len(known),
            seconds=math.fsum(e.seconds for e in rows),
            dollars=None if self.price is None else math.fsum(map(self.price.of, known)),
        )

    def by(self, field: str) -> dict[Any, Bill]:
        """Return a bill per "phase", "task_id", "trajectory_id" or "step"; phases in order."""
        parts: dict[Any, list[Entry]] = {}
        for e in list(self.entries):
            parts.setdefault(getattr(e, field), []).append(e)
        names = [p for p in PHASES if p in parts] if field == "phase" else []
        return {n: self.bill(parts[n]) for n in [*names, *(p for p in parts if p not in names)]}

    def per(self, count: int) -> dict[str, float | None]:
        """Return tokens and dollars for each of ``count`` groups, rollouts or training steps."""
        bill = self.bill()
        dollars = None if bill.dollars is None else bill.dollars / count
        return {"tokens": bill.tokens / count, "dollars": dollars}

    def to_json(self) -> dict[str, Any]:
        """Return the bills by phase, their total and the price behind them."""
        return {
            "phases": {name: bill.to_json() for name, bill in self.by("phase").items()},
            "total": self.bill().to_json(),
            "price": None if self.price is None else asdict(self.price),
        }

    def table(self) -> str:
        """Return the bills by phase as lines of text."""
        head = ("phase", "calls", "memory", "failed", "retries", "prompt", "cached", "completion")
        rows = [(*head, "seconds", "dollars")]
        for name, b in [*self.by("phase").items(), ("total", self.bill())]:
            counts = (b.calls, b.replayed, b.failed, b.retries, b.prompt, b.cached, b.completion)
            rows.append((name, *(f"{c:,}" for c in counts), f"{b.seconds:,.1f}", dollars(b)))
        widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in rows]
        unknown = self.bill().unknown
        if unknown:
            lines.append(f"{unknown:,} calls have unknown tokens; the sums are lower bounds")
        lines.append(f"prices: {self.price.table}" if self.price else "prices: unknown")
        return "\n".join(lines)


def dollars(bill: Bill) -> str:
    """Return a bill's dollars as text: unknown, exact, or at least."""
    if bill.dollars is None:
        return "unknown"
    return f"{'>= ' if bill.unknown else ''}{bill.dollars:,.4f}"
