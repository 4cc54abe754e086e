"""`rubricnb study`: train the conditions of a study, and write its table and figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from ..experiments.profiles import profile as profile_of
from ..experiments.studies import SIZES, STUDIES, size
from ..experiments.studies import study as study_of
from . import app

RULES = "rules"
_SIZES = "; ".join(f"{p.name}: {len(p.seeds)} seed(s), {p.steps} steps" for p in SIZES.values())


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(x) for x in text.split(",") if x.strip())
    except ValueError:
        raise ConfigError(f"want seeds as whole numbers with commas; got {text!r}") from None


@app.command()
def study(
    name: Annotated[
        str,
        typer.Argument(help=f"one of {', '.join(STUDIES)}, or rules: every credit rule's own arm"),
    ],
    profile: Annotated[str, typer.Option(help=_SIZES)] = "small",
    out: Annotated[Path, typer.Option(help="folder of all runs")] = Path("runs"),
    seeds: Annotated[str, typer.Option(help="only these, such as 0,1; default: all")] = "",
    conditions: Annotated[str, typer.Option(help="only these, with commas; default: all")] = "",
    workers: Annotated[int, typer.Option(min=1, help="trainings side by side")] = 2,
    read: Annotated[bool, typer.Option("--read", help="train nothing, read what is there")] = False,
) -> None:
    """Run a training study; the same command goes on after an interruption.

    Seeds may be split over commands: the table is then made of all that are finished.
    What each asks is in notebook 12; the paths of its table and figure are printed at the end.
    """
    from ..experiments import studying  # pandas, plotly: only when they are needed

    if name == RULES:
        if conditions:
            raise ConfigError("want --conditions with another study; got them with rules")
        chosen_profile = replace(profile_of(profile), workers=workers)
        if seeds:
            chosen_profile = replace(chosen_profile, seeds=_numbers(seeds))
        files = studying.rules(chosen_profile, out, train=not read)
        print(files.markdown.read_text(encoding="utf-8"))
        print(f"table: {files.markdown}")
        return
    chosen = study_of(name)
    whole = size(chosen, profile)
    told = replace(size(chosen, profile, _numbers(seeds)), workers=workers)
    only = tuple(c.strip() for c in conditions.split(",") if c.strip())
    if not read:
        studying.run_study(chosen, told, out, only=only)
    asked = tuple(sorted({*whole.seeds, *told.seeds}))
    result = studying.read_study(chosen, replace(whole, seeds=asked), out)
    files = studying.write_study(result, out)
    print(studying.claim(result))
    for what, path in files.items():
        print(f"{what}: {path}")
