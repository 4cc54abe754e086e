"""A training at full scale as a YAML file: typed, checked, and changed by ``key=value``.

A profile says everything that a training needs and nothing that trl, accelerate or vLLM would
decide better; what it hands on to them is under ``training.trl`` and ``hardware``.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import ConfigError
from .arms import ARMS

SHIPPED = Path(__file__).with_name("profiles")


class _Part(BaseModel):
    """A part of a profile: frozen, and no name that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Shape(_Part):
    """Dimensions of a decoder, for the memory; read from its config.json where that is at hand."""

    parameters: float = Field(gt=0)
    layers: int | None = None
    hidden: int | None = None
    intermediate: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocabulary: int | None = None
    tied: bool = False


class Lora(_Part):
    """The adapter; the paper's by default."""

    r: int = Field(16, ge=1)
    alpha: int = Field(32, ge=1)
    dropout: float = Field(0.0, ge=0, lt=1)
    targets: str = "all-linear"


class Policy(_Part):
    """The model that is trained.

    ``model`` is a transformers name or path, or "tiny:main" / "tiny:weak" for the bundled policies;
    ``gguf`` is a file inside of it. ``thinking`` says what becomes of reasoning blocks: "off" turns
    them off in the template, "keep" leaves them in the context.
    """

    model: str
    gguf: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    shape: Shape | None = None
    lora: Lora = Lora()
    thinking: Literal["off", "keep"] = "off"

    @property
    def tiny(self) -> str | None:
        """The name of a bundled policy, None for any other model."""
        return self.model.removeprefix("tiny:") if self.model.startswith("tiny:") else None


class WorldUse(_Part):
    """A world, its split and the limits in it. ``tasks`` is the number of tasks of the split.

    ``agent`` and ``serving`` say in words what the policy must be prompted and served with.
    """

    name: str
    split: str
    tasks: int = Field(ge=1)
    max_turns: int = Field(ge=1)
    options: dict[str, Any] = {}
    agent: str = ""
    serving: str = ""


class Rollouts(_Part):
    """What one training step samples. ``response`` and ``prompt`` are tokens a rollout.

    ``turn`` is the most of one message; ``begin`` is written before each message for the policy,
    such as a tool call's opening mark for a model that would rather talk than act.
    """

    prompts: int = Field(16, ge=1)
    group_size: int = Field(6, ge=2)
    temperature: float = Field(1.0, gt=0)
    top_p: float = Field(1.0, gt=0, le=1)
    prompt: int = Field(4096, ge=1)
    response: int = Field(24576, ge=1)
    turn: int = Field(2048, ge=1)
    begin: str = ""
    truncation: Literal["left", "none"] = "left"
    threads: int = Field(16, ge=1)


class Training(_Part):
    """GRPO's settings; the defaults are the paper's. ``trl`` is handed to GRPOConfig as it is.

    One batch of rollouts is one optimizer step, in micro-batches of ``micro`` rollouts a process.
    ``minibatch`` says what the source states, and changes nothing: see the profile's ``choices``.
    """

    steps: int = Field(100, ge=1)
    lr: float = Field(5e-5, gt=0)
    schedule: str = "constant"
    warmup: float = Field(0.0, ge=0)
    weight_decay: float = Field(0.01, ge=0)
    grad_clip: float = Field(1.0, gt=0)
    beta: float = Field(0.01, ge=0)
    clip_low: float = Field(0.2, gt=0)
    clip_high: float = Field(0.2, gt=0)
    dual_clip: float | None = 3.0
    entropy: float = Field(0.0, ge=0)
    epochs: int = Field(1, ge=1)
    minibatch: int | None = None
    micro: int = Field(1, ge=1)
    loss: Literal["dapo", "grpo", "dr_grpo", "bnpo"] = "dapo"
    seed: int = 0
    save_every: int = Field(5, ge=1)
    evaluate_at: tuple[int, ...] = ()
    report_to: tuple[str, ...] = ()
    trl: dict[str, Any] = {}


class Judging(_Part):
    """The judge: an endpoint, or "offline" for the bundled desks.

    ``key`` names the environment variable that holds the key. ``caveats`` is what the judge must
    know of the world: a shipped name ("appworld") or a text. ``static`` is a file of fixed criteria
    for the static arms.
    """

    base_url: str = ""
    model: str = "offline"
    key: str = "RUBRICNB_API_KEY"
    temperature: float | None = 0.1
    concurrency: int = Field(64, ge=1)
    caveats: str = ""
    static: str = ""


class Assumed(_Part):
    """Lengths in tokens that an estimate assumes; no run stands behind them."""

    task: int = Field(600, ge=0)
    rollout: int = Field(14000, ge=1)
    generated: int = Field(5000, ge=1)
    summary: int = Field(5000, ge=0)
    rubric: int = Field(700, ge=0)
    reply: int = Field(900, ge=0)


class Hardware(_Part):
    """What it is meant to run on. ``vllm`` is None where transformers generates."""

    gpus: int = Field(0, ge=0)
    gpu_gb: float = Field(0, ge=0)
    processes: int = Field(1, ge=1)
    vllm: dict[str, Any] | None = None
    accelerate: dict[str, Any] = {}


