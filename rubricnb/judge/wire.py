"""What an OpenAI-compatible server sends, read without trust: bodies, errors, Retry-After.

A body with status 200 can hold no choices, a null message, an error object, a refusal, content
in parts or a web page. Whatever it is becomes a Reply: with text where there is text, else with
empty text and a finish reason that says why. Only an error object can ask for another attempt.
"""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ..errors import JudgeError, QuotaError
from .attempts import Again
from .protocol import Reply, Usage

# Words by which servers say that no retry will help, in "code", "type" or the message.
QUOTA_WORDS = (
    "insufficient_quota",
    "insufficient quota",
    "insufficient credit",
    "insufficient_credit",
    "insufficient balance",
    "insufficient_balance",
    "billing_hard_limit",
    "billing hard limit",
    "billing_not_active",
    "credit balance is too low",
    "exceeded your current quota",
    "quota_exceeded",
    "out of credits",
    "payment required",
)
TOO_LONG_WORDS = (
    "context_length",
    "context length",
    "context size",
    "context window",
    "maximum context",
    "n_ctx",
)
TRANSIENT = {408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}


def normal_url(url: str) -> str:
    """Return the base URL by which a judge is known: no credentials, query or last slash.

    >>> normal_url("HTTP://user:secret@LocalHost:8000/v1/?key=abc")
    'http://localhost:8000/v1'
    """
    try:
        parts = urlsplit(url.strip())
        fits = parts.scheme.lower() in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none, a broken IPv6 address
        fits = False
    if not fits:
        shown = re.sub(r"//[^/@]*@", "//", url)  # without credentials
        raise JudgeError(f"want a base URL such as http://localhost:8000/v1; got {shown!r}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    default = {"http": 80, "https": 443}[parts.scheme.lower()]
    port = f":{parts.port}" if parts.port not in (None, default) else ""
    return urlunsplit((parts.scheme.lower(), host.lower() + port, parts.path.rstrip("/"), "", ""))


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds that a server asks to wait, of any size, or None where it says nothing.

    Seconds, milliseconds (``retry-after-ms``) and HTTP dates are understood; a date in the past
    is 0. Anything else (negative, infinite, words) counts as nothing said.

    >>> retry_after({"retry-after": "180"}), retry_after({"retry-after": "soon"})
    (180.0, None)
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    stamp = email.utils.parsedate_tz(headers.get("retry-after", ""))
    if stamp is None:
        return None
    try:
        then = email.utils.mktime_tz(stamp)
    except (OverflowError, ValueError):
        return None
    return max(0.0, then - (time.time() if now is None else now))


def is_too_long(error: Any) -> bool:
    """Return whether an error says that the prompt does not fit the model's context."""
    words = " ".join(error_words(error)).lower()
    return any(w in words for w in TOO_LONG_WORDS)


def error_words(error: Any) -> tuple[str, str, str]:
    """Return message, code and type of an error object of any shape, as text."""
    if isinstance(error, Mapping):
        inner = error.get("error", error)
        if isinstance(inner, Mapping):
            message = inner.get("message") or inner.get("detail") or json.dumps(inner)[:300]
            return (
                str(message),
                str(inner.get("code") or inner.get("status") or ""),
                str(inner.get("type") or ""),
            )
        error = inner
    return str(error)[:300], "", ""


def is_quota(error: Any, status: int | None = None) -> bool:
    """Return whether an error says that the account's quota or credit is used up."""
    if status == 402:
        return True
    words = " ".join(error_words(error)).lower()
    return any(w in words for w in QUOTA_WORDS)


def refusal(status: int, headers: Mapping[str, str], error: Any, answered: bool) -> str:
    """Return a refusal that is about one call (too long, filtered) as a body that says so.

    Raises:
        QuotaError: where the quota is used up.
        Again: for a status that another attempt may change, with the wait that is asked for.
        JudgeError: for any other refusal, and for one of an endpoint that has never answered.
    """
    words = f"status {status}: {error_words(error)[0]}"
    if is_quota(error, status):
        raise QuotaError(f"the quota is used up; {words}") from None
    if status in TRANSIENT:
        raise Again(words, retry_after(headers)) from None
    if status in (401, 403):
        hint = "is the key in RUBRICNB_API_KEY or OPENAI_API_KEY the right one?"
        raise JudgeError(f"the key is not accepted ({words}); {hint}") from None
    if status in (400, 413, 422) and (answered or is_too_long(error)):
        return json.dumps({"error": {"message": words, "code": f"status_{status}"}})
    raise JudgeError(f"want an answer; got {words}") from None


def read_usage(usage: Any) -> Usage | None:
    """Return the tokens that a server counted, or None where it gave no usable count."""
    if not isinstance(usage, Mapping):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not (_count(prompt) and _count(completion)):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    if not _count(cached):
        cached = usage.get("prompt_cache_hit_tokens")
    return Usage(prompt, min(cached, prompt) if _count(cached) else 0, completion)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def read_body(body: str, seconds: float = 0.0) -> Reply:
    """Return the Reply that the body of a 200 holds.

    A body without usable text gives a Reply with empty text whose ``finish_reason`` begins with
    "malformed", "refusal" or "error".

    Raises:
        QuotaError: for an error object that says that the quota is used up.
        JudgeError: for an error object that says that the key is not accepted.
        Again: for an error object that asks for another try, and for what is not JSON.

    >>> read_body('{"choices": []}').finish_reason
    'malformed: no choices'
    """
    try:
        data = json.loads(body.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        start = " ".join(body[:80].split())
        kind = "a web page" if "<html" in body[:500].lower() else "no JSON"
        raise Again(f"want a chat completion; got {kind}: {start!r}", kind="not_json") from None
    if not isinstance(data, Mapping):
        return Reply("", finish_reason="malformed: not an object", seconds=seconds)
    usage, model = read_usage(data.get("usage")), data.get("model")
    rest = {"usage": usage, "model": model if isinstance(model, str) else "", "seconds": seconds}
    choices = data.get("choices")
    if data.get("error") and not choices:
        return Reply("", finish_reason=_error(data["error"]), **rest)
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return Reply("", finish_reason="malformed: no choices", **rest)
    choice = choices[0]
    if choice.get("error"):  # some routers put a provider's failure into the choice
        return Reply("", finish_reason=_error(choice["error"]), **rest)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        return Reply("", finish_reason="malformed: no message", **rest)
    text, thinking = _content(message)
    finish = choice.get("finish_reason")
    finish = finish if isinstance(finish, str) and finish else "stop"
    if not text and message.get("refusal"):
        finish = f"refusal: {str(message['refusal'])[:200]}"
    elif not text.strip() and finish == "stop":
        finish = "malformed: no content"
    return Reply(text, thinking, finish, **rest)


def _error(error: Any) -> str:
    """Return the finish reason of an error inside a 200, or raise what it asks for."""
    message, code, kind = error_words(error)
    if is_quota(error):
        raise QuotaError(f"the endpoint says that the quota is used up: {message}")
    if code in ("401", "403") or "invalid_api_key" in (code, kind):
        raise JudgeError(f"the endpoint does not accept the key: {message}")
    rate = "rate_limit" in code + kind or "overloaded" in code + kind
    if rate or (code.isdigit() and int(code) in TRANSIENT):
        raise Again(f"error {code or kind} inside a 200: {message}")
    return f"error: {message[:200]}"


def _content(message: Mapping[str, Any]) -> tuple[str, str]:
    """Return the final text and the reasoning of a message, kept apart."""
    text, thinking = [], []
    content = message.get("content")
    if isinstance(content, str):
        text.append(content)
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            text.append(part)
        elif isinstance(part, Mapping):
            words = part.get("text") or part.get("thinking") or part.get("content") or ""
            into = thinking if part.get("type") in ("thinking", "reasoning") else text
            if isinstance(words, str):
                into.append(words)
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str):
            thinking.append(message[name])
            break
    return "".join(text), "".join(thinking)
