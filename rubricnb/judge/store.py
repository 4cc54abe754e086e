"""The memory of judging: one SQLite file with a journal of replies and a cache of parsed ones.

The journal belongs to a run. Every body received is committed to it before anyone reads it, so
that a killed run repeats only the calls whose reply had not arrived. The cache is shared by all
runs of the file and holds only replies that could be read. Both are content-addressed by what an
answer depends on: base URL, model, sampling, prompt version, messages and sample.

Several processes may use one file: WAL, a busy time-out, and the first reply to a question wins.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import queue
import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import JudgeError
from ..files import canonical
from .address import reply_from_json, reply_to_json, sent, split_parts
from .protocol import Call, Reply

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, record TEXT NOT NULL, made TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS journal (
    n INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, key TEXT NOT NULL,
    phase TEXT NOT NULL, about TEXT NOT NULL, form TEXT NOT NULL, body TEXT NOT NULL,
    seconds REAL NOT NULL, made TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS journal_key ON journal (run, key);
CREATE TABLE IF NOT EXISTS cache (key TEXT PRIMARY KEY, reply TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS texts (hash TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, call TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One journalled body: ``form`` is "http" or "reply" or "failed", ``about`` the Call's key."""

    n: int
    key: str
    phase: str
    about: Mapping[str, Any]
    form: str
    body: str
    seconds: float


