"""An agent behind a real loopback endpoint plays real worlds."""

import json

import pytest

from rubricnb.errors import ConfigError, JudgeError
from rubricnb.judge import EndpointJudge
from rubricnb.judge.protocol import Usage
from rubricnb.trajectory import ToolCall
from rubricnb.worlds.agent import AgentConfig, code_block, play
from rubricnb.worlds.agent_model import EndpointModel, Said, read_calls
from rubricnb.worlds.base import Evaluation, StepResult, WorldTask
from tests.edges.desk_player import QUIET, player, tool_turn
from tests.edges.loopback import Loopback, completion, error

TASKS = QUIET.tasks("dev")[::40]


def model(server, **options):
    return EndpointModel(EndpointJudge(server.url, "tester", key="sk-planted", **options))


def test_a_desk_is_played_through_function_calls():
    with Loopback(default=player(TASKS)) as server:
        made = [play(QUIET, t, model(server), f"r{i}", seed=i) for i, t in enumerate(TASKS)]
    assert [t.outcome for t in made] == [1.0] * len(TASKS)
    one = made[0]
    assert (one.termination, one.model, one.task.id) == ("finished", "tester", TASKS[0].id)
    assert one.task.prompt == QUIET.chat_prompt(TASKS[0])
    assert one.steps[-1].calls[0].name == "finish"
    assert all(len(s.calls) == len(s.observations) == 1 for s in one.steps)
    turns = len(one)
    assert one.meta["usage"] == {
        "prompt": 100 * turns,
        "cached": 0,
        "completion": 20 * turns,
        "calls": turns,
        "unknown": 0,
    }
    assert all(one.meta["checks"].values())
    assert "spec" not in json.dumps(server.bodies[0])


def test_every_call_is_answered_in_the_conversation():
    with Loopback(default=player(TASKS)) as server:
        play(QUIET, TASKS[0], model(server), "r")
    messages = server.bodies[-1]["messages"]
    asked = [c["id"] for m in messages for c in m.get("tool_calls", ())]
    answered = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    assert asked == answered
    assert messages[0] == {"role": "system", "content": QUIET.system}


FINISH = tool_turn(("finish", '{"outcome": "done", "message": ""}'))


def test_broken_calls_are_answered_and_kept_as_written():
    script = [
        tool_turn(("find", '{"name": '), ("find", "[1]")),
        tool_turn(("nothing", "{}"), ("find", "{}")),
        FINISH,
    ]
    with Loopback(script) as server:
        made = play(QUIET, TASKS[0], model(server), "r")
    first, second, _ = made.steps
    assert first.calls == (ToolCall("find", '{"name": ', "c0"), ToolCall("find", "[1]", "c1"))
    assert {o.text for o in first.observations} == {"error: the arguments are not a JSON object"}
    assert [o.text for o in second.observations] == ["error syntax"] * 2
    sent = server.bodies[1]["messages"][-3]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"unreadable": '{"name": '}
    assert made.outcome == 0.0


def test_a_model_that_only_talks_is_reminded_once_and_stopped():
    with Loopback(default=completion("I would rather talk.")) as server:
        made = play(QUIET, TASKS[0], model(server), "r")
    assert (len(made), made.termination, made.outcome) == (2, "stopped", 0.0)
    assert made.steps[0].observations[0].text.startswith("Nothing was called.")
    assert made.steps[1].observations == ()


def test_turns_and_prompts_have_an_end():
    find = tool_turn(("find", '{"name": "nobody"}'))
    with Loopback(default=find) as server:
        made = play(QUIET, TASKS[0], model(server), "r", config=AgentConfig(max_turns=3))
    assert (len(made), made.termination) == (3, "turn_limit")
    too_long = error(400, "This model's maximum context length is 10 tokens")
    with Loopback([find, too_long]) as server:
        made = play(QUIET, TASKS[0], model(server), "r")
    assert (len(made), made.termination, made.outcome) == (1, "length", 0.0)


def test_an_endpoint_that_fails_makes_no_rollout():
    with Loopback(default=error(401, "no such key")) as server, pytest.raises(JudgeError):
        play(QUIET, TASKS[0], model(server), "r")


def test_unknown_usage_stays_unknown():
    with Loopback([tool_turn(("find", '{"name": "x"}'), usage=None), FINISH]) as server:
        made = play(QUIET, TASKS[0], model(server), "r")
    assert made.meta["usage"]["unknown"] == 1
    assert "usage" not in made.steps[0].meta


class Notes:
    """A world of code blocks, and a user who speaks: the engine's rest is tested elsewhere."""

    name, system, max_turns, mode = "notes", "write code", 5, "code"

    def __init__(self, talkative=False):
        self.talkative, self.closed = talkative, 0

    def tools(self):
        return []

    def reset(self, task, seed):
        return (Talking if self.talkative else Coding)(self, task)


class Coding:
    def __init__(self, world, task):
        self.world, self.task, self.done, self.rewards = world, task, False, []

    def act(self, action):
        self.rewards.append(float(len(action)))
        self.done = "end" in action
        return StepResult("x" * 100, self.done)

    def evaluate(self):
        return Evaluation(self.done, {"ended": self.done})

    def close(self):
        self.world.closed += 1


