"""`rubricnb evaluate`: a model's success on a world's split, and everything it cost."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from ..errors import ConfigError, RunError
from . import app

UNTOLD = ("root", "engine", "servers")  # options that change nothing about what is measured


@app.command("evaluate")
def evaluate(
    world: Annotated[str, typer.Argument(help="orders, library, bfcl, textworld, appworld, tau2")],
    split: Annotated[str, typer.Option(help="one of the world's splits")],
    output: Annotated[Path, typer.Option("-o", "--output", help="rollouts, JSON lines")],
    base_url: Annotated[str | None, typer.Option(help="such as http://localhost:8000/v1")] = None,
    model: Annotated[str | None, typer.Option(help="the model's name there")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="a policy instead: a name, or a folder, adapters too")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="rollouts a task")] = 3,
    k: Annotated[int | None, typer.Option(help="of pass^k and pass@k; default: runs")] = None,
    tasks: Annotated[int | None, typer.Option(help="about so many, in whole scenarios")] = None,
    mode: Annotated[str, typer.Option(help="tools or code; default: the world's")] = "",
    max_turns: Annotated[int | None, typer.Option(help="default: the world's")] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="key=value of the world, such as root=DIR")
    ] = None,
    temperature: Annotated[float | None, typer.Option()] = None,
    max_tokens: Annotated[int | None, typer.Option(help="of one turn")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="rollouts at once")] = 8,
    deadline: Annotated[float, typer.Option(help="seconds of one turn, retries included")] = 600.0,
    prices: Annotated[Path | None, typer.Option(help="price table, as prices.yaml")] = None,
    beside: Annotated[
        list[Path] | None, typer.Option("--with", help="more files for the same table")
    ] = None,
    table: Annotated[Path | None, typer.Option(help="write the table as JSON, too")] = None,
) -> None:
    """Run a model on every task of a split and print p^k and pass@k with intervals.

    Run it again to go on after Ctrl-C or a failure: finished rollouts are kept in the output,
    which may hold several models. The key is read from RUBRICNB_API_KEY or OPENAI_API_KEY.
    """
    from ..worlds import rollouts, success_table
    from ..worlds.registry import open_world

    options = dict(map(read_option, option or ()))
    if world == "appworld":
        options.setdefault("servers", concurrency)
    place = open_world(world, **options)
    chosen = rollouts.tasks_of(place, split, tasks)
    about = {"options": {n: v for n, v in options.items() if n not in UNTOLD}}
    if checkpoint is not None:
        if base_url or model:
            raise ConfigError("want --checkpoint or --base-url with --model; got both")
        from .evaluate_checkpoint import run_checkpoint

        done = run_checkpoint(
            checkpoint,
            place,
            split,
            chosen,
            runs,
            output,
            temperature,
            about,
            _progress,
            rows=concurrency,
        )
    else:
        settings = {"mode": mode, "max_turns": max_turns, **about}
        asked = {"temperature": temperature, "max_tokens": max_tokens}
        done = run_endpoint(
            *(place, split, chosen, runs, output, base_url, model, settings, asked),
            concurrency=concurrency,
            deadline=deadline,
        )
    found = [t for path in (output, *(beside or ())) for t in rollouts.read_rollouts(path)]
    rows = success_table.success_rows(found, k=k, price_of=_prices(prices))
    print(success_table.success_table(rows))
    if table is not None:
        table.write_text(json.dumps([r.to_json() for r in rows], indent=1) + "\n")
    print(f"{done.found} rollouts found, {done.made} made, in {output}", file=sys.stderr)
    if done.failed:
        raise RunError(
            f"want every rollout to end; got {len(done.failed)} that failed, the first: "
            f"{done.failed[0]} (run again to try them again)"
        )


def read_option(text: str) -> tuple[str, Any]:
    """Return key and value of ``key=value``, the value read as YAML.

    >>> read_option("quest_length=6")
    ('quest_length', 6)
    """
    key, sign, value = text.partition("=")
    if not sign or not key.isidentifier():
        raise ConfigError(f"want --option key=value; got {text!r}")
    return key, yaml.safe_load(value)


def run_endpoint(
    place, split, chosen, runs, output, base_url, model, settings, asked, *, concurrency, deadline
):
    """Run what is missing of an endpoint's rollouts."""
    from ..judge import EndpointJudge
    from ..worlds import agent, rollouts
    from ..worlds.agent_model import EndpointModel

    if not base_url or not model:
        raise ConfigError("want --base-url and --model, or --checkpoint; got neither")
    sampling = {} if asked["temperature"] is None else {"temperature": asked["temperature"]}
    chat = EndpointModel(
        EndpointJudge(
            *(base_url, model),
            sampling=sampling,
            max_tokens=asked["max_tokens"],
            concurrency=concurrency,
            deadline=deadline,
        )
    )
    config = agent.AgentConfig(mode=settings["mode"], max_turns=settings["max_turns"])
    plan = rollouts.Plan(
        place.name, split, chosen, runs, model, {**settings, **chat.identity, "agent": "1"}
    )
    halt = threading.Event()

    def stop() -> None:
        halt.set()
        chat.stop()

    def one(task, id, seed):
        return agent.play(place, task, chat, id, seed=seed, config=config, stop=halt)

    try:
        options = {"concurrency": concurrency, "stop": stop, "progress": _progress(plan)}
        return rollouts.roll_out(plan, one, output, **options)
    finally:
        getattr(place, "close", lambda: None)()


def _progress(plan):
    """A function that tells of each rollout, at most a hundred times."""
    total, count = len(plan.tasks) * plan.runs, [0]
    every = max(1, total // 100)

    def tell(made) -> None:
        count[0] += 1
        if count[0] % every == 0:
            won = "success" if made.outcome else f"failure ({made.termination})"
            text = f"{count[0]} of at most {total}: {made.id} {won}, {len(made)} turns"
            print(text, file=sys.stderr)

    return tell


def _prices(path: Path | None):
    from ..judge import load_prices

    return load_prices(path).find
