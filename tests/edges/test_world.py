"""The desks: splits, determinism, the two languages, and what evaluation catches."""

import pytest

from rubricnb.errors import WorldError
from rubricnb.worlds import LibraryDesk, OrdersDesk, demonstrate, vocabulary

WORLDS = {s: OrdersDesk() for s in OrdersDesk.splits} | {s: LibraryDesk() for s in ("transfer",)}
SIZES = {"train": 90, "test_normal": 168, "test_challenge": 417, "transfer": 97}


@pytest.mark.parametrize(("split", "size"), SIZES.items())
def test_split_has_the_published_shape(split, size):
    tasks = WORLDS[split].tasks(split)
    assert len(tasks) == size == len({t.id for t in tasks})
    assert {t.difficulty for t in tasks} == {1, 2, 3}


@pytest.mark.parametrize("split", WORLDS)
def test_clean_demonstrator_succeeds(split):
    world, won = WORLDS[split], []
    for task in world.tasks(split):
        for seed in range(3):
            episode = world.reset(task, seed)
            demonstrate(episode, seed)
            won.append(episode.evaluate().success)
    assert sum(won) / len(won) >= 0.99


def test_every_word_is_in_the_vocabulary():
    words = set(vocabulary())
    for split, world in WORLDS.items():
        for task in world.tasks(split)[::5]:
            episode = world.reset(task, 0)
            demonstrate(episode, 0)
            text = " ".join([task.prompt, *(f"{t.action} {t.answer}" for t in episode.turns)])
            assert set(text.split()) <= words


def test_unknown_split_is_refused():
    with pytest.raises(WorldError, match="want one of the splits"):
        OrdersDesk().tasks("transfer")
