"""The address of a call's answer: a hash of everything that the answer depends on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..files import canonical
from .protocol import Call, Reply, Usage

_FENCES = re.compile(r"(?m)(?=^===== BEGIN )|(?<=\n)(?=\nJOB: )")


def call_key(identity: Mapping[str, Any], version: str, call: Call) -> tuple[str, list[list[str]]]:
    """Return the address of a call's answer, and the hashes of each message's parts.

    It depends on who is asked and how (``identity``: base URL, model, sampling), on the prompt
    version and on everything that is sent, and on ``sample``; not on what the call is about.
    """
    parts = [[sha(p) for p in split_parts(m["content"])] for m in call.messages]
    fields = {**sent(call, parts), "identity": identity, "version": version}
    return sha(canonical(fields)), parts


def sent(call: Call, parts: list[list[str]]) -> dict[str, Any]:
    return {
        "messages": [[m["role"], *p] for m, p in zip(call.messages, parts, strict=True)],
        "schema": call.schema,
        "max_tokens": call.max_tokens,
        "temperature": call.temperature,
        "sample": call.sample,
        **({"extra": dict(call.extra)} if call.extra else {}),
    }


def split_parts(text: str) -> list[str]:
    """Split a prompt before and after its fenced rollouts, which many calls share."""
    return [p for p in _FENCES.split(text) if p]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def reply_to_json(reply: Reply) -> str:
    """Return a reply as text, without whether it was cached."""
    fields = asdict(reply)
    del fields["cached"]
    return json.dumps(fields)


def reply_from_json(text: str, cached: bool = True) -> Reply:
    """Return the reply that ``reply_to_json`` made this text of."""
    fields = json.loads(text)
    usage = fields.pop("usage")
    return Reply(**fields, usage=Usage(**usage) if usage else None, cached=cached)
