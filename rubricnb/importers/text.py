"""Text of a log as text of a value: parts joined, images named, control codes replaced once.

Content comes as a string, as a list of parts of a dozen dialects, as None or as something else
again; here it becomes text and thinking. What is replaced is counted in the report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from .report import Report

SUSPECT = re.compile("[\x00\x1b\x9b\ud800-\udfff]")
ANSI = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    "|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)"  # OSC: titles, links
    "|\x1b[PX^_][^\x1b]*\x1b\\\\"  # DCS and its kin
    "|\x1b[()*+\\-./][0-9A-Za-z]"  # character sets
    "|\x1b[0-9@-Z\\\\-_a-z=><]"  # two-character codes
    "|[\x1b\x9b]"  # what is left of a cut code
)
BYTE = re.compile("[\udc80-\udcff]")  # how the source marks a byte that it cannot decode
SURROGATE = re.compile("[\ud800-\udfff]")
THINK = re.compile(r"\s*<(think|thinking)>(.*?)(?:</\1>|\Z)", re.DOTALL)
DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,[A-Za-z0-9+/=_-]*")

DEEPEST = 60  # levels of a value that are kept as such

IMAGES = {"image", "image_url", "input_image", "output_image", "image_file"}
AUDIO = {"audio", "input_audio", "output_audio", "audio_url"}
FILES = {"file", "input_file", "document", "container_upload", "video", "video_url", "data"}
THOUGHTS = {"thinking", "reasoning", "reasoning_text", "summary_text", "thought"}


def clean(text: str, report: Report) -> str:
    """Return text without ANSI codes, NULs, lone surrogates and data URLs; count each.

    ANSI codes are removed; a NUL or a lone surrogate becomes U+FFFD, a data URL "[image]" or
    "[data]".

    >>> report = Report()
    >>> clean("\\x1b[31mred\\x1b[0m \\x00", report), dict(report.mended)
    ('red �', {'ansi': 2, 'nul': 1})
    """
    if SUSPECT.search(text):
        text, n = ANSI.subn("", text)
        report.mend("ansi", n)
        report.mend("nul", text.count("\x00"))
        text, n = BYTE.subn("\ufffd", text.replace("\x00", "\ufffd"))
        report.mend("byte that is not UTF-8", n)
        text, n = SURROGATE.subn("\ufffd", text)
        report.mend("surrogate", n)
    if ";base64," in text:
        text, n = DATA_URL.subn(_placeholder, text)
        report.mend("data URL", n)
    return text


def _placeholder(match: re.Match[str]) -> str:
    return "[image]" if (match[1] or "").startswith("image") else "[data]"


def clean_value(value: Any, report: Report, depth: int = 0) -> Any:
    """Return JSON types with every string in them cleaned, keys too.

    What lies deeper than ``DEEPEST`` becomes its JSON as text, so that no walk over a value ever
    runs out of stack.
    """
    if isinstance(value, str):
        return clean(value, report)
    if depth >= DEEPEST and isinstance(value, (Mapping, list, tuple)):
        report.mend("nested too deep, kept as text")
        return clean(as_json(value), report)
    if isinstance(value, Mapping):
        return {clean(str(k), report): clean_value(v, report, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_value(v, report, depth + 1) for v in value]
    if isinstance(value, float) and value != value:
        return None
    return value


def as_json(value: Any) -> str:
    """Return a value as JSON text in its own letters; a string is returned as it is."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "[a value nested too deep to write]"


def flatten(content: Any, report: Report) -> tuple[str, str]:
    """Return (text, thinking) of a message's content, both cleaned.

    Parts of text are joined by a space within a line of prose and by nothing where a part brings
    its own line break; images, audio and files become "[image]", "[audio]", "[file]"; an unknown
    part becomes its JSON. Null parts are left out.

    >>> flatten([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}, None],
    ...         Report())
    ('look [image]', '')
    """
    said: list[str] = []
    thought: list[str] = []
    _walk(content, said, thought, report)
    text = _join(said)
    text, inline = split_thinking(clean(text, report))
    thinking = "\n".join([*(clean(t, report) for t in thought), *([inline] if inline else [])])
    return text, thinking


def _walk(
    content: Any, said: list[str], thought: list[str], report: Report, depth: int = 0
) -> None:
    if content is None:
        return
    if depth >= DEEPEST and not isinstance(content, str):
        report.mend("nested too deep, kept as text")
        said.append(as_json(content))
        return
    if isinstance(content, str):
        said.append(content)
    elif isinstance(content, list):
        for part in content:
            _walk(part, said, thought, report, depth + 1)
    elif isinstance(content, dict):
        _part(content, said, thought, report, depth + 1)
    else:
        said.append(as_json(content))


def _part(
    part: dict[str, Any], said: list[str], thought: list[str], report: Report, depth: int
) -> None:
    kind = str(part.get("type") or "")
    if kind in THOUGHTS:
        own = _first(part, "thinking", "reasoning", "text", "summary", "content")
        _walk(own, thought, [], report, depth)
    elif kind in ("redacted_thinking", "encrypted_reasoning"):
        thought.append("[redacted thinking]")
        report.mend("redacted thinking")
    elif kind in IMAGES or (not kind and ("image_url" in part or "image" in part)):
        said.append("[image]")
        report.mend("image")
    elif kind in AUDIO:
        transcript = part.get("transcript") or (part.get("input_audio") or {})
        said.append(transcript if isinstance(transcript, str) else "[audio]")
        report.mend("audio")
    elif kind in FILES and not isinstance(part.get("text"), str):
        name = part.get("filename") or part.get("title") or part.get("name")
        said.append(f"[file {name}]" if isinstance(name, str) else "[file]")
        report.mend("file")
    elif "text" in part:
        text = part["text"]
        text = text.get("value") if isinstance(text, dict) else text
        _walk(text, said, thought, report, depth)
    elif "refusal" in part:
        _walk(part["refusal"], said, thought, report, depth)
    elif "content" in part:
        _walk(part["content"], said, thought, report, depth)
    else:
        said.append(as_json(part))


def _first(mapping: Mapping[str, Any], *names: str) -> Any:
    for name in names:
        if mapping.get(name):
            return mapping[name]
    return None


def _join(parts: list[str]) -> str:
    out = ""
    for part in parts:
        if out and part and not out[-1].isspace() and not part[0].isspace():
            out += "\n" if "\n" in part or "\n" in out else " "
        out += part
    return out


def split_thinking(text: str) -> tuple[str, str]:
    """Return (text, thinking) where thinking is the leading <think> block of a turn, if any.

    A block that is never closed is all thinking; a closing tag without an opening one ends it.

    >>> split_thinking("<think>hm</think>yes")
    ('yes', 'hm')
    >>> split_thinking("hm</think>yes")
    ('yes', 'hm')
    """
    if "think" not in text:
        return text, ""
    thinking = []
    while match := THINK.match(text):
        thinking.append(match[2].strip())
        text = text[match.end() :].lstrip("\n") if match.end() else text
    if not thinking and "<think>" not in text and text.count("</think>") == 1:
        before, after = text.split("</think>")
        return after.lstrip("\n"), before.strip()
    return text, "\n".join(t for t in thinking if t)
