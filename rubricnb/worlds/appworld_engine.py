"""AppWorld's engine in a virtual environment of its own: found, made, served, asked.

The engine pins pydantic 1 and freezes the clock of its process, so that it cannot be imported
beside this package. One server holds one active task; a pool lends servers.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import WorldError

VERSION = "0.1.3.post1"
HERE = Path(__file__).parent
START_SECONDS = 120.0  # importing the engine takes seconds, on a busy machine many


def engine_folder() -> Path:
    """Return the engine's virtual environment: RUBRICNB_APPWORLD, else in the user's cache."""
    if given := os.environ.get("RUBRICNB_APPWORLD"):
        return Path(given)
    root = os.environ.get("RUBRICNB_CACHE") or Path.home() / ".cache" / "rubricnb"
    return Path(root) / f"appworld-{VERSION}"


def python_of(folder: Path) -> Path:
    """Return the interpreter of a virtual environment that holds the unpacked engine.

    Raises:
        WorldError: saying how to make one, where there is none.
    """
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    unpacked = list(folder.glob("lib*/**/site-packages/appworld/apps/supervisor/apis.py"))
    if not python.exists() or not unpacked:
        raise WorldError(
            f"want AppWorld's engine in {folder}; got none (rubricnb install-world appworld makes "
            "it, RUBRICNB_APPWORLD names another virtual environment)"
        )
    return python


def install(folder: Path | None = None) -> Path:
    """Make the engine's virtual environment, where it is not there yet, and return its folder.

    Needs a package index and about 230 MB; the engine unpacks the rest itself, offline.

    Raises:
        WorldError: with the end of what pip or the engine said.
    """
    folder = engine_folder() if folder is None else folder
    try:
        python_of(folder)
        return folder
    except WorldError:
        pass
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(python, "-m", "pip", "install", "--quiet", f"appworld=={VERSION}", root=folder)
    run(python, "-m", "appworld.cli", "install", root=folder)
    python_of(folder)
    return folder


def run(python: Path, *words: str, root: Path, given: str = "", seconds: float = 900.0) -> str:
    """Return what a command of the engine's environment printed.

    Raises:
        WorldError: with the end of what it said, where it failed or took too long.
    """
    try:
        done = subprocess.run(
            [python, *words],
            input=given,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=_environment(root),
        )
    except subprocess.TimeoutExpired:
        raise WorldError(f"{' '.join(words[:3])}: want an end in {seconds:g} s; got none") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-600:]
        raise WorldError(f"{' '.join(words[:3])}: want exit 0; got {done.returncode}: {said}")
    return done.stdout


def _environment(root: Path) -> dict[str, str]:
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    own = {k: v for k, v in os.environ.items() if k not in hidden}
    return {**own, "APPWORLD_ROOT": str(root), "APPWORLD_CACHE": str(engine_folder() / "cache")}


class Server:
    """One process of the engine, on a loopback port of its own.

    Args:
        python: of the engine's environment.
        root: the folder that holds ``data``.
    """

    def __init__(self, python: Path, root: Path) -> None:
        self.root = root
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (read while the server lives)
        self._process = subprocess.Popen(
            # -P: this folder holds modules named as the engine's
            [python, "-P", HERE / "appworld_launch.py", root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=_environment(root),
            cwd=root,
        )
        self.url = f"http://127.0.0.1:{self._port()}"

    def _port(self) -> int:
        lines: queue.Queue[bytes] = queue.Queue()
        read = self._process.stdout.readline
        threading.Thread(target=lambda: lines.put(read()), daemon=True).start()
        try:
            return json.loads(lines.get(timeout=START_SECONDS))["port"]
        except (queue.Empty, ValueError, KeyError) as e:
            self.stop()
            raise WorldError(f"want a port from AppWorld's server; got none: {self.log()}") from e

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def healthy(self, seconds: float = 10.0) -> bool:
        """Return whether the server runs and answers."""
        try:
            with urllib.request.urlopen(self.url, timeout=seconds) as answer:
                return self.alive and answer.status == 200
        except OSError:
            return False

    def ask(self, path: str, body: Mapping[str, Any], seconds: float = 120.0) -> Any:
        """Return the "output" that the engine answers to a POST.

        A server that does not answer in time is stopped: what it holds is not known any more.

        Raises:
            WorldError: with the end of the server's log.
        """
        data = json.dumps(dict(body)).encode("utf-8", "surrogatepass")
        header = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.url}/{path}", data, header)
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return json.load(answer)["output"]
        except urllib.error.HTTPError as e:
            what = f"status {e.code}: {e.read(300).decode(errors='replace')}"
        except (OSError, ValueError, KeyError) as e:
            what = f"{type(e).__name__}: {e}"
            self.stop()
        raise WorldError(
            f"AppWorld {path} of {body.get('task_id')}: want an answer within {seconds:g} s; "
            f"got {what}; {self.log()}"
        )

    def log(self) -> str:
        """Return the end of what the server said."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace").strip()[-600:] or "no log"

    def stop(self) -> None:
        """End the process; may be called again."""
        if self.alive:
            self._process.kill()
        self._process.wait(timeout=30)


class Servers:
    """At most ``most`` servers, started when they are needed; each is lent to one episode."""

    def __init__(self, root: Path, most: int = 2, folder: Path | None = None) -> None:
        self.root, self.most, self.folder = root, most, folder or engine_folder()
        self._free: list[Server] = []
        self._slots = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._all: list[Server] = []
        atexit.register(self.close)

    def borrow(self, seconds: float = 3600.0) -> Server:
        """Return a server that nobody else has; wait while all are lent.

        Raises:
            WorldError: where none comes back in time or none can be started.
        """
        if not self._slots.acquire(timeout=seconds):
            raise WorldError(f"want one of {self.most} AppWorld servers; got none in {seconds:g} s")
        try:
            with self._lock:
                while self._free:
                    if (server := self._free.pop()).alive:
                        return server
            server = Server(python_of(self.folder), self.root)
            with self._lock:
                self._all.append(server)
            return server
        except BaseException:
            self._slots.release()
            raise

    def give_back(self, server: Server) -> None:
        """Let others have a server, or its place where it has died."""
        with self._lock:
            if server.alive:
                self._free.append(server)
        self._slots.release()

    def close(self) -> None:
        """Stop every server; may be called again."""
        with self._lock:
            servers, self._all, self._free = self._all, [], []
        for server in servers:
            server.stop()
