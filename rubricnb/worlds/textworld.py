"""TextWorld as a world: text games generated from seeds, played by typed commands.

Nothing is downloaded. A game is made of rooms, objects and one quest; ``quest_length`` is the
number of commands that the quest takes at least, ``quest_breadth`` the number of branches of it.
After every command the engine says whether it came closer to the end, which is step credit by an
oracle: ``TextWorldEpisode.rewards``, never shown to an agent or a judge.

    pip install textworld        # compiles one dependency: wants a C compiler

Reference: Côté et al., TextWorld: a learning environment for text-based games (2018); MIT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..errors import ConfigError, WorldError
from ..files import content_hash
from ..seeds import child_seed
from .base import Evaluation, StepResult, WorldTask
from .textworld_games import Game, compiled, generated, start

SYSTEM = (
    "You play a text game by typing one short command a turn, such as: look, inventory, go "
    "north, open door, take key from box, unlock door with key, put cup on table. Do what the "
    "task says, in as few commands as it takes; the game ends when it is done."
)
_PROMPT_LINE = re.compile(r"\n*>\s+-= [^\n]* =-\d+/\d+\s*$")
_META = {"restart", "restore", "save", "undo", "quit", "q", "verify", "script", "version"}


@dataclass(frozen=True, slots=True)
class Games:
    """What kind of games a world has.

    Args:
        rooms: number of rooms.
        objects: number of objects, those of the quest included.
        quest_length: least number of commands of the quest, >= 1.
        quest_breadth: branches of the quest, >= 1; from 2 on many seeds give no game, and
            generation takes several seconds a seed.
        count: games of every split.
        seed: names the stream of games.
    """

    rooms: int = 4
    objects: int = 8
    quest_length: int = 4
    quest_breadth: int = 1
    count: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rooms", "objects", "quest_length", "quest_breadth", "count"):
            if getattr(self, name) < 1:
                raise ConfigError(f"want {name} >= 1; got {getattr(self, name)}")


class TextWorld:
    """Generated games in three splits of ``games.count`` each; equal settings, equal games.

    Games are kept in the user's cache (RUBRICNB_CACHE, else ~/.cache/rubricnb), so that each is
    made only once. A scenario is one game.

    Args:
        games: what kind of games.
        max_turns: commands after which an episode ends; None for five times the quest's length.
        show_commands: add the commands that are possible now to every answer.

    >>> TextWorld().tasks("nothing")
    Traceback (most recent call last):
    rubricnb.errors.WorldError: want one of the splits ('train', ...); got 'nothing'
    """

    name = "textworld"
    system = SYSTEM
    splits = ("train", "dev", "test")

    def __init__(
        self,
        games: Games | None = None,
        max_turns: int | None = None,
        show_commands: bool = False,
    ) -> None:
        self.games = Games() if games is None else games
        self.max_turns = max_turns or max(20, 5 * self.games.quest_length)
        self.show_commands = show_commands

    def tasks(self, split: str) -> tuple[WorldTask, ...]:
        """The games of a split; making one that is not in the cache takes about a second."""
        if split not in self.splits:
            raise WorldError(f"want one of the splits {self.splits}; got {split!r}")
        return tuple(self._task(split, i) for i in range(self.games.count))

    def _task(self, split: str, number: int) -> WorldTask:
        settings = asdict(replace(self.games, count=1))
        game = generated(settings, child_seed(self.games.seed, "textworld", split, number))
        kind = content_hash(settings)[:6]  # games of other settings are other tasks
        scenario = f"textworld_{kind}_{split}_{number:03d}"
        spec = {"key": game.key}
        return WorldTask(f"{scenario}_1", scenario, split, game.objective, spec=spec)

    def tools(self) -> list[dict[str, Any]]:
        """One function that types a command."""
        about = {"type": "string", "description": "one command, such as: take key from box"}
        parameters = {
            "type": "object",
            "properties": {"command": about},
            "required": ["command"],
            "additionalProperties": False,
        }
        what = "Type one command into the game and read what it answers."
        function = {"name": "play", "description": what, "parameters": parameters}
        return [{"type": "function", "function": function}]

    def reset(self, task: WorldTask, seed: int = 0) -> TextWorldEpisode:
        """A fresh episode. A game has no randomness after it is made: the seed changes nothing."""
        game = compiled(task.spec["key"])
        return TextWorldEpisode(task, game, self.max_turns, self.show_commands)


class TextWorldEpisode:
    """One attempt at one game.

    ``turns`` holds (command, answer) so far; ``rewards`` the engine's oracle reward of each
    command: 1 closer to the end, -1 further from it, 0 neither; ``termination`` is "finished",
    "turn_limit" or "".
    """

    def __init__(
        self, task: WorldTask, game: Game, max_turns: int, show_commands: bool = False
    ) -> None:
        self.task, self.max_turns, self.show_commands = task, max_turns, show_commands
        self.walkthrough = game.walkthrough
        self.done, self.termination = False, ""
        self.turns: list[tuple[str, str]] = []
        self.rewards: list[float] = []
        self._environment = start(game)
        self._state = self._environment.reset()

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that are possible now."""
        return tuple(self._state.admissible_commands)

    def act(self, action: str) -> StepResult:
        """Type one command: the first line of the text."""
        if self.done:
            raise WorldError(f"want no action after the end of {self.task.id}; got {action!r}")
        command = next(iter(action.strip().splitlines()), "").strip().lstrip("> ")
        if not command or command.split()[0].lower() in _META:
            return self._told(command, "That is no command of this game.", 0.0)
        self._state, _, over = self._environment.step(command)
        if over:
            self.done, self.termination = True, "finished"
        text = _PROMPT_LINE.sub("", self._state.feedback).strip()
        return self._told(command, text, float(self._state.intermediate_reward))

    def _told(self, command: str, text: str, reward: float) -> StepResult:
        if self.show_commands and not self.done:
            text += f"\n\nPossible now: {'; '.join(self.commands)}"
        self.turns.append((command, text))
        self.rewards.append(reward)
        if not self.done and len(self.turns) >= self.max_turns:
            self.done, self.termination = True, "turn_limit"
        return StepResult(text, self.done)

    def call(self, name: str, arguments: Mapping[str, Any]) -> StepResult:
        """Type the command of a call ``play(command=...)``."""
        if name != "play" or not isinstance(arguments.get("command"), str):
            return self._told("", "Call play with one text, the command.", 0.0)
        return self.act(arguments["command"])

    def snapshot(self) -> Any:
        """A copy of the game and of everything that was said."""
        copied = (self._environment.copy(), self._state.copy())
        return copied, (list(self.turns), list(self.rewards)), (self.done, self.termination)

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot of this episode; the snapshot stays usable."""
        (environment, state), (turns, rewards), (self.done, self.termination) = snapshot
        self._environment, self._state = environment.copy(), state.copy()
        self.turns, self.rewards = list(turns), list(rewards)

    def evaluate(self) -> Evaluation:
        """The engine's verdict: the quest is done."""
        won = bool(self._state.won)
        return Evaluation(won, {"won": won}, "" if won else self.termination or "unfinished")