class Profile(_Part):
    """One training.

    Args:
        name: of its run folder.
        about: what it is, in a sentence.
        policy, world, rollouts, training, judge, hardware: see there.
        arm: a name of ``rubricnb.train.arms.ARMS``.
        evaluation: worlds that its checkpoints are evaluated in, ``runs`` a task.
        runs: rollouts a task in an evaluation.
        assumed: lengths for the estimate.
        choices: what its source leaves open or contradicts, and what is done here.
    """

    name: str
    about: str = ""
    policy: Policy
    world: WorldUse
    rollouts: Rollouts = Rollouts()
    training: Training = Training()
    arm: str = "draco"
    judge: Judging = Judging()
    evaluation: tuple[WorldUse, ...] = ()
    runs: int = Field(3, ge=1)
    assumed: Assumed = Assumed()
    hardware: Hardware = Hardware()
    choices: dict[str, str] = {}

    @model_validator(mode="after")
    def _fits(self) -> Profile:
        if self.arm not in ARMS:
            raise ValueError(f"want an arm among {list(ARMS)}; got {self.arm!r}")
        if self.rollouts.prompts > self.world.tasks:
            raise ValueError(
                f"want at most {self.world.tasks} prompts a step, the tasks of the split; got "
                f"{self.rollouts.prompts}"
            )
        late = [s for s in self.training.evaluate_at if not 1 <= s <= self.training.steps]
        if late:
            raise ValueError(f"want evaluate_at in 1..{self.training.steps}; got {late}")
        if self.rollouts.top_p < 1 and self.hardware.vllm is None:
            raise ValueError(
                f"want rollouts.top_p 1 where vLLM does not sample; got {self.rollouts.top_p}"
            )
        t = self.training
        lost = [s for s in t.evaluate_at if s % t.save_every and s != t.steps]
        if lost:
            raise ValueError(
                f"want evaluate_at where checkpoints are, every {t.save_every} steps and at the "
                f"end; got {lost} (change training.save_every)"
            )
        return self

    def to_json(self) -> dict[str, Any]:
        """The whole profile as JSON types, defaults filled in."""
        return self.model_dump(mode="json")


def shipped() -> dict[str, Path]:
    """Return the profiles of the package by name.

    >>> sorted(shipped())
    ['cpu', 'one-gpu', 'paper-qwen2.5-32b', 'paper-qwen3.6-27b']
    """
    return {p.stem: p for p in sorted(SHIPPED.glob("*.yaml"))}


def load_profile(source: str | os.PathLike[str], changes: Iterable[str] = ()) -> Profile:
    """Return a profile by name or file, with changes.

    Args:
        source: a name of ``shipped()``, or a YAML file.
        changes: ``key=value`` with dots between the parts, values as YAML:
            ``training.lr=1e-4``, ``training.evaluate_at=[5, 10]``.
    Raises:
        ConfigError: naming file and field, for what is unknown, missing or out of range.

    >>> p = load_profile("paper-qwen3.6-27b", ["rollouts.prompts=8"])
    >>> p.rollouts.prompts * p.rollouts.group_size, p.training.steps
    (48, 100)
    """
    known = shipped()
    path = known.get(os.fspath(source), Path(source))
    if not path.is_file():
        near = difflib.get_close_matches(str(source), known, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ConfigError(f"want a profile among {sorted(known)} or a file; got {source!r}{hint}")
    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as e:
        raise ConfigError(f"{path}: want a profile in YAML; got {e}") from e
    if not isinstance(told, dict):
        raise ConfigError(f"{path}: want a mapping; got {type(told).__name__}")
    for change in changes:
        _set(told, change)
    try:
        return Profile.model_validate({"name": path.stem, **told})
    except ValidationError as e:
        raise ConfigError(f"{path.name}: {_said(e)}") from None


def _set(told: dict[str, Any], change: str) -> None:
    """Put ``a.b=value`` into nested mappings."""
    key, sign, text = change.partition("=")
    parts = key.strip().split(".")
    if not sign or not all(parts):
        raise ConfigError(f"want --set key=value, such as training.lr=1e-4; got {change!r}")
    at = told
    for part in parts[:-1]:
        inner = at.get(part)
        if inner is None:
            inner = at[part] = {}
        if not isinstance(inner, dict):
            raise ConfigError(f"want {part!r} of {key!r} as a part with fields; got {inner!r}")
        at = inner
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise ConfigError(f"want a YAML value for {key}; got {text!r}: {e}") from e
    at[parts[-1]] = _number(value)


def _number(value: Any) -> Any:
    """YAML 1.1 reads 1e-4 as text; so does nobody who writes it."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _said(error: ValidationError) -> str:
    """The first problem in our words: the field, what was wanted, what came."""
    first = error.errors()[0]
    where = ".".join(str(p) for p in first["loc"])
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(first["loc"][-1]), _fields(first["loc"][:-1]), 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return f"want a field that a profile has; got {where!r}{hint}"
    if first["type"] == "missing":
        return f"want {where!r}; got nothing"
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    return f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}; got {first['input']!r}"


def _fields(loc: tuple[Any, ...]) -> list[str]:
    """The fields of the part at a place of a profile."""
    part: Any = Profile
    for name in loc:
        if isinstance(name, int) or part is None:
            continue
        field = part.model_fields.get(name)
        kinds = [field.annotation, *getattr(field.annotation, "__args__", ())] if field else []
        part = next((k for k in kinds if isinstance(k, type) and issubclass(k, _Part)), None)
    return list(part.model_fields) if part else []


def flat(profile: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return nested mappings as one, dots between the parts.

    >>> flat({"a": {"b": 1}, "c": 2})
    {'a.b': 1, 'c': 2}
    """
    out: dict[str, Any] = {}
    for key, value in profile.items():
        out |= flat(value, f"{before}{key}.") if isinstance(value, Mapping) and value else {
            f"{before}{key}": value
        }  # fmt: skip
    return out
