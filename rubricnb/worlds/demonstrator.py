"""Scripted agents for the desks: a clean one, and a noisy one whose faults have names.

Both read what a policy reads, the task's words and the tools' answers; the spec is used for the
parsed form of the prompt only.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .engine import DeskEpisode

ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Faults:
    """Chances of each named fault, in [0, 1]; all 0 is the clean demonstrator.

    Args:
        wrong_customer: per person: take another one with the same first name.
        wrong_order: per goal: take another of this person's things.
        forgotten_goal: per goal: leave it out.
        false_completion: per episode: claim done whatever happened.
        no_readback: per goal: do not read the change back.
        give_up: per timeout: do not try again.
    """

    wrong_customer: float = 0.0
    wrong_order: float = 0.0
    forgotten_goal: float = 0.0
    false_completion: float = 0.0
    no_readback: float = 0.0
    give_up: float = 0.0


CLEAN = Faults()
NOISY = Faults(0.15, 0.12, 0.10, 0.35, 0.45, 0.5)


class Demonstrator:
    """Runs one episode; ``faults`` that happened are in ``seen``, by name, with the place."""

    def __init__(self, episode: DeskEpisode, faults: Faults, rng: random.Random) -> None:
        self.episode, self.faults, self.rng = episode, faults, rng
        self.lex = episode.lexicon
        self.seen: list[str] = []
        self.blocked = False

    def _do(self, role: str, *words: str) -> str:
        if self.episode.done:
            return ""
        return self.episode.act(" ".join([self.lex.tools[role], *words])).text

    def _hit(self, fault: str, place: str) -> bool:
        hit = self.rng.random() < getattr(self.faults, fault)
        if hit:
            self.seen.append(f"{fault}: {place}")
        return hit

    def run(self) -> None:
        """Act until the episode is over."""
        false_completion = self._hit("false_completion", "finish")
        for who in self.episode.task.spec["goals"]:
            self._person(who)
        done = not self.blocked or false_completion
        self._do("finish", "done" if done else "blocked")

    def _person(self, who: Mapping[str, Any]) -> None:
        goals = [g for g in who["goals"] if not self._hit("forgotten_goal", g["kind"])]
        if not goals:
            return
        rows = [r.split() for r in self._do("find", who["name"]).split(" ; ")]
        match = [r for r in rows if len(r) == 3 and r[1] == who["city"]]
        others = [r for r in rows if len(r) == 3 and r[1] != who["city"]]
        if others and self._hit("wrong_customer", who["name"]):
            match = [self.rng.choice(others)]
        if not match:
            return
        person = match[0]
        things: list[list[str]] = []
        if any("ref" in g for g in goals):
            things = [r.split() for r in self._do("list", *person).split(" ; ")]
        for goal in goals:
            if "ref" in goal:
                self._thing_goal(goal, things)
            else:
                self._person_goal(goal, person)

    def _pick(self, ref: str, things: list[list[str]]) -> list[str] | None:
        rows = [r for r in things if len(r) == 3]
        if not rows:
            return None
        right = [max(rows, key=lambda r: self.lex.days.index(r[1]))]
        if ref != "latest":
            right = [r for r in rows if r[0] == ref] or right
        others = [r for r in rows if r != right[0]]
        if others and self._hit("wrong_order", ref):
            return self.rng.choice(others)
        return right[0]

    def _thing_goal(self, goal: Mapping[str, Any], things: list[list[str]]) -> None:
        row = self._pick(goal["ref"], things)
        if row is None:
            return
        kind, lex = goal["kind"], self.lex
        if kind == "cancel":
            if lex.stuck in self._do("thing", *row).split():
                self.blocked = True
                return
            self._change(kind, row, ("thing", *row), lex.closed)
        elif kind == "move":
            self._change(kind, [*row, goal["value"]], ("thing", *row), f"{lex.due} {goal['value']}")
        else:
            bill = self._do("bill", *row).split()
            if len(bill) == 3 and bill[2] != lex.refunded:
                self._change(kind, bill[:2], ("bill", *row), lex.refunded)

    def _person_goal(self, goal: Mapping[str, Any], person: list[str]) -> None:
        read = ("person" if goal["kind"] == "address" else "notes", *person)
        self._change(goal["kind"], [*person, goal["value"]], read, goal["value"])

    def _change(self, kind: str, words: list[str], read: tuple[str, ...], want: str) -> None:
        check = not self._hit("no_readback", kind)
        for _ in range(ATTEMPTS):
            answer = self._do(kind, *words)
            if not answer or self.episode.done:
                return
            if answer == "error timeout":
                if self._hit("give_up", kind):
                    self.blocked = True
                    return
                continue
            if answer.startswith("error"):
                self.blocked = True
                return
            if not check or f" {want} " in f" {self._do(*read)} ":
                return


def demonstrate(episode: DeskEpisode, seed: int, faults: Faults = CLEAN) -> list[str]:
    """Run an episode to its end and return the names of the faults that happened.

    >>> from rubricnb.worlds.desk import OrdersDesk
    >>> world = OrdersDesk()
    >>> episode = world.reset(world.tasks("train")[0], seed=0)
    >>> demonstrate(episode, seed=0), episode.evaluate().success
    ([], True)
    """
    demonstrator = Demonstrator(episode, faults, random.Random(seed))
    demonstrator.run()
    return demonstrator.seen


def scaled(faults: Faults, factor: float) -> Faults:
    """The same faults, each chance multiplied and capped at 1."""
    return Faults(*(min(1.0, getattr(faults, f.name) * factor) for f in fields(faults)))
