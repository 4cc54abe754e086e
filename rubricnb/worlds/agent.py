"""An agent that plays any world: function calls or code blocks, one message a turn.

A world that offers more than ``World`` and ``Episode`` ask for is used to the full:

- ``world.mode``: "tools" (the default) or "code" (``act`` takes a block of code).
- ``world.chat_prompt(task)``: the task in sentences, where ``task.prompt`` is not.
- ``episode.tools()``: functions of this episode, at this moment, instead of the world's.
- ``episode.say(text)``: a message to a user, who answers; without it, a message that does nothing
  brings a reminder, and a second one ends the episode.
- ``episode.new_turn()``: told before the calls of each message.
- ``episode.rewards``: oracle rewards of the actions, kept as labels.
- ``episode.opening``: a user's first message, where only the episode knows it.
- ``episode.close()``: told at the end, whatever happened.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ConfigError, WorldError
from ..files import to_json
from ..judge.protocol import Usage
from ..trajectory import Observation, Step, Task, ToolCall, Trajectory
from .agent_model import ChatModel, Said
from .base import Episode, World, WorldTask

MODES = ("tools", "code")
_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:\n?```|\Z)", re.DOTALL)
_NUDGE = {
    "tools": "Nothing was called. Call a function, or end the task by the function for that.",
    "code": "There was no code. Write one block that starts with ```python and ends with ```.",
}


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """How an agent plays.

    Args:
        mode: "tools", "code", or "" for the world's own.
        max_turns: messages of the agent; None for the world's own limit.
        reminders: messages in a row that may do nothing, each answered by a reminder.
        max_chars: characters of one observation that are shown; the middle of more is left out.
    """

    mode: str = ""
    max_turns: int | None = None
    reminders: int = 1
    max_chars: int = 20_000

    def __post_init__(self) -> None:
        if self.mode not in ("", *MODES):
            raise ConfigError(f"want mode among {MODES}; got {self.mode!r}")
        if (self.max_turns is not None and self.max_turns < 1) or self.reminders < 0:
            raise ConfigError("want max_turns >= 1 and reminders >= 0")


def as_task(world: World, task: WorldTask) -> Task:
    """Return the task as an agent and a judge see it: nothing of its spec."""
    told = getattr(world, "chat_prompt", None)
    prompt = told(task) if told is not None else task.prompt
    meta = {"scenario": task.scenario, "split": task.split, "difficulty": task.difficulty}
    return Task(task.id, prompt, world.system, meta)


def play(
    world: World,
    task: WorldTask,
    model: ChatModel,
    id: str,
    *,
    seed: int = 0,
    config: AgentConfig | None = None,
    stop: threading.Event | None = None,
) -> Trajectory:
    """Return one rollout of a task by a chat model, with the world's verdict as its outcome.

    Args:
        id: the rollout's name.
        seed: of the world's luck.
        config: default ``AgentConfig()``.
        stop: ends the rollout by a WorldError once it is set.

    Raises:
        JudgeError: where the model cannot be asked: nothing is known about the rollout then.
        WorldError: where the world's engine failed.
    """
    config = config or AgentConfig()
    mode = config.mode or getattr(world, "mode", "tools")
    began = time.monotonic()
    episode = world.reset(task, seed)
    try:
        told = as_task(world, task)
        if opening := getattr(episode, "opening", ""):
            told = replace(told, prompt=opening)
        game = _Game(world, episode, model, told, mode, config)
        for _ in range(config.max_turns or world.max_turns):
            if stop is not None and stop.is_set():
                raise WorldError(f"want rollout {id} to go on; got a stop from outside")
            if game.turn():
                break
        else:
            game.ending = "turn_limit"
        verdict = episode.evaluate()
    finally:
        getattr(episode, "close", lambda: None)()
    meta = {
        "world": world.name,
        "seed": seed,
        "checks": to_json(verdict.checks),
        "reason": verdict.reason,
        "usage": _bill(game.usages),
        "seconds": round(time.monotonic() - began, 3),
    }
    return Trajectory(
        id,
        game.task,
        tuple(game.steps),
        float(verdict.success),
        game.ending,
        model.name,
        labels=game.labels(),
        source={"format": "rubricnb evaluate"},
        meta=meta,
    )


def _bill(usages: list[Usage | None]) -> dict[str, int]:
    known = [u for u in usages if u is not None]
    return {
        "prompt": sum(u.prompt for u in known),
        "cached": sum(u.cached for u in known),
        "completion": sum(u.completion for u in known),
        "calls": len(usages),
        "unknown": len(usages) - len(known),
    }


class _Game:
    """One episode between a world and a model."""

    def __init__(
        self,
        world: World,
        episode: Episode,
        model: ChatModel,
        task: Task,
        mode: str,
        config: AgentConfig,
    ) -> None:
        self.world, self.episode, self.model = world, episode, model
        self.task, self.mode, self.config = task, mode, config
        system = [{"role": "system", "content": task.system}] if task.system else []
        self.messages: list[dict[str, Any]] = [*system, {"role": "user", "content": task.prompt}]
        self.steps: list[Step] = []
        self.usages: list[Usage | None] = []
        self.actions: list[int] = []  # actions of the world in each step
        self.ending, self._idle = "", 0

    def turn(self) -> bool:
        """Let the model speak and the world answer; return whether the episode is over."""
        said = self.model.reply(self.messages, self._tools())
        self.usages.append(said.usage)
        if said.finish == "too_long":
            self.ending = "length"
            return True
        before = len(getattr(self.episode, "rewards", ()))
        answers = self._answers(said)
        self.actions.append(len(getattr(self.episode, "rewards", ())) - before)
        meta = {} if said.usage is None else {"usage": to_json(said.usage)}
        if said.finish not in ("stop", "tool_calls"):
            meta["finish_reason"] = said.finish
        text, calls = self._written(said)
        self.steps.append(Step(text, calls, tuple(answers), said.thinking, meta=meta))
        if self.episode.done:
            self.ending = getattr(self.episode, "termination", "") or "finished"
        elif self._idle > self.config.reminders:
            self.ending = "length" if said.finish == "length" else "stopped"
        self._remember(said, answers)
        return bool(self.ending)

    def _tools(self) -> list[dict[str, Any]]:
        if self.mode == "code":
            return []
        return getattr(self.episode, "tools", self.world.tools)()

    def _written(self, said: Said) -> tuple[str, tuple[ToolCall, ...]]:
        """Text and calls of the step; a block of code is a call, as in imported logs."""
        if self.mode == "code" and (code := code_block(said.text)):
            return _BLOCK.sub("", said.text, count=1).strip(), (ToolCall("python", code),)
        return said.text, said.calls

    def _answers(self, said: Said) -> list[Observation]:
        code = code_block(said.text) if self.mode == "code" else ""
        if self.mode == "tools" and said.calls:
            self._idle = 0
            getattr(self.episode, "new_turn", lambda: None)()
            return [self._called(c) for c in said.calls if not self.episode.done]
        if code:
            self._idle = 0
            return [self._shown(self.episode.act(code).text, "environment")]
        if self.mode == "tools" and hasattr(self.episode, "say"):
            text = self.episode.say(said.text).text
            return [self._shown(text, "user")] if text else []
        self._idle += 1
        nudge = self._idle <= self.config.reminders
        return [Observation(_NUDGE[self.mode], "user")] if nudge else []

    def _called(self, call: ToolCall) -> Observation:
        try:
            arguments = json.loads(call.arguments or "{}")
        except ValueError:
            arguments = None
        if not isinstance(arguments, Mapping):
            text = "error: the arguments are not a JSON object"
        else:
            text = self.episode.call(call.name, arguments).text
        return self._shown(text, "tool", call)

    def _shown(self, text: str, role: str, call: ToolCall | None = None) -> Observation:
        most = self.config.max_chars
        if len(text) > most:
            half = most // 2
            left = len(text) - 2 * half
            text = f"{text[:half]}\n[{left} characters left out]\n{text[-half:]}"
        return Observation(text, role, call.name if call else "", call.id if call else "")

    def _remember(self, said: Said, answers: list[Observation]) -> None:
        """Add the turn to the conversation that the model is shown next."""
        mine: dict[str, Any] = {"role": "assistant", "content": said.text}
        # Calls of other modes, and those after the end, were never answered.
        calls = said.calls if self.mode == "tools" else ()
        if calls:
            mine["tool_calls"] = [_sent(c) for c in calls]
        self.messages.append(mine)
        for o in answers:
            if o.role == "tool":
                row = {"role": "tool", "tool_call_id": o.call_id, "content": o.text}
            else:
                row = {"role": "user", "content": o.text}
            self.messages.append(row)

    def labels(self) -> dict[str, Any]:
        """The oracle's reward of each step, where the world has one."""
        rewards = getattr(self.episode, "rewards", None)
        if rewards is None:
            return {}
        out, at = [], 0
        for count in self.actions:
            out.append(sum(rewards[at : at + count]))
            at += count
        return {"intermediate_reward": out}


def _sent(call: ToolCall) -> dict[str, Any]:
    """A call as it is shown to the model again: servers refuse arguments that are not JSON."""
    try:
        json.loads(call.arguments or "{}")
        arguments = call.arguments or "{}"
    except ValueError:
        arguments = json.dumps({"unreadable": call.arguments})
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def code_block(text: str) -> str:
    """Return the first fenced block of Python in a message, "" where there is none.

    >>> code_block("I look.\\n```python\\nprint(1)\\n```\\nDone.")
    'print(1)'
    """
    found = _BLOCK.search(text)
    return found[1].strip() if found else ""
