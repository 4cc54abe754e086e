"""tau2-bench as a world: a customer played by an LLM, tools over a bank's records, its own verdict.

The engine runs in a process of its own (``RUBRICNB_TAU2`` names its virtual environment) with its
own orchestrator, user simulator, environment and evaluator. The user simulator needs a model
behind an OpenAI-compatible endpoint; without one, or without the engine, the error says what to
do. One of the 97 banking tasks is judged by an LLM, too, which the engine's own settings name.

Reference: Barres et al., tau2-bench (2025); MIT.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError, WorldError
from .base import Evaluation, StepResult, WorldTask
from .tau2_engine import Bridge, Bridges

MAX_STEPS = 200  # messages of all sides after which the engine gives up: its own default


class Tau2:
    """The tasks of one domain of tau2-bench; use as a context manager.

    Args:
        domain: "banking_knowledge" or another that the engine registers.
        user_model: the model that plays the customer, as its endpoint names it.
        user_url: base URL of that endpoint; None for OpenAI's.
        user_temperature: of the customer.
        retrieval: the engine's way to the bank's documents. "bm25" needs no embedding service;
            the published results name theirs.
        max_turns: messages of the agent after which an episode ends.
        seconds: time that one answer may take, the customer's thinking included.
        engine: the engine's virtual environment; None for RUBRICNB_TAU2.

    The key of the customer's endpoint is read from RUBRICNB_API_KEY or OPENAI_API_KEY.
    """

    name = "tau2"
    splits = ("all",)

    def __init__(
        self,
        domain: str = "banking_knowledge",
        *,
        user_model: str = "",
        user_url: str | None = None,
        user_temperature: float = 0.0,
        retrieval: str | None = "bm25",
        max_turns: int = 100,
        seconds: float = 600.0,
        engine: str | os.PathLike[str] | None = None,
    ) -> None:
        if retrieval == "golden_retrieval":
            raise ConfigError("want a retrieval whose policy is the same for all tasks; got golden")
        self.domain, self.retrieval = domain, retrieval if domain == "banking_knowledge" else None
        self.max_turns, self.seconds = max_turns, seconds
        self._user = {"model": user_model, "url": user_url, "temperature": user_temperature}
        self.bridges = Bridges(engine, domain)
        self._tasks: tuple[WorldTask, ...] | None = None
        self._first: dict[str, Any] = {}

    def __enter__(self) -> Tau2:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine's processes."""
        self.bridges.close()

    def tasks(self, split: str = "all") -> tuple[WorldTask, ...]:
        """The domain's tasks, each a scenario of its own; what is asked, the customer says."""
        if split not in self.splits:
            raise WorldError(f"want one of the splits {self.splits}; got {split!r}")
        if self._tasks is None:
            bridge = self.bridges.borrow()
            try:
                rows = bridge.ask(self.seconds, "tasks", op="tasks")["tasks"]
            finally:
                self.bridges.give_back(bridge)
            told = "A customer writes to you."
            self._tasks = tuple(
                WorldTask(
                    *(r["id"], r["id"], split, told),
                    spec={"solution": r["solution"], "basis": r["basis"]},
                )
                for r in rows
            )
        return self._tasks

    @property
    def system(self) -> str:
        """The engine's own prompt for agents: instructions and policy. Known from an episode on."""
        return self._first.get("system", "")

    def tools(self) -> list[dict[str, Any]]:
        """The agent's tools, as the engine describes them. Known from an episode on."""
        return list(self._first.get("tools", ()))

    def user(self) -> dict[str, Any]:
        """Who plays the customer, as the engine's client wants it.

        Raises:
            WorldError: where no model was named.
        """
        if not self._user["model"]:
            raise WorldError(
                "want a model that plays the customer; got none (user_model=NAME and "
                "user_url=http://.../v1, as options of the world)"
            )
        args: dict[str, Any] = {"temperature": self._user["temperature"]}
        if self._user["url"]:
            key = os.environ.get("RUBRICNB_API_KEY") or os.environ.get("OPENAI_API_KEY")
            args |= {"api_base": self._user["url"], "api_key": key or "none"}
        return {"llm": f"openai/{self._user['model']}", "llm_args": args}

    def reset(
        self, task: WorldTask, seed: int = 0, user: Mapping[str, Any] | None = None
    ) -> Tau2Episode:
        """A fresh conversation, up to the customer's first message.

        Args:
            seed: handed to the engine, which hands it to the customer's model.
            user: who plays the customer; None for ``self.user()``. {"script": [...]} is a customer
                who says prepared things.
        """
        user = self.user() if user is None else dict(user)
        bridge = self.bridges.borrow()
        try:
            first = bridge.ask(
                self.seconds,
                "turn",
                op="play",
                task=task.id,
                user=user,
                seed=seed,
                retrieval=self.retrieval,
                max_steps=MAX_STEPS,
            )
        except BaseException:
            self.bridges.give_back(bridge)
            raise
        self._first = {"system": first["system"], "tools": first["tools"]}
        return Tau2Episode(self, task, bridge, "\n".join(g["text"] for g in first["got"]))


