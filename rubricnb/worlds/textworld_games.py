"""Generated TextWorld games, kept on disk: made once from settings and a seed, then read."""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import WorldError
from ..files import content_hash
from ..seeds import child_seed

INSTALL = "pip install textworld, which wants a C compiler"
TRIES = 8  # seeds tried for one game: not every one gives a quest of the wanted shape
_INFOS = ("feedback", "admissible_commands", "intermediate_reward", "won", "lost", "moves")
_lock = threading.Lock()  # the generator keeps global state


@dataclass(frozen=True, slots=True)
class Game:
    """One game: its key in the cache, its task in words, and commands that win it."""

    key: str
    objective: str
    walkthrough: tuple[str, ...]


def engine() -> Any:
    """Return the package, or say how to get it."""
    try:
        return import_module("textworld")
    except ImportError as e:
        raise WorldError(f"want the package textworld; got {e} (install it: {INSTALL})") from e


def cache_folder() -> Path:
    """Return the folder of generated games: RUBRICNB_CACHE, else ~/.cache/rubricnb."""
    root = os.environ.get("RUBRICNB_CACHE") or Path.home() / ".cache" / "rubricnb"
    path = Path(root) / "textworld"
    path.mkdir(parents=True, exist_ok=True)
    return path


def generated(settings: Mapping[str, Any], seed: int) -> Game:
    """Return the game of these settings and this seed, made where the cache has none.

    Raises:
        WorldError: where no quest of the wanted shape was found.
    """
    version = getattr(engine(), "__version__", "")
    key = content_hash({**settings, "seed": seed, "engine": version})[:20]
    if not _path(key, ".json").exists():
        with _lock:
            _make(settings, seed, key)
    return _load(key)


def _path(key: str, ending: str) -> Path:
    return cache_folder() / f"{key}{ending}"


def _options(settings: Mapping[str, Any], seed: int) -> Any:
    options = engine().GameOptions()
    options.seeds = seed % 2**31
    options.nb_rooms, options.nb_objects = settings["rooms"], settings["objects"]
    options.quest_length = settings["quest_length"]
    options.quest_breadth = settings["quest_breadth"]
    return options


def _make(settings: Mapping[str, Any], seed: int, key: str) -> None:
    no_quest = import_module("textworld.generator.chaining").QuestGenerationError
    for attempt in range(TRIES):
        try:
            options = _options(settings, child_seed(seed, "try", attempt))
            game = engine().generator.make_game(options)
        except no_quest:
            continue
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            game.save(os.path.join(folder, "game.json"))
            os.replace(os.path.join(folder, "game.json"), _path(key, ".json"))
        return
    raise WorldError(
        f"want a quest of length {settings['quest_length']} and breadth "
        f"{settings['quest_breadth']}; got none from {TRIES} seeds (ask for breadth 1 "
        "or for a longer quest)"
    )


@lru_cache(maxsize=256)
def _load(key: str) -> Game:
    game = engine().Game.load(str(_path(key, ".json")))
    return Game(key, game.objective, tuple(game.metadata["walkthrough"]))


def compiled(key: str) -> Game:
    """Return a game of the cache, compiled for play."""
    if not _path(key, ".json").exists():
        raise WorldError(f"want the game {key} in {cache_folder()}; got none (ask for its split)")
    with _lock:
        if not _path(key, ".z8").exists():
            _compile(key)
    return _load(key)


def _compile(key: str) -> None:
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        options = engine().GameOptions()
        options.path = os.path.join(folder, "game.z8")
        game = engine().Game.load(str(_path(key, ".json")))
        made = engine().generator.compile_game(game, options)
        os.replace(made, _path(key, ".z8"))


def start(game: Game) -> Any:
    """Return an environment that plays the game."""
    # Jericho warns that it cannot score these games; TextWorld scores them itself.
    warnings.filterwarnings("ignore", message="Game .* is not fully supported")
    infos = engine().EnvInfos(**dict.fromkeys(_INFOS, True))
    return engine().start(str(_path(game.key, ".z8")), infos)
