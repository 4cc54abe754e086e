"""tau2-bench: what is said without its engine, and its real engine where it is installed.

A user simulator is real, too: the engine's own, whose model is a loopback server.
"""

import os

import pytest

from rubricnb.errors import ConfigError, WorldError
from rubricnb.trajectory import ToolCall
from rubricnb.worlds.agent import play
from rubricnb.worlds.agent_model import Said
from rubricnb.worlds.base import Episode, World
from rubricnb.worlds.tau2 import Tau2, replay_solution
from rubricnb.worlds.tau2_engine import python_of
from tests.edges.loopback import Loopback, completion

BY_MODEL = "NL_ASSERTION"  # judged by an LLM of the engine's choice: not replayed here


@pytest.fixture(scope="module")
def world():
    try:
        python_of(None)
    except WorldError as e:
        pytest.skip(str(e))
    with Tau2(user_model="customer") as world:
        yield world


def test_without_the_engine_the_error_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.delenv("RUBRICNB_TAU2", raising=False)
    world = Tau2(user_model="m")
    with pytest.raises(WorldError, match=r"clone github\.com/sierra-research/tau2-bench"):
        world.tasks()
    monkeypatch.setenv("RUBRICNB_TAU2", str(tmp_path))
    with pytest.raises(WorldError, match="want an interpreter at"):
        world.tasks()


def test_a_customer_needs_a_model_and_its_key_stays_out_of_sight(monkeypatch):
    with pytest.raises(WorldError, match="want a model that plays the customer"):
        Tau2().user()
    monkeypatch.setenv("RUBRICNB_API_KEY", "sk-planted")
    user = Tau2(user_model="m", user_url="http://x/v1").user()
    assert user["llm"] == "openai/m"
    assert user["llm_args"]["api_key"] == "sk-planted"
    assert "sk-planted" not in repr(vars(Tau2(user_model="m")))
    with pytest.raises(ConfigError):
        Tau2(retrieval="golden_retrieval")
    with pytest.raises(WorldError, match="want one of the splits"):
        Tau2().tasks("train")


def test_what_an_engine_says_in_its_last_words_is_reported(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text("#!/bin/sh\necho no such module >&2\nexit 3\n")
    os.chmod(tmp_path / "bin" / "python", 0o755)
    with pytest.raises(WorldError, match="end of the process: no such module"):
        Tau2(engine=tmp_path).tasks()


def test_the_protocols_and_a_whole_conversation(world):
    assert isinstance(world, World)
    tasks = world.tasks()
    assert len(tasks) == 97
    episode = world.reset(tasks[0], user={"script": [{"text": "Hello."}]})
    assert isinstance(episode, Episode)
    assert episode.opening == "Hello."
    assert "<policy>" in world.system
    assert world.tools()[0]["type"] == "function"
    assert not episode.evaluate().success
    assert "not found" in episode.call("no_such_tool", {}).text.lower()
    assert episode.say("Goodbye.").done
    assert episode.termination == "user_stop"
    with pytest.raises(WorldError, match="want no action after the end"):
        episode.say("Hello?")
    with pytest.raises(WorldError, match="want a world that can go back"):
        episode.snapshot()


def test_a_conversation_that_is_given_up_frees_its_engine(world):
    task = world.tasks()[0]
    first = world.reset(task, user={"script": [{"text": "Hello."}, {"text": "And?"}]})
    bridge = first._bridge
    first.close()
    assert bridge.alive
    second = world.reset(task, user={"script": [{"text": "Hi."}]})
    assert (second._bridge, second.opening) == (bridge, "Hi.")
    second.close()


class Script:
    name, identity = "script", {}

    def __init__(self, *said):
        self.said, self.heard = list(said), []

    def reply(self, messages, tools):
        self.heard.append((messages[:], tools))
        return self.said.pop(0)


def test_the_engines_user_simulator_speaks_through_an_endpoint(world):
    lines = [completion("I want to know my balance."), completion("Thanks. ###STOP###")]
    with Loopback(lines) as server:
        own = Tau2(user_model="customer", user_url=server.url)
        with own:
            call = Said(calls=(ToolCall("no_such_tool", "{}", "c"),), finish="tool_calls")
            script = Script(call, Said("Here you are."))
            made = play(own, own.tasks()[0], script, "r")
    assert made.task.prompt == "I want to know my balance."
    assert "<policy>" in made.task.system
    assert (made.termination, len(made)) == ("user_stop", 2)
    assert made.outcome in (0.0, 1.0)
    assert server.bodies[0]["model"] == "customer"
    assert server.bodies[0]["messages"][0]["role"] == "system"


@pytest.mark.slow
def test_reference_solutions_are_solutions(world):
    """Every task that the engine judges without a model."""
    tasks = [t for t in world.tasks() if BY_MODEL not in t.spec["basis"]]
    verdicts = {t.id: replay_solution(world, t) for t in tasks}
    assert {id: v.reason for id, v in verdicts.items() if not v.success} == {}
    assert len(verdicts) == 96
