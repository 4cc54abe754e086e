"""Rollouts of a chat model: endings, exact ids and steps, numbers as without batch and cache."""

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from rubricnb.errors import ConfigError
from rubricnb.train import chat_turns
from rubricnb.train.chat_rollouts import ChatLimits, ChatRollouts
from rubricnb.worlds.base import Evaluation, StepResult, WorldTask
from rubricnb.worlds.desk import OrdersDesk
from tests.learning.chat_models import tiny_model, tiny_tokenizer


class Bell:
    """A world with one tool: the third ring ends the episode; some strings make it misbehave."""

    name, system, max_turns = "bell", "Ring three times.", 5

    def tasks(self, split):
        return [WorldTask("bell_1", "bell", split, "Ring.")]

    def tools(self):
        text = {"type": "string"}
        shape = {"type": "object", "properties": {"how": text}, "required": ["how"]}
        return [{"type": "function", "function": {"name": "ring", "parameters": shape}}]

    def reset(self, task, seed):
        return _Ringing(task)


class _Ringing:
    def __init__(self, task):
        self.task, self.done, self.rings, self.closed = task, False, 0, False

    def call(self, name, arguments):
        if arguments.get("how") == "break":
            raise RuntimeError("the rope is torn")
        self.rings += 1
        self.done = self.rings == 3
        text = "x" * 400 if arguments.get("how") == "long" else f"ring<|im_end|> {self.rings}"
        return StepResult(text, self.done)

    def evaluate(self):
        return Evaluation(self.rings == 3, {"rung": self.rings == 3})

    def close(self):
        self.closed = True


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def model(tokenizer):
    return tiny_model(tokenizer)


def ring(how="soft"):
    call = json.dumps({"name": "ring", "arguments": {"how": how}})
    return f"<tool_call>\n{call}\n</tool_call><|im_end|>"


def scripted(tokenizer, scripts):
    """An engine that says what is written, turn by turn, and keeps what it was shown."""
    left, shown = [list(s) for s in scripts], []

    def engine(histories, room):
        # Live rollouts keep their order; a rollout that is over has said all of its script.
        live = [s for s in left if s]
        shown.append([list(h) for h in histories])
        said = [tokenizer(s.pop(0), add_special_tokens=False)["input_ids"] for s in live]
        cut = [ids[:n] for ids, n in zip(said, room, strict=True)]
        return cut, [[-0.5] * len(c) for c in cut]

    return engine, shown


def play(tokenizer, model, scripts, **limits):
    rollouts = ChatRollouts(Bell(), "train", tokenizer, ChatLimits())
    prompt = rollouts._begin(rollouts.tasks["bell_1"], "", 0).prompt
    if "context" in limits:  # given without the prompt
        limits["context"] += len(prompt)
    rollouts = ChatRollouts(Bell(), "train", tokenizer, ChatLimits(**limits))
    engine, shown = scripted(tokenizer, scripts)
    task = rollouts.tasks["bell_1"]
    ids = [f"r{i}" for i in range(len(scripts))]
    return rollouts.play(model, [task] * len(scripts), ids, engine=engine), shown


@pytest.mark.parametrize(
    ("script", "limits", "ended", "termination", "outcome"),
    [
        ([ring()] * 3, {}, "done", "finished", 1.0),
        (["I would rather talk.<|im_end|>"] * 2, {}, "stopped", "finished", 0.0),
        ([ring(), "hm<|im_end|>"] * 2 + [ring()], {"turns": 4}, "turns", "turn_limit", 0.0),
        ([ring("long")], {"response": 300}, "response", "length", 0.0),
        ([ring("long")], {"context": 300}, "context", "length", 0.0),
        ([ring("break")], {}, "error", "error", None),
    ],
)
def test_every_ending_is_told_apart(tokenizer, model, script, limits, ended, termination, outcome):
    (made,), _ = play(tokenizer, model, [script], **limits)
    assert made.trajectory.meta["ended"] == ended
    assert made.trajectory.termination == termination
    assert made.trajectory.outcome == outcome
    assert made.step_ids[-1] == len(made.trajectory)  # the last token is the policy's
    if ended == "error":
        assert made.trajectory.warnings == ("RuntimeError: the rope is torn",)


