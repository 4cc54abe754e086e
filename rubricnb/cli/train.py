"""`rubricnb train`: a policy with step credit from a profile, or what that would take."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from . import app


@app.command("train")
def train(
    profile: Annotated[str, typer.Argument(help="name or YAML file; --list shows the names")] = "",
    change: Annotated[
        list[str] | None, typer.Option("--set", help="key=value, such as training.lr=1e-4")
    ] = None,
    runs: Annotated[Path, typer.Option(help="where run folders are")] = Path("runs/trainings"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="count calls, tokens, memory, dollars; start nothing")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="the plan as JSON")] = False,
    prices: Annotated[Path | None, typer.Option(help="price table, as prices.yaml")] = None,
    accelerate: Annotated[
        Path | None, typer.Option(help="write the file for `accelerate launch`, and stop")
    ] = None,
    shown: Annotated[bool, typer.Option("--list", help="name the profiles, and stop")] = False,
) -> None:
    """Train a policy as a profile says; go on where an interrupted training stopped.

    With --dry-run nothing is started or downloaded: the plan says what it would do, cost and
    need, what of that is missing here, and the commands that launch it on its hardware.
    """
    from ..errors import ConfigError
    from ..judge.prices import load_prices
    from ..train.plan import plan
    from ..train.profile import load_profile, shipped

    if shown:
        for name in shipped():
            print(f"{name:20s} {load_profile(name).about}")
        return
    if not profile:
        raise ConfigError(f"want a profile among {sorted(shipped())} or a file; got none")
    told = load_profile(profile, change or ())
    if accelerate is not None:
        write_accelerate(told, accelerate)
        return
    made = plan(told, load_prices(prices))
    if as_json or dry_run:
        from ..train.engines import commands

        launch = commands(told, profile, tuple(change or ()))
        if as_json:
            print(json.dumps({**made.to_json(), "launch": launch}, indent=1))
        else:
            print(as_text(made, launch))
    if dry_run or as_json:
        return
    if made.missing:
        first = made.missing[0]
        raise ConfigError(
            f"want {first.what}; got {first.found} ({first.remedy}; --dry-run lists all)"
        )
    from ..train.start import start

    folder = start(told, runs / told.name, say=lambda line: print(line, file=sys.stderr))
    print(f"wrote {folder}")


def write_accelerate(told, path: Path) -> None:
    """Write accelerate's configuration of a profile.

    Raises:
        ConfigError: for a profile of one process, which needs none.
    """
    import yaml

    from ..errors import ConfigError
    from ..train.engines import accelerate_config

    made = accelerate_config(told)
    if made is None:
        raise ConfigError(
            f"want --accelerate for several processes; got {told.name!r}, which has 1"
        )
    path.write_text(yaml.safe_dump(made, sort_keys=False), encoding="utf-8")
    print(f"wrote {path}")


def as_text(made, launch: list[str]) -> str:
    """Return a plan, and the commands that launch it, as lines to read."""
    from ..train.plan import PAPER_DOLLARS

    p, r, c = made.profile, made.rollouts, made.calls
    lines = [f"{p.name}: {p.about}", "", "Training"]
    lines += _rows(
        {
            "policy": f"{p.policy.model}, {p.policy.dtype}, LoRA r {p.policy.lora.r} "
            f"alpha {p.policy.lora.alpha} on {p.policy.lora.targets}",
            "arm": p.arm,
            "rollouts a step": f"{r['a step']} ({p.rollouts.prompts} tasks x "
            f"{p.rollouts.group_size})",
            "steps": f"{r['steps']} ({r['epochs']:.3g} epochs of {r['batches an epoch']} batches)",
            "rollouts in all": f"{r['in all']:,}",
            "tokens a rollout, at most": f"{p.rollouts.prompt:,} of prompt, "
            f"{p.rollouts.response:,} after it",
            "evaluation": f"{r['of an evaluation']:,} rollouts at each of "
            f"{list(p.training.evaluate_at)}"
            if p.evaluation
            else "none in the profile",
        }
    )
    for w in (p.world, *p.evaluation):
        told = " ".join(x for x in (f"{w.max_turns} turns at most.", w.agent, w.serving) if x)
        lines += _rows({f"{w.name} {w.split}": told})
    lines += ["", "Judge calls (without retries)"]
    lines += _rows({k: f"{v:,}" for k, v in c.items()})
    lines += ["", "Tokens (from the lengths that the profile assumes)"]
    lines += _rows({k: _millions(v) for k, v in made.tokens.items()})
    lines += ["", f"Memory, GB (dimensions from {made.shape_from}; before sharding)"]
    lines += _rows(
        {k: "unknown: no policy.shape, no config.json here" if v is None else f"{v:,.2f}"
         for k, v in made.memory.items()}
    )  # fmt: skip
    if p.hardware.gpus:
        lines += _rows(
            {"GPUs": f"{p.hardware.gpus} x {p.hardware.gpu_gb:g} GB, {p.hardware.processes} "
             f"training process{'es' * (p.hardware.processes > 1)}"}
        )  # fmt: skip
    lines += ["", "Dollars of the judge"]
    d = made.dollars
    if d["judge"] is None:
        lines += _rows({"unknown": f"{d['prices']} (give --prices FILE)"})
    else:
        lines += _rows({"in all": f"${d['judge']:,.2f} ({d['prices']})"})
    if p.name.startswith("paper-"):
        lines += _rows(
            {"the paper's own bill": f"${PAPER_DOLLARS:,.0f} for 100 steps of Qwen3.6-27B"}
        )
    if p.choices:
        lines += ["", "What the source leaves open, and what is done"]
        lines += _rows(p.choices)
    lines += ["", "Here and missing"]
    lines += [
        f"  [{'x' if n.met else ' '}] {n.what}: {n.found}" + ("" if n.met else f" -> {n.remedy}")
        for n in made.needs
    ]
    lines += ["", "Launch", *(f"  {line}" for line in launch)]
    n = len(made.missing)
    lines += ["", "Ready to start." if not n else f"{n} of {len(made.needs)} needs are missing."]
    return "\n".join(lines)


def _millions(n: float) -> str:
    return f"{n / 1e6:,.1f} million" if n >= 1e6 else f"{n:,.0f}"


def _rows(rows: dict[str, str]) -> list[str]:
    import textwrap

    return [
        textwrap.fill(
            f"  {k}: {v}", 100, subsequent_indent="    ", break_on_hyphens=False,
            break_long_words=False,
        )
        for k, v in rows.items()
    ]  # fmt: skip
