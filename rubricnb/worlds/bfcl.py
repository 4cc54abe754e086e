"""BFCL multi-turn as a world: the engine, the tasks and the checker of the package ``bfcl-eval``.

800 tasks over eight stateful classes of functions, in four splits of 200. A user speaks several
times; an answer without a call ends the agent's turn and brings the next message. The verdict is
the benchmark's own checker's, which replays every call beside the reference solution.

    pip install --no-deps bfcl-eval && pip install mpmath

Its full dependencies pin other versions of numpy and need vendors' clients; none is used here.

Reference: Patil et al., The Berkeley Function Calling Leaderboard (2025); Apache-2.0.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import json
import keyword
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import WorldError
from .base import Evaluation, StepResult, WorldTask
from .bfcl_calls import function_schema, parse_calls, written

SPLITS = ("base", "miss_func", "miss_param", "long_context")
STEPS_PER_TURN = 20  # the benchmark gives up when an agent calls more often without an answer
MORE_FUNCTIONS = "More functions are available to you now. Please try again with them."
SYSTEM = (
    "You do what the user asks by calling functions. Call as many as the request needs, reading "
    "their results. When nothing is left to call, answer without a call: the user then goes on. "
    "Where a needed function or value is missing, say so instead of guessing."
)
INSTALL = "pip install --no-deps bfcl-eval && pip install mpmath"
_number = itertools.count()


def _module(name: str) -> Any:
    try:
        return import_module(f"bfcl_eval.{name}")
    except ImportError as e:
        raise WorldError(f"want the package bfcl-eval; got {e} (install it: {INSTALL})") from e


@lru_cache(maxsize=1)
def _backend() -> Any:
    return _module("constants.executable_backend_config")


@lru_cache(maxsize=1)
def _data() -> Path:
    return Path(_module("constants").__path__[0]).parent / "data"


def _rows(path: Path) -> dict[str, dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, filter(None, lines))}


@lru_cache(maxsize=16)
def _functions(class_name: str) -> dict[str, dict[str, Any]]:
    name = _backend().MULTI_TURN_FUNC_DOC_FILE_MAPPING[class_name]
    lines = (_data() / "multi_turn_func_doc" / name).read_text(encoding="utf-8").splitlines()
    return {d["name"]: function_schema(d) for d in map(json.loads, filter(None, lines))}


@lru_cache(maxsize=4)
def _tasks(split: str) -> tuple[WorldTask, ...]:
    name = f"BFCL_v4_multi_turn_{split}.json"
    gold = _rows(_data() / "possible_answer" / name)
    out = []
    for id, row in _rows(_data() / name).items():
        spec = {**row, "gold": gold[id]["ground_truth"]}
        first = "\n".join(m["content"] for m in row["question"][0])
        out.append(WorldTask(id, id, split, first, spec=spec))
    return tuple(out)


class BfclMultiTurn:
    """BFCL's multi-turn tasks; each task is a scenario of its own.

    Raises:
        WorldError: where ``bfcl-eval`` is not installed, on first use.

    >>> BfclMultiTurn().tasks("nothing")
    Traceback (most recent call last):
    rubricnb.errors.WorldError: want one of the splits ('base', ...); got 'nothing'
    """

    name = "bfcl"
    system = SYSTEM
    max_turns = 7 * (STEPS_PER_TURN + 2)  # at most seven user messages a task
    splits = SPLITS

    def tasks(self, split: str) -> tuple[WorldTask, ...]:
        """The 200 tasks of a split, in the benchmark's order."""
        if split not in SPLITS:
            raise WorldError(f"want one of the splits {SPLITS}; got {split!r}")
        return _tasks(split)

    def tools(self) -> list[dict[str, Any]]:
        """Every function of the multi-turn classes; an episode offers those of its task."""
        config = _backend()
        names = [c for c in config.CLASS_FILE_PATH_MAPPING if "Memory" not in c and "Web" not in c]
        return [f for c in names for f in _functions(c).values()]

    def reset(self, task: WorldTask, seed: int = 0) -> BfclEpisode:
        """A fresh episode; nothing in it is random, so the seed changes nothing."""
        return BfclEpisode(task)


