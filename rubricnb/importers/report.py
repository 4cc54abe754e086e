"""What an import met, placed, mended and left out, by line: nothing goes missing in silence.

The unit is the message: a chat message, an event, a tool result inside a larger record. Every one
that a reader meets is placed (in the task, as a step, as an observation, or joined to a step that
an earlier one began) or dropped with a reason, so that

    messages = task + steps + observations + joined + dropped
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

KEPT_PLACES = 20  # places remembered for one reason, so that a report of a long file stays small
KEPT_REASONS = 500


@dataclass(slots=True)
class Dropped:
    """One reason for leaving messages out: how many, and the first places."""

    count: int = 0
    places: list[str] = field(default_factory=list)

    def add(self, place: str, count: int) -> None:
        self.count += count
        if place and len(self.places) < KEPT_PLACES:
            self.places.append(place)


@dataclass(slots=True)
class Report:
    """The account of one import, filled while trajectories are drawn from it.

    Args:
        format: name of the importer; confidence: how sure the recognition was, in [0, 1].
        why: what the recognition went by.
        records: lines, array items or files that were read.
        trajectories: how many came out.
        messages: how many messages the records held, counted where they are met.
        placed: messages by where they went: "task", "step", "observation", "joined".
        dropped: reason -> count and first places.
        warnings: text -> count and first places, for what was mended or guessed.
        mended: replacements by kind: "ansi", "nul", "surrogate", "bytes", "image", ...
        redacted: replacements by kind: "email", "key", "phone", "pattern 1", ...
        fields: source fields that were not carried over -> how often.
        scrub: what reasons, warnings and names of fields go through: words of the log are in them.
        inside: the file of a folder that is being read; places begin with it.
    """

    path: str = ""
    format: str = ""
    confidence: float = 1.0
    why: str = ""
    records: int = 0
    trajectories: int = 0
    messages: int = 0
    placed: Counter[str] = field(default_factory=Counter)
    dropped: dict[str, Dropped] = field(default_factory=dict)
    warnings: dict[str, Dropped] = field(default_factory=dict)
    mended: Counter[str] = field(default_factory=Counter)
    redacted: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    inside: str = ""
    scrub: Callable[[str], str] = str

    def met(self, count: int = 1) -> None:
        """Count messages where the source holds them."""
        self.messages += count

    def place(self, where: str, count: int = 1) -> None:
        """Count messages that went to "task", "step", "observation" or "joined"."""
        self.placed[where] += count

    def drop(self, place: str | int, reason: str, count: int = 1) -> None:
        """Count messages that are left out, with the reason and where they were."""
        self._add(self.dropped, place, reason, count)

    def damaged(self, place: str | int, reason: str) -> None:
        """Count a record that could not be read as one message met and dropped."""
        self.met()
        self.drop(place, reason)

    def mend(self, kind: str, count: int = 1) -> None:
        """Count replacements of one kind."""
        if count:
            self.mended[kind] += count

    def warn(self, place: str | int, text: str) -> None:
        """Remember what was mended or guessed, and where."""
        self._add(self.warnings, place, text, 1)

    def _add(self, into: dict[str, Dropped], place: str | int, text: str, count: int) -> None:
        text = self.scrub(text)
        text = text if text in into or len(into) < KEPT_REASONS else "other reasons"
        place = f"line {place}" if isinstance(place, int) else place
        place = f"{self.inside}: {place}".removesuffix(": ") if self.inside else place
        into.setdefault(text, Dropped()).add(place, count)

    @property
    def dropped_count(self) -> int:
        """How many messages were left out."""
        return sum(d.count for d in self.dropped.values())

    @property
    def balanced(self) -> bool:
        """Whether every message that was met is placed or dropped."""
        return self.messages == sum(self.placed.values()) + self.dropped_count

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        return {
            "path": self.path,
            "format": self.format,
            "confidence": round(self.confidence, 3),
            "why": self.why,
            "records": self.records,
            "trajectories": self.trajectories,
            "messages": self.messages,
            "placed": dict(self.placed),
            "dropped": _plain(self.dropped),
            "warnings": _plain(self.warnings),
            "mended": dict(self.mended),
            "redacted": dict(self.redacted),
            "fields_not_carried": dict(self.fields),
            "balanced": self.balanced,
        }

    def __str__(self) -> str:
        p = self.placed
        lines = [
            f"format        {self.format} ({self.confidence:.0%} sure: {self.why})",
            f"trajectories  {self.trajectories} from {self.records} records",
            f"messages      {self.messages} = {p['task']} in tasks + {p['step']} steps"
            f" + {p['observation']} observations + {p['joined']} joined to a step"
            f" + {self.dropped_count} dropped" + ("" if self.balanced else "  (NOT BALANCED)"),
        ]
        lines += _listed("dropped", self.dropped)
        lines += _listed("warning", self.warnings)
        for title, counts in (
            ("mended", self.mended),
            ("redacted", self.redacted),
            ("not carried", self.fields),
        ):
            if counts:
                shown = ", ".join(f"{k}: {n}" for k, n in counts.most_common(30))
                lines.append(f"{title:<13} {shown}")
        return "\n".join(lines)


def _plain(into: Mapping[str, Dropped]) -> dict[str, Any]:
    return {k: {"count": d.count, "places": list(d.places)} for k, d in into.items()}


def _listed(title: str, into: Mapping[str, Dropped]) -> list[str]:
    out = []
    for text, d in into.items():
        places = ", ".join(d.places[:8]) + (", ..." if d.count > 8 and len(d.places) > 8 else "")
        out.append(f"{title:<13} {d.count} x {text}" + (f" ({places})" if places else ""))
    return out
