"""`rubricnb lab`: how good, foolable, early and dear a judge is, on the user's own rollouts."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from . import app


@app.command("lab")
def lab(
    file: Annotated[
        Path | None,
        typer.Argument(help="rollouts: our JSON lines, graded or not, or a log; none: --desk"),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="folder to write")] = Path("lab"),
    format: Annotated[str | None, typer.Option(help="the log's format; default: guessed")] = None,
    only: Annotated[list[str] | None, typer.Option(help="a section; repeat for several")] = None,
    desk: Annotated[int, typer.Option(help="instead, so many rollouts of the bundled desk")] = 0,
    seed: Annotated[int, typer.Option(help="of splits, folds and intervals")] = 0,
    alpha: Annotated[float, typer.Option(help="share of successes that may be alarmed")] = 0.1,
    delta: Annotated[float, typer.Option(help="chance that the alarm's promise fails")] = 0.1,
    budget: Annotated[
        float, typer.Option(help="judge tokens that may be spent a policy token")
    ] = float("inf"),
    price: Annotated[
        str, typer.Option(help="dollars per million prompt,cached,completion tokens")
    ] = "",
    judge_seconds: Annotated[
        float | None, typer.Option(help="what one judge call takes, for the latency ratio")
    ] = None,
    runs: Annotated[Path | None, typer.Option(help="a study's profile folder")] = None,
    writer_url: Annotated[
        str | None, typer.Option(help="endpoint that rewrites reasoning; default: templates")
    ] = None,
    writer_model: Annotated[str | None, typer.Option(help="its model's name")] = None,
    sheet: Annotated[
        int, typer.Option(help="write a labelling sheet with so many verdicts, and stop")
    ] = 0,
    key: Annotated[Path | None, typer.Option(help="key of a labelling sheet")] = None,
    answers: Annotated[
        list[Path] | None, typer.Option(help="answers to it; repeat for several people")
    ] = None,
) -> None:
    """Run every section that the file's labels allow; write tables, figures and paragraphs."""
    from ..lab import desk as bundled
    from ..lab import read_logs
    from ..lab.run import LabConfig, desk_lab, run_lab, write_lab

    if (file is None) == (desk <= 0):
        raise ConfigError(
            "want a file of rollouts or --desk N; got " + ("both" if file else "none")
        )
    config = LabConfig(
        only=tuple(only or ()), seed=seed, alpha=alpha, delta=delta, budget=budget,
        price=_price(price), judge_seconds=judge_seconds, runs=runs, key=key,
        writer=_writer(writer_url, writer_model),
        answers=tuple(answers or ()),
    )  # fmt: skip
    start = time.monotonic()

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if file is None:
        sections, source = desk_lab(desk, config, say=say), bundled.SOURCE
    else:
        logs = read_logs(file, format)
        source = logs.source
        if sheet:
            _sheet(logs, output, sheet, seed)
            return
        sections = run_lab(logs, config, say)
    write_lab(sections, output, source)
    for s in sections:
        print(f"{s.question}\n{s.paragraph}\n")
    say(f"wrote {output} in {time.monotonic() - start:.0f} s; open {output}/figures/index.html")


def _writer(url: str | None, model: str | None):
    if (url is None) != (model is None):
        raise ConfigError("want --writer-url and --writer-model together; got one of them")
    if url is None:
        return None
    from ..judge import EndpointJudge

    return EndpointJudge(url, model, max_tokens=4000, structured=True, concurrency=8)


def _price(text: str) -> tuple[float, float, float] | None:
    if not text:
        return None
    try:
        prompt, cached, completion = (float(p) for p in text.split(","))
    except ValueError:
        raise ConfigError(f"want --price prompt,cached,completion; got {text!r}") from None
    return prompt, cached, completion


def _sheet(logs, output: Path, n: int, seed: int) -> None:
    from ..lab.sheet import export_sheet

    if not logs.graded:
        raise ConfigError("want a graded file for a labelling sheet; got bare rollouts")
    paths = export_sheet(logs.graded, output, n, seed=seed)
    print(f"open {paths['sheet']}; keep {paths['key']} for `rubricnb lab --key`")
