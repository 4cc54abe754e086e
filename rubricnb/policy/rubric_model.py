"""A rubric model: one causal LM that writes criteria for a step, and scores the step under them.

    state, action  --LM head-->  K short criteria  --score head-->  d in [-1, 1]^K,  s = mean(d)

Any causal LM of transformers will do, with LoRA, or ``small``: a Llama of half a million parameters
over the words of a desk, made for two cores. Criteria are written greedily and get no gradient of
their own; they move with the features that both heads share, and a KL term holds them to the model
they were warmed up as.

Reference: ARCO (arXiv 2606.21262). Departures: the criteria are lines of words, not JSON; see
``RubricConfig`` for what the released code does otherwise than the paper says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch import nn

from ..errors import ConfigError
from ..worlds.step_notes import BAR
from .step_view import StepView, text_of

INSTRUCTION = (
    "You evaluate one action of an agent. Write {k} short, concrete criteria for this action, "
    "separated by {bar}: does it aim at what is asked, rest on evidence, repeat nothing, fit the "
    "actions left? Criteria only.\n"
)
FIXED = ("the action is asked for", "what is known was shown before", "nothing is made again")


@dataclass(frozen=True)
class RubricConfig:
    """What a rubric model reads and how it scores.

    Args:
        criteria: K, criteria a step and numbers of the score head.
        rubric: "written" by the LM head; "fixed", the same three for every step (without
            adaptation); "none", scores straight from the prompt (without rubric).
        prefix: whether the state before the action is shown; else task and action only.
        binding: "action": criteria are written with the action in sight, as published; "state":
            from the state before the action alone.
        window: earlier steps that are shown.
        tokens: most tokens of one criterion.
        pool: hidden states that the score head reads: "mean" over all tokens, as the released
            code does, or "last".
        lora: rank of the adapter on q and v; 0 trains every weight.
        instruct: whether an instruction comes first; for language models.
        batch: steps computed together; changes speed and memory only.
    """

    criteria: int = 3
    rubric: str = "written"
    prefix: bool = True
    binding: str = "action"
    window: int = 8
    tokens: int = 16
    pool: str = "mean"
    lora: int = 8
    instruct: bool = True
    batch: int = 64

    def __post_init__(self) -> None:
        for name, allowed in (
            ("rubric", ("written", "fixed", "none")),
            ("binding", ("action", "state")),
            ("pool", ("mean", "last")),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"want {name} among {allowed}; got {getattr(self, name)!r}")
        if min(self.criteria, self.tokens, self.batch) < 1 or self.lora < 0 or self.window < 0:
            raise ConfigError("want criteria, tokens, batch >= 1 and lora, window >= 0")


class RubricModel(nn.Module):
    """Generation and score heads on one backbone.

    Args:
        backbone: a causal LM in float32.
        tokenizer: its tokenizer.
        config: what it reads.
        seed: of the score head and the adapter.
    """

    def __init__(
        self, backbone: nn.Module, tokenizer: Any, config: RubricConfig, seed: int = 0
    ) -> None:
        super().__init__()
        self.tokenizer, self.config = tokenizer, config
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            if config.lora:
                # The paper's adapter: alpha 32, dropout .05, q and v.
                told = LoraConfig(
                    r=config.lora,
                    lora_alpha=32,
                    lora_dropout=0.05,
                    target_modules=["q_proj", "v_proj"],
                    task_type=TaskType.CAUSAL_LM,
                )
                backbone = get_peft_model(backbone, told)
            self.backbone = backbone
            width = self._base.config.hidden_size
            self.head = nn.Sequential(
                nn.Linear(width, 512),
                nn.GELU(),
                nn.Linear(512, 128),
                nn.GELU(),
                nn.Linear(128, config.criteria),
                nn.Tanh(),
            )
        self.end = tokenizer.eos_token_id
        self.pad = self.end if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self._reference: list[torch.Tensor] | None = None

    @property
    def _base(self) -> nn.Module:
        return self.backbone.get_base_model() if self.config.lora else self.backbone

    def trained(self) -> list[nn.Parameter]:
        """Parameters of the backbone that are trained: the adapter, or all."""
        return [p for p in self.backbone.parameters() if p.requires_grad]

    def ids(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens."""
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def prompt(self, view: StepView) -> list[int]:
        """What the criteria are written from."""
        c = self.config
        text = text_of(view, prefix=c.prefix, window=c.window)
        if c.binding == "action":
            text += f" action {view.action}"
        if c.instruct:
            text = INSTRUCTION.format(k=c.criteria, bar=BAR) + text
        first = self.tokenizer.bos_token_id
        return ([] if first is None else [first]) + self.ids(f"{text} criteria")

    def read(self, view: StepView, criteria: str) -> tuple[list[int], slice]:
        """What is scored, and where in it the criteria and their end stand."""
        prompt = self.prompt(view)
        if self.config.rubric == "none":
            return prompt + self._late(view), slice(0, 0)
        text = f" {BAR} ".join(FIXED) if self.config.rubric == "fixed" else criteria
        room = self.config.tokens * self.config.criteria
        said = [*self.ids(" " + text)[:room], self.end]
        return prompt + said + self._late(view), slice(len(prompt), len(prompt) + len(said))

    def _late(self, view: StepView) -> list[int]:
        return self.ids(f" action {view.action}") if self.config.binding == "state" else []

    @torch.no_grad()
    def write(self, views: Sequence[StepView]) -> list[str]:
        """Return the criteria of each step as one text, greedily; "" where none are written."""
        out = [""] * len(views)
        if self.config.rubric != "written":
            return out
        was, _ = self.training, self.eval()
        try:
            prompts = [self.prompt(v) for v in views]
            for at in _alike(prompts, self.config.batch):
                texts = self._greedy([prompts[i] for i in at])
                for i, text in zip(at, texts, strict=True):
                    out[i] = text
        finally:
            self.train(was)
        return out

    def _greedy(self, prompts: list[list[int]]) -> list[str]:
        width = max(map(len, prompts))
        ids = torch.tensor([[self.pad] * (width - len(p)) + p for p in prompts])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        made = self._base.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=self.config.tokens * self.config.criteria,
            do_sample=False,
            eos_token_id=self.end,
            pad_token_id=self.pad,
        )
        return [self._text(row) for row in made[:, width:].tolist()]

    def _text(self, row: list[int]) -> str:
        if self.end in row:
            row = row[: row.index(self.end)]
        text = self.tokenizer.decode(row, skip_special_tokens=True)
        return f" {BAR} ".join(" ".join(c.split()) for c in text.split(BAR)[: self.config.criteria])

    def hidden(self, rows: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, T, H) last hidden states and (B, T) mask, padded on the right."""
        width = max(map(len, rows))
        ids = torch.tensor([r + [self.pad] * (width - len(r)) for r in rows])
        mask = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in rows])
        inner = getattr(self._base, self._base.base_model_prefix)
        out = inner(input_ids=ids, attention_mask=mask, use_cache=False)
        return out.last_hidden_state, mask

    def scored(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, K) scores d of each step from its hidden states."""
        if self.config.pool == "last":
            pooled = hidden[torch.arange(len(mask)), mask.sum(1) - 1]
        else:
            m = mask[..., None].to(hidden.dtype)
            pooled = (hidden * m).sum(1) / m.sum(1)
        return self.head(pooled.float())

    def logits(self, hidden: torch.Tensor, where: Sequence[slice]) -> torch.Tensor:
        """(tokens, V) logits that predict the criteria's tokens, all rows one after another."""
        rows = [h[s.start - 1 : s.stop - 1] for h, s in zip(hidden, where, strict=True) if s.stop]
        return self._base.get_output_embeddings()(torch.cat(rows)) if rows else hidden[:0, 0]

    @torch.no_grad()
    def scores(self, views: Sequence[StepView], criteria: Sequence[str]) -> torch.Tensor:
        """Return (n, K) scores of steps under the criteria given, without gradients."""
        out = torch.zeros(len(views), self.config.criteria)
        was, _ = self.training, self.eval()
        try:
            rows = [self.read(v, c)[0] for v, c in zip(views, criteria, strict=True)]
            for at in _alike(rows, self.config.batch):
                out[at] = self.scored(*self.hidden([rows[i] for i in at]))
        finally:
            self.train(was)
        return out

    @torch.no_grad()
    def loglik(self, views: Sequence[StepView], criteria: Sequence[str]) -> torch.Tensor:
        """Return (n,) mean log-probability a token of the criteria given each step."""
        out = torch.zeros(len(views))
        was, _ = self.training, self.eval()
        try:
            rows = [self.read(v, c) for v, c in zip(views, criteria, strict=True)]
            for at in _alike([r for r, _ in rows], self.config.batch):
                h, _ = self.hidden([rows[i][0] for i in at])
                for i, own in zip(at, h, strict=True):
                    ids, where = rows[i]
                    logp = self.logits(own[None], [where]).log_softmax(-1)
                    target = torch.tensor(ids[where])
                    out[i] = logp.gather(1, target[:, None]).mean()
        finally:
            self.train(was)
        return out

    def keep_reference(self) -> None:
        """Remember the weights as they are: the model that the KL term holds to."""
        self._reference = [p.detach().clone() for p in self.trained()]

    @contextlib.contextmanager
    def reference(self) -> Iterator[None]:
        """Within it the backbone is the remembered one.

        Raises:
            ConfigError: nothing was remembered.
        """
        if self._reference is None:
            raise ConfigError("want keep_reference() before the KL term; got no reference")
        own = [p.data for p in self.trained()]
        for p, r in zip(self.trained(), self._reference, strict=True):
            p.data = r
        try:
            yield
        finally:
            for p, o in zip(self.trained(), own, strict=True):
                p.data = o


def _alike(rows: Sequence[list[int]], size: int) -> Iterator[list[int]]:
    """Indices of rows of like length, ``size`` at a time."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for start in range(0, len(order), size):
        yield order[start : start + size]
