"""Where in a rollout a judge's quotation stands."""

from __future__ import annotations

import re
import unicodedata

from .render import Prepared

_MARKS = str.maketrans(dict.fromkeys('"`´‘’‚“”„«»‹›', "'") | {"…": "...", "–": "-", "—": "-"})
_ESCAPE = re.compile(r"\\(?:[nrt]|(?=[\"'\\/]))")
_LABEL = re.compile(r"^\s*(?:S\d+|step \d+)\b[^:]{0,40}:\s*", re.IGNORECASE)
LEAST = 6  # shorter quotations stand anywhere and prove nothing


def normal(text: str) -> str:
    """Return text as quotations are compared: spaces, escapes, quote marks and case aside.

    >>> normal('He said\\\\n“Yes”') == normal("he said 'yes'")
    True
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(_ESCAPE.sub(" ", text).translate(_MARKS).casefold().replace("\\", "").split())


class Quotes:
    """The steps of one rollout, ready to look quotations up in."""

    def __init__(self, prepared: Prepared) -> None:
        texts: dict[int, list[str]] = {}
        for b in prepared.blocks:
            texts.setdefault(b.step, []).append(f"{b.head}\n{b.text}")
        self._steps = [(n, normal("\n".join(t))) for n, t in texts.items()]

    def first_step(self, quote: str) -> int | None:
        """Return the first step that holds the quotation, 0 where it is too short to tell,
        None where no step holds it. Parts around "..." may stand in different places."""
        parts = [p.strip(" '.") for p in normal(_LABEL.sub("", quote)).split("...")]
        parts = [p for p in parts if len(p) >= LEAST]
        if not parts:
            return 0
        places = [next((n for n, t in self._steps if p in t), None) for p in parts]
        return None if None in places else min(places)
