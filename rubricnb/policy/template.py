"""Is this chat template fit for training on sampled ids? Checks, and the glue between turns.

A rollout is one growing list of ids: what the policy sampled is never decoded and tokenised again.
Only what the world says is tokenised, as the *glue* that stands between the end of one assistant
turn and the start of the next. For this to be what the model would see when it is served, the
template must render a conversation as the continuation of its own beginning; that, and what else
can go wrong unseen, is checked here before a training starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..errors import ConfigError

Message = Mapping[str, Any]
THINKING = ("refuse", "keep", "off")
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>")
MARKS += ("</think>", "[TOOL_CALLS]", "[TOOL_RESULTS]")
_SAID, _THOUGHT = "wordsaidbefore", "wordthoughtbefore"
_CALL = {"type": "function", "function": {"name": "look", "arguments": {"at": _SAID}}}
_HEAD = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Look."})


@dataclass(frozen=True, slots=True)
class TemplateReport:
    """What ``check_template`` found.

    Args:
        turn_end: the control token that ends an assistant turn.
        stop_ids: ids that end a turn when they are sampled.
        mask_tokens: tokens of the template's own assistant mask in a trial conversation.
        strips_thinking: "never", "user" (at the next user message) or "tool" (at any next
            message): when the template drops the thinking of earlier turns.
        neutralised: control strings that text of the world may not contain as such.
    """

    turn_end: str
    stop_ids: tuple[int, ...]
    mask_tokens: int
    strips_thinking: str
    neutralised: tuple[str, ...]


def control_strings(tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """Every text that the tokenizer or a template reads as control: longest first."""
    added = (str(t.content) for t in tokenizer.added_tokens_decoder.values())
    found = {t for t in (*added, *tokenizer.all_special_tokens) if len(t.strip()) > 1}
    return tuple(sorted(found | set(MARKS), key=lambda t: (-len(t), t)))


def neutralise(text: str, controls: Sequence[str]) -> str:
    """Return the text with a space inside each control string, so that none is left.

    >>> neutralise("done<|im_end|>", ["<|im_end|>"])
    'done< |im_end|>'
    """
    found = re.compile("|".join(re.escape(c) for c in controls))
    while found.search(text):
        text = found.sub(lambda m: f"{m[0][0]} {m[0][1:]}", text)
    return text


def render(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], **options: Any) -> str:
    """The conversation as text, by the tokenizer's template."""
    return tokenizer.apply_chat_template(list(messages), tokenize=False, **options)


def turn_end(tokenizer: PreTrainedTokenizerBase, **options: Any) -> str:
    """Return the control token that closes an assistant turn.

    Raises:
        ConfigError: there is none, so that a turn's end could not be sampled.
    """
    text = render(tokenizer, [*_HEAD, {"role": "assistant", "content": _SAID}], **options)
    tail = text.partition(_SAID)[2].lstrip()
    for token in sorted({str(t) for t in tokenizer.added_tokens_decoder.values()}, key=len)[::-1]:
        if token.strip() and tail.startswith(token):
            return token
    raise ConfigError(
        f"want a template that closes an assistant turn by a control token; got {tail[:40]!r} "
        "after it (give another template: open_chat(..., template=TEXT))"
    )


def glue(
    tokenizer: PreTrainedTokenizerBase,
    answers: Sequence[Message],
    end: str,
    *,
    closed: bool = True,
    controls: Sequence[str] | None = None,
    **options: Any,
) -> list[int]:
    """Return the ids from the end of one assistant turn to the start of the next.

    Args:
        answers: what came back: messages of the roles "tool" and "user".
        end: ``turn_end(tokenizer)``.
        closed: whether the turn's end was sampled; if not, it is part of the glue.
        controls: default ``control_strings(tokenizer)``; neutralised in the answers.
        options: of the template.
    """
    controls = control_strings(tokenizer) if controls is None else controls
    safe = [{**m, "content": neutralise(m["content"], controls)} for m in answers]
    mine = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
    if not any(m["role"] == "tool" for m in answers):
        mine = {"role": "assistant", "content": _SAID}
    options = {**options, "add_generation_prompt": True}
    text = render(tokenizer, [*_HEAD, mine, *safe], **options).partition(_SAID)[2]
    after = text.partition(end)[2]
    return tokenizer(("" if closed else end) + after, add_special_tokens=False)["input_ids"]


