"""Episodes of a tiny policy against a world, many at once, with exact token bookkeeping.

All rows of a batch take their turn together: sample one action each, let every world answer, feed
the answers, drop the rows that are done. Each episode draws from a random stream of its own, so
what it does depends on the weights, its task and its seed, not on its neighbours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from ..errors import ConfigError
from ..seeds import child_seed
from ..trajectory import Trajectory
from ..worlds.base import Episode, World, WorldTask
from ..worlds.transcript import as_trajectory
from .decode import Decoder, KVCache
from .tokens import END, Words

ROWS = 128  # rows decoded together; from 96 to 200 the time an episode is flat


@dataclass(frozen=True, slots=True)
class Limits:
    """What an episode and a turn may use.

    Args:
        action: tokens of one action, its ``<end>`` included; a longer one is cut and sent as is.
        completion: tokens after the prompt, actions and answers together.
    """

    action: int = 8
    completion: int = 640


@dataclass(frozen=True, slots=True)
class Sampled:
    """One episode as a trainer needs it.

    Args:
        prompt_ids: tokens before the first action.
        completion_ids: actions and answers, up to the last sampled token.
        step_ids: per completion token, the number of its step from 1, or 0 for glue that the
            world wrote. ``step_ids > 0`` is the action mask.
        logprobs: per completion token, the policy's log-probability at the sampling temperature,
            0 at glue.
        trajectory: the transcript, with n_j in ``Step.tokens``.
        checks: the world's named checks, for evaluation only.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    step_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    trajectory: Trajectory
    checks: dict[str, bool] = field(default_factory=dict)

    @property
    def action_mask(self) -> tuple[int, ...]:
        """1 where the policy sampled the token."""
        return tuple(int(s > 0) for s in self.step_ids)


def columns(made: Sequence[Sampled]) -> dict[str, list]:
    """Return rollouts as trl's ``rollout_func`` gives them, and what CreditGRPOTrainer reads."""
    return {
        "prompt_ids": [list(s.prompt_ids) for s in made],
        "completion_ids": [list(s.completion_ids) for s in made],
        "logprobs": [list(s.logprobs) for s in made],
        "env_mask": [list(s.action_mask) for s in made],
        "step_ids": [list(s.step_ids) for s in made],
        "trajectory": [s.trajectory for s in made],
    }


class _Row:
    """One episode in the making."""

    def __init__(self, episode: Episode, prompt: list[int], seed: int, room: int) -> None:
        self.episode, self.prompt = episode, prompt
        self.ids: list[int] = []
        self.steps: list[int] = []
        self.logprobs: list[float] = []
        self.counts: list[int] = []
        self.cut = False
        self.uniform = np.random.default_rng(child_seed(seed, "sample")).random(room)
        self.drawn = 0

    def add(self, ids: Sequence[int], step: int, logprobs: Sequence[float]) -> None:
        self.ids.extend(ids)
        self.steps.extend([step] * len(ids))
        self.logprobs.extend(logprobs)


def roll(
    policy: torch.nn.Module | Decoder,
    words: Words,
    world: World,
    tasks: Sequence[WorldTask],
    seeds: Sequence[int],
    *,
    ids: Sequence[str] | None = None,
    temperature: float = 1.0,
    limits: Limits | None = None,
    model: str = "",
    transcribe: Callable[..., Trajectory] = as_trajectory,
    rows: int = ROWS,
) -> list[Sampled]:
    """Return one episode per task and seed, sampled from the policy.

    Args:
        policy: the model, or a Decoder of it.
        words: its vocabulary.
        world: the world of all tasks.
        tasks: B tasks, repeated for a group's members.
        seeds: B seeds; a seed names both the world's luck and the policy's.
        ids: B names of the rollouts; default: task id, "/" and seed.
        temperature: > 0; log-probabilities are those of the tempered policy.
        limits: default ``Limits()``.
        model: written into each trajectory.
        transcribe: ``fn(episode, id, tokens=, model=) -> Trajectory``, for another world.
        rows: how many episodes are decoded side by side; changes speed only.
    Raises:
        ConfigError: lengths differ, the temperature is not positive, or a word is unknown.
    """
    limits = limits or Limits()
    if not len(tasks) == len(seeds) == len(ids if ids is not None else seeds):
        raise ConfigError(f"want as many seeds and ids as tasks, {len(tasks)}; got {len(seeds)}")
    if not temperature > 0:
        raise ConfigError(f"want a temperature > 0; got {temperature}")
    decoder = policy if isinstance(policy, Decoder) else Decoder(policy)
    names = ids if ids is not None else [f"{t.id}/{s}" for t, s in zip(tasks, seeds, strict=True)]
    out: list[Sampled] = []
    for start in range(0, len(tasks), rows):
        part = slice(start, start + rows)
        made = [
            _Row(world.reset(t, s), words.prompt(t.prompt), s, limits.completion)
            for t, s in zip(tasks[part], seeds[part], strict=True)
        ]
        _play(decoder, words, made, temperature, limits)
        out += [_sampled(r, n, model, transcribe) for r, n in zip(made, names[part], strict=True)]
    return out


