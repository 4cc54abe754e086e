"""BFCL multi-turn against its real engine and its own checker."""

import json
import sys

import pytest

from rubricnb.errors import WorldError
from rubricnb.worlds.base import Episode, World
from rubricnb.worlds.bfcl import SPLITS, STEPS_PER_TURN, BfclMultiTurn, replay_gold
from rubricnb.worlds.bfcl_calls import parse_calls, written

WORLD = BfclMultiTurn()


def task(split="base", number=0):
    pytest.importorskip("bfcl_eval", reason="pip install --no-deps bfcl-eval")
    return WORLD.tasks(split)[number]


@pytest.mark.parametrize("split", SPLITS)
def test_the_reference_solution_solves_every_task(split):
    task()
    tasks = WORLD.tasks(split)
    failed = [t.id for t in tasks if not replay_gold(WORLD.reset(t)).success]
    assert (len(tasks), failed) == (200, [])


def test_it_follows_the_protocols():
    episode = WORLD.reset(task())
    assert isinstance(WORLD, World)
    assert isinstance(episode, Episode)


def play(episode, turns):
    for calls in turns:
        for call in calls:
            episode.act(call)
        episode.say("Done.")
    return episode.evaluate()


def test_a_missing_call_is_a_wrong_state():
    gold = task().spec["gold"]
    verdict = play(WORLD.reset(task()), [gold[0][:-1], *gold[1:]])
    assert not verdict.success
    assert verdict.reason.startswith("instance_state_mismatch")
    assert verdict.checks == {"finished": True, "calls every turn": True, "state": False}


def test_a_turn_without_calls_fails_and_an_early_end_does_too():
    gold = task().spec["gold"]
    verdict = play(WORLD.reset(task()), [[], *gold[1:]])
    assert verdict.reason.startswith("empty_turn_model_response")
    episode = WORLD.reset(task())
    play(episode, gold[:-1])
    assert episode.evaluate().checks == {"finished": False}


def test_calls_by_name_are_the_calls_in_python():
    by_text, by_name = WORLD.reset(task()), WORLD.reset(task())
    for calls in task().spec["gold"]:
        for text in calls:
            ((name, args, kwargs),) = parse_calls(text)
            if args:  # only calls by name can be made through function calling
                kwargs = {"file_name": args[0]}
            assert by_text.act(text).text == by_name.call(name, kwargs).text
        assert by_text.say("") == by_name.say("")
    assert by_name.evaluate().success


def test_users_speak_in_turn_and_functions_can_come_late():
    episode = WORLD.reset(task("miss_func"))
    late = {n for names in episode.task.spec["missed_function"].values() for n in names}
    (turn,) = map(int, episode.task.spec["missed_function"])

    def offered():
        return {f["function"]["name"] for f in episode.tools()}

    seen = [late & offered()]
    while not (said := episode.say("ok")).done:
        seen.append(late & offered())
        assert said.text
    assert [bool(s) for s in seen] == [i >= turn for i in range(len(seen))]
    assert episode.termination == "finished"
    with pytest.raises(WorldError, match="want no action after the end"):
        episode.say("again")


def test_the_benchmark_gives_up_on_an_agent_that_only_calls():
    episode = WORLD.reset(task())
    for _ in range(STEPS_PER_TURN):
        assert not episode.call("pwd", {}).done
    assert episode.call("pwd", {}).done
    assert episode.evaluate().reason == "turn_limit"


@pytest.mark.parametrize("number", range(0, 200, 23))
def test_a_snapshot_goes_back_to_the_same_state(number):
    episode = WORLD.reset(task(number=number))
    gold = episode.task.spec["gold"]
    start = episode.snapshot()
    assert play(episode, gold).success
    episode.restore(start)
    assert not play(episode, [[]] * len(gold)).success
    episode.restore(start)
    assert play(episode, gold).success


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "ls(a=__import__('os'))",
        "ls(**{'a': 1})",
        "x = 1",
        "ls(",
        "(" * 5000,
    ],
)
def test_nothing_but_literal_calls_is_read(text):
    with pytest.raises(ValueError, match="want"):
        parse_calls(text)
    episode = WORLD.reset(task())
    assert episode.act(text).text.startswith("Error during execution: want")
    assert episode.steps == [[]]


def test_names_that_are_no_functions_never_reach_the_checker(tmp_path):
    flag = tmp_path / "flag"
    code = f"open({str(flag)!r}, 'w').write('x')"
    episode = WORLD.reset(task())
    for name, arguments in [
        ("exec", {"object": code}),
        ("ls", {f"a=1) or {code} #": 1}),
        ("_load_scenario", {"scenario": {}}),
        ("ls", {"class": 1}),
    ]:
        assert episode.call(name, arguments).text.startswith("Error during execution: no ")
    for calls in episode.task.spec["gold"]:
        for call in calls:
            episode.act(call)
        episode.say("")
    assert episode.evaluate().success
    assert not flag.exists()


def test_the_checker_keeps_nothing():
    utils = pytest.importorskip("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils")
    before = set(vars(utils))
    replay_gold(WORLD.reset(task()))
    assert set(vars(utils)) == before


def test_schemas_are_json_schema_and_names_are_portable():
    task()
    tools = WORLD.tools()
    text = json.dumps([t["function"]["parameters"] for t in tools])
    assert len({t["function"]["name"] for t in tools}) == len(tools) == 128
    assert all(t["function"]["name"].isidentifier() for t in tools)
    assert all(t["function"]["parameters"]["type"] == "object" for t in tools)
    assert not {'"type": "float"', '"type": "dict"', '"type": "any"'} & set(text.split(", "))
    assert '"type": "number"' in text


def test_calls_survive_being_written():
    calls = [("f", (1, "it's"), {"a": [None, {"b": 2.5}], "c": True})]
    assert parse_calls(written(*calls[0])) == calls


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch):
    from rubricnb.worlds import bfcl

    monkeypatch.setitem(sys.modules, "bfcl_eval", None)
    monkeypatch.setitem(sys.modules, "bfcl_eval.constants", None)
    for cached in (bfcl._tasks, bfcl._data, bfcl._backend):
        cached.cache_clear()
    with pytest.raises(WorldError, match="pip install --no-deps bfcl-eval"):
        WORLD.tasks("base")
