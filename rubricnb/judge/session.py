"""Grading into a file, group by group, so that a killed run goes on where it was.

The file grows by one line a finished group, in the order of the input. Beside it lie
``<file>.judge.sqlite`` (every reply received: the journal, also what ``--replay`` reads) and
``<file>.record.json`` (settings, what the endpoint would not take, and the bill).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .. import files
from ..errors import ConfigError, FormatError
from ..rubric import GradedGroup
from ..trajectory import Group
from .begun import begun, config_from
from .budget import Budget
from .config import JudgeConfig
from .ledger import Ledger
from .prices import Price
from .protocol import Call, Judge, Usage, as_judge
from .recorded import RecordedJudge, ReplayJudge, read_row
from .run import Progress, grade_iter
from .store import Store

RUN = "grade"


@dataclass(frozen=True, slots=True)
class Graded:
    """What ``grade_file`` did: groups written now and found finished, and the bills.

    ``now`` is the ledger of this session, ``run`` that of the whole run, its earlier sessions
    included, by the journal.
    """

    written: int
    found: int
    now: Ledger
    run: Ledger


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may cost: a price (None: unknown) and a budget in tokens, dollars or both."""

    price: Price | None = None
    tokens: int | None = None
    dollars: float | None = None

    def budget(self, spent: Sequence[Usage] = ()) -> Budget | None:
        """Return the budget that is left, None where no limit is set."""
        if self.tokens is None and self.dollars is None:
            return None
        return Budget(tokens=self.tokens, dollars=self.dollars, price=self.price, spent=spent)


def check_groups(groups: Sequence[Group], where: str, least: int = 2) -> None:
    """Refuse what cannot be graded as groups of ``least`` or more, before anything is paid.

    Raises:
        FormatError: for no group at all, a group of one, a rollout without steps.
    """
    if not groups:
        raise FormatError(f"{where}: want at least one group of rollouts; got none")
    for group in groups:
        if len(group) < least:
            t = group.trajectories[0]
            raise FormatError(
                f"{where}: want at least 2 rollouts of each task, since reward is relative to "
                f"the group; got 1 of task {group.task.id!r} (rollout {t.id!r}{_line(t)})"
            )
        for t in group.trajectories:
            if not t.steps:
                raise FormatError(
                    f"{where}: want rollouts with at least one step; got none in {t.id!r}{_line(t)}"
                )


def _line(trajectory) -> str:
    line = trajectory.source.get("line")
    return f", line {line}" if line else ""


def grade_file(
    groups: Sequence[Group],
    out: str | os.PathLike[str],
    judge: Judge | None = None,
    config: JudgeConfig | None = None,
    *,
    replay: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
    in_flight: int = 16,
    progress: Callable[[Progress], None] | bool | None = None,
    least: int = 2,
) -> Graded:
    """Grade groups into a file of JSON lines; what the file already holds is not repeated.

    Args:
        groups: the groups, in the order that the file will have.
        out: the file; it is continued if it was begun with the same settings.
        judge: who answers; None where ``replay`` is given.
        config: settings of the five phases. The nonce of a begun run is kept.
        replay: a recording to answer from instead; its settings are taken.
        limits: a price and a budget over the whole run.
        in_flight: groups worked on at once.
        progress: True for a bar, or a function of a Progress.
        least: rollouts of a group; 1 where runs stand alone and no reward is relative.
    Raises:
        FormatError: for groups that cannot be graded.
        ConfigError: where the file was begun with other settings or other rollouts; names them.
        JudgeError: where the judge cannot be called further; what was finished is in the file.
    """
    out, limits = Path(out), limits or Limits()
    check_groups(groups, str(out), least)
    now = Ledger(limits.price)
    if replay is not None:
        judge = ReplayJudge(replay, run=RUN, ledger=now)
        config, store = config_from(judge.record), judge.store
        in_flight = 1  # nothing to wait for; what comes before a missing reply is written
    else:
        store = Store(out.with_name(out.name + ".judge.sqlite"))
    with store, open(out, "a", encoding="utf-8") as f:
        _lock(f, out)
        if replay is None:
            judge = as_judge(judge)
            config = begun(store, RUN, judge, config or JudgeConfig())
            budget = limits.budget(spent(store))
            judge = RecordedJudge(judge, store, run=RUN, ledger=now, budget=budget)
        found = finished(out, groups, config)
        rest = [g for g in groups if g.task.id not in found]
        written = 0
        try:
            for graded in grade_iter(rest, judge, config, in_flight=in_flight, progress=progress):
                f.write(files.encode(graded) + "\n")
                f.flush()
                os.fsync(f.fileno())
                written += 1
            _in_order(out, groups)
        finally:
            bill = ledger_of(store, limits.price)
            _record(out, store, judge, now, bill)
    return Graded(written, len(found), now, bill)


