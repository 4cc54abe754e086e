"""A protocol's answers into a file, with the same store, ledger, budget and replay as grading.

The file is written whole at the end, one JSON line a group. What was received before a kill lies
in ``<file>.judge.sqlite``: run again, and only what is missing is asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ...errors import ConfigError
from ...trajectory import Group
from ..begun import begun, config_from
from ..config import JudgeConfig
from ..ledger import Ledger
from ..protocol import Judge, as_judge
from ..recorded import RecordedJudge, ReplayJudge
from ..session import Limits, check_groups, ledger_of, spent
from ..store import Store
from .protocols import PROTOCOLS


def run_file(
    protocol: str,
    groups: Sequence[Group],
    out: str | os.PathLike[str],
    judge: Judge | None = None,
    config: JudgeConfig | None = None,
    *,
    replay: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
    in_flight: int = 16,
) -> Ledger:
    """Write a protocol's answer on every group and return the bill of the whole run.

    Args:
        protocol: a name of ``PROTOCOLS``.
        groups: the groups, in the order that the file will have.
        out: the file, JSON lines; null stands where there is no number.
        judge: who answers; None where ``replay`` is given.
        config: settings. The nonce of a begun run is kept.
        replay: a recording of this protocol to answer from instead; its settings are taken.
        limits: a price and a budget over the whole run.
        in_flight: groups worked on at once.
    Raises:
        ConfigError: an unknown protocol, a run begun with other settings, or a file that holds
            anything but this protocol's answers.
        FormatError: for groups that cannot be graded.
        JudgeError: where the judge cannot be called further; its replies so far are kept.
    """
    if protocol not in PROTOCOLS:
        raise ConfigError(f"want a protocol of {list(PROTOCOLS)}; got {protocol!r}")
    out, limits = Path(out), limits or Limits()
    check_groups(groups, str(out))
    _own(out, protocol)
    if replay is not None:
        asked = ReplayJudge(replay, run=protocol)
        config, store = config_from(asked.record), asked.store
    else:
        store = Store(out.with_name(out.name + ".judge.sqlite"))
    with store:
        if replay is None:
            judge = as_judge(judge)
            config = begun(store, protocol, judge, config or JudgeConfig())
            budget = limits.budget(spent(store, protocol))
            asked = RecordedJudge(judge, store, run=protocol, budget=budget)
        answers = PROTOCOLS[protocol](groups, asked, config, in_flight=in_flight)
        part = out.with_name(out.name + ".part")
        part.write_text("".join(json.dumps(a.to_json()) + "\n" for a in answers), encoding="utf-8")
        os.replace(part, out)
        return ledger_of(store, limits.price, protocol)


def _own(out: Path, protocol: str) -> None:
    """Refuse to write over a file that this protocol has not written.

    Raises:
        ConfigError: it holds something else.
    """
    if not out.exists() or not out.stat().st_size:
        return
    try:
        with open(out, encoding="utf-8") as f:
            record = json.loads(f.readline())["record"]
            mode = record.get("mode", "")
            found = record["protocol"] + (f"_{mode}" if mode in ("score", "implicit") else "")
    except (ValueError, KeyError, TypeError):
        found = "another kind of file"
    if found != protocol:
        raise ConfigError(
            f"{out}: want a new file, or one of the protocol {protocol!r}; got {found} "
            "(write to another file instead)"
        )
