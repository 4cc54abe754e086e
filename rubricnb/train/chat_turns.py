"""The turns of a batch of chat rollouts: who is live, what room is left, where tokens come from."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..errors import ConfigError
from ..policy.chat_decode import ChatDecoder, keeps_all
from ..trajectory import Step
from ..worlds.base import WorldTask


@dataclass(frozen=True, slots=True)
class ChatLimits:
    """What a rollout may use; lengths in tokens unless it says otherwise.

    Args:
        prompt: a longer prompt is refused.
        turn: one message.
        response: everything after the prompt, the world's answers included.
        context: prompt and response together; None for the model's own.
        turns: messages; None for the world's limit.
        observation: characters of one answer that are shown; the middle of more is left out.
        reminders: messages in a row that may call nothing, each answered by a reminder.
        threads: worlds that answer side by side.
        lenient: whether calls outside of the template's marks are read.
        begin: what each message begins with, written for the policy and not sampled by it: such
            as ``<tool_call>`` and a line's end, for a model that would rather talk than act.
    """

    prompt: int = 4096
    turn: int = 1024
    response: int = 24_576
    context: int | None = None
    turns: int | None = None
    observation: int = 20_000
    reminders: int = 1
    threads: int = 8
    lenient: bool = True
    begin: str = ""

    def __post_init__(self) -> None:
        least = {"reminders": 0}
        for name in ("prompt", "turn", "response", "context", "turns", "observation", "threads"):
            least[name] = 1
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise ConfigError(f"want {name} >= {low}; got {value}")


@dataclass
class Live:
    """One rollout in the making."""

    id: str
    task: WorldTask
    episode: Any
    uniform: np.random.Generator
    prompt: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    step_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    idle: int = 0
    ended: str = ""
    error: str = ""

    def add(self, ids: Sequence[int], step: int, logprobs: Sequence[float]) -> None:
        self.ids.extend(ids)
        self.step_ids.extend([step] * len(ids))
        self.logprobs.extend(logprobs)


class Turns:
    """The live rollouts of one batch, and where their next tokens come from."""

    def __init__(
        self,
        live: Sequence[Live],
        limits: ChatLimits,
        glue: Callable[[Live, Sequence[int]], list[int]],
        model: torch.nn.Module,
        stops: Sequence[int],
        heat: float,
        engine: Callable[[list, list], tuple[list, list]] | None,
    ) -> None:
        self.limits, self.glue, self.stops = limits, glue, stops
        self.heat, self.engine = heat, engine
        self.live = [r for r in live if not r.ended]
        self.decoder = ChatDecoder(model, stops[0])
        self.reuse = engine is None and keeps_all(model.config)
        own = getattr(model.config, "max_position_embeddings", None)
        self.context = limits.context or own or sys.maxsize
        for r in list(self.live):
            if len(r.prompt) >= self.context:
                raise ConfigError(
                    f"want a context of more than the prompt's {len(r.prompt)} tokens; got "
                    f"{self.context} (task {r.task.id})"
                )
        if self.live and engine is None:
            self.decoder.start([r.prompt for r in self.live])
        self.said: list[list[int]] = []

    def room(self, r: Live) -> tuple[int, str]:
        """Tokens that the next message may use, and what ends the rollout where none are left."""
        limits, used = self.limits, len(r.ids)
        left = {"response": limits.response - used, "context": self.context - len(r.prompt) - used}
        tight = min(left, key=left.get)
        return min(limits.turn, left[tight]), tight

    def sample(self) -> list[list[int]]:
        room = [self.room(r)[0] for r in self.live]
        if self.engine is not None:
            self.said, logprobs = self.engine([[*r.prompt, *r.ids] for r in self.live], room)
        else:
            uniform = [r.uniform.random for r in self.live]
            self.said, logprobs = self.decoder.sample(uniform, room, self.stops, self.heat)
        for r, ids, logp in zip(self.live, self.said, logprobs, strict=True):
            r.add(ids, len(r.steps) + 1, logp)
        return self.said

    def append(self) -> None:
        """Add the answers, drop what is over, and feed the rest."""
        keep, chunks = [], []
        for at, (r, said) in enumerate(zip(self.live, self.said, strict=True)):
            if not r.ended:
                added = self.glue(r, said)
                r.ids.extend(added)  # for the count of what is left
                room, tight = self.room(r)
                del r.ids[len(r.ids) - len(added) :]
                if room < 1:
                    r.ended = tight
                else:
                    r.add(added, 0, [0.0] * len(added))
                    keep.append(at)
                    chunks.append([said[-1], *added])
        self.live = [self.live[at] for at in keep]
        if not self.live or self.engine is not None:
            return
        if not self.reuse:
            self.decoder.start([[*r.prompt, *r.ids] for r in self.live])
            return
        if len(keep) < len(self.said):
            self.decoder.select(keep)
        self.decoder.feed(chunks)


class Engine:
    """trl's own generation (vLLM, server or colocated) as the source of each turn's tokens."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def __call__(self, histories: list[list[int]], room: list[int]) -> tuple[list, list]:
        ids, logprobs = self.trainer._generate_single_turn(histories, None, {}, 1)
        cut = [list(i)[:n] for i, n in zip(ids, room, strict=True)]
        return cut, [list(p)[:n] for p, n in zip(logprobs, room, strict=True)]


@contextmanager
def sampling(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients, and back."""
    training = model.training
    if training:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if training:
            model.train()


def memory() -> dict[str, float]:
    """Peak memory of this process in MiB, and of the CUDA device where there is one."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    out = {"peak_rss_mib": round(peak, 1)}
    if torch.cuda.is_available():
        out["peak_cuda_mib"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    return out
