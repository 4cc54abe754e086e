"""Ids of trajectories that differ within a file, in bounded memory."""

from __future__ import annotations

LIMIT = 200_000


class Ids:
    """Hands out ids; one that is missing or was given before gets its line.

    >>> ids = Ids()
    >>> ids.new("a", 1), ids.new("a", 2), ids.new("", 3)
    ('a', 'a#2', '#3')
    """

    def __init__(self) -> None:
        self._given: set[str] = set()

    def new(self, wanted: str, line: int) -> str:
        """Return the id wanted, made to differ from all before by the line it is on."""
        wanted = wanted[:200]
        # Past the limit ids are no longer remembered, so every one gets its line.
        if not wanted or wanted in self._given or len(self._given) >= LIMIT:
            wanted = f"{wanted}#{line}"
            stem, n = wanted, 2
            while wanted in self._given:
                wanted, n = f"{stem}.{n}", n + 1
        if len(self._given) < LIMIT:
            self._given.add(wanted)
        return wanted
