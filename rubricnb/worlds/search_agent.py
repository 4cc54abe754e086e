"""Scripted searchers for the search world, clean or faulty, and what a reader says of their steps.

Both read what an agent reads: the question's words and the passages that came back.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..judge.protocol import Usage
from ..seeds import child_seed
from ..trajectory import ToolCall, Trajectory
from .agent_model import Said
from .search import SearchEpisode, same_answer, search_trajectory
from .search_corpus import RELATIONS, read_question
from .step_notes import StepNote, balanced

Turns = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SearchFaults:
    """Chances of each fault, in [0, 1], drawn anew before every action.

    Args:
        whole_question: search for the question as it stands.
        repeat: search again for what was found last.
        other_name: search for another name of the passage in hand.
        early: answer with the name in hand, whatever is still open.
    """

    whole_question: float = 0.0
    repeat: float = 0.0
    other_name: float = 0.0
    early: float = 0.0


SKILLED = SearchFaults()
SLOPPY = SearchFaults(0.15, 0.1, 0.15, 0.1)


def found(question: str, turns: Turns) -> tuple[list[str], tuple[str, ...]]:
    """Return the names on the way that the passages show so far, and the chain.

    The first name is the question's own; with len(chain) + 1 names the last is the answer.
    """
    start, chain = read_question(question) or ("", ())
    way, known = [start], {}
    for action, answer in turns:
        if action.startswith("search ") and " : " in answer:
            title, _, text = answer.partition(" : ")
            known[title] = text
    for relation in chain:
        name = _read(known.get(way[-1], ""), way[-1], relation)
        if not name:
            break
        way.append(name)
    return way, chain


def _read(text: str, x: str, relation: str) -> str:
    """The object of a relation in a passage, "" where it does not say."""
    before, after = RELATIONS[relation][2].format(x=x, y="{y}").split("{y}")
    at = text.find(before)
    if at < 0:
        return ""
    return text[at + len(before) :].partition(after)[0]


def next_action(question: str, turns: Turns, rng: random.Random, faults: SearchFaults) -> str:
    """Return the next action of a searcher with these faults."""
    way, chain = found(question, turns)
    if len(way) > len(chain) > 0:
        return f"finish {way[-1]}"
    hit = {f: rng.random() < getattr(faults, f) for f in faults.__slots__}
    if hit["early"] and turns:
        return f"finish {way[-1]}"
    if hit["whole_question"]:
        return f"search {question.removeprefix('what is ')}"
    if hit["repeat"] and turns:
        return turns[-1][0]
    names = _names(turns[-1][1]) if turns else []
    others = [n for n in names if n not in way]
    if hit["other_name"] and others:
        return f"search {rng.choice(others)}"
    return f"search {way[-1]}"


def _names(answer: str) -> list[str]:
    """Names that a passage relates its title to."""
    title, _, text = answer.partition(" : ")
    return [n for r in RELATIONS if (n := _read(text, title, r))]


def search_demo(
    episode: SearchEpisode, seed: int, faults: SearchFaults = SKILLED, id: str = ""
) -> Trajectory:
    """Play an episode to its end and return the rollout.

    >>> from rubricnb.worlds.search import Search
    >>> world = Search(miss=0.0)
    >>> search_demo(world.reset(world.tasks("dev")[0]), seed=0).outcome
    1.0
    """
    rng = random.Random(child_seed(seed, "searcher", episode.task.id))
    while not episode.done:
        episode.act(next_action(episode.task.prompt, episode.turns, rng, faults))
    return search_trajectory(episode, id or f"{episode.task.id}/{seed}", model="scripted")


class ScriptedSearcher:
    """The searcher as a chat model that calls tools: for ``worlds.agent.play`` without a network.

    Args:
        faults: its faults.
        seed: of them; with the conversation so far it fixes every reply.
    """

    name = "scripted searcher"

    def __init__(self, faults: SearchFaults = SKILLED, seed: int = 0) -> None:
        self.faults, self.seed = faults, seed

    @property
    def identity(self) -> Mapping[str, Any]:
        """What its replies depend on."""
        return {"model": self.name, "seed": self.seed, "faults": repr(self.faults)}

    def reply(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> Said:
        """Return the next call."""
        question = next(m["content"] for m in messages if m["role"] == "user")
        question = question[:1].lower() + question[1:].rstrip("?")
        calls = [c["function"] for m in messages for c in m.get("tool_calls") or ()]
        answers = [m["content"] for m in messages if m["role"] == "tool"]
        turns = [
            (f"{c['name']} {next(iter(json.loads(c['arguments']).values()), '')}", a)
            for c, a in zip(calls, answers, strict=True)
        ]
        rng = random.Random(f"{self.seed} {question} {len(turns)}")
        tool, _, rest = next_action(question, turns, rng, self.faults).partition(" ")
        argument = {"search": "query", "finish": "answer"}[tool]
        call = ToolCall(tool, json.dumps({argument: rest}), f"call_{len(turns)}")
        return Said("", (call,), usage=Usage(0, 0, 0), finish="tool_calls")


def search_roles(trajectory: Trajectory) -> tuple[str, ...]:
    """Return TRIAGE's role of each step, by rule, from the transcript alone.

    A search that shows the next fact is decisive, one that shows something new explores, a repeated
    one regresses, one that finds nothing makes no progress. A closing is decisive where the
    passages show its answer to be right, a regression else.
    """
    turns = [(s.text or _said(s.calls), s.observations[0].text) for s in trajectory.steps]
    question = trajectory.task.prompt
    question = question[:1].lower() + question[1:].rstrip("?")
    roles = []
    for t, (action, answer) in enumerate(turns):
        before, chain = found(question, turns[:t])
        if action.startswith("finish"):
            shown = len(before) > len(chain) and same_answer(action[7:], before[-1])
            roles.append("decisive" if shown else "regression")
        elif " : " not in answer:
            roles.append("no_progress")
        elif len(found(question, turns[: t + 1])[0]) > len(before):
            roles.append("decisive")
        elif any(answer == seen for _, seen in turns[:t]):
            roles.append("regression")
        else:
            roles.append("exploration")
    return tuple(roles)


def _said(calls: Sequence[ToolCall]) -> str:
    """A call as the compact language writes it."""
    if not calls:
        return ""
    try:
        return f"{calls[0].name} {next(iter(json.loads(calls[0].arguments).values()), '')}"
    except (ValueError, AttributeError):
        return f"{calls[0].name} {calls[0].arguments}"


_WORTH = {"decisive": 1.0, "exploration": 0.2, "no_progress": -0.3, "regression": -1.0}


def search_notes(trajectory: Trajectory, criteria: int = 3) -> tuple[StepNote, ...]:
    """Return local criteria and scores of a search rollout's steps (see ``step_notes``)."""
    rows = []
    for step, role in zip(trajectory.steps, search_roles(trajectory), strict=True):
        action = step.text or _said(step.calls)
        tool, _, about = action.partition(" ")
        worth = _WORTH[role]
        if tool == "finish":
            texts = (f"{about} is shown", "every fact of the question was read", "it is a name")
        else:
            texts = (
                f"{about} is next on the way",
                "the query is a name",
                "it was not asked before",
            )
        again = -1.0 if role == "regression" else 0.3
        rows.append([*zip(texts, (worth, worth / 2, again), strict=True), ("it helps", worth)])
    return balanced(trajectory, rows, criteria)
