"""Batched sampling from any transformers causal model, over turns, without feeding a token twice.

One cache holds every live rollout. What the world answers is appended to it, ragged and padded on
the left; padded cells are masked and take no position, so a row's numbers are those it would have
alone. Models whose layers keep a state or a window instead of the whole past are fed their
history again at each turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache


def keeps_all(config: Any) -> bool:
    """Whether every layer attends to the whole past, so that a cache may have masked holes."""
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None) if len(kinds) == 1 else None
    windowed = bool(window) and getattr(config, "use_sliding_window", True)
    return kinds == {"full_attention"} and not windowed and hasattr(config, "num_attention_heads")


class ChatDecoder:
    """The live rollouts' cache and their next-token logits.

    Args:
        model: a causal language model, adapters included; its weights are read at each call.
        pad: any id; what it holds is masked.
    """

    def __init__(self, model: torch.nn.Module, pad: int) -> None:
        self.model, self.pad = model, pad
        self.device = next(model.parameters()).device
        self.cache: DynamicCache | None = None
        self.mask = torch.zeros(0, 0, dtype=torch.long)
        self.logits = torch.zeros(0, 0)

    def start(self, prompts: Sequence[Sequence[int]]) -> None:
        """Begin anew with one row a prompt; equal prompts are fed once."""
        distinct: dict[tuple[int, ...], int] = {}
        rows = [distinct.setdefault(tuple(p), len(distinct)) for p in prompts]
        self.cache = DynamicCache(config=self.model.config)
        self.mask = torch.zeros(len(distinct), 0, dtype=torch.long, device=self.device)
        self.feed(list(distinct))
        if len(distinct) < len(prompts):
            self.select(rows)

    def feed(self, chunks: Sequence[Sequence[int]]) -> None:
        """Append a chunk of ids to each row, one at least, and read the logits after it."""
        width = max(len(c) for c in chunks)
        ids = torch.full((len(chunks), width), self.pad)
        seen = torch.zeros(len(chunks), width, dtype=torch.long)
        for row, mask, chunk in zip(ids, seen, chunks, strict=True):
            row[width - len(chunk) :] = torch.tensor(list(chunk))
            mask[width - len(chunk) :] = 1
        self._forward(ids.to(self.device), seen.to(self.device))

    def _forward(self, ids: Tensor, seen: Tensor) -> None:
        self.mask = torch.cat([self.mask, seen], dim=1)
        position = (self.mask.cumsum(dim=1) - 1).clamp_(min=0)[:, -ids.shape[1] :]
        out = self.model(
            input_ids=ids,
            attention_mask=self.mask,
            position_ids=position,
            cache=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self.logits = out.logits[:, -1].float()

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order; repeats are allowed."""
        index = torch.tensor(list(rows), device=self.device)
        self.cache.batch_select_indices(index)
        self.mask, self.logits = self.mask[index], self.logits[index]

    def sample(
        self,
        uniform: Sequence[Callable[[], float]],
        room: Sequence[int],
        stops: Sequence[int],
        temperature: float,
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Sample one turn a row: the ids, a stop included where one was drawn, and their log-probs.

        The last id of each row is not fed yet: it begins the next chunk.

        Args:
            uniform: each row's source of numbers in [0, 1).
            room: tokens that each row may use, >= 1.
            stops: ids that end a turn.
            temperature: > 0.
        """
        B = len(uniform)
        ids: list[list[int]] = [[] for _ in range(B)]
        logprobs: list[list[float]] = [[] for _ in range(B)]
        active = np.ones(B, dtype=bool)
        while True:
            logp = torch.log_softmax(self.logits / temperature, dim=-1)
            draw = torch.tensor([u() if a else 0.5 for u, a in zip(uniform, active, strict=True)])
            total = logp.double().exp().cumsum(dim=-1)
            at = draw.double().to(self.device)[:, None] * total[:, -1:]
            token = torch.searchsorted(total, at, right=True).clamp_(max=logp.shape[1] - 1)
            chosen = logp.gather(1, token)[:, 0].tolist()
            drawn = token[:, 0].tolist()
            for b in np.flatnonzero(active):
                ids[b].append(drawn[b])
                logprobs[b].append(chosen[b])
                active[b] = drawn[b] not in stops and len(ids[b]) < room[b]
            if not active.any():
                return ids, logprobs
            seen = torch.from_numpy(active.astype(np.int64)).to(self.device)[:, None]
            before = self.logits
            self._forward(torch.where(seen > 0, token, self.pad), seen)
            self.logits = torch.where(seen > 0, self.logits, before)
