"""Personal data out of trajectories at import: e-mail addresses, keys, phone numbers, own patterns.

Every string of a trajectory is gone over: task, text, thinking, tool arguments (inside their JSON),
observations, labels, meta, warnings, ids. A phone number must be possible by the rules of the
``phonenumbers`` library and also look like one: digits alone are order numbers far more often.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..errors import ConfigError
from ..files import to_json, trajectory_from_json
from ..trajectory import Trajectory
from .phone import CANDIDATE, DIGITS, PHONE_NAME, PHONE_VALUE, looks_like_phone
from .text import DEEPEST

# Log text is often escaped: the n of \n is no part of the address behind it.
START = r"(?:(?<=\\[nrtbf])|(?<![\w.%+\\-]))"
EMAIL = re.compile(
    # git@host:path is how repositories are named, not an address.
    START + r"(?!git@[\w.-]+:)(?:[\w.%+-]|(?<=\w)'(?=\w)){0,63}[\w%+-]"
    r"@(?:[^\W_](?:[\w-]{0,62}[^\W_])?\.)+"
    r"(?!(?:png|jpe?g|gif|svg|webp|py|js|ts|css|html?|json|md|txt)\b)[^\W\d_]{2,24}\b"
)
KEYS = re.compile(
    "|".join(
        (
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END[A-Z ]{1,31}KEY-----|\Z)",
            r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # JSON web token
            r"\b(?:sk|pk|rk)-(?:[A-Za-z]+-)*[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic and others
            r"\b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
            r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}",
            r"\bglpat-[A-Za-z0-9_-]{16,}|\bhf_[A-Za-z0-9]{20,}|\bnpm_[A-Za-z0-9]{30,}",
            r"\bpypi-[A-Za-z0-9_-]{30,}|\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-[A-Za-z0-9-]{10,}",
            r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{35}",
            r"\bya29\.[A-Za-z0-9_-]{20,}|\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
            r"\blsv2_[a-z]{2}_[A-Za-z0-9_]{20,}|\bwandb_v1_[A-Za-z0-9_]{20,}|\bgsk_[A-Za-z0-9]{20,}",
        )
    ),
    re.DOTALL,
)
# A value that stands beside a word for a secret: only the value goes.
NAMED = re.compile(
    r"""(?ix) ( (?: \b | _ | (?<=\\[nrt]) )
        (?: api[_-]?key | secret(?:[_-]?(?:access[_-]?)?key)? | (?:access|auth|refresh|bearer|id)?
            [_-]?token | passw(?:or)?d | passphrase | private[_-]?key | client[_-]?secret
            | aws_secret_access_key )
        \\?["']? \s* (?: [:=] | => ) \s* \\?["']? )
    (?! \[ (?:key|redacted) )
    ( [A-Za-z0-9+/=_.~!@\#$%^&*-]{6,} )"""
)
BEARER = re.compile(r"(?i)(\b(?:bearer|basic|token)\s+)([A-Za-z0-9+/=_.~-]{16,})")
URL_LOGIN = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/@:\"'<>]{0,64}:)([^\s/@\"'<>\[]{3,128})(?=@)"
)
SECRET = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])")
SECRET_NAME = re.compile(
    r"(?i)(?:^|[_-])(?:api[_-]?key|secret|token|passw(?:or)?d|private[_-]?key)$|(?:access|secret)key$"
)

LONG, REMEMBERED = 400, 128
KEY_MARKS = ("-----BEGIN", "eyJ", "sk-", "pk-", "rk-", "sk_", "pk_", "rk_", "gh", "glpat-",
             "hf_", "npm_", "pypi-", "xox", "xapp-", "AKIA", "ASIA", "ABIA", "ACCA", "AIza",
             "ya29.", "SG.", "lsv2_", "wandb_v1_", "gsk_")  # fmt: skip
NAME_MARKS = ("key", "token", "passw", "passphrase", "secret", "bearer", "basic")


class Redactor:
    """Replaces personal data in values and counts what it replaced, by kind.

    Args:
        patterns: regular expressions of the user's own; what they match becomes "[redacted]".
        counts: where to count, by kind.
        kinds: whether addresses, keys and phone numbers are looked for, too.

    Raises:
        ConfigError: for a pattern that is no regular expression, or that matches an empty text.

    >>> r = Redactor([r"EMP-[0-9]+"])
    >>> r.text("mail ann@example.com or call +1 650 253 0000, EMP-17, order 6502530000")
    'mail [email] or call [phone], [redacted], order 6502530000'
    >>> dict(r.counts)
    {'pattern 1': 1, 'email': 1, 'phone': 1}
    """

    def __init__(
        self,
        patterns: Iterable[str] = (),
        counts: Counter[str] | None = None,
        *,
        kinds: bool = True,
    ) -> None:
        self.counts: Counter[str] = Counter() if counts is None else counts
        self._kinds = kinds
        self._seen: dict[str, tuple[str, Counter[str]]] = {}
        self._salt = os.urandom(16)
        self._patterns: list[re.Pattern[str]] = []
        for n, pattern in enumerate(patterns, start=1):
            try:
                compiled = re.compile(pattern)
            except re.error as e:
                raise ConfigError(
                    f"want a regular expression as pattern {n}; got {pattern!r} ({e})"
                ) from e
            if compiled.match(""):
                raise ConfigError(
                    f"want a pattern that does not match an empty text; got {pattern!r}"
                )
            self._patterns.append(compiled)

    def text(self, text: str) -> str:
        """Return text with what must not stay replaced."""
        if len(text) < LONG:
            return self._text(text)
        # System prompts and tool results come again in every rollout of a task.
        if text not in self._seen:
            if len(self._seen) >= REMEMBERED:
                self._seen.clear()
            before = self.counts.copy()
            out = self._text(text)
            self._seen[text] = (out, self.counts - before)
        else:
            self.counts.update(self._seen[text][1])
        return self._seen[text][0]

    def _text(self, text: str) -> str:
        for n, pattern in enumerate(self._patterns, start=1):
            text = self._sub(pattern, f"pattern {n}", lambda m: "[redacted]", text)
        if len(text) < 6 or not self._kinds:
            return text
        # Looking for a mark first is many times faster than each expression on every text.
        if any(mark in text for mark in KEY_MARKS):
            text = self._sub(KEYS, "key", lambda m: "[key]", text)
        low = text.lower()
        if any(mark in low for mark in NAME_MARKS):
            text = self._sub(NAMED, "key", self._named, text)
            text = self._sub(BEARER, "key", self._named, text)
        if "@" in text:
            if "://" in text:
                text = self._sub(URL_LOGIN, "key", lambda m: m[1] + "[key]", text)
            text = self._sub(EMAIL, "email", lambda m: "[email]", text)
        if DIGITS.search(text):
            text = self._sub(CANDIDATE, "phone", self._phone, text)
        return text

    def _sub(
        self,
        pattern: re.Pattern[str],
        kind: str,
        replace: Callable[[re.Match[str]], str],
        text: str,
    ) -> str:
        n = 0

        def counted(m: re.Match[str]) -> str:
            nonlocal n
            out = replace(m)
            n += out != m[0]
            return out

        text = pattern.sub(counted, text)
        if n:
            self.counts[kind] += n
        return text

    @staticmethod
    def _named(m: re.Match[str]) -> str:
        # Code names its variables so, too: a value without a digit is a name, not a secret.
        return m[1] + "[key]" if SECRET.match(m[2]) else m[0]

    @staticmethod
    def _phone(m: re.Match[str]) -> str:
        # A bracket around the number belongs to the sentence.
        lead = "(" if m[0].startswith("(") and ")" not in m[0] else ""
        found = looks_like_phone(m[0][len(lead) :], m.string[max(0, m.start() - 60) : m.start()])
        return lead + "[phone]" if found else m[0]

    def value(self, value: Any, name: str = "") -> Any:
        """Return JSON types with every string in them gone over, keys too.

        A text that is JSON is gone over inside, so that it stays JSON; ``name`` is the key that a
        string stands under, because a secret is often known by it alone.
        """
        if isinstance(value, str):
            if value[:1] in "{[" and value[-1:] in "}]" and (inner := _json(value)) is not None:
                clean = self.value(inner)
                return json.dumps(clean, ensure_ascii=False) if clean != inner else value
            named = name if self._kinds else ""
            if named and SECRET_NAME.search(name) and SECRET.match(value) and len(value) > 5:
                self.counts["key"] += 1
                return "[key]"
            if named and PHONE_NAME.search(name) and PHONE_VALUE.fullmatch(value):
                self.counts["phone"] += 1
                return "[phone]"
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(k): self.value(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [self.value(v, name) for v in value]
        return value

    def trajectory(self, trajectory: Trajectory) -> Trajectory:
        """Return a trajectory gone over everywhere; ids that had to change stay different."""
        raw = to_json(trajectory)
        out = self.value(raw)
        out["id"] = self._id(raw["id"], out["id"])
        out["task"]["id"] = self._id(raw["task"]["id"], out["task"]["id"])
        return trajectory_from_json(out)

    def _id(self, before: str, after: str) -> str:
        # Salted, so that the address behind an id cannot be found by trying; equal within a run.
        if before == after:
            return before
        mark = hashlib.blake2b(before.encode("utf-8", "replace"), key=self._salt, digest_size=4)
        return f"{after}-{mark.hexdigest()}"

    def all(self, trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
        """Yield trajectories gone over as they come."""
        for trajectory in trajectories:
            yield self.trajectory(trajectory)


def _json(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, (dict, list)) and _shallow(value, text) else None


def _shallow(value: Any, text: str) -> bool:
    """Whether a value can be walked level by level; a deeper one is gone over as text."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return True
    level, deep = [value], 0
    while level:
        inner = (v.values() if isinstance(v, dict) else v for v in level)
        level = [v for held in inner for v in held if isinstance(v, (dict, list))]
        deep += 1
    return deep <= DEEPEST
