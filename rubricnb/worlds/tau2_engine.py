"""tau2-bench's engine in an environment of its own: found, started, spoken to in lines of JSON."""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

from ..errors import WorldError

INSTALL = (
    "it is on no package index: clone github.com/sierra-research/tau2-bench, make a virtual "
    "environment with Python 3.12, pip install -e '.[knowledge]' there, and set RUBRICNB_TAU2 to "
    "that environment's folder"
)
START_SECONDS = 180.0


def python_of(folder: str | os.PathLike[str] | None) -> Path:
    """Return the interpreter of the engine's environment: the folder, else RUBRICNB_TAU2.

    Raises:
        WorldError: saying how to install the engine, where there is none.
    """
    given = folder or os.environ.get("RUBRICNB_TAU2")
    if not given:
        raise WorldError(f"want tau2-bench; got no RUBRICNB_TAU2 ({INSTALL})")
    python = Path(given) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        raise WorldError(f"want an interpreter at {python}; got none ({INSTALL})")
    return python


class Bridge:
    """One process of the engine; it plays one task at a time."""

    def __init__(self, python: Path, domain: str) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (read while the process lives)
        self._process = subprocess.Popen(
            [python, "-P", Path(__file__).with_name("tau2_bridge.py"), domain],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            bufsize=1,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.read(START_SECONDS, "ready")

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def read(self, seconds: float, *wanted: str) -> dict[str, Any]:
        """Return the next answer, one of the wanted events.

        Raises:
            WorldError: with the engine's own words, for an error, silence or the end.
        """
        try:
            line = self._lines.get(timeout=seconds)
            got = json.loads(line) if line else {"event": "end of the process"}
        except queue.Empty:
            got = {"event": f"nothing in {seconds:g} s"}
        except ValueError:
            got = {"event": "no JSON"}
        if got["event"] in wanted:
            return got
        text = got.get("text") or self.log()
        if got["event"] != "error":
            self.stop()  # what it does now is not known
        raise WorldError(f"tau2-bench: want {' or '.join(wanted)}; got {got['event']}: {text}")

    def ask(self, seconds: float, *wanted: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return the next answer."""
        try:
            self._process.stdin.write(json.dumps(fields) + "\n")
            self._process.stdin.flush()
        except OSError as e:
            raise WorldError(f"tau2-bench: want a running engine; got {e}: {self.log()}") from e
        return self.read(seconds, *wanted)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def log(self) -> str:
        """Return the end of what the engine said."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace").strip()[-600:] or "no log"

    def stop(self) -> None:
        """End the process; may be called again."""
        if self.alive:
            self._process.kill()
        self._process.wait(timeout=30)


class Bridges:
    """Processes of the engine, each lent to one episode; started when none is free."""

    def __init__(self, folder: str | os.PathLike[str] | None, domain: str) -> None:
        self.folder, self.domain = folder, domain
        self._lock = threading.Lock()
        self._free: list[Bridge] = []
        self._all: list[Bridge] = []
        atexit.register(self.close)

    def borrow(self) -> Bridge:
        """Return a process that nobody else has."""
        with self._lock:
            while self._free:
                if (bridge := self._free.pop()).alive:
                    return bridge
        bridge = Bridge(python_of(self.folder), self.domain)
        with self._lock:
            self._all.append(bridge)
        return bridge

    def give_back(self, bridge: Bridge) -> None:
        """Let others have a process."""
        with self._lock:
            if bridge.alive:
                self._free.append(bridge)

    def close(self) -> None:
        """Stop every process; may be called again."""
        with self._lock:
            bridges, self._all, self._free = self._all, [], []
        for bridge in bridges:
            bridge.stop()
