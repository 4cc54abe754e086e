"""`rubricnb grade`: recorded rollouts become graded groups, by any OpenAI-compatible judge."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from .. import files, importers
from ..errors import ConfigError, FormatError, JudgeError
from ..judge import Judge, JudgeConfig, caveats, load_prices
from ..judge.estimate import calls_of_group, estimate
from ..judge.rivals.protocols import PROTOCOLS as RIVALS
from ..judge.rivals.session import run_file
from ..judge.session import Graded, Limits, check_groups, grade_file
from ..judge.wire import normal_url
from ..rubric import Criterion, Rubric
from ..trajectory import Group, Trajectory
from . import app

JUDGES = ("endpoint", "offline", "offline-lenient")


@app.command()
def grade(
    path: Annotated[Path, typer.Argument(help="trajectories: our JSON lines, or a log")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="graded groups")] = None,
    format: Annotated[str | None, typer.Option(help="the log's format, if not guessed")] = None,
    base_url: Annotated[str | None, typer.Option(help="such as http://localhost:8000/v1")] = None,
    model: Annotated[str | None, typer.Option(help="the model's name there")] = None,
    judge: Annotated[str, typer.Option(help=f"one of {', '.join(JUDGES)}")] = "endpoint",
    rubric: Annotated[Path | None, typer.Option(help="fixed criteria, as JSON")] = None,
    votes: Annotated[int, typer.Option("--k", help="scoring calls a rollout, unanimous")] = 1,
    attribution: Annotated[str, typer.Option(help="separate, inline or none")] = "separate",
    caveats_of: Annotated[
        str | None, typer.Option("--caveats", help="a text file, or a shipped name: appworld")
    ] = None,
    temperature: Annotated[float | None, typer.Option()] = None,
    max_tokens: Annotated[int | None, typer.Option(help="limit of a completion")] = None,
    max_chars: Annotated[int, typer.Option(help="limit of a prompt's material")] = 400_000,
    structured: Annotated[bool, typer.Option(help="send JSON schemas as well")] = False,
    concurrency: Annotated[int, typer.Option(help="calls in flight")] = 32,
    calls_per_minute: Annotated[float | None, typer.Option(help="rate limit")] = None,
    deadline: Annotated[float, typer.Option(help="seconds of one call, retries included")] = 600.0,
    budget_tokens: Annotated[int | None, typer.Option(help="stop before more are used")] = None,
    budget_dollars: Annotated[float | None, typer.Option(help="needs a known price")] = None,
    prices: Annotated[Path | None, typer.Option(help="price table, as prices.yaml")] = None,
    replay: Annotated[Path | None, typer.Option(help="a run's .judge.sqlite, no network")] = None,
    dry_run: Annotated[bool, typer.Option(help="count calls and tokens, ask nobody")] = False,
    skip_single: Annotated[bool, typer.Option(help="leave out tasks with one rollout")] = False,
    protocol: Annotated[
        str, typer.Option(help=f"draco (the five phases), or {', '.join(RIVALS)}")
    ] = "draco",
) -> None:
    """Grade the rollouts of each task against one another, into a file that grows group by group.

    Run it again to go on after Ctrl-C, a kill or an empty budget: finished groups and received
    replies are not repeated. The key is read from RUBRICNB_API_KEY or OPENAI_API_KEY.
    """
    groups = read_groups(path, format)
    if skip_single:
        groups = [g for g in groups if len(g) > 1]
    check_groups(groups, str(path))
    config = JudgeConfig(
        rubric=read_rubric(rubric) if rubric else "dynamic",
        votes=votes,
        attribution=attribution,
        caveats=_caveats(caveats_of),
        temperature=temperature,
        max_tokens=max_tokens,
        budget=max_chars,
    )
    price = load_prices(prices).find(normal_url(base_url), model or "") if base_url else None
    limits = Limits(price, budget_tokens, budget_dollars)
    if protocol not in ("draco", *RIVALS):
        raise ConfigError(f"want a protocol of {('draco', *RIVALS)}; got {protocol!r}")
    if dry_run and protocol != "draco":
        raise ConfigError(f"want --dry-run with the protocol 'draco'; got {protocol!r}")
    if dry_run:
        print(_dry(groups, config, limits))
        return
    if output is None:
        raise ConfigError("want -o FILE for the graded groups; got none")
    limits.budget()  # refuses before anything else
    options = {
        "structured": structured,
        "concurrency": concurrency,
        "calls_per_minute": calls_per_minute,
        "deadline": deadline,
    }
    asked = None if replay else make_judge(judge, base_url, model, **options)
    if protocol != "draco":
        bill = run_file(protocol, groups, output, asked, config, replay=replay, limits=limits)
        print(f"{output}: {len(groups)} groups by {protocol}\n{bill.table()}", file=sys.stderr)
        return
    try:
        done = grade_file(
            groups, output, asked, config, replay=replay, limits=limits, progress=_progress(groups)
        )
    except JudgeError:
        if output.exists() and output.stat().st_size:
            said = f"what was finished is in {output}; run again to go on from there"
            print(said, file=sys.stderr)
        raise
    print(_summary(done, output, groups), file=sys.stderr)


def make_judge(name: str, base_url: str | None, model: str | None, **options) -> Judge:
    """Return the judge of a name in ``JUDGES``.

    Raises:
        ConfigError: for another name, or an endpoint without base URL or model.
    """
    if name == "endpoint":
        for option, value in (("--base-url", base_url), ("--model", model)):
            if not value:
                raise ConfigError(
                    f"want {option} for the judge; got none (no endpoint? --judge offline reads "
                    "logs of the bundled world, --replay a recording)"
                )
        from ..judge import EndpointJudge  # the HTTP client takes a second to import

        return EndpointJudge(base_url, model, **options)
    from .. import worlds

    makers: dict[str, Callable[[], Judge]] = {
        "offline": worlds.offline_judge,
        "offline-lenient": worlds.lenient_judge,
    }
    if name not in makers:
        raise ConfigError(f"want a judge among {JUDGES}; got {name!r}")
    return makers[name]()


def read_groups(path: Path, format: str | None = None) -> list[Group]:
    """Return the groups of a file: our own JSON lines, or a log of a known format.

    Raises:
        FormatError: saying what and where, for what cannot be read.
    """
    if not path.exists():
        raise FormatError(f"want a file of rollouts; got no file at {path}")
    if path.is_file() and path.stat().st_size == 0:
        raise FormatError(f"{path}: want at least one rollout; got an empty file")
    if format in (None, "rubricnb") and path.is_file() and _ours(path):
        rows = list(files.read_jsonl(path))
        for i, row in enumerate(rows, start=1):
            if not isinstance(row, Trajectory):
                raise FormatError(f"{path}, value {i}: want a trajectory; got another kind")
        return files.group_by_task(rows)
    return files.group_by_task(importers.read(path, format))


def _ours(path: Path) -> bool:
    """Whether the first line is of our own format."""
    with open(path, encoding="utf-8", errors="replace") as f:
        first = next((line for line in f if line.strip()), "")
    return '"rubricnb"' in first[:200]


def read_rubric(path: Path) -> Rubric:
    """Return a fixed rubric from JSON: a list of criteria, or an object with "criteria".

    Raises:
        FormatError: naming the file and the criterion.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        rows = data["criteria"] if isinstance(data, dict) else data
        named = [{"id": f"C{i}", "source": "static", **row} for i, row in enumerate(rows, 1)]
        return Rubric(tuple(Criterion(**row) for row in named))
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise FormatError(
            f'{path}: want {{"criteria": [{{"title", "instruction"}}]}} as JSON; got {e}'
        ) from e


