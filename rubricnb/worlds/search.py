"""Multi-hop search over a made-up encyclopaedia: two tools, search and finish, exact match.

A search returns the one passage that fits its words best, by word overlap weighted by rarity, with
a passage's title counted twice. Now and then the second best comes back, as retrievers do: asking
again helps. Nothing is downloaded, and no fact of it can be known beforehand.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..errors import WorldError
from ..seeds import child_seed
from ..trajectory import Observation, Step, Task, ToolCall, Trajectory
from .base import Evaluation, StepResult, WorldTask
from .search_corpus import SPLITS, Corpus, corpora, make_tasks

SYSTEM = (
    "You answer a question about a small encyclopaedia by its tools. A question goes over several "
    "facts, each in another passage. search(query) returns the one passage that fits the words of "
    "the query best; sometimes it returns another one, then ask again. finish(answer) ends the "
    "task with the answer, a name alone. Searches are limited: do not repeat one that has "
    "answered, and answer only what the passages show."
)
_WORD = re.compile(r"[a-z0-9]+")


def words_of(text: str) -> list[str]:
    """Lower-case words."""
    return _WORD.findall(text.lower())


def same_answer(said: str, wanted: str) -> bool:
    """Exact match after case, punctuation and a leading article are taken away.

    >>> same_answer("The Malomar.", "malomar")
    True
    """
    drop = {"a", "an", "the"}
    return [w for w in words_of(said) if w not in drop] == words_of(wanted)


class Index:
    """Word overlap, weighted by rarity; the title counts twice."""

    def __init__(self, passages: Mapping[str, str]) -> None:
        self.titles = list(passages)
        self._words = [Counter(words_of(text)) for text in passages.values()]
        seen = Counter(w for words in self._words for w in words)
        n = len(self.titles)
        self._rare = {w: math.log(1 + n / c) for w, c in seen.items()}

    def ranked(self, query: str) -> list[str]:
        """Titles by fit, best first; those without a word of the query are left out."""
        asked = set(words_of(query))
        fits = []
        for i, (title, own) in enumerate(zip(self.titles, self._words, strict=True)):
            named = set(words_of(title))
            fit = sum(self._rare.get(w, 0.0) * ((w in own) + (w in named)) for w in asked)
            if fit > 0:
                fits.append((-fit, i))
        return [self.titles[i] for _, i in sorted(fits)]


@lru_cache(maxsize=24)
def _index(seed: int, split: str) -> Index:
    return Index(corpora(seed)[split].passages)


class Search:
    """The world; equal settings are equal corpora, questions and luck.

    Args:
        seed: of the encyclopaedias and questions.
        scenarios: chains of relations of each length in every split, three questions each.
        max_turns: actions after which an episode ends.
        miss: chance that a search returns the second best passage.

    >>> world = Search()
    >>> len(world.tasks("train")), world.tasks("train")[0].prompt.split()[:3]
    (108, ['what', 'is', 'the'])
    """

    name = "search"
    system = SYSTEM
    splits = SPLITS

    def __init__(
        self, seed: int = 0, scenarios: int = 12, max_turns: int = 8, miss: float = 0.1
    ) -> None:
        if not 0 <= miss < 1 or min(scenarios, max_turns) < 1:
            raise WorldError("want miss in [0, 1), scenarios and max_turns >= 1")
        self.seed, self.scenarios, self.max_turns, self.miss = seed, scenarios, max_turns, miss

    def tasks(self, split: str) -> tuple[WorldTask, ...]:
        """The questions of a split, always the same."""
        if split not in self.splits:
            raise WorldError(f"want one of the splits {self.splits}; got {split!r}")
        return make_tasks(split, self.scenarios, self.seed)

    def corpus(self, split: str) -> Corpus:
        """The encyclopaedia that a split's questions are about."""
        return corpora(self.seed)[split]

    def tools(self) -> list[dict[str, Any]]:
        """search(query) and finish(answer)."""
        told = (
            ("search", "query", "Return the passage that fits these words best.", "a few words"),
            ("finish", "answer", "End the task with the answer.", "a name alone"),
        )
        return [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": about,
                    "parameters": {
                        "type": "object",
                        "properties": {argument: {"type": "string", "description": what}},
                        "required": [argument],
                        "additionalProperties": False,
                    },
                },
            }
            for name, argument, about, what in told
        ]

    def chat_prompt(self, task: WorldTask) -> str:
        """The question as a sentence."""
        return f"{task.prompt.capitalize()}?"

    def reset(self, task: WorldTask, seed: int = 0) -> SearchEpisode:
        """A fresh episode; the seed decides which searches miss."""
        return SearchEpisode(task, self, seed)


