"""Open any chat model as a policy: by transformers name, by folder, or from a GGUF file.

The tokenizer that comes back has a chat template that ``check_template`` accepts: the model's own
where it is fit, else trl's training version of it, else a plain one of ours for ChatML models
whose template knows no tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, TaskType
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from trl import chat_template_utils as trl_templates

from ..errors import ConfigError
from .template import check_template

DTYPES = {"auto": "auto", **{n: getattr(torch, n) for n in ("float32", "bfloat16", "float16")}}
OURS = Path(__file__).with_name("chatml_tools.txt")


def open_chat(
    name_or_path: str | Path,
    *,
    gguf_file: str | None = None,
    dtype: str = "auto",
    template: str = "auto",
    tools: Sequence[Mapping[str, Any]] | None = None,
    thinking: str = "refuse",
    device: str | torch.device | None = None,
    **options: Any,
) -> tuple[torch.nn.Module, PreTrainedTokenizerBase]:
    """Return a chat model and its tokenizer, ready to be trained.

    Args:
        name_or_path: a transformers name, a folder, or the path of a .gguf file.
        gguf_file: a GGUF file within it; its weights are dequantised.
        dtype: "auto" (the checkpoint's; float32 on a machine without CUDA), "float32",
            "bfloat16" or "float16".
        template: "auto", "own", "training" (trl's version of the model's), "tools" (ours, ChatML
            with tools), or the text of a Jinja template.
        tools: the world's schemas, for the check.
        thinking: see ``check_template``.
        device: default: where transformers puts it.
        options: of ``AutoModelForCausalLM.from_pretrained``, such as attn_implementation.
    Raises:
        ConfigError: the model cannot be opened, or no template of those allowed is fit.
    """
    path = Path(name_or_path)
    if path.suffix == ".gguf":
        name_or_path, gguf_file = path.parent, path.name
    if dtype not in DTYPES:
        raise ConfigError(f"want dtype among {list(DTYPES)}; got {dtype!r}")
    kind = DTYPES[dtype]
    if dtype == "auto" and (gguf_file or not torch.cuda.is_available()):
        kind = torch.float32
    source = {"gguf_file": gguf_file} if gguf_file else {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(name_or_path), **source)
        model = AutoModelForCausalLM.from_pretrained(
            str(name_or_path), dtype=kind, **source, **options
        )
    except (OSError, ValueError, ImportError) as e:
        raise ConfigError(
            f"want a chat model that transformers can open; got {name_or_path!s}: {e} "
            "(a folder or a name; offline, the model must be in the cache; GGUF needs gguf)"
        ) from e
    if gguf_file:
        _dequantised(model)
    fit_template(tokenizer, template, tools=tools, thinking=thinking)
    _separate_pad(tokenizer)
    model.config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return (model if device is None else model.to(device)), tokenizer


def fit_template(
    tokenizer: PreTrainedTokenizerBase,
    template: str = "auto",
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    thinking: str = "refuse",
) -> str:
    """Put a template that passes ``check_template`` into the tokenizer; return which one it is.

    Raises:
        ConfigError: with each candidate's reason.
    """
    before, reasons = tokenizer.chat_template, {}
    # The rollouts' masks come from ids: the template's own mask is wished for, not needed.
    wanted = [(template, template != "own")]
    if template == "auto":
        wanted = [("own", True), ("training", True), ("own", False), ("tools", True)]
    for name, mask in wanted:
        text = _candidate(tokenizer, name, before)
        if text is None:
            reasons[name] = "there is none for this model"
            continue
        tokenizer.chat_template = text
        try:
            check_template(tokenizer, tools, thinking=thinking, mask=mask)
        except ConfigError as e:
            reasons[name] = str(e)
            tokenizer.chat_template = before
            continue
        _reply_format(tokenizer, name, before)
        return name
    told = "; ".join(f"{n[:20]}: {r}" for n, r in reasons.items())
    raise ConfigError(f"want a chat template fit for training; got none: {told}")


def _candidate(tokenizer: PreTrainedTokenizerBase, name: str, own: str | None) -> str | None:
    if name == "own":
        return own
    if name == "training":
        try:
            return trl_templates.get_training_chat_template(tokenizer) if own else None
        except ValueError:  # trl has none for this template
            return None
    if name == "tools":
        vocabulary = tokenizer.get_vocab()
        chatml = all(t in vocabulary for t in ("<|im_start|>", "<|im_end|>"))
        return OURS.read_text(encoding="utf-8") if chatml else None
    if "{" not in name:
        raise ConfigError(
            f"want template 'auto', 'own', 'training', 'tools' or a Jinja text; got {name!r}"
        )
    return name


def _reply_format(tokenizer: PreTrainedTokenizerBase, name: str, own: str | None) -> None:
    """Tell trl how replies are written, which its environment_factory needs; best effort."""
    if name == "tools":
        tokenizer.response_template = trl_templates.qwen3_template
        return
    used, tokenizer.chat_template = tokenizer.chat_template, own
    try:
        trl_templates.add_response_schema(tokenizer)
    except ValueError:
        pass
    finally:
        tokenizer.chat_template = used


def _dequantised(model: torch.nn.Module) -> None:
    """Take back the mark of quantisation: a GGUF file's weights were expanded on opening."""
    model.is_quantized = False
    model.hf_quantizer = None
    for owner, name in ((model, "quantization_method"), (model.config, "quantization_config")):
        if hasattr(owner, name):
            delattr(owner, name)


def _separate_pad(tokenizer: PreTrainedTokenizerBase) -> None:
    """A pad token that is not the end of a turn, where the vocabulary has another control token."""
    if tokenizer.pad_token_id not in (None, tokenizer.eos_token_id):
        return
    for token in ("<|endoftext|>", "<|finetune_right_pad_id|>", "<pad>", "<unk>"):
        if token in tokenizer.get_vocab() and token != tokenizer.eos_token:
            tokenizer.pad_token = token
            return
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token


def chat_lora(r: int = 16, alpha: int = 32) -> LoraConfig:
    """The paper's adapter: r 16, alpha 32, on every linear layer."""
    return LoraConfig(
        r=r,
        lora_alpha=alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type=TaskType.CAUSAL_LM,
    )
