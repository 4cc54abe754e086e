"""AppWorld as a world: code blocks against nine everyday apps, in the engine's own process.

    rubricnb install-world appworld            # the engine, in a virtual environment of its own
    appworld download data --root DIR          # the benchmark's tasks, by the engine's command

Without the benchmark's data the engine runs on tasks of one's own; ``appworld_mini`` makes some.
Nothing of the benchmark is copied or written by this package.

Reference: Trivedi et al., AppWorld (2024); scenario goal completion is over the tasks whose ids
share the part before "_".
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import WorldError
from .appworld_engine import Server, Servers
from .base import Evaluation, StepResult, WorldTask

SYSTEM = (
    "You are an assistant with access to the apps of the person you work for (your supervisor). "
    "You act by writing Python, one block a turn; it is run and you see what it printed. Variables "
    "stay for the next block. The apps are called as apis.<app>.<api>(...); apis.api_docs has "
    "show_app_descriptions(), show_api_descriptions(app_name=...) and show_api_doc(app_name=..., "
    "api_name=...): read an API's documentation before you use it. apis.supervisor has "
    "show_profile() and show_account_passwords(); most apps want an access token from their "
    "login(username=..., password=...). Lists come in pages: read all of them. Do what is asked "
    "and change nothing else. When it is done call apis.supervisor.complete_task(), with "
    "answer=... where the task asks for one, short and exact; with status='fail' where it cannot "
    "be done. Nobody answers questions."
)


class AppWorld:
    """The tasks of a folder that AppWorld's engine understands; use as a context manager.

    Args:
        root: the folder that holds ``data``; None for APPWORLD_ROOT or the working folder.
        servers: episodes that can run at once; each is a process of about 250 MB.
        experiment: outputs go to root/experiments/outputs/<experiment>_run<seed>, where the
            engine's own ``evaluate_dataset`` finds them.
        max_turns: code blocks after which an episode ends.
        seconds: time that one code block may take.
        engine: the engine's virtual environment; None for RUBRICNB_APPWORLD or the cache.

    Raises:
        WorldError: on first use, saying how to install the engine or get the data.
    """

    name = "appworld"
    system = SYSTEM
    mode = "code"

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        *,
        servers: int = 2,
        experiment: str = "rubricnb",
        max_turns: int = 50,
        seconds: int = 100,
        engine: str | os.PathLike[str] | None = None,
    ) -> None:
        self.root = Path(root or os.environ.get("APPWORLD_ROOT") or ".").absolute()
        self.experiment, self.max_turns, self.seconds = experiment, max_turns, seconds
        self.servers = Servers(self.root, servers, Path(engine) if engine else None)

    def __enter__(self) -> AppWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the servers."""
        self.servers.close()

    @property
    def splits(self) -> tuple[str, ...]:
        """The data sets that the folder has: "train", "dev", "test_normal", ... or one's own."""
        return tuple(sorted(p.stem for p in (self.root / "data" / "datasets").glob("*.txt")))

    def tasks(self, split: str) -> tuple[WorldTask, ...]:
        """The tasks of a data set, in its order."""
        if split not in self.splits:
            raise WorldError(
                f"want a data set among {self.splits} of {self.root}; got {split!r} (the "
                f"benchmark's come from: appworld download data --root {self.root})"
            )
        text = (self.root / "data" / "datasets" / f"{split}.txt").read_text(encoding="utf-8")
        return tuple(self._task(line.strip(), split) for line in text.splitlines() if line.strip())

    def _task(self, line: str, split: str) -> WorldTask:
        id = line.split(":")[0]  # an id can carry a tag
        folder = self.root / "data" / "tasks" / id
        try:
            specs = json.loads((folder / "specs.json").read_text(encoding="utf-8"))
            boss = specs.get("supervisor") or specs["main_user"]
            who = f"{boss['first_name']} {boss['last_name']}, {boss['email']}"
            prompt = (
                f"Your supervisor: {who}, phone {boss['phone_number']}. "
                f"It is {specs['datetime']}.\n\n{specs['instruction']}"
            )
        except (OSError, ValueError, KeyError) as e:
            raise WorldError(f"{folder}/specs.json: want a task; got {e!r}") from e
        scenario = id.rsplit("_", 1)[0]
        return WorldTask(id, scenario, split, prompt, _difficulty(folder))

    def tools(self) -> list[dict[str, Any]]:
        """One function that runs code, for agents that call functions."""
        code = {"type": "string", "description": "Python code; print what you want to see"}
        parameters = {
            "type": "object",
            "properties": {"code": code},
            "required": ["code"],
            "additionalProperties": False,
        }
        about = "Run Python code against the apps and return what it printed."
        function = {"name": "execute", "description": about, "parameters": parameters}
        return [{"type": "function", "function": function}]

    def reset(self, task: WorldTask, seed: int = 0) -> AppWorldEpisode:
        """A fresh episode, in a server of its own; the seed names its folder of outputs only."""
        return AppWorldEpisode(self, task, f"{self.experiment}_run{seed}")