def test_sampled_ids_stay_and_steps_are_the_turns(tokenizer, model):
    # The second script's turn is cut by the limit and its text would tokenise in other ways.
    scripts = [[ring()] * 3, ["<tool_call>\n" + "user" * 20, ring(), ring(), ring()]]
    made, shown = play(tokenizer, model, scripts, turn=45 + 20)
    for one, script in zip(made, scripts, strict=True):
        steps = np.array(one.step_ids)
        for k, text in enumerate(script, start=1):
            said = tokenizer(text, add_special_tokens=False)["input_ids"][:65]
            assert [i for i, s in zip(one.completion_ids, steps, strict=True) if s == k] == said
            assert one.trajectory.steps[k - 1].tokens == len(said)
        assert one.action_mask == tuple((steps > 0).astype(int))
        assert all((p == -0.5) == (s > 0) for p, s in zip(one.logprobs, steps, strict=True))
    # Each history that the engine is shown begins the next one: nothing is written anew.
    for turn, later in pairwise(shown):
        rest = later if len(later) == len(turn) else later[-1:]
        mine = turn if len(later) == len(turn) else turn[-1:]
        assert all(b[: len(a)] == a for a, b in zip(mine, rest, strict=True))
    # The world's "<|im_end|>" is no control token: as many turn ends as turns.
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert Counter(made[0].completion_ids)[end] == 3 + 2


def test_text_that_begins_a_message_is_not_the_policys(tokenizer, model):
    rest = ring().removeprefix("<tool_call>\n")
    (made,), _ = play(tokenizer, model, [[rest] * 3], begin="<tool_call>\n")
    assert made.trajectory.outcome == 1.0
    begin = tokenizer("<tool_call>\n", add_special_tokens=False)["input_ids"]
    assert list(made.prompt_ids[-len(begin) :]) == begin
    n = len(tokenizer(rest, add_special_tokens=False)["input_ids"])
    assert sum(made.action_mask) == 3 * n


@pytest.mark.parametrize("whole", [True, False])
def test_logprobs_are_those_of_one_forward_pass(tokenizer, model, monkeypatch, whole):
    if not whole:
        monkeypatch.setattr(chat_turns, "keeps_all", lambda config: False)
    world = OrdersDesk()
    limits = ChatLimits(turn=12, response=400, reminders=3)
    rollouts = ChatRollouts(world, "train", tokenizer, limits, seed=3)
    tasks = [rollouts.tasks[i] for i in list(rollouts.tasks)[:2] for _ in range(2)]
    made = rollouts.play(model, tasks, list("abcd"), temperature=0.8)
    for one in made:
        ids = torch.tensor([one.prompt_ids + one.completion_ids])
        P = len(one.prompt_ids)
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, P - 1 : -1] / 0.8
        want = logits.log_softmax(-1).gather(1, ids[0, P:, None])[:, 0]
        mask = torch.tensor(one.action_mask) > 0
        assert torch.allclose(want[mask], torch.tensor(one.logprobs)[mask], atol=1e-5)
    assert rollouts.stats["sampled_tokens"] == sum(sum(m.action_mask) for m in made)
    assert rollouts.stats["tokens_per_second"] > 0
    assert rollouts.stats["peak_rss_mib"] > 100


def test_a_rollout_depends_on_its_name_and_not_on_its_neighbours(tokenizer, model):
    rollouts = ChatRollouts(Bell(), "train", tokenizer, ChatLimits(turn=10), seed=5)
    task = rollouts.tasks["bell_1"]
    four = rollouts.play(model, [task] * 4, list("abcd"))
    assert rollouts.play(model, [task], ["c"])[0].completion_ids == four[2].completion_ids
    assert len({m.completion_ids for m in four}) == 4


def test_what_cannot_work_is_said_at_once(tokenizer):
    task = Bell().tasks("train")[0]
    short = ChatRollouts(Bell(), "train", tokenizer, ChatLimits(prompt=20))
    with pytest.raises(ConfigError, match="want a prompt of at most 20 tokens"):
        short.play(tiny_model(tokenizer), [task], ["a"])
    narrow: LlamaForCausalLM = tiny_model(tokenizer, context=64)
    with pytest.raises(ConfigError, match="want a context of more than"):
        ChatRollouts(Bell(), "train", tokenizer).play(narrow, [task], ["a"])
    with pytest.raises(ConfigError, match="want turns >= 1; got 0"):
        ChatLimits(turns=0)
