"""A policy's dimensions from its own configuration, where that is at hand: no weight is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ..errors import ConfigError
from ..policy.warmup import policy_folder
from .profile import Profile, Shape
from .start import model_files


def shape_of(profile: Profile) -> tuple[Shape | None, str]:
    """Return the policy's dimensions and where they are from.

    Its config.json (or GGUF header) on this machine, else what the profile states, else None.

    >>> from rubricnb.train.profile import load_profile
    >>> shape, source = shape_of(load_profile("cpu", ["policy.model=tiny:main"]))
    >>> shape.layers, shape.hidden, source
    (2, 128, 'the configuration of tiny:main')
    """
    try:
        config = local_config(profile)
    except (ConfigError, OSError, ValueError, ImportError):
        told = profile.policy.shape
        return told, "the profile" if told is not None else "nowhere"
    return _read(config), f"the configuration of {profile.policy.model}"


def local_config(profile: Profile) -> Any:
    """Return transformers' configuration of the policy without a network.

    Raises:
        ConfigError, OSError, ValueError, ImportError: it is not here, or cannot be read.
    """
    p = profile.policy
    if p.tiny is not None:
        from ..policy.model import SmearConfig

        return SmearConfig.from_pretrained(policy_folder(p.tiny))
    name, gguf = model_files(p.model, p.gguf)
    source = {"gguf_file": gguf} if gguf else {}
    config = AutoConfig.from_pretrained(name, local_files_only=not Path(name).is_dir(), **source)
    return getattr(config, "text_config", None) or config


def _read(config: Any) -> Shape:
    heads = config.num_attention_heads
    with torch.device("meta"):
        model = _model(config)
    return Shape(
        parameters=sum(p.numel() for p in model.parameters()),
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        heads=heads,
        kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        vocabulary=config.vocab_size,
        tied=bool(config.tie_word_embeddings),
    )


def _model(config: Any) -> torch.nn.Module:
    from ..policy.model import SmearConfig, SmearForCausalLM

    if isinstance(config, SmearConfig):
        return SmearForCausalLM(config)
    return AutoModelForCausalLM.from_config(config)
