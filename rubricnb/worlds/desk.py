"""The two bundled worlds: the orders desk, and the library desk that RL never trains on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..errors import WorldError
from .base import WorldTask
from .engine import DeskEpisode, Noise
from .lexicon import LEXICONS
from .pools import POOLS, make_pool
from .schemas import chat_prompt, system_prompt, tool_schemas
from .templates import Pool

MAX_TURNS = 24


@lru_cache(maxsize=32)
def _tasks(pool: Pool) -> tuple[WorldTask, ...]:
    return make_pool(pool)


class Desk:
    """A world of one desk. Tasks and episodes depend on names and seeds only.

    Args:
        noise: timeouts and lost changes; the defaults are those of every published figure.
        max_turns: actions after which an episode ends.

    >>> world = OrdersDesk()
    >>> task = world.tasks("train")[0]
    >>> world.reset(task, seed=1).act("find nobody").text
    'none'
    """

    lexicon_name = ""
    splits: tuple[str, ...] = ()

    def __init__(self, noise: Noise | None = None, max_turns: int = MAX_TURNS) -> None:
        self.lexicon = LEXICONS[self.lexicon_name]
        self.name = self.lexicon_name
        self.system = system_prompt(self.lexicon)
        self.noise = Noise() if noise is None else noise
        self.max_turns = max_turns

    def tasks(self, split: str) -> tuple[WorldTask, ...]:
        """The tasks of a split, always the same."""
        if split not in self.splits:
            raise WorldError(f"want one of the splits {self.splits}; got {split!r}")
        return _tasks(POOLS[split])

    def pool(self, pool: Pool) -> tuple[WorldTask, ...]:
        """The tasks of a pool of your own, for instance long tasks only."""
        if pool.desk != self.name:
            raise WorldError(f"want a pool of the {self.name} desk; got one of {pool.desk!r}")
        return _tasks(pool)

    def tools(self) -> list[dict[str, Any]]:
        """OpenAI function-calling schemas."""
        return tool_schemas(self.lexicon)

    def chat_prompt(self, task: WorldTask) -> str:
        """The first user message for an LLM agent."""
        return chat_prompt(task)

    def reset(self, task: WorldTask, seed: int) -> DeskEpisode:
        """A fresh episode; the seed decides which changes time out or are lost."""
        return DeskEpisode(task, seed, self.noise, self.max_turns)


class OrdersDesk(Desk):
    """Customers, orders and payments: 12 tools, the desk that RL trains on."""

    lexicon_name = "orders"
    splits = (
        *("train", "dev", "dev_challenge", "test_normal", "test_challenge"),
        *("long_train", "long_dev", "long_test"),
        *("study_train", "study_test", "study_long_train", "study_long_test"),
    )


class LibraryDesk(Desk):
    """Members, loans and fees: 9 tools, in the warm-up but never in RL; the transfer column."""

    lexicon_name = "library"
    splits = ("transfer",)


DESKS: Mapping[str, type[Desk]] = {"orders": OrdersDesk, "library": LibraryDesk}


def desk_of(task: WorldTask, noise: Noise | None = None) -> Desk:
    """The world that a task belongs to."""
    return DESKS[task.spec["desk"]](noise)