class SearchEpisode:
    """One attempt: ``turns`` holds (action, answer); ``rewards`` an oracle's: 1 for a search that
    first shows the next fact of the way, 0 else; ``termination`` "finished", "turn_limit" or ""."""

    def __init__(self, task: WorldTask, world: Search, seed: int) -> None:
        self.task, self.world, self.seed = task, world, seed
        self.done, self.termination, self.answer = False, "", ""
        self.turns: list[tuple[str, str]] = []
        self.rewards: list[float] = []
        self.reached = 0  # facts of the way that were shown, in order
        split = task.spec["split"]
        self._corpus, self._find = world.corpus(split), _index(world.seed, split)

    def act(self, action: str) -> StepResult:
        """``search <words>`` or ``finish <answer>``."""
        if self.done:
            raise WorldError(f"want no action after the end of {self.task.id}; got {action!r}")
        tool, _, rest = action.strip().partition(" ")
        if tool == "search":
            return self._search(action, rest)
        if tool == "finish":
            return self._finish(action, rest)
        return self._told(action, "error syntax", 0.0)

    def call(self, name: str, arguments: Mapping[str, Any]) -> StepResult:
        """A function call."""
        argument = {"search": "query", "finish": "answer"}.get(name)
        value = arguments.get(argument) if argument else None
        if not isinstance(value, str) and not self.done:
            return self._told(f"{name} {dict(arguments)}", "error syntax", 0.0)
        return self.act(f"{name} {value}")

    def _search(self, action: str, query: str) -> StepResult:
        found = self._find.ranked(query)
        if not found:
            return self._told(action, "nothing found", 0.0)
        luck = random.Random(child_seed(self.seed, "search", self.task.id, len(self.turns)))
        title = found[1] if len(found) > 1 and luck.random() < self.world.miss else found[0]
        way = self.task.spec["way"]
        new = self.reached < len(way) - 1 and title == way[self.reached]
        self.reached += new
        return self._told(action, f"{title} : {self._corpus.passages[title]}", float(new))

    def _finish(self, action: str, answer: str) -> StepResult:
        self.answer, self.done, self.termination = answer, True, "finished"
        right = same_answer(answer, self.task.spec["way"][-1])
        return self._told(action, "end", float(right))

    def _told(self, action: str, text: str, reward: float) -> StepResult:
        self.turns.append((action.strip(), text))
        self.rewards.append(reward)
        if not self.done and len(self.turns) >= self.world.max_turns:
            self.done, self.termination = True, "turn_limit"
        return StepResult(text, self.done)

    def snapshot(self) -> Any:
        """Everything that was said and shown."""
        told = (tuple(self.turns), tuple(self.rewards), self.reached)
        return told, (self.done, self.termination, self.answer)

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot of an episode of the same task; the luck stays this episode's."""
        (turns, rewards, self.reached), (self.done, self.termination, self.answer) = snapshot
        self.turns, self.rewards = list(turns), list(rewards)

    def evaluate(self) -> Evaluation:
        """Exact match of the answer."""
        right = bool(self.answer) and same_answer(self.answer, self.task.spec["way"][-1])
        reason = "" if right else "wrong_answer" if self.answer else self.termination or "open"
        return Evaluation(right, {"exact_match": right}, reason)


def search_trajectory(
    episode: SearchEpisode, id: str, *, tokens: Any = None, model: str = ""
) -> Trajectory:
    """Return the episode so far as a trajectory; a step is one action.

    Args:
        id: the rollout's name.
        tokens: n_j per step where they were counted.
        model: who acted.
    """
    task, steps = episode.task, []
    for n, (action, answer) in enumerate(episode.turns):
        tool, _, rest = action.partition(" ")
        argument = {"search": "query", "finish": "answer"}.get(tool, "text")
        call = ToolCall(tool, json.dumps({argument: rest}))
        count = None if tokens is None else int(tokens[n])
        steps.append(Step(action, (call,), (Observation(answer, name=tool),), tokens=count))
    meta = {"scenario": task.scenario, "split": task.split, "difficulty": task.difficulty}
    asked = Task(task.id, task.prompt, episode.world.system, meta)
    return Trajectory(
        id,
        asked,
        tuple(steps),
        float(episode.evaluate().success),
        episode.termination,
        model,
        labels={"intermediate_reward": list(episode.rewards)},
        source={"format": "search"},
    )
