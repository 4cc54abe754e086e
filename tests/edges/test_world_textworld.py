"""TextWorld against its real engine: games are made, compiled, won, lost and rewound."""

import sys

import pytest

from rubricnb.errors import ConfigError, WorldError
from rubricnb.worlds.base import Episode, World
from rubricnb.worlds.textworld import Games, TextWorld

KIND = Games(rooms=3, objects=5, quest_length=3, count=2)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    pytest.importorskip("textworld", reason="pip install textworld (wants a C compiler)")
    patch = pytest.MonkeyPatch()
    patch.setenv("RUBRICNB_CACHE", str(tmp_path_factory.mktemp("games")))
    yield TextWorld(KIND)
    patch.undo()


@pytest.fixture
def episode(world):
    return world.reset(world.tasks("train")[0])


def test_it_follows_the_protocols(world, episode):
    assert isinstance(world, World)
    assert isinstance(episode, Episode)
    assert episode.call("play", {"command": "inventory"}).text == episode.act("inventory").text


def test_walkthroughs_win_and_every_command_of_them_is_rewarded(world):
    for task in world.tasks("train"):
        episode = world.reset(task)
        assert task.prompt
        assert not episode.evaluate().success
        for command in episode.walkthrough:
            assert command in episode.commands
            assert not episode.done
            episode.act(command)
        assert (episode.evaluate().success, episode.termination) == (True, "finished")
        assert episode.rewards == [1.0] * len(episode.walkthrough)
        with pytest.raises(WorldError, match="want no action after the end"):
            episode.act("look")


def test_a_step_away_is_a_loss_and_looking_is_nothing(world):
    task = next(t for t in world.tasks("train") if world.reset(t).walkthrough[0].startswith("go"))
    episode = world.reset(task)
    for command in ["look", episode.walkthrough[0], _back(episode.walkthrough[0]), "frobnicate"]:
        episode.act(command)
    assert episode.rewards == [0.0, 1.0, -1.0, 0.0]


def _back(command):
    way = {"north": "south", "south": "north", "east": "west", "west": "east"}
    return f"go {way[command.split()[1]]}"


def test_a_snapshot_goes_back_more_than_once(episode):
    first, *rest = episode.walkthrough
    episode.act(first)
    here, commands = episode.snapshot(), episode.commands
    for _ in range(2):
        for command in rest:
            episode.act(command)
        assert episode.evaluate().success
        episode.restore(here)
        assert (episode.commands, episode.rewards, episode.done) == (commands, [1.0], False)


def test_equal_settings_are_equal_games_and_splits_share_none(world):
    again = TextWorld(KIND).tasks("train")
    assert again == world.tasks("train")
    other = TextWorld(Games(rooms=3, objects=5, quest_length=3, count=1, seed=1)).tasks("train")
    tasks = [*again, *world.tasks("dev"), *other]
    assert len({t.id for t in [*again, *world.tasks("dev")]}) == 4
    assert len({t.spec["key"] for t in tasks}) == 5


def test_long_answers_stop_at_the_limit_and_meta_commands_do_nothing(world):
    short = TextWorld(KIND, max_turns=2, show_commands=True)
    episode = short.reset(world.tasks("train")[0])
    assert episode.act("undo\nlook").text.startswith("That is no command of this game.")
    assert "Possible now: " in episode.turns[0][1]
    assert episode.call("other", {}).done
    assert episode.evaluate().reason == "turn_limit"


def test_what_the_screen_adds_is_not_in_the_answer(episode):
    text = episode.act("look").text
    assert text == text.strip()
    assert not text.endswith((">", "=-0/1"))
    assert "\n>" not in text


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="want quest_length >= 1; got 0"):
        Games(quest_length=0)


def test_a_quest_that_cannot_be_is_said_to_be_none(world, monkeypatch):
    monkeypatch.setattr("rubricnb.worlds.textworld_games.TRIES", 1)
    with pytest.raises(WorldError, match="want a quest of length 2 and breadth 3"):
        TextWorld(Games(rooms=1, objects=1, quest_length=2, quest_breadth=3, count=1)).tasks("dev")


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "textworld", None)
    with pytest.raises(WorldError, match="pip install textworld"):
        TextWorld().tasks("train")
