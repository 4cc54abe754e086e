"""TRCA's transition rubric, filled in by a judge: which items each step of a rollout sets off.

Where a world can say this by rule, no judge is needed: ``Operators`` is then made from rules
(see ``rubricnb.worlds.desk_operators``). What follows from the items is the rule ``trca``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ...credit.batch import CreditBatch
from ...credit.trca import CATEGORIES
from ...errors import ConfigError
from ...files import content_hash
from ...grading import Tokens, without_judge
from ...trajectory import EMPTY, Group
from ..answers import as_text
from ..asking import together
from ..config import JudgeConfig
from ..messages import json_lines, template
from ..protocol import Judge, Reply
from .common import Opened, once_a_task, over_groups, read_object

LEAST, MOST = 3, 16  # items of one task
Fired = tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a step can set off; ``category`` is "Ev", "Ex" or "Inv"."""

    id: str
    category: str
    title: str
    instruction: str = ""

    def __post_init__(self) -> None:
        if self.category not in CATEGORIES:
            raise ConfigError(f"want a category of {CATEGORIES}; got {self.category!r}")


@dataclass(frozen=True, slots=True)
class Operators:
    """A group's transition rubric and what each step set off.

    Args:
        group: the group.
        items: the J items.
        fired: per rollout one set of item ids a step; None where the judge failed.
        failures: per rollout "" or why it has none.
        record: what explains them.
    """

    group: Group
    items: tuple[Item, ...]
    fired: tuple[Fired | None, ...]
    failures: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def batch(self, tokens: Tokens = "auto", *, outcome: bool = True) -> CreditBatch:
        """Return the evidence that the rule ``trca`` reads.

        A rollout that the judge failed on has no outcome (and, without outcomes, no reward)
        there, so that it is left out of its group. With ``outcome=False`` the world's verdict is
        not used at all: reward_G, for the log, is how many Ev items the rollout covered, as a
        share; the rule's ``base="none"`` reads it only for which rollouts are graded.
        """
        known = without_judge(self.group, tokens)
        G, S = known.tokens_GS.shape
        J = len(self.items)
        active = np.zeros((G, S, J), dtype=bool)
        state = np.full((G, S), "", dtype="<U64")
        reward = np.full(G, np.nan)
        place = {item.id: j for j, item in enumerate(self.items)}
        good = [j for j, item in enumerate(self.items) if item.category == "Ev"]
        for g, fired in enumerate(self.fired):
            if fired is None:
                continue
            for s, ids in enumerate(fired):
                active[g, s, [place[i] for i in ids]] = True
            state[g, : len(fired)] = contexts(
                fired, [s.kind for s in self.group.trajectories[g].steps]
            )
            reward[g] = active[g][:, good].any(axis=0).mean() if good else 0.0
        evidence = {
            "active_GSJ": active,
            "item_GJ": np.array([[i.category for i in self.items]] * G, dtype=str).reshape(G, J),
            "state_GS": state,
            "kind_GS": known.kind_GS,
        }
        if outcome:
            seen = [f is not None for f in self.fired]
            return CreditBatch(
                known.tokens_GS, outcome_G=np.where(seen, known.outcome_G, np.nan), **evidence
            )
        return CreditBatch(known.tokens_GS, reward_G=reward, **evidence)

    def to_json(self) -> dict[str, Any]:
        """Return items and activations as JSON values; null where the judge failed."""
        rows = [
            {"id": t.id, "fired": None if f is None else [sorted(ids) for ids in f]}
            for t, f in zip(self.group.trajectories, self.fired, strict=True)
        ]
        return {
            "task_id": self.group.task.id,
            "items": [asdict(i) for i in self.items],
            "rollouts": rows,
            "failures": list(self.failures),
            "record": dict(self.record),
        }


def contexts(fired: Sequence[frozenset[str]], kinds: Sequence[str]) -> list[str]:
    """Return each step's context: what is covered before it, and the step type before it.

    Steps of one group with one context are compared with one another by the rule ``trca``. The
    published keys are per benchmark (stage, page, inventory); this is their common form.

    >>> a, b = contexts([frozenset({"I1"}), frozenset()], ["find", "move"])
    >>> a == b
    False
    """
    out: list[str] = []
    covered: set[str] = set()
    before = ""
    for ids, kind in zip(fired, kinds, strict=True):
        out.append(content_hash([sorted(covered), before])[:16])
        covered |= ids
        before = kind
    return out


@dataclass(frozen=True)
class _Items:
    items: tuple[Item, ...] = ()
    problem: str = ""
    cut: bool = False


@dataclass(frozen=True)
class _Fired:
    fired: Fired | None = None
    dropped: int = 0
    problem: str = ""
    cut: bool = False