class BfclEpisode:
    """One attempt at one task.

    ``steps`` holds, for each user message, the calls of each of the agent's turns as the checker
    wants them; ``termination`` is "finished", "turn_limit" or "".
    """

    def __init__(self, task: WorldTask) -> None:
        self.task, self.done, self.termination = task, False, ""
        self.steps: list[list[list[str]]] = [[]]
        self._turn, self._grouped = 0, False
        spec, config = task.spec, _backend()
        self._objects: dict[str, Any] = {}
        for name in spec["involved_classes"]:
            module = import_module(config.CLASS_FILE_PATH_MAPPING[name])
            self._objects[name] = made = getattr(module, name)()
            if name not in config.STATELESS_CLASSES:
                state = copy.deepcopy(spec["initial_config"].get(name, {}))
                made._load_scenario(state, long_context=task.split == "long_context")

    def _methods(self) -> dict[str, Any]:
        return {
            name: method
            for made in self._objects.values()
            for name, method in inspect.getmembers(made, predicate=inspect.ismethod)
            if not name.startswith("_")
        }

    def tools(self) -> list[dict[str, Any]]:
        """The functions that the task offers by now: some are held back until a later message."""
        late = self.task.spec.get("missed_function", {})
        hidden = {n for turn, names in late.items() if int(turn) > self._turn for n in names}
        schemas = [f for c in self._objects for f in _functions(c).values()]
        return [f for f in schemas if f["function"]["name"] not in hidden]

    def new_turn(self) -> None:
        """The calls up to the next ``new_turn`` are of one assistant message."""
        self.steps[-1].append([])
        self._grouped = True

    def act(self, action: str) -> StepResult:
        """Make the calls of one message written in Python, such as ``ls(a=True)`` or a list.

        Only literals may be arguments; nothing else in the text is ever run.
        """
        try:
            calls = parse_calls(action)
        except ValueError as e:
            return StepResult(f"Error during execution: {e}")
        self.new_turn()
        answers = []
        for name, args, kwargs in calls:
            if not self.done:
                answers.append(self._call(name, args, kwargs).text)
        self._grouped = False
        return StepResult("\n".join(answers), self.done)

    def call(self, name: str, arguments: Mapping[str, Any]) -> StepResult:
        """Make one function call."""
        return self._call(name, (), arguments)

    def _call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> StepResult:
        self._open(name)
        method = self._methods().get(name)
        bad = [k for k in kwargs if not str(k).isidentifier() or keyword.iskeyword(k)]
        if method is None or bad:
            # Kept from the checker, which would evaluate any text as code.
            what = f"no function {name!r}" if method is None else f"no argument {bad[0]!r}"
            return StepResult(f"Error during execution: {what}", self.done)
        if not self._grouped:
            self.steps[-1].append([])
        self.steps[-1][-1].append(written(name, args, kwargs))
        try:
            answer = _answer(method(*args, **kwargs))
        except Exception as e:
            answer = f"Error during execution: {e}"
        if len(self.steps[-1]) > STEPS_PER_TURN:
            self.done, self.termination = True, "turn_limit"
        return StepResult(answer, self.done)

    def say(self, text: str) -> StepResult:
        """Answer the user without a call; return the user's next message, if there is one."""
        self._open(text)
        self._turn += 1
        self._grouped = False
        messages = self.task.spec["question"]
        if self._turn >= len(messages):
            self.done, self.termination = True, "finished"
            return StepResult("", True)
        self.steps.append([])
        said = "\n".join(m["content"] for m in messages[self._turn])
        return StepResult(said or MORE_FUNCTIONS)

    def _open(self, action: str) -> None:
        if self.done:
            raise WorldError(f"want no action after the end of {self.task.id}; got {action!r}")

    def snapshot(self) -> Any:
        """Everything that changes during an episode, copied."""
        fields = (self._objects, self.steps, self._turn, self._grouped)
        return copy.deepcopy(fields), (self.done, self.termination)

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot of this episode; the snapshot stays usable."""
        fields, (self.done, self.termination) = snapshot
        self._objects, self.steps, self._turn, self._grouped = copy.deepcopy(fields)

    def evaluate(self) -> Evaluation:
        """The verdict of the benchmark's own checker on the calls made so far."""
        spec, gold = self.task.spec, self.task.spec["gold"]
        if self.termination != "finished":
            return Evaluation(False, {"finished": False}, self.termination or "unfinished")
        steps = [[s for s in turn if s] for turn in self.steps]
        found = _check(steps, gold, {k: spec[k] for k in spec if k != "gold"})
        error = "" if found["valid"] else found["error_type"].removeprefix("multi_turn:")
        checks = {"finished": True, "calls every turn": error != "empty_turn_model_response"}
        if checks["calls every turn"]:  # the checker stops at the first thing that is wrong
            checks["state"] = error != "instance_state_mismatch"
            if checks["state"]:
                checks["results"] = not error
        reason = "" if found["valid"] else f"{error}: {found['error_message']}"
        return Evaluation(bool(found["valid"]), checks, reason)


def _answer(value: Any) -> str:
    """Return a function's value as the benchmark shows it to an agent."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            return str(value)
    return str(value)


def _check(steps: list, gold: list, entry: dict[str, Any]) -> dict[str, Any]:
    checker = _module("eval_checker.multi_turn_eval.multi_turn_checker")
    utils = _module("eval_checker.multi_turn_eval.multi_turn_utils")
    # It keeps its objects in its module's globals, by model name: a name of our own per check
    # keeps episodes apart, and they are taken out again.
    name = f"rubricnb{next(_number)}"
    try:
        return checker.multi_turn_checker(steps, gold, entry, "multi_turn", name)
    finally:
        for key in [k for k in list(vars(utils)) if k.startswith(f"{name}_")]:
            vars(utils).pop(key, None)


def replay_gold(episode: BfclEpisode) -> Evaluation:
    """Play the benchmark's reference solution and return the verdict on it."""
    for calls in episode.task.spec["gold"]:
        if calls:
            episode.act(f"[{', '.join(calls)}]")
        episode.say("Done.")
    return episode.evaluate()