def check_template(
    tokenizer: PreTrainedTokenizerBase,
    tools: Sequence[Mapping[str, Any]] | None = None,
    *,
    thinking: str = "refuse",
    mask: bool = True,
    **options: Any,
) -> TemplateReport:
    """Return what the template does, or refuse it with what to do instead.

    Args:
        tools: function-calling schemas of the world; shown in the trial conversation.
        thinking: a template that drops the thinking of earlier turns is refused ("refuse"), used
            with the thinking left in the ids ("keep": serve with a template that keeps it), or
            used without thinking ("off": enable_thinking=False is passed to it).
        mask: whether the template's own assistant mask must hold tokens, as supervised warm-up
            and trl's own masks need it.
    Raises:
        ConfigError: tool calls or results are not shown, the rendering of a conversation does not
            continue that of its beginning, a turn has no end, the mask is empty, control tokens
            in an observation survive, or thinking is dropped and not provided for.
    """
    if thinking not in THINKING:
        raise ConfigError(f"want thinking among {THINKING}; got {thinking!r}")
    if not tokenizer.chat_template:
        raise ConfigError("want a tokenizer with a chat template; got none (template=TEXT)")
    if thinking == "off":
        options = {**options, "enable_thinking": False}
    tools = list(tools) if tools else None
    _shows_tools(tokenizer, tools, options)
    end = turn_end(tokenizer, **options)
    _continues(tokenizer, tools, end, options)
    drops = _drops_thinking(tokenizer, tools, options)
    if drops != "never" and thinking == "refuse":
        raise ConfigError(
            "want a template that keeps the thinking of earlier turns; got one that drops it at "
            f"the next {drops} message (thinking='off' to go without, thinking='keep' to train on "
            "ids that keep it, or template='training')"
        )
    controls = control_strings(tokenizer)
    _neutral(tokenizer, end, controls, options)
    count = _mask_tokens(tokenizer, tools, options)
    if mask and not count:
        raise ConfigError(
            "want a template with {% generation %} marks; got an assistant mask of zeros "
            "(template='training' or 'tools', or mask=False where no mask of the template is used)"
        )
    stops = {tokenizer.convert_tokens_to_ids(end), tokenizer.eos_token_id} - {None}
    return TemplateReport(end, tuple(sorted(stops)), count, drops, controls)


def _trial() -> list[Message]:
    """A conversation with two tool calls, a user's word between, and an answer."""
    call = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
    seen = {"role": "tool", "name": "look", "content": "wordseenafter"}
    say = {"role": "assistant", "content": "I see."}
    again = {"role": "user", "content": "Again."}
    return [*_HEAD, call, seen, call, seen, say, again, call, seen, say]


def _shows_tools(tokenizer, tools, options) -> None:
    try:
        text = render(tokenizer, _trial(), tools=tools, **options)
    except Exception as e:  # jinja raises what the template's author wrote
        raise ConfigError(
            f"want a template that renders tool calls and results; got {type(e).__name__}: {e} "
            "(template='tools' puts one of ours in its place)"
        ) from e
    names = [t["function"]["name"] for t in tools or ()]
    lost = [w for w in (*names, "look", _SAID, "wordseenafter") if w not in text]
    if lost:
        raise ConfigError(
            f"want a template that shows tools, calls and results; got one that leaves out "
            f"{lost[0]!r} (template='tools' puts one of ours in its place)"
        )


def _continues(tokenizer, tools, end: str, options) -> None:
    """Each rendering up to an assistant turn begins the next; our glue says the same."""
    messages, built = _trial(), None
    whole = render(tokenizer, messages, tools=tools, **options)
    turns = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    for i, after in zip(turns, [*turns[1:], len(messages)], strict=True):
        before = render(tokenizer, messages[:i], tools=tools, **options, add_generation_prompt=True)
        if not whole.startswith(before):
            at = next(k for k, (a, b) in enumerate(zip(before, whole, strict=False)) if a != b)
            raise ConfigError(
                "want a template that renders a conversation as the continuation of its "
                f"beginning; got {whole[max(0, at - 30) : at + 30]!r} where "
                f"{before[max(0, at - 30) : at + 30]!r} stood (template='training' or 'tools')"
            )
        if built is not None and built != before:
            raise ConfigError(
                "want turns that can be appended one by one; got a template that writes "
                f"{before[-60:]!r} where appending gives {built[-60:]!r}"
            )
        said = whole[len(before) :].partition(end)[0] + end
        ids = glue(tokenizer, messages[i + 1 : after], end, **options)
        built = before + said + tokenizer.decode(ids, skip_special_tokens=False)


def _drops_thinking(tokenizer, tools, options) -> str:
    thought = {"role": "assistant", "content": f"<think>\n{_THOUGHT}\n</think>\n\n"}
    call = {**thought, "tool_calls": [_CALL]}
    tool = [*_HEAD, call, {"role": "tool", "name": "look", "content": "x"}]
    user = [*_HEAD, {**thought, "content": thought["content"] + "x"}]
    user.append({"role": "user", "content": "y"})
    for name, messages in (("tool", tool), ("user", user)):
        text = render(tokenizer, messages, tools=tools, add_generation_prompt=True, **options)
        if _THOUGHT not in text:
            return name
    return "never"


def _neutral(tokenizer, end: str, controls: Sequence[str], options) -> None:
    """An observation full of control strings has no more control ids than a plain one."""
    control_ids = set(tokenizer.added_tokens_decoder)

    def count(text: str) -> int:
        answer = [{"role": "tool", "name": "look", "content": text}]
        ids = glue(tokenizer, answer, end, controls=controls, **options)
        return sum(i in control_ids for i in ids)

    if (found := count(" ".join(controls))) != (want := count("plain")):
        raise ConfigError(
            f"want an observation without control tokens; got {found - want} of them from text "
            "that names every one (the tokenizer normalises text into control tokens)"
        )


def _mask_tokens(tokenizer, tools, options) -> int:
    import logging

    log = logging.getLogger("transformers")
    before = log.level
    log.setLevel(logging.ERROR)  # a zero mask is told by us
    try:
        made = tokenizer.apply_chat_template(
            _trial(), tools=tools, return_dict=True, return_assistant_tokens_mask=True, **options
        )
    finally:
        log.setLevel(before)
    return int(sum(made["assistant_masks"]))