def _caveats(name: str | None) -> str:
    if name is None:
        return ""
    if Path(name).is_file():
        return Path(name).read_text(encoding="utf-8")
    try:
        return caveats(name)
    except OSError:
        raise ConfigError(f"want a text file or a shipped name of caveats; got {name!r}") from None


def _dry(groups: list[Group], config: JudgeConfig, limits: Limits) -> str:
    """What would be asked, as text."""
    ledger = estimate(groups, config, limits.price)
    sizes = sorted({len(g) for g in groups})
    lines = [f"{len(groups)} groups, {sum(map(len, groups))} rollouts; nothing is sent"]
    for n in sizes:
        first, later = (calls_of_group(config, n, first=f) for f in (True, False))
        lines.append(f"a group of {n}: {first} calls when its task is first seen, {later} after")
    lines += [ledger.table(), "tokens: characters / 4; replies as long as assumed, none retried"]
    bill = ledger.bill()
    if limits.tokens is not None and bill.tokens > limits.tokens:
        lines.append(f"the budget of {limits.tokens:,} tokens would be used up before the end")
    if limits.dollars is not None and (bill.dollars is None or bill.dollars > limits.dollars):
        why = "has no known price" if bill.dollars is None else "would be used up before the end"
        lines.append(f"the budget of ${limits.dollars:,.4f} {why}")
    return "\n".join(lines)


def _progress(groups: list[Group]):
    """A bar on a terminal; lines elsewhere, at most one a group."""
    if sys.stderr.isatty():
        return True
    last = 0

    def show(p) -> None:
        nonlocal last
        if p.groups > last:
            last = p.groups
            of = p.of if p.of is not None else len(groups)
            print(f"graded {p.groups} of {of} groups, {p.replies} replies", file=sys.stderr)

    return show


def _summary(done: Graded, output: Path, groups: list[Group]) -> str:
    run = done.run
    n = sum(map(len, groups))
    each = [
        f"{what} {_per(run, count)}" for what, count in (("group", len(groups)), ("rollout", n))
    ]
    return "\n".join(
        [
            f"{output}: {done.written} groups written, {done.found} found finished",
            run.table(),
            f"per {', per '.join(each)}",
            f"replay it with --replay {output}.judge.sqlite",
        ]
    )


def _per(ledger, count: int) -> str:
    per = ledger.per(count)
    dollars = "unknown dollars" if per["dollars"] is None else f"${per['dollars']:,.5f}"
    return f"{per['tokens']:,.0f} tokens and {dollars}"


__all__ = ["grade", "make_judge", "read_groups", "read_rubric"]
