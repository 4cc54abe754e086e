"""`rubricnb credit`: graded groups become credit per step, by any rule."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .. import files, grading
from ..credit import RULES, CreditBatch, draco_details
from ..errors import ConfigError, CreditError, FormatError
from ..figures.numbers import all_rules, batch_of
from ..rubric import GradedGroup
from . import app

_GROUP = ("ddof", "eps", "single")  # options of the group advantage, which most rules take


@app.command()
def credit(
    path: Annotated[Path, typer.Argument(help="graded groups, from `rubricnb grade`")],
    output: Annotated[Path, typer.Option("-o", "--output", help="one line a rollout")],
    rule: Annotated[str, typer.Option(help=f"one of {', '.join(RULES)}")] = "draco",
    tokenizer: Annotated[
        str | None, typer.Option(help="a tokenizer.json, or a folder that has one")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--set", help="an option of the rule, as key=value")
    ] = None,
    mask: Annotated[
        Path | None, typer.Option(help="another trainer's response_mask and trajectory_id")
    ] = None,
    cut: Annotated[bool, typer.Option(help="its responses may have been cut")] = False,
) -> None:
    """Write each rollout's reward, advantage and credit per step.

    n_j is counted by --tokenizer, else it is the sampled tokens that the log recorded, else the
    characters that the agent wrote; each line says which ("unit").

    With --mask (.npz or .safetensors) the output is a batch in verl's layout instead: advantages
    and returns of every token of the rollouts that this trainer sampled.
    """
    count = load_tokenizer(tokenizer) if tokenizer else "auto"
    settings = parse_options(options or [])
    if output.exists() and path.exists() and output.samefile(path):
        raise ConfigError(f"want -o another file than the graded groups; got {output} for both")
    if mask is not None:
        _export(path, output, rule, settings, mask, cut)
        return
    n = files.write_jsonl(output, credit_rows(path, rule, count, settings))
    print(f"{output}: credit of {n} rollouts by {rule}", file=sys.stderr)


def _export(path: Path, output: Path, rule: str, settings: dict, mask: Path, cut: bool) -> None:
    from ..train import export

    graded = list(files.read_jsonl(path))
    if not all(isinstance(g, GradedGroup) for g in graded):
        raise FormatError(f"{path}: want graded groups; got another kind")
    told, names = export.read_mask(mask)
    made = export.batch_of_mask(told, names, graded, rule=rule, options=settings, cut=cut)
    export.write_batch(output, made)
    print(f"{output}: advantages {made['advantages'].shape} by {rule}", file=sys.stderr)


def credit_rows(
    path: Path, rule: str, tokens: str | Callable, options: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield one mapping a rollout of a graded file: see ``rubricnb credit``.

    Raises:
        CreditError: for an unknown rule or option, or a rule that wants what the log lacks.
        FormatError: with file and line, for what is not a graded group.
    """
    if rule not in RULES:
        raise CreditError(f"want a rule among {', '.join(RULES)}; got {rule!r}")
    for i, graded in enumerate(files.read_jsonl(path), start=1):
        if not isinstance(graded, GradedGroup):
            raise FormatError(f"{path}, value {i}: want a graded group; got another kind")
        yield from _of_group(graded, rule, tokens, options, f"{path}, value {i}")


def _of_group(
    graded: GradedGroup, rule: str, tokens: Any, options: Mapping[str, Any], where: str
) -> Iterator[dict[str, Any]]:
    made = grading.arrays(graded, tokens)
    batch = batch_of(graded, made)
    try:
        credit_GS = RULES[rule](batch, **options)
    except TypeError as e:  # an option that the rule does not have
        raise CreditError(f"want options of the rule {rule!r}; got {dict(options)} ({e})") from e
    except CreditError as e:
        known = ", ".join(all_rules(graded, 0, tokens=tokens)[0])
        raise CreditError(
            f"{where}, task {graded.group.task.id!r}: {e} (this group has what these rules read: "
            f"{known or 'none'})"
        ) from e
    advantage_G = batch.advantage(**{k: options[k] for k in _GROUP if k in options})
    flags = _flags(batch, advantage_G, options) if rule == "draco" else {}
    for g, trajectory in enumerate(graded.group.trajectories):
        n = len(trajectory)
        failed = graded.failures[g] if graded.failures else ""
        total = made.tokens_GS[g, :n]
        yield {
            "task_id": graded.group.task.id,
            "trajectory_id": trajectory.id,
            "rule": rule,
            "options": dict(options),
            "unit": made.unit,
            "tokens": [int(t) for t in total],
            "reward": _number(made.reward_G[g]),
            "advantage": float(advantage_G[g]),
            "credit": [float(a) for a in credit_GS[g, :n]],
            "total": float((credit_GS[g, :n] * total).sum()),
            "passes": [int(p) for p in made.pass_GS[g, :n]],
            "fails": [int(f) for f in made.fail_GS[g, :n]],
            "kinds": [str(k) for k in made.kind_GS[g, :n]],
            **({"failure": failed} if failed else {}),
            **{name: bool(flag[g]) for name, flag in flags.items()},
        }


def _flags(batch: CreditBatch, advantage_G, options: Mapping[str, Any]) -> dict[str, Any]:
    """DRACO's two fallbacks, per rollout."""
    known = {k: v for k, v in options.items() if k not in _GROUP}
    details = draco_details(advantage_G, batch.pass_GS, batch.fail_GS, batch.tokens_GS, **known)
    return {"uncited": details.uncited_G, "collapsed": details.collapsed_G}


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def parse_options(pairs: list[str]) -> dict[str, Any]:
    """Return {"key": value} of texts "key=value"; values are JSON where they can be.

    >>> parse_options(["ddof=0", "nocite=equal_step"])
    {'ddof': 0, 'nocite': 'equal_step'}
    """
    out: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigError(f"want --set key=value; got {pair!r}")
        try:
            out[key] = json.loads(value)
        except ValueError:
            out[key] = value
    return out


def load_tokenizer(name: str) -> Callable[[str], int]:
    """Return text -> number of tokens, of a tokenizer.json on this machine.

    Raises:
        ConfigError: where the file is not there, or the tokenizers package is not.
    """
    path = Path(name)
    path = path / "tokenizer.json" if path.is_dir() else path
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ConfigError(
            "want the package tokenizers for --tokenizer; got none (it comes with the extra train)"
        ) from None
    if not path.is_file():
        raise ConfigError(f"want a tokenizer.json, or a folder with one; got {name!r}")
    try:
        loaded = Tokenizer.from_file(str(path))
    except Exception as e:  # the package raises a bare Exception
        raise ConfigError(f"{path}: want a tokenizer.json; got {e}") from None
    return lambda text: len(loaded.encode(text, add_special_tokens=False).ids)
