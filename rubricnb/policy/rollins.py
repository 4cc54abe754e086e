"""Roll-ins: what the policy achieves from a saved state, and each step's policy gradient.

A roll-in goes on from a snapshot of an episode with fresh luck of the world and of the policy. The
mean success of many is V of that state; V after a step minus V before it is the step's advantage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import ConfigError
from ..seeds import child_seed
from ..worlds.base import World, WorldTask
from .decode import Decoder
from .rollout import Limits, Sampled, _play, _Row
from .tokens import Words

ROWS = 256  # roll-ins decoded together; changes speed only


@dataclass(frozen=True, slots=True)
class State:
    """A moment of an episode from which a policy can go on.

    Args:
        task: the task.
        snapshot: of the episode, as ``Episode.snapshot`` made it.
        prompt_ids: tokens before the first action.
        past_ids: actions and answers so far, up to the next action.
        turns: actions so far.
    """

    task: WorldTask
    snapshot: Any
    prompt_ids: tuple[int, ...]
    past_ids: tuple[int, ...]
    turns: int


def states(sampled: Sampled, world: World, task: WorldTask, seed: int) -> list[State]:
    """Return the states before each step of a rollout, by playing its actions again.

    Args:
        sampled: the rollout.
        world, task, seed: what it was rolled with; they fix the world's luck.
    Raises:
        ConfigError: the world answers otherwise than it did: not the same world, task or seed.
    """
    episode = world.reset(task, seed)
    out = []
    for number, step in enumerate(sampled.trajectory.steps, start=1):
        start = sampled.step_ids.index(number)
        past = sampled.completion_ids[:start]
        out.append(State(task, episode.snapshot(), sampled.prompt_ids, past, number - 1))
        answer = episode.act(step.text).text
        said = step.observations[0].text if step.observations else answer
        if answer != said:
            raise ConfigError(
                f"want the answer {said!r} at step {number} of {sampled.trajectory.id}; got "
                f"{answer!r} (another world, task or seed)"
            )
    return out


def roll_in(
    policy: torch.nn.Module | Decoder,
    words: Words,
    world: World,
    where: Sequence[State],
    seeds: Sequence[int],
    *,
    temperature: float = 1.0,
    limits: Limits | None = None,
    rows: int = ROWS,
) -> NDArray[np.float64]:
    """Return the success, 0 or 1, of one roll-in per state and seed.

    Args:
        policy: the model, or a Decoder of it.
        words: its vocabulary.
        world: the world of all states.
        where: B states, repeated for several roll-ins.
        seeds: B seeds; a seed names the luck of the world and of the policy from here on, so equal
            seeds at two states are common random numbers.
        temperature, limits: as ``roll``; the limits count from the start of the episode.
        rows: how many are decoded side by side; changes speed only.
    Returns:
        (B,) of 0.0 and 1.0.
    Raises:
        ConfigError: lengths differ.
    """
    if len(where) != len(seeds):
        raise ConfigError(f"want a seed for each state, {len(where)}; got {len(seeds)}")
    limits = limits or Limits()
    decoder = policy if isinstance(policy, Decoder) else Decoder(policy)
    out = np.zeros(len(where))
    # States of like length decoded together: a third less padding, the same results.
    order = sorted(range(len(where)), key=lambda i: len(where[i].past_ids))
    for start in range(0, len(order), rows):
        at = order[start : start + rows]
        made = [_row(world, where[i], seeds[i], limits) for i in at]
        _play(decoder, words, made, temperature, limits)
        out[at] = [float(r.episode.evaluate().success) for r in made]
    return out


def _row(world: World, state: State, seed: int, limits: Limits) -> _Row:
    """A row that stands at the state; the world's luck from here on is the seed's."""
    episode = world.reset(state.task, child_seed(seed, "world"))
    episode.restore(state.snapshot)
    row = _Row(episode, [*state.prompt_ids, *state.past_ids], seed, limits.completion)
    row.ids, row.steps = list(state.past_ids), [0] * len(state.past_ids)
    row.logprobs, row.counts = [0.0] * len(state.past_ids), [0] * state.turns
    return row


def step_gradients(
    model: torch.nn.Module, sampled: Sampled, *, size: int = 2048, seed: int = 0
) -> NDArray[np.float32]:
    """Return a sketch of each step's policy gradient: sum over its tokens of grad log pi.

        sketch[b] = sum over parameters p with bucket b of sign_p * gradient_p

    A count sketch: linear, so that the sketch of a sum is the sum of sketches, and cosines are kept
    to about 1 / sqrt(size). Equal seeds, sizes and models give sketches that can be compared.

    Args:
        model: a SmearForCausalLM; its gradients are not touched.
        sampled: a rollout of M steps.
        size: buckets.
        seed: of buckets and signs.
    Returns:
        (M, size).
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    bucket, sign = _sketch(sum(p.numel() for p in parameters), size, seed)
    ids = torch.tensor([[*sampled.prompt_ids, *sampled.completion_ids]])
    first, M = len(sampled.prompt_ids), len(sampled.trajectory)
    with torch.enable_grad():
        logits = model(ids[:, :-1], use_cache=False).logits[0, first - 1 :]
        logp = logits.log_softmax(-1).gather(1, ids[0, first:, None])[:, 0]
        of = torch.tensor(sampled.step_ids)
        out = np.zeros((M, size), dtype=np.float32)
        for step in range(1, M + 1):
            total = logp[of == step].sum()
            found = torch.autograd.grad(total, parameters, retain_graph=step < M)
            flat = torch.cat([g.flatten() for g in found]) * sign
            out[step - 1] = torch.zeros(size).index_add_(0, bucket, flat).numpy()
    return out


_SKETCHES: dict[tuple[int, int, int], tuple[torch.Tensor, torch.Tensor]] = {}


def _sketch(count: int, size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Bucket and sign of each parameter, the same for the same three numbers."""
    key = (count, size, seed)
    if key not in _SKETCHES:
        rng = np.random.default_rng(child_seed(seed, "gradient sketch"))
        bucket = torch.from_numpy(rng.integers(0, size, count))
        sign = torch.from_numpy(rng.choice(np.array([-1.0, 1.0], dtype=np.float32), count))
        _SKETCHES[key] = (bucket, sign)
    return _SKETCHES[key]
