"""What a judge is: anything that turns a Call into a Reply.

An endpoint, a replayed recording, a policy under training and a plain Python function all look
the same from here: a name, and ``async complete(call) -> reply``. What a reply means is read
elsewhere (``reading``); which calls are made is decided elsewhere (``phases``).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ..errors import ConfigError, JudgeError
from ..trajectory import EMPTY

PHASES = ("task_rubric", "rollout_rubric", "union", "scoring", "attribution")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call: ``prompt`` (all of it), of which ``cached``, and ``completion``."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One question to a judge.

    Args:
        phase: one of ``PHASES``, or of a rival protocol's own; a repair call keeps the phase that
            it repairs.
        messages: mappings with "role" and "content" (text), in order.
        schema: the JSON schema that the reply should follow, as a hint; None for plain text.
        max_tokens: limit of the completion, None for the judge's own default.
        temperature: None for the judge's own default.
        sample: which of several independent answers to the same messages (votes, retries).
        key: what the call is about (task_id, trajectory_id, repair, ...); for ledgers and logs,
            never part of what is sent.
        extra: further fields of the request's body, such as an agent's tools.
    """

    phase: str
    messages: tuple[Mapping[str, str], ...]
    schema: Mapping[str, Any] | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    sample: int = 0
    key: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back.

    Args:
        text: the final text; never the reasoning where the endpoint keeps the two apart.
        thinking: reasoning, kept for the record and never read for a verdict.
        finish_reason: "stop", "length", "content_filter", ... as the endpoint said.
        usage: None where it is unknown (the cost is then unknown, not 0).
        model: the model that the endpoint says has answered.
        seconds: wall time of the call.
        cached: whether it came from a cache or a recording instead of the judge.
    """

    text: str
    thinking: str = ""
    finish_reason: str = "stop"
    usage: Usage | None = None
    model: str = ""
    seconds: float = 0.0
    cached: bool = False


@runtime_checkable
class Judge(Protocol):
    """A named thing that answers calls; it may be called many times at once."""

    name: str

    async def complete(self, call: Call) -> Reply:
        """Answer one call. Raises JudgeError where no answer can be had."""
        ...


class CallableJudge:
    """A judge made of any function ``fn(call) -> str | Reply``, plain or async.

    >>> judge = CallableJudge(lambda call: "{}", name="says-nothing")
    >>> judge.name
    'says-nothing'
    """

    def __init__(
        self, fn: Callable[[Call], str | Reply | Awaitable[str | Reply]], name: str = ""
    ) -> None:
        self.fn = fn
        self.name = name or getattr(fn, "__name__", type(fn).__name__)

    async def complete(self, call: Call) -> Reply:
        """Return the function's answer, wrapped in a Reply where it is plain text.

        Raises:
            JudgeError: where the function returned anything but text or a Reply, or wanted to
                leave the process: that would end the loop on which all judges live.
        """
        try:
            out = self.fn(call)
            if inspect.isawaitable(out):
                out = await out
        except (SystemExit, KeyboardInterrupt) as e:
            raise JudgeError(
                f"judge {self.name!r}: want text or a Reply; got {type(e).__name__}"
            ) from e
        if isinstance(out, Reply):
            return out
        if isinstance(out, str):
            return Reply(out, model=self.name)
        raise JudgeError(f"judge {self.name!r}: want text or a Reply; got {type(out).__name__}")


def as_judge(judge: Any) -> Judge:
    """Return a judge as it is, and any other callable as a CallableJudge.

    Raises:
        ConfigError: for what is neither.

    >>> as_judge(lambda call: "{}").name
    '<lambda>'
    """
    if hasattr(judge, "complete"):
        return judge
    if callable(judge):
        return CallableJudge(judge)
    raise ConfigError(f"want a judge, or a function of a Call; got {type(judge).__name__}")