def _prefill(decoder: Decoder, rows: list[_Row]) -> tuple[KVCache, torch.Tensor]:
    """Feed each distinct prompt once and copy its keys to all rows that share it."""
    distinct: dict[tuple[int, ...], int] = {}
    which = [distinct.setdefault(tuple(r.prompt), len(distinct)) for r in rows]
    prompts = [torch.tensor(p) for p in distinct]
    ids = torch.nn.utils.rnn.pad_sequence(prompts, batch_first=True)
    cache = decoder.cache(len(prompts), ids.shape[1])
    logits = decoder.extend(cache, ids, torch.tensor([len(p) for p in prompts]))
    rows_of = torch.tensor(which)
    return cache.select(rows_of, room=ids.shape[1] + 64), logits[rows_of]


@torch.no_grad()
def _play(decoder: Decoder, words: Words, rows: list[_Row], heat: float, limits: Limits) -> None:
    cache, logits = _prefill(decoder, rows)
    live = list(range(len(rows)))
    while live:
        logits_B = logits
        actions: list[list[int]] = [[] for _ in live]
        _sample_actions(decoder, cache, logits_B, [rows[i] for i in live], actions, heat, limits)
        keep, chunks = [], []
        for at, i in enumerate(live):
            row, action = rows[i], actions[at]
            answer = row.episode.act(words.text(action))
            if answer.done:
                continue
            glue = words.answer(answer.text)
            # Room for one more whole action, or the episode ends here, cut.
            if len(row.ids) + len(glue) + limits.action > limits.completion:
                row.cut = True
                continue
            row.add(glue, 0, [0.0] * len(glue))
            keep.append(at)
            chunks.append(torch.tensor([action[-1], *glue]))
        live = [live[at] for at in keep]
        if not live:
            return
        count = torch.tensor([len(c) for c in chunks])
        need = int(cache.length.max()) + int(count.max()) + limits.action
        room = cache.keys[0].shape[2]
        if len(keep) < len(cache.length) or need > room:
            cache = cache.select(torch.tensor(keep), room=max(room, need + 64 * (need > room)))
        chunk = torch.nn.utils.rnn.pad_sequence(chunks, batch_first=True)
        logits = decoder.extend(cache, chunk, count)


def _sample_actions(decoder, cache, logits, rows, actions, heat: float, limits: Limits) -> None:
    """Sample one action a row. The last token of each is left for the next chunk to feed."""
    B = len(rows)
    active = torch.ones(B, dtype=torch.bool)
    for k in range(limits.action):
        logp = torch.log_softmax(logits / heat, dim=-1)
        draw = torch.tensor([r.uniform[r.drawn] for r in rows], dtype=torch.float32)
        total = logp.exp().cumsum(-1)
        token = torch.searchsorted(total, draw[:, None] * total[:, -1:], right=True)
        token = token.clamp_(max=logp.shape[1] - 1)
        chosen = logp.gather(1, token)[:, 0].tolist()
        token_list = token[:, 0].tolist()
        for b, row in enumerate(rows):
            if active[b]:
                actions[b].append(token_list[b])
                row.drawn += 1
                row.ids.append(token_list[b])
                row.steps.append(len(row.counts) + 1)
                row.logprobs.append(chosen[b])
        active &= token[:, 0] != END
        if not active.any() or k == limits.action - 1:
            break
        logits = _advance(decoder, cache, token, active)
    for row, action in zip(rows, actions, strict=True):
        row.counts.append(len(action))


def _advance(decoder, cache: KVCache, token: torch.Tensor, active: torch.Tensor) -> torch.Tensor:
    """Feed one token a row; rows that have ended theirs are put back to where they were."""
    length, last = cache.length, cache.last
    logits = decoder.extend(cache, token, torch.ones_like(length))
    cache.length = torch.where(active, cache.length, length)
    cache.last = torch.where(active[:, None], cache.last, last)
    return logits


def _sampled(row: _Row, name: str, model: str, transcribe: Callable[..., Trajectory]) -> Sampled:
    trajectory = transcribe(row.episode, name, tokens=row.counts, model=model)
    if row.cut:
        trajectory = dataclasses.replace(trajectory, termination="length")
    checks = dict(row.episode.evaluate().checks)
    return Sampled(
        tuple(row.prompt),
        tuple(row.ids),
        tuple(row.steps),
        tuple(row.logprobs),
        trajectory,
        checks,
    )
