"""What a model thought aloud, taken out of its reply: in one pass, by tags of any family."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

_NAMES = (
    "think|thinking|thought|thoughts|reasoning|reflection|scratchpad|seed:think|analysis"
    "|inner_monologue|deliberation"
)
# A tag of thinking, opening or closing. Harmony's channels are tags, too: "final" closes.
_TAG = re.compile(
    rf"<(?P<end>/)?(?P<name>{_NAMES})(?:\s[^<>]{{0,200}})?>|\[(?P<end1>/)?THINK\]"
    r"|<\|(?P<end2>/)?think\|>|\u25c1(?P<end3>/)?think\u25b7"
    r"|<\|(?:begin|start|(?P<end4>end))_(?:of_)?(?P<name4>thought|thinking)\|>"
    r"|<\|channel\|>(?:(?P<end5>final)[^<>{}]{0,80}<\|message\|>|(?:analysis|commentary)\b)",
    re.IGNORECASE,
)


def without_thinking(text: str, quoted: Iterator[tuple[int, int]]) -> str | None:
    """Return the text without what was thought, None where the thinking never ends.

    A closing tag without an opening one ends the thinking, too.

    Args:
        text: a reply as it came.
        quoted: spans of the text, in order, in which a tag is a quotation and no tag.

    >>> without_thinking("<think>pass?</think>fail", iter(()))
    'fail'
    >>> without_thinking("<analysis>pass", iter(())) is None
    True
    """
    if not _TAG.search(text):
        return text
    said: list[str] = []
    opened: list[tuple[str, int]] = []  # tags not closed, and how much was said before each
    at = 0
    for tag in _outside(_TAG.finditer(text), quoted):
        said.append(text[at : tag.start()])
        at = tag.end()
        name = (tag["name"] or tag["name4"] or tag[0][1:].strip("/|>]\u25b7")).lower()
        name = "channel" if tag[0].lower().startswith("<|channel") else name
        if not any(v for k, v in tag.groupdict().items() if k.startswith("end")):
            opened.append((name, len(said)))
        elif name in (names := [n for n, _ in opened]):
            first = names.index(name)
            del said[opened[first][1] :]
            del opened[first:]
        elif not opened:
            said.clear()  # closed without an opening tag: all of it was thought
    if opened:
        return None
    return "\n".join([*said, text[at:]]).strip()


def _outside(
    tags: Iterable[re.Match[str]], spans: Iterator[tuple[int, int]]
) -> Iterator[re.Match[str]]:
    """The tags that stand in none of the spans, both in order."""
    low, high = next(spans, (math.inf, math.inf))
    for tag in tags:
        while high <= tag.start():
            low, high = next(spans, (math.inf, math.inf))
        if tag.start() < low:
            yield tag