class Talking(Coding):
    turns = 0

    def new_turn(self):
        self.turns += 1

    def call(self, name, arguments):
        return self.act(name)

    def say(self, text):
        self.done = text == "bye"
        return StepResult("" if self.done else f"you said {text}", self.done)


NOTE = WorldTask("a_1", "a", "dev", "do it")


class Script:
    """A model of this process that says these things in order."""

    name, identity = "script", {}

    def __init__(self, *said):
        self.said, self.heard = list(said), []

    def reply(self, messages, tools):
        self.heard.append([dict(m) for m in messages])
        return self.said.pop(0)


def test_code_blocks_are_run_and_their_output_shown():
    script = Script(
        Said("So.\n```python\nprint(1)\n```\nThen."), Said("no code"), Said("```py\nend```")
    )
    world = Notes()
    made = play(world, NOTE, script, "r", config=AgentConfig(max_chars=40))
    assert [s.calls for s in made.steps] == [
        (ToolCall("python", "print(1)"),),
        (),
        (ToolCall("python", "end"),),
    ]
    assert made.steps[0].text == "So.\n\nThen."
    assert made.steps[0].observations[0].text == f"{'x' * 20}\n[60 characters left out]\n{'x' * 20}"
    assert made.steps[1].observations[0].text.startswith("There was no code.")
    assert script.heard[1][-2] == {
        "role": "assistant",
        "content": "So.\n```python\nprint(1)\n```\nThen.",
    }
    assert (made.outcome, world.closed) == (1.0, 1)
    assert made.labels == {"intermediate_reward": [8.0, 0, 3.0]}


def test_a_user_answers_what_is_said():
    call = Said(calls=(ToolCall("f", "{}", "1"), ToolCall("g", "{}", "2")), finish="tool_calls")
    script = Script(call, Said("hello"), Said("bye"))
    made = play(Notes(talkative=True), NOTE, script, "r", config=AgentConfig(mode="tools"))
    assert [o.role for s in made.steps for o in s.observations] == ["tool", "tool", "user"]
    assert made.steps[1].observations[0].text == "you said hello"
    assert script.heard[2][-1] == {"role": "user", "content": "you said hello"}
    assert (made.termination, made.outcome) == ("finished", 1.0)


def test_the_world_is_closed_when_the_model_fails():
    world = Notes()

    class Failing(Script):
        def reply(self, messages, tools):
            raise JudgeError("down")

    with pytest.raises(JudgeError):
        play(world, NOTE, Failing(), "r")
    assert world.closed == 1


def test_bfcl_is_played_through_function_calls():
    pytest.importorskip("bfcl_eval")
    from rubricnb.worlds.bfcl import BfclMultiTurn
    from rubricnb.worlds.bfcl_calls import parse_calls

    world = BfclMultiTurn()
    task = world.tasks("miss_func")[2]
    turns = []
    for calls in task.spec["gold"]:
        parsed = [parse_calls(c)[0] for c in calls]
        assert all(not args for _, args, _ in parsed)
        made = tuple(ToolCall(n, json.dumps(kw), str(i)) for i, (n, _, kw) in enumerate(parsed))
        turns += [Said(calls=made, finish="tool_calls")] if made else []
        turns.append(Said("Done."))
    rollout = play(world, task, Script(*turns), "r")
    assert (rollout.outcome, rollout.termination) == (1.0, "finished")
    said = [o.text for s in rollout.steps for o in s.observations if o.role == "user"]
    assert len(said) == len(task.spec["question"]) - 1


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ("no json", 0),
        ('{"choices": []}', 0),
        ('{"choices": [{"message": null}]}', 0),
        ('{"choices": [{"message": {"tool_calls": null}}]}', 0),
        ('{"choices": [{"message": {"tool_calls": [1, {"function": {"name": 3}}]}}]}', 0),
        ('{"choices": [{"message": {"tool_calls": [{"function": {"name": "f"}}]}}]}', 1),
    ],
)
def test_calls_are_read_without_trust(body, calls):
    assert len(read_calls(body)) == calls


def test_arguments_that_are_objects_become_text():
    body = {"tool_calls": [{"id": "", "function": {"name": "f", "arguments": {"a": 1}}}]}
    text = json.dumps({"choices": [{"message": body}]})
    assert read_calls(text) == (ToolCall("f", '{"a": 1}', "call_0"),)


def test_code_blocks_end_where_the_message_was_cut():
    assert code_block("```python\na = 1\nb = 2") == "a = 1\nb = 2"
    assert code_block("none") == ""


@pytest.mark.parametrize("wrong", [{"mode": "talk"}, {"max_turns": 0}, {"reminders": -1}])
def test_settings_are_checked(wrong):
    with pytest.raises(ConfigError):
        AgentConfig(**wrong)


def test_usage_is_what_the_server_said():
    with Loopback([FINISH]) as server:
        said = model(server).reply([{"role": "user", "content": "x"}], QUIET.tools())
    assert said.usage == Usage(100, 0, 20)
    assert said.finish == "tool_calls"