def read_items(reply: Reply | str) -> _Items:
    """Return the items of a reply, numbered I1, I2, ...; what lacks a category is left out."""
    found = read_object(reply, "items")
    if found.value is None:
        return _Items(problem=found.problem, cut=found.cut)
    rows = found.value["items"]
    out: list[Item] = []
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or row.get("category") not in CATEGORIES:
            continue
        title, instruction = as_text(row.get("title")), as_text(row.get("instruction"))
        if title and title not in ("...", "…") and len(out) < MOST:
            out.append(Item(f"I{len(out) + 1}", row["category"], title, instruction))
    if not any(i.category != "Inv" for i in out):
        return _Items(problem="want items with title and category, Ev or Ex among them; got none")
    return _Items(tuple(out), cut=found.cut)


def read_fired(reply: Reply | str, ids: Sequence[str], n_steps: int, untrusted: str = "") -> _Fired:
    """Return what each step set off; unknown items and steps are dropped and counted.

    >>> read_fired('{"steps": [{"step": 2, "items": ["I1", "I9"]}]}', ["I1"], 2)
    _Fired(fired=(frozenset(), frozenset({'I1'})), dropped=1, problem='', cut=False)
    """
    found = read_object(reply, "steps", untrusted)
    rows = None if found.value is None else found.value["steps"]
    if found.problem or not isinstance(rows, list) or found.cut:
        problem = found.problem or ("it is cut" if found.cut else 'want "steps" as a list')
        return _Fired(problem=problem, cut=found.cut)
    sets: list[set[str]] = [set() for _ in range(n_steps)]
    dropped = 0
    for row in rows:
        at = row.get("step") if isinstance(row, dict) else None
        named = row.get("items") if isinstance(row, dict) else None
        if type(at) is not int or not 1 <= at <= n_steps or not isinstance(named, list):
            dropped += 1
            continue
        known = {i for i in named if isinstance(i, str) and i in ids}
        dropped += len(named) - sum(isinstance(i, str) and i in ids for i in named)
        sets[at - 1] |= known
    if rows and dropped and not any(sets):
        return _Fired(problem="want steps and items by their numbers; got none that exists")
    return _Fired(tuple(frozenset(s) for s in sets), dropped)


async def _items(o: Opened, memory: MutableMapping[Any, Any]) -> _Items:
    prompt = template("transition_items").render(least=LEAST, most=MOST)
    return _Items(*await once_a_task(o, memory, "transition_items", prompt, read_items, "items"))


async def _fired(o: Opened, g: int, items: Sequence[Item]) -> _Fired:
    ids = tuple(i.id for i in items)
    n = o.views.prepared[g].n_steps
    rows = json_lines(
        {"id": i.id, "category": i.category, "title": i.title, "instruction": i.instruction}
        for i in items
    )
    return await o.asker.ask(
        "transitions",
        o.views.shared(g),
        template("transitions").render(items=rows, n_steps=n),
        lambda reply: read_fired(reply, ids, n, o.views.untrusted(g)),
        trajectory_id=o.views.ids[g],
    )


async def _group(o: Opened, items: Sequence[Item] | None, memory: MutableMapping) -> Operators:
    told = _Items(tuple(items)) if items is not None else await _items(o, memory)
    n = len(o.group)
    if told.problem:
        why = (f"items: {told.problem}",) * n
        return Operators(o.group, (), (None,) * n, why, o.record("trca"))
    rows = await together(_fired(o, g, told.items) for g in range(n))
    return Operators(
        o.group,
        told.items,
        tuple(r.fired for r in rows),
        tuple(r.problem if r.fired is None else "" for r in rows),
        o.record("trca", dropped=sum(r.dropped for r in rows)),
    )


def operators(
    groups: Iterable[Group] | Group,
    judge: Judge,
    config: JudgeConfig | None = None,
    *,
    items: Sequence[Item] | None = None,
    memory: MutableMapping[Any, Any] | None = None,
    in_flight: int = 16,
) -> list[Operators]:
    """Return what each step of each rollout sets off: 1 call a task and 1 a rollout.

    Args:
        groups: groups, or one.
        judge: who answers, or any function of a Call.
        config: settings; rubric and votes play no part.
        items: fixed items, which save the call a task.
        memory: a mapping that keeps the items of each task for later calls, such as ``{}``.
        in_flight: groups worked on at once.
    Raises:
        JudgeError: where the judge cannot be called further.
    Reference: TRCA (arXiv 2608.16156) has rules a benchmark and no judge; this variant is ours.
    """
    kept = {} if memory is None else memory
    return over_groups(lambda o: _group(o, items, kept), groups, judge, config, in_flight)
