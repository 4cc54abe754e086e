"""Roll-ins against worlds whose values are known exactly; gradient sketches against autograd."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from rubricnb import Observation, Step, Task, Trajectory
from rubricnb.errors import ConfigError
from rubricnb.fidelity.oracle import value
from rubricnb.policy.rollins import _sketch, roll_in, states, step_gradients
from rubricnb.policy.rollout import Limits, roll
from rubricnb.policy.warmup import open_policy
from rubricnb.worlds.base import Evaluation, StepResult, WorldTask
from rubricnb.worlds.desk import OrdersDesk

torch.set_num_threads(1)
TASK = WorldTask("toy_1", "toy", "train", "ok")
TURNS, CHANCE = 3, 0.6


@pytest.fixture(scope="module")
def policy():
    return open_policy("main")


@dataclass
class Coins:
    """An episode of three coins that nobody can influence; two heads are a success."""

    seed: int
    task: WorldTask = TASK
    done: bool = False
    said: list = field(default_factory=list)

    def __post_init__(self):
        self.luck = np.random.default_rng(self.seed).random(TURNS) < CHANCE

    def act(self, action):
        self.said.append((action, "ok" if self.luck[len(self.said)] else "none"))
        self.done = len(self.said) == TURNS
        return StepResult(self.said[-1][1], self.done)

    def snapshot(self):
        return tuple(self.said)

    def restore(self, snapshot):
        self.said = list(snapshot)

    def evaluate(self):
        return Evaluation(sum(answer == "ok" for _, answer in self.said) >= 2)


@dataclass
class FirstWord(Coins):
    """An episode of one action; it succeeds if that action starts with a certain word."""

    word: str = ""

    def act(self, action):
        self.said.append((action, "end"))
        self.done = True
        return StepResult("end", True)

    def evaluate(self):
        return Evaluation(bool(self.said) and self.said[0][0].split()[:1] == [self.word])


@dataclass
class Toy:
    """The world of either episode."""

    word: str = ""

    def reset(self, task, seed):
        return FirstWord(seed, word=self.word) if self.word else Coins(seed)


def transcribe(episode, name, *, tokens, model=""):
    steps = tuple(
        Step(text, observations=(Observation(answer),), tokens=n)
        for (text, answer), n in zip(episode.said, tokens, strict=True)
    )
    outcome = float(episode.evaluate().success)
    return Trajectory(name, Task("toy_1", "ok"), steps, outcome)


def exact(turn: int, heads: int) -> float:
    """P(at least two heads of three, given so many after so many turns)."""
    left = TURNS - turn
    return sum(
        math.comb(left, k) * CHANCE**k * (1 - CHANCE) ** (left - k)
        for k in range(left + 1)
        if heads + k >= 2
    )


def valued(policy, world, seeds, samples):
    model, words = policy
    tasks = [TASK] * len(seeds)
    made = roll(model, words, world, tasks, seeds, transcribe=transcribe)
    return value(model, words, world, tasks, seeds, made, samples=samples, sketch=0)


def test_values_are_the_exact_ones_where_the_world_is_coins(policy):
    K = 400
    for v in valued(policy, Toy(), [1, 2, 3], K):
        heads, want = 0, []
        for turn, step in enumerate(v.trajectory.steps):
            want.append(exact(turn, heads))
            heads += step.observations[0].text == "ok"
        want.append(exact(TURNS, heads))
        assert np.abs(v.values() - want).max() < 4 * np.sqrt(0.25 / K)
        assert want[-1] == v.values()[-1] == v.trajectory.outcome
        # The error bars hold: two of three within one of them would be luck, all within four not.
        assert (np.abs(v.advantages() - np.diff(want)) < 4.5 * v.errors()).all()
        assert v.advantages().sum() == pytest.approx(v.trajectory.outcome - v.values()[0])


def test_the_value_is_the_policys_own_probability_where_it_decides(policy):
    model, words = policy
    with torch.no_grad():
        share = model(torch.tensor([words.prompt("ok")])).logits[0, -1].softmax(-1)
    # The likeliest word that is a word, so that V is far from 0.
    token = int(share[5:].argmax()) + 5
    K = 600
    v = valued(policy, Toy(words.text([token])), [0], K)[0]
    p = float(share[token])
    assert abs(v.values()[0] - p) < 4 * np.sqrt(p * (1 - p) / K) + 1 / K
    assert v.advantages()[0] == v.trajectory.outcome - v.values()[0]


def test_roll_ins_from_the_start_are_rollouts_and_do_not_depend_on_the_batch(policy):
    model, words = policy
    world, n = OrdersDesk(), 300
    task = world.tasks("dev")[0]
    made = roll(model, words, world, [task] * n, range(n))
    start = states(made[0], world, task, 0)[0]
    found = roll_in(model, words, world, [start] * n, range(10_000, 10_000 + n))
    rate = np.mean([s.trajectory.outcome for s in made])
    assert abs(found.mean() - rate) < 4 * np.sqrt(0.5 / n)
    last = states(made[1], world, task, 1)[-1]
    mixed = roll_in(model, words, world, [start, last, start], [10_001, 5, 10_000], rows=2)
    assert mixed[0] == found[1]
    assert mixed[2] == found[0]


def test_a_state_goes_on_from_where_it_was_saved(policy):
    model, words = policy
    world = OrdersDesk()
    task = world.tasks("dev")[40]
    sampled = roll(model, words, world, [task], [3])[0]
    found = states(sampled, world, task, 3)
    assert [s.turns for s in found] == list(range(len(sampled.trajectory)))
    for s, number in zip(found, range(1, len(found) + 1), strict=True):
        assert sampled.step_ids[len(s.past_ids)] == number
    with pytest.raises(ConfigError, match="another world, task or seed"):
        states(sampled, world, world.tasks("dev")[5], 3)
    # No room is left: the limits count from the start of the episode, so one action remains.
    tight = Limits(completion=len(found[-1].past_ids))
    assert roll_in(model, words, world, found[-1:], [0], limits=tight).shape == (1,)


def test_sketches_are_linear_and_keep_cosines(policy):
    model, words = policy
    world = OrdersDesk()
    task = world.tasks("dev")[0]
    sampled = roll(model, words, world, [task], [0])[0]
    got = step_gradients(model, sampled, size=4096)
    parameters = [p for p in model.parameters() if p.requires_grad]
    ids = torch.tensor([[*sampled.prompt_ids, *sampled.completion_ids]])
    logp = model(ids[:, :-1]).logits[0].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
    logp = logp[len(sampled.prompt_ids) - 1 :]
    own = torch.tensor(sampled.step_ids)
    full = [
        torch.cat([g.flatten() for g in torch.autograd.grad(part, parameters, retain_graph=True)])
        for part in (logp[own == 1].sum(), logp[own == 2].sum(), logp[own > 0].sum())
    ]
    bucket, sign = _sketch(len(full[0]), 4096, 0)
    whole = torch.zeros(4096).index_add_(0, bucket, full[2] * sign).numpy()
    assert np.allclose(got.sum(axis=0), whole, rtol=1e-3, atol=1e-3 * np.abs(whole).max())
    true = float(torch.nn.functional.cosine_similarity(full[0], full[1], dim=0))
    mine = float(got[0] @ got[1] / np.linalg.norm(got[0]) / np.linalg.norm(got[1]))
    assert abs(true - mine) < 4 / np.sqrt(4096)
    assert all(p.grad is None for p in parameters)