class Store:
    """A judge's memory in one SQLite file; safe with threads and with several processes.

    Args:
        path: the file; made, with its folder, where it is not there.
        must_exist: open a finished recording, which is then never written to.

    Raises:
        JudgeError: where the file is none of ours, or has to exist and does not.

    >>> import tempfile
    >>> with Store(tempfile.mkdtemp() + "/judge.sqlite") as store:
    ...     store.open_run("first", {"nonce": "n1"})["nonce"]
    'n1'
    """

    def __init__(self, path: str | os.PathLike[str], *, must_exist: bool = False) -> None:
        self.path = Path(path)
        if must_exist and not self.path.is_file():
            raise JudgeError(f"want a recording at {self.path}; got no such file")
        # With a WAL beside it someone may still be writing.
        wal = self.path.with_name(self.path.name + "-wal")
        self._sealed = must_exist and not (wal.exists() and wal.stat().st_size)
        if not must_exist:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = self._connect()
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._later: deque[tuple[str, tuple]] = deque()
        self._fresh: dict[str, str] = {}  # parsed replies that are on their way to the cache
        self._writer: threading.Thread | None = None
        self._owner = os.getpid()
        self._kept: set[str] = set()

    def _connect(self) -> sqlite3.Connection:
        try:
            if self._sealed:  # a recording may lie in a folder that cannot be written
                uri = f"file:{quote(str(self.path.resolve()))}?immutable=1"
                db = sqlite3.connect(uri, uri=True, check_same_thread=False)
                db.execute("SELECT count(*) FROM runs").fetchone()  # is it one of ours?
                return db
            db = sqlite3.connect(self.path, timeout=60, check_same_thread=False)
            db.isolation_level = None
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")  # a commit outlives a power cut, too
            db.executescript(_SCHEMA)
        except sqlite3.DatabaseError as e:
            raise JudgeError(f"want a judge's memory at {self.path}; got {e}") from e
        return db

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is queued and let the file go."""
        if self._later:
            self._start()
        if self._writer is not None:
            self._queue.put(None)
            self._writer.join()
            self._writer = None
        self._db.close()

    def open_run(self, run: str, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of a run: the one it was begun with, else this one, which is kept."""
        with self._lock:
            self._db.execute(
                "INSERT OR IGNORE INTO runs VALUES (?, ?, ?)", (run, canonical(record), _now())
            )
        return self.run_record(run)

    def set_run(self, run: str, record: Mapping[str, Any]) -> None:
        """Replace the record of a run."""
        with self._lock:
            self._db.execute("UPDATE runs SET record = ? WHERE run = ?", (canonical(record), run))

    def run_record(self, run: str) -> dict[str, Any]:
        """Return the record that a run was begun with.

        Raises:
            JudgeError: naming the runs that the file has.
        """
        rows = self._read("SELECT record FROM runs WHERE run = ?", run)
        if not rows:
            raise JudgeError(f"{self.path}: want one of the runs {self.runs()}; got {run!r}")
        return json.loads(rows[0][0])

    def runs(self) -> list[str]:
        """Return the names of the file's runs, oldest first."""
        return [r for (r,) in self._read("SELECT run FROM runs ORDER BY rowid")]

    def _read(self, sql: str, *values: Any) -> list[tuple]:
        try:
            with self._lock:
                return self._db.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as e:  # damaged further in
            raise JudgeError(f"want to read the judge's memory at {self.path}; got {e}") from e

    def cached(self, key: str) -> Reply | None:
        """Return the parsed reply to a question, from whichever run."""
        fresh = self._fresh.get(key)
        rows = [(fresh,)] if fresh else self._read("SELECT reply FROM cache WHERE key = ?", key)
        return reply_from_json(rows[0][0]) if rows else None

    def journalled(self, run: str, key: str) -> Row | None:
        """Return the last body that a run received for a question."""
        rows = self._read(f"{_ROWS} AND key = ? ORDER BY n DESC LIMIT 1", run, key)
        return _row(rows[0]) if rows else None

    def journal(self, run: str) -> Iterator[Row]:
        """Yield every body that a run received, in the order of arrival."""
        for row in self._read(f"{_ROWS} ORDER BY n", run):
            yield _row(row)

    def call(self, key: str) -> Call:
        """Return the call with this address as it was sent.

        Raises:
            JudgeError: where its prompt was not kept.
        """
        rows = self._read("SELECT call FROM calls WHERE key = ?", key)
        if not rows:
            raise JudgeError(f"{self.path}: want the prompt of call {key[:12]}; got none kept")
        fields = json.loads(rows[0][0])
        messages = []
        for role, *hashes in fields.pop("messages"):
            text = "".join(self._text(h) for h in hashes)
            messages.append({"role": role, "content": text})
        return Call(messages=tuple(messages), **fields)

    def _text(self, digest: str) -> str:
        [(body,)] = self._read("SELECT body FROM texts WHERE hash = ?", digest)
        return zlib.decompress(body).decode("utf-8", "surrogatepass")

    def write(self, sql: str, *values: Any) -> asyncio.Future[None]:
        """Queue one statement; the future is done when it is on disk.

        The statement is queued before this returns, so that cancelling the wait loses nothing.
        Statements queued together are committed together.
        """
        self._start()
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._queue.put((sql, values, loop, done))
        return done

    def write_later(self, sql: str, *values: Any) -> None:
        """Queue one statement that nobody waits for: it goes with the next commit, or ``close``."""
        self._later.append((sql, values))

    def _start(self) -> None:
        if self._writer is None or self._owner != os.getpid():
            self._owner = os.getpid()
            self._writer = threading.Thread(target=self._work, name="rubricnb-store", daemon=True)
            self._writer.start()

    def _work(self) -> None:
        db = self._connect()
        end = False
        while not end:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            end = None in batch
            waited = [b for b in batch if b is not None]
            later = [self._later.popleft() for _ in range(len(self._later))]
            error = _commit(db, [*later, *((sql, values) for sql, values, _, _ in waited)])
            for sql, values in later:
                if sql == _REMEMBER:
                    self._fresh.pop(values[0], None)
            loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
            for _, _, loop, done in waited:
                loops.setdefault(loop, []).append(done)
            for loop, futures in loops.items():
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_finish, futures, error)
        db.close()

    def note(self, run: str, key: str, call: Call, form: str, body: str, seconds: float):
        """Queue a received body for the journal; await the result before reading the body."""
        about = canonical(dict(call.key))
        values = (run, key, call.phase, about, form, body, seconds, _now())
        return self.write(f"INSERT INTO journal ({_FIELDS}) VALUES (?,?,?,?,?,?,?,?)", *values)

    def remember(self, key: str, reply: Reply) -> None:
        """Queue a parsed reply for the cache; the first one to a question stays."""
        text = self._fresh.setdefault(key, reply_to_json(reply))
        self.write_later(_REMEMBER, key, text)

    def keep_prompt(self, key: str, parts: list[list[str]], call: Call) -> None:
        """Queue a call as it is sent; a part that several prompts share is kept once."""
        for hashes, message in zip(parts, call.messages, strict=True):
            for digest, text in zip(hashes, split_parts(message["content"]), strict=True):
                if digest not in self._kept:
                    self._kept.add(digest)
                    body = zlib.compress(text.encode("utf-8", "surrogatepass"), 1)
                    self.write_later("INSERT OR IGNORE INTO texts VALUES (?, ?)", digest, body)
        fields = {**sent(call, parts), "phase": call.phase, "key": dict(call.key)}
        self.write_later("INSERT OR IGNORE INTO calls VALUES (?, ?)", key, canonical(fields))


_REMEMBER = "INSERT OR IGNORE INTO cache VALUES (?, ?)"
_FIELDS = "run, key, phase, about, form, body, seconds, made"
_ROWS = "SELECT n, key, phase, about, form, body, seconds FROM journal WHERE run = ?"


def _row(row: tuple) -> Row:
    n, key, phase, about, form, body, seconds = row
    return Row(n, key, phase, json.loads(about), form, body, seconds)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _commit(db: sqlite3.Connection, batch: list[tuple[str, tuple]]) -> Exception | None:
    if not batch:
        return None
    try:
        db.execute("BEGIN IMMEDIATE")
        for sql, values in batch:
            db.execute(sql, values)
        db.execute("COMMIT")
    except sqlite3.Error as e:  # a full disk, a lock held for a minute
        if db.in_transaction:
            db.execute("ROLLBACK")
        return JudgeError(f"want to write to the judge's memory; got {e}")
    return None


def _finish(futures: list[asyncio.Future[None]], error: Exception | None) -> None:
    for done in futures:
        if done.done():
            continue
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
            done.exception()  # looked at here: who does not wait for it is not told by a warning