def finished(out: Path, groups: Sequence[Group], config: JudgeConfig) -> dict[str, str]:
    """Return the task ids of the groups that the file holds; a line cut by a kill is taken off.

    Raises:
        ConfigError: where the file holds other rollouts or was written with other settings.
    """
    if not out.exists():
        return {}
    _cut_tail(out)
    wanted = {g.task.id: files.content_hash(g) for g in groups}
    found: dict[str, str] = {}
    for graded in files.read_jsonl(out) if out.stat().st_size else ():
        if not isinstance(graded, GradedGroup):
            raise ConfigError(f"{out}: want graded groups to continue; got another kind of line")
        task = graded.group.task.id
        if wanted.get(task) != files.content_hash(graded.group):
            raise ConfigError(
                f"{out}: want the rollouts that the file was begun with; got others, or none, of "
                f"task {task!r} (write to another file instead)"
            )
        if graded.record.get("nonce") != config.nonce:
            raise ConfigError(
                f"{out}: want a file begun by this run; got task {task!r} graded by another "
                "(is its .judge.sqlite gone? write to another file instead)"
            )
        found[task] = wanted[task]
    return found


def _cut_tail(out: Path) -> None:
    """Take off what follows the last line break: a line of ours that was being written.

    Raises:
        ConfigError: where it is no such line: another file is not to be shortened.
    """
    with open(out, "rb+") as f:
        data = f.read()
        keep = data.rfind(b"\n") + 1
        tail = data[keep:]
        if not (tail.startswith(_LINE) or _LINE.startswith(tail)):
            raise ConfigError(f"{out}: want graded groups to continue; got another kind of file")
        f.truncate(keep)


_LINE = f'{{"rubricnb": {files.VERSION}, "kind": "graded", '.encode()


def _in_order(out: Path, groups: Sequence[Group]) -> None:
    """Rewrite the file in the order of the groups, where a failure has changed it."""
    place = {g.task.id: i for i, g in enumerate(groups)}
    done = [g.group.task.id for g in files.read_jsonl(out)]
    if done != sorted(done, key=place.get):
        rows = sorted(files.read_jsonl(out), key=lambda g: place[g.group.task.id])
        files.write_jsonl(out, rows)


def _lock(f: IO[str], out: Path) -> None:
    """Keep a second process from writing the same file."""
    try:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(f"{out}: want one run a file; got another that is writing") from None


def spent(store: Store, run: str = RUN) -> list[Usage]:
    """Return what the replies of a run have used, where that is known."""
    replies = (read_row(row) for row in store.journal(run))
    return [r.usage for r in replies if r is not None and r.usage is not None]


def ledger_of(store: Store, price: Price | None = None, run: str = RUN) -> Ledger:
    """Return the ledger of a run, of all its sessions, from its journal."""
    ledger, refused = Ledger(price), Counter()
    for row in store.journal(run):
        reply = read_row(row)
        if reply is None and row.form == "http":  # a body that asked for another try
            refused[row.key] += 1
            continue
        usage, retries = (reply.usage if reply else None), refused.pop(row.key, 0)
        call = Call(row.phase, (), key=row.about)
        ledger.add(call, usage, row.seconds, retries=retries, failed=reply is None)
    return ledger


def _record(out: Path, store: Store, judge: Any, now: Ledger, bill: Ledger) -> None:
    """Write what explains the run beside its file."""
    record = store.run_record(RUN)
    if isinstance(judge, RecordedJudge) and judge.quirks:
        record = {**record, "quirks": judge.quirks}
        store.set_run(RUN, record)
    body = {**record, "this_session": now.to_json(), "whole_run": bill.to_json()}
    part = out.with_name(out.name + ".record.json.part")
    part.write_text(json.dumps(body, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(part, out.with_name(out.name + ".record.json"))
