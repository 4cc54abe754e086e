"""A Llama of half a million parameters that also sees the two previous tokens: the tiny policy.

"Smear" adds embeddings of the previous token and of the one before to each token's own. A
two-layer model then copies identifiers ("after `anna rome` came `c3`") without having to learn an
induction head first. All else is transformers' own Llama, so that trl, peft and
``from_pretrained`` work as they are.

Importing this module registers the model type, so that ``AutoModelForCausalLM`` can load it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.models.llama import LlamaConfig, LlamaForCausalLM, LlamaModel

from ..errors import ConfigError

PAD = 0  # the tokenizer's pad id: its smear vector is zero, so padding on the left changes nothing
REACH = 2  # how many tokens back the smear goes


class SmearConfig(LlamaConfig):
    """LlamaConfig under a model type of its own."""

    model_type = "rubricnb_smear"
    auto_map: ClassVar[dict] = {}  # trl reads it when it builds a reference model


def tiny_config(vocab_size: int, **changes: Any) -> SmearConfig:
    """Return the bundled policy's configuration: d 128, 2 layers, 4 heads, ff 384, tied.

    Args:
        vocab_size: number of tokens.
        changes: fields of LlamaConfig to set otherwise.
    """
    fields = {
        "vocab_size": vocab_size,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        # Llama's 0.02 is for wide models: here copying is learned four times slower with it.
        "initializer_range": 0.08,
        "pad_token_id": PAD,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "architectures": ["SmearForCausalLM"],
    }
    return SmearConfig(**{**fields, **changes})


class SmearModel(LlamaModel):
    """LlamaModel whose input embeddings also hold the smear vectors of the two tokens before."""

    config_class = SmearConfig

    def __init__(self, config: SmearConfig):
        super().__init__(config)
        self.smear = nn.ModuleList(
            nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=PAD)
            for _ in range(REACH)
        )
        self.post_init()

    def forward(self, input_ids=None, cache=None, inputs_embeds=None, previous_ids=None, **kwargs):
        """As LlamaModel's; ``previous_ids`` (B, 2) are the tokens before ``input_ids[:, 0]``.

        Without them the input is taken to be the start of a sequence, so they are required as
        soon as the cache holds something.
        """
        if input_ids is not None and inputs_embeds is None:
            if previous_ids is None:
                if cache is not None and cache.get_seq_length() > 0:
                    raise ConfigError("want previous_ids beside a filled cache; got None")
                previous_ids = input_ids.new_full((input_ids.shape[0], REACH), PAD)
            ids = torch.cat([previous_ids, input_ids], dim=1)
            inputs_embeds = self.embed_tokens(input_ids)
            for back, smear in enumerate(self.smear, start=1):
                inputs_embeds = inputs_embeds + smear(ids[:, REACH - back : ids.shape[1] - back])
        return super().forward(cache=cache, inputs_embeds=inputs_embeds, **kwargs)


class SmearForCausalLM(LlamaForCausalLM):
    """LlamaForCausalLM on a SmearModel. ``generate`` passes the previous tokens by itself."""

    config_class = SmearConfig

    def __init__(self, config: SmearConfig):
        super().__init__(config)
        self.model = SmearModel(config)
        self.post_init()

    def prepare_inputs_for_generation(self, input_ids, next_sequence_length=None, **kwargs):
        """Add the tokens before the slice that is about to be computed."""
        inputs = super().prepare_inputs_for_generation(
            input_ids, next_sequence_length=next_sequence_length, **kwargs
        )
        done = input_ids.shape[1] - inputs["input_ids"].shape[1]
        if done > 0:
            padded = nn.functional.pad(input_ids, (REACH, 0), value=PAD)
            inputs["previous_ids"] = padded[:, done : done + REACH]
        return inputs


AutoConfig.register(SmearConfig.model_type, SmearConfig)
AutoModel.register(SmearConfig, SmearModel)
AutoModelForCausalLM.register(SmearConfig, SmearForCausalLM)


def load_policy(path: str | Path) -> SmearForCausalLM:
    """Return the policy that a folder holds, in float32 on the CPU, in eval mode.

    Args:
        path: a folder with config.json and model.safetensors.
    Raises:
        ConfigError: when the folder does not hold them.
    """
    path = Path(path)
    for name in ("config.json", "model.safetensors"):
        if not (path / name).is_file():
            raise ConfigError(
                f"want a policy folder with {name}; got {path} without it (rubricnb warm-up "
                "writes one)"
            )
    # from_pretrained leaves weights on the meta device in between: no global seed is consumed.
    return SmearForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
