"""TRIAGE's judge: one role a step, from a window around it, never from the outcome.

One retry; after that the step has no role, which is no correction and never a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ...credit.batch import CreditBatch
from ...credit.triage import ROLES
from ...errors import ConfigError
from ...grading import Tokens, without_judge
from ...trajectory import EMPTY, Group
from ..answers import as_text
from ..asking import together
from ..config import JudgeConfig
from ..messages import _object, _text, prefix, template
from ..protocol import Judge, Reply
from .common import Opened, excerpt, number_in, over_groups, read_object

WINDOW = 5  # steps shown before and after the one that is labelled


@dataclass(frozen=True, slots=True)
class Role:
    """One step's label; ``role`` is "" where there is none, and ``failure`` says why.

    Only the role is used; the others are kept for the record: the judge's confidence in [0, 1]
    (None: not said), whether it saw the state change, and whether anything new was learnt.
    """

    role: str = ""
    reason: str = ""
    confidence: float | None = None
    changed_state: bool | None = None
    new_information: bool | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Roles:
    """A group's labels: one tuple a rollout, one ``Role`` a step."""

    group: Group
    labels: tuple[tuple[Role, ...], ...]
    record: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    @property
    def missing(self) -> int:
        """Steps without a role."""
        return sum(not r.role for row in self.labels for r in row)

    def batch(self, tokens: Tokens = "auto") -> CreditBatch:
        """Return the evidence that the rule ``triage`` reads: role_GS and outcome_G.

        A step without a role is "invalid" there: no correction.
        """
        known = without_judge(self.group, tokens)
        role = np.full(known.tokens_GS.shape, "", dtype="<U11")
        for row, said in zip(role, self.labels, strict=True):
            row[: len(said)] = [r.role or "invalid" for r in said]
        return CreditBatch(
            known.tokens_GS, outcome_G=known.outcome_G, kind_GS=known.kind_GS, role_GS=role
        )

    def to_json(self) -> dict[str, Any]:
        """Return the labels as JSON values."""
        rows = [[asdict(r) for r in row] for row in self.labels]
        return {
            "task_id": self.group.task.id,
            "rollouts": [
                {"id": t.id, "roles": r} for t, r in zip(self.group.trajectories, rows, strict=True)
            ],
            "record": dict(self.record),
        }


@dataclass(frozen=True)
class _Reading:
    role: Role
    problem: str = ""
    cut: bool = False


def read_role(reply: Reply | str, untrusted: str = "") -> _Reading:
    """Return the role that a reply gives, or the problem with it.

    >>> read_role('{"reason": "paid", "role": "Decisive"}').role.role
    'decisive'
    >>> read_role('{"role": "D or R"}').problem
    "want one role of decisive, exploration, no_progress, regression; got 'D or R'"
    """
    found = read_object(reply, "role", untrusted)
    if found.value is None:
        return _Reading(Role(failure=found.problem), found.problem, found.cut)
    said = found.value["role"]
    name = said.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(said, str) else ""
    if name not in ROLES:
        problem = f"want one role of {', '.join(ROLES)}; got {str(said)[:40]!r}"
        return _Reading(Role(failure=problem), problem, found.cut)
    v = found.value
    flags = {
        k: v[k] if isinstance(v.get(k), bool) else None
        for k in ("changed_state", "new_information")
    }
    role = Role(name, as_text(v.get("reason")), number_in(v.get("confidence"), 0, 1), **flags)
    return _Reading(role, "", found.cut)


@lru_cache(maxsize=1)
def _schema() -> Mapping[str, Any]:
    yes = {"type": "boolean"}
    return _object(
        {
            "reason": _text(600),
            "changed_state": yes,
            "new_information": yes,
            "confidence": {"type": "number"},
            "role": {"type": "string", "enum": list(ROLES)},
        }
    )


async def _step(o: Opened, g: int, step: int, window: int) -> Role:
    p = o.views.prepared[g]
    first, last = max(1, step - window), min(p.n_steps, step + window)
    shown = excerpt(p, first, last, o.asker.config, o.views._room)
    reading = await o.asker.ask(
        "roles",
        prefix(o.views.task, [shown]),
        template("roles").render(step=step, first=first, last=last, n_steps=p.n_steps),
        lambda reply: read_role(reply, o.views.untrusted(g)),
        schema=_schema(),
        trajectory_id=o.views.ids[g],
        step=step,
    )
    if reading.problem:
        return Role(failure=reading.problem)
    return reading.role


async def _group(o: Opened, window: int) -> Roles:
    sizes = [p.n_steps for p in o.views.prepared]
    flat = await together(
        _step(o, g, s, window) for g, n in enumerate(sizes) for s in range(1, n + 1)
    )
    rows, at = [], 0
    for n in sizes:
        rows.append(tuple(flat[at : at + n]))
        at += n
    missing = sum(not r.role for r in flat)
    return Roles(o.group, tuple(rows), o.record("triage", window=window, without_role=missing))


def label_roles(
    groups: Iterable[Group] | Group,
    judge: Judge,
    config: JudgeConfig | None = None,
    *,
    window: int = WINDOW,
    in_flight: int = 16,
) -> list[Roles]:
    """Return every step's role, by one call a step: sum of M_i calls a group.

    A call shows the task and the steps from ``window`` before to ``window`` after the one that is
    labelled; the outcome is never shown. A reply without one of the four roles is asked for once
    more; then the step has no role.

    Args:
        groups: groups, or one.
        judge: who answers, or any function of a Call.
        config: settings; ``retries`` is 1 here, and rubric and votes play no part.
        window: steps on either side, >= 0.
        in_flight: groups worked on at once.
    Raises:
        ConfigError: a window below 0.
        JudgeError: where the judge cannot be called further.
    Reference: TRIAGE (arXiv 2606.32017). The prompt is ours; so is what its auxiliary scores are.

    >>> from rubricnb import Step, Task, Trajectory
    >>> task = Task("t", "Say hello")
    >>> group = Group(task, (Trajectory("a", task, (Step("hello"),)),))
    >>> roles = label_roles(group, lambda call: '{"reason": "said it", "role": "decisive"}')
    >>> roles[0].labels[0][0].role, roles[0].missing
    ('decisive', 0)
    """
    if not isinstance(window, int) or window < 0:
        raise ConfigError(f"want window >= 0; got {window!r}")
    return over_groups(lambda o: _group(o, window), groups, judge, config, in_flight, retries=1)


__all__: Sequence[str] = ["ROLES", "WINDOW", "Role", "Roles", "label_roles", "read_role"]