def _difficulty(folder: Path) -> int:
    try:
        metadata = json.loads((folder / "ground_truth" / "metadata.json").read_text("utf-8"))
        return int(metadata["difficulty"])
    except (OSError, ValueError, KeyError):
        return 0


class AppWorldEpisode:
    """One attempt at one task.

    ``blocks`` holds the code so far, ``termination`` "finished", "turn_limit" or "". An episode
    that has ended, or was closed, has been evaluated and has given its server back.
    """

    def __init__(self, world: AppWorld, task: WorldTask, experiment: str) -> None:
        self.task, self.done, self.termination = task, False, ""
        self.blocks: list[str] = []
        self._world, self._experiment = world, experiment
        self._server: Server | None = None
        self._verdict: Evaluation | None = None
        self._begin()

    def _begin(self) -> None:
        if self._server is None:
            self._server = self._world.servers.borrow()
        options = {"experiment_name": self._experiment, "timeout_seconds": self._world.seconds}
        self._ask("initialize", **options)

    def _ask(self, path: str, **body: Any) -> Any:
        if self._server is None:
            raise WorldError(f"want an episode of {self.task.id} that is open; got a closed one")
        try:
            seconds = self._world.seconds + 60.0
            return self._server.ask(path, {"task_id": self.task.id, **body}, seconds)
        except BaseException:
            self._release(stop=True)
            raise

    def _release(self, stop: bool = False) -> None:
        server, self._server = self._server, None
        if server is not None:
            if stop:
                server.stop()
            self._world.servers.give_back(server)

    def act(self, action: str) -> StepResult:
        """Run one block of code and return what it printed."""
        if self.done:
            raise WorldError(f"want no action after the end of {self.task.id}; got {action!r}")
        text = self._ask("execute", code=action)
        self.blocks.append(action)
        if self._ask("task_completed"):
            self.done, self.termination = True, "finished"
        elif len(self.blocks) >= self._world.max_turns:
            self.done, self.termination = True, "turn_limit"
        if self.done:
            self.close()
        return StepResult(text.rstrip("\n"), self.done)

    def call(self, name: str, arguments: Mapping[str, Any]) -> StepResult:
        """Run the code of a call ``execute(code=...)``."""
        if name != "execute" or not isinstance(arguments.get("code"), str):
            return StepResult("Call execute with one text, the code.", self.done)
        return self.act(arguments["code"])

    def snapshot(self) -> Any:
        """The code that was run: the engine is deterministic, so that replaying it is exact."""
        return tuple(self.blocks), self.done, self.termination

    def restore(self, snapshot: Any) -> None:
        """Start anew and run the snapshot's code again; the snapshot stays usable.

        The engine's own ``load_state`` goes back in the apps, but not in the code's variables.
        """
        blocks, done, termination = snapshot
        self.blocks, self._verdict = [], None
        self.done, self.termination = False, ""
        self._begin()
        for block in blocks:
            self._ask("execute", code=block)
        self.blocks, self.done, self.termination = list(blocks), done, termination
        if done:
            self.close()

    def evaluate(self) -> Evaluation:
        """The verdict of the engine's own evaluator on the state so far."""
        if self._verdict is not None:
            return self._verdict
        found = self._ask("evaluate", suppress_errors=True)
        checks = {p["requirement"]: True for p in found["passes"]}
        checks |= {f["requirement"]: False for f in found["failures"]}
        failed = [name for name, ok in checks.items() if not ok]
        return Evaluation(bool(found["success"]), checks, "; ".join(failed))

    def close(self) -> None:
        """Evaluate for good and give the server back; may be called again."""
        if self._server is not None:
            self._verdict = self.evaluate()
            self._release()

    def __del__(self) -> None:
        if getattr(self, "_server", None) is not None:  # abandoned: others wait for its server
            self._release()