class Tau2Episode:
    """One conversation.

    ``opening`` is the customer's first message, ``termination`` the engine's own word for why it
    ended ("user_stop", "max_steps", ...), or "" while it goes on.
    """

    def __init__(self, world: Tau2, task: WorldTask, bridge: Bridge, opening: str) -> None:
        self.task, self.opening = task, opening
        self.done, self.termination = False, ""
        self._world, self._bridge = world, bridge
        self._end: dict[str, Any] | None = None
        self._calls = 0

    def _turn(self, text: str, calls: list[dict[str, Any]]) -> StepResult:
        if self.done or self._bridge is None:
            raise WorldError(f"want no action after the end of {self.task.id}; got {text!r}")
        wanted = ("turn", "end")
        got = self._bridge.ask(self._world.seconds, *wanted, op="turn", text=text, calls=calls)
        if got["event"] == "end":
            self._end, self.done, self.termination = got, True, got["termination"]
            self.close()
            return StepResult("", True)
        return StepResult("\n".join(g["text"] for g in got["got"]))

    def call(self, name: str, arguments: Mapping[str, Any]) -> StepResult:
        """Call one tool."""
        self._calls += 1
        call = {"id": f"call_{self._calls}", "name": name, "arguments": dict(arguments)}
        return self._turn("", [call])

    def say(self, text: str) -> StepResult:
        """Write to the customer; return the answer."""
        return self._turn(text.strip() or "...", [])

    def act(self, action: str) -> StepResult:
        """Write to the customer: this world has no other language."""
        return self.say(action)

    def snapshot(self) -> Any:
        """Not possible: the customer is a model that is not ours."""
        raise WorldError("want a world that can go back; got tau2, whose customer cannot")

    def restore(self, snapshot: Any) -> None:
        """Not possible, as ``snapshot``."""
        self.snapshot()

    def evaluate(self) -> Evaluation:
        """The verdict of the engine's own evaluator, once the conversation has ended."""
        if self._end is None:
            return Evaluation(False, {"finished": False}, "unfinished")
        success = self._end["reward"] == 1.0
        checks = {"finished": True} | {k: v == 1.0 for k, v in self._end["breakdown"].items()}
        reason = "" if success else str(self._end["info"] or self.termination)
        return Evaluation(success, checks, reason)

    def close(self) -> None:
        """Give the engine's process back; a conversation that goes on is given up."""
        bridge, self._bridge = self._bridge, None
        if bridge is None:
            return
        if not self.done and bridge.alive:
            try:
                bridge.ask(30.0, "stopped", op="stop")
            except WorldError:
                bridge.stop()
        self._world.bridges.give_back(bridge)


def replay_solution(world: Tau2, task: WorldTask) -> Evaluation:
    """Play the task's reference solution, agent's and customer's calls in order; no model is asked.

    The customer is a scripted one, so that this tries everything in the engine but its user
    simulator.
    """
    runs: list[tuple[str, list[dict[str, Any]]]] = []
    for row in task.spec["solution"]:
        if not runs or runs[-1][0] != row["by"]:
            runs.append((row["by"], []))
        runs[-1][1].append({"name": row["name"], "arguments": row["arguments"]})
    script: list[dict[str, Any]] = [{"text": "Hello."}]
    for by, calls in runs:
        if by == "user":
            script += [{"calls": [c]} for c in calls] + [{"text": "Done."}]
    episode = world.reset(task, user={"script": script})
    for by, calls in runs:
        if by == "user":
            episode.say("Please do that now.")
        else:
            for c in calls:
                episode.call(c["name"], c["arguments"])
    episode.say("That is all.")
    verdict = episode.evaluate()
    episode.close()
    return verdict
