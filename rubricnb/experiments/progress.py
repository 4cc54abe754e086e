"""Progress of many trainings: a bar at a terminal, lines of text anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from tqdm.std import tqdm

EVERY = 15.0  # Seconds between lines of text.


def clock(seconds: float) -> str:
    """Return minutes and seconds.

    >>> clock(125)
    '2:05'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Progress:
    """Counts trainings and steps and says how long the rest may take."""

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self._say = say
        self._bar: tqdm | None = None
        self._start = self._last = time.monotonic()
        self._total = self._done = self._steps = 0
        self._fresh = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def say(self, line: str) -> None:
        """Write one line without tearing the bar."""
        if self._say is not None:
            self._say(line)
        elif self._bar is not None:
            self._bar.write(line)
        else:
            print(line, flush=True)

    def start(self, total: int, reused: int, steps: int) -> None:
        """Begin: so many trainings, of which some are reused, of so many steps each."""
        self._total, self._done, self._steps = total, reused, max(steps, 1)
        self._start = self._last = time.monotonic()
        self.say(f"{total} trainings: {reused} finished and verified, {total - reused} to do")
        if self._say is None and sys.stderr.isatty() and reused < total:
            self._bar = tqdm(total=total, initial=reused, unit="training", file=sys.stderr)

    def finished(self, key: object, seconds: float) -> None:
        """One training has ended well."""
        self._done += 1
        self._fresh += 1
        if self._bar is not None:
            self._bar.update(1)
        self.say(f"{key}: done in {clock(seconds)} ({self._done} of {self._total})")

    def tick(self, running: Mapping[str, int]) -> None:
        """Show what is running, with its steps, now and then."""
        if self._bar is not None:
            self._bar.set_postfix_str(
                ", ".join(f"{k} {n}/{self._steps}" for k, n in running.items())
            )
            return
        now = time.monotonic()
        if running and now - self._last >= EVERY:
            self._last = now
            text = ", ".join(f"{k} step {n}/{self._steps}" for k, n in running.items())
            self.say(f"{text}; {self._left(now, running)}")

    def _left(self, now: float, running: Mapping[str, int]) -> str:
        part = sum(min(n / self._steps, 1.0) for n in running.values())
        work = self._fresh + part
        if work < 0.5:
            return "time left not known yet"
        left = (now - self._start) * (self._total - self._done - part) / work
        return f"about {clock(max(left, 0))} left"
