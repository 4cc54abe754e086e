"""What a model's server does not take, learned from its refusals and remembered.

Reasoning models refuse ``temperature`` and ``max_tokens``; some servers refuse
``response_format`` or one of its kinds. The parameter that a refusal names is swapped or dropped
once, and every later call to that model leaves it out from the start. Plain text with no
optional parameter at all is the last resort and always tried.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .wire import error_words, is_too_long

# A parameter's forms, tried left to right; the last one, "", leaves it out.
FORMS = {
    "response_format": ("json_schema", "json_object", ""),
    "max_tokens": ("max_tokens", "max_completion_tokens", ""),
}
# What a refusal may call the parameter, beside its name.
NAMES = {
    "response_format": ("response_format", "json_schema", "json_object", "json schema", "grammar"),
    "max_tokens": ("max_tokens", "max_completion_tokens"),
}


class Quirks:
    """The forms that one model's server has been found to take.

    >>> quirks = Quirks()
    >>> sent = quirks.apply({"temperature": 0.0, "max_tokens": 9})
    >>> quirks.learn({"message": "Unsupported parameter: 'max_tokens'"}, sent)
    True
    >>> quirks.apply({"temperature": 0.0, "max_tokens": 9})
    {'temperature': 0.0, 'max_completion_tokens': 9}
    """

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self.known: dict[str, str] = dict(known or {})

    def apply(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Return the optional parameters to send, in the forms that the server takes.

        ``wanted`` may hold "schema" (a JSON schema), "max_tokens" and any other parameter of
        the endpoint.
        """
        sent: dict[str, Any] = {}
        for name, value in wanted.items():
            if value is None:
                continue
            if name == "schema":
                form = self.known.get("response_format", "json_schema")
                if form:
                    sent["response_format"] = _format(form, value)
            elif name == "max_tokens":
                form = self.known.get(name, name)
                if form:
                    sent[form] = value
            elif self.known.get(name) != "":
                sent[name] = value
        return sent

    def learn(self, error: Any, sent: Mapping[str, Any]) -> bool:
        """Return whether a refusal of ``sent`` taught something, so that a new try is due."""
        message, code, kind = error_words(error)
        words = f"{message} {code} {kind} {_param(error)}".lower()
        if is_too_long(error):
            return False
        for name in self._present(sent):
            if any(re.search(rf"\b{re.escape(n)}\b", words) for n in NAMES.get(name, (name,))):
                return self._step(name, sent)
        if self._present(sent):  # refused without a name: once more with nothing optional
            for name in self._present(sent):
                self.known[name] = ""
            return True
        return False

    def _present(self, sent: Mapping[str, Any]) -> list[str]:
        renamed = {"max_completion_tokens": "max_tokens"}
        return [renamed.get(name, name) for name in sent]

    def _step(self, name: str, sent: Mapping[str, Any]) -> bool:
        forms = FORMS.get(name, (name, ""))
        if name == "response_format":
            was = str(sent[name].get("type"))
        else:
            was = next(f for f in forms if f in sent)
        # Another call may have learned this while ours was on its way.
        self.known[name] = max(
            forms[forms.index(was) + 1], self.known.get(name, forms[0]), key=forms.index
        )
        return True


def _param(error: Any) -> str:
    inner = error.get("error", error) if isinstance(error, Mapping) else None
    return str(inner.get("param") or "") if isinstance(inner, Mapping) else ""


def _format(form: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    if form == "json_object":
        return {"type": "json_object"}
    body = {"name": str(schema.get("title") or "reply"), "schema": dict(schema)}
    return {"type": "json_schema", "json_schema": body}
