"""Log-probabilities in slices of like length: the same numbers for less padding.

trl pads a generation batch to its longest prompt and longest completion; with episodes of 10 to
600 tokens half of what the model computes is padding. This mixin asks for the rows in a few slices
of like length, each cut to its own width, and puts the answers back in their places.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

SLICES = 4


class SlicedLogps:
    """Mixin for a trl GRPOTrainer, before it in the bases; text-only models, one process."""

    def _get_per_token_logps_and_entropies(
        self,
        model: torch.nn.Module,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        ask = super()._get_per_token_logps_and_entropies
        if self.accelerator.num_processes > 1 or len(input_ids) < 2 * SLICES:
            return ask(model, input_ids, attention_mask, logits_to_keep, **options)
        prompt = input_ids.shape[1] - logits_to_keep
        order = attention_mask.sum(dim=1).argsort(stable=True)
        parts = []
        for rows in order.chunk(SLICES):
            seen = attention_mask[rows].any(dim=0).nonzero()
            first, end = min(int(seen[0]), prompt - 1), max(int(seen[-1]) + 1, prompt + 1)
            ids, mask = input_ids[rows, first:end], attention_mask[rows, first:end]
            found = ask(model, ids, mask, end - prompt, **options)
            missing = logits_to_keep - (end - prompt)
            # Padding has log-probability 0 in trl's own answer, too.
            parts.append(
                [None if x is None else torch.nn.functional.pad(x, (0, missing)) for x in found[:2]]
            )
        back = order.argsort()
        logps, entropies = (
            None if x[0] is None else torch.cat(x)[back] for x in zip(*parts, strict=True)
        )
        return logps, entropies, None
