"""OpenAI Responses: items as the Agents SDK keeps them, response objects, Codex rollouts.

Items that the model wrote one after the other (reasoning, calls, a message) are one step; it ends
where an output or a user message comes, or where a second message begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..trajectory import ToolCall, Trajectory
from .dialects import as_arguments, first, is_message, messages, text_of
from .records import carry, find_outcome, finish, pick
from .report import Report
from .source import Row, Source
from .text import flatten
from .turns import Message, Turns

NAME = "openai-responses"
ARGUMENTS = ("arguments", "input", "action", "queries", "query", "code", "operation", "prompt")
OUTPUTS = ("output", "result", "results", "outputs", "error")
PARTS = ("input_text", "output_text")
LISTS = ("input", "items", "output", "new_items", "input_list")


def looks(source: Source) -> tuple[float, str]:
    """How sure we are that these are Responses items, and why."""
    rows = source.samples()
    flat = [i for r in rows for i in (items_of(r) or [r])]
    if any(r.get("type") == "response_item" for r in flat if isinstance(r, dict)):
        return 0.95, "response_item events of a Codex rollout"
    if any(isinstance(r, dict) and r.get("object") == "response" for r in rows):
        return 0.95, "response objects"
    if any(is_item(i) for i in flat):
        return 0.9, "items such as function_call and its output"
    if any(has_part(i) for i in flat):
        return 0.7, "messages with input_text or output_text"
    return 0.0, "no Responses items"


def is_item(raw: Any) -> bool:
    """Whether this is an item that only the Responses API has."""
    kind = raw.get("type") if isinstance(raw, dict) else None
    if not isinstance(kind, str) or "role" in raw:
        return False
    called = kind.endswith(("_call", "_call_output")) and kind != "tool_call"
    return called or (kind == "reasoning" and ("summary" in raw or "encrypted_content" in raw))


def has_part(raw: Any) -> bool:
    """Whether this is a message whose content has parts of the Responses API."""
    content = raw.get("content") if isinstance(raw, dict) else None
    parts = content if isinstance(content, list) else []
    return any(isinstance(p, dict) and p.get("type") in PARTS for p in parts)


def items_of(raw: Any) -> list[Any]:
    """Return the items of a record that holds several, [] for a single item."""
    if isinstance(raw, list):
        return raw
    if not isinstance(raw, dict) or is_item(raw) or is_message(raw):
        return []
    lead: list[Any] = []
    for key in ("request", "body", "response"):  # a logged request with its response
        inner = raw.get(key)
        if isinstance(inner, dict) and not is_message(inner):
            found = items_of(inner)
            lead += found[1:] if lead and found[:1] == lead[:1] else found
    if lead:
        return lead if any(is_item(i) or has_part(i) for i in lead) else []
    if isinstance(raw.get("instructions"), str):
        lead.append({"role": "system", "content": raw["instructions"]})
    for key in LISTS:
        found = raw.get(key)
        if isinstance(found, str) and key == "input":
            lead.append({"role": "user", "content": found})
        elif isinstance(found, list) and any(is_item(i) or is_message(i) for i in found):
            lead += found
    return lead


class Items:
    """Collects items into turns: which of them belong to one step."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.turns = Turns(report)
        self.step = 0
        self.open = False  # whether the model is still writing the current step
        self.said = False  # whether the current step has its message
        self.agent = ""

    def add(self, raw: Any, place: str, agent: str = "") -> None:
        """Place one item, which has been met."""
        if agent != self.agent:
            self.agent, self.open = agent, False
        if isinstance(raw, dict) and raw.get("type") == "response_item":
            raw = raw.get("payload")
        kind = raw.get("type") if isinstance(raw, dict) else None
        if isinstance(kind, str) and kind not in ("message", "tool_call"):
            if kind.endswith("_output"):
                self.output(raw, place)
                return
            if kind.endswith("_call") or kind in ("mcp_approval_request", "custom_tool_call"):
                self.call(raw, kind, place)
                return
            if kind == "reasoning":
                said, thought = flatten(first(raw, "content", "summary", "text"), self.report)
                self.write(Message("assistant", thinking=said or thought, place=place))
                return
            if "role" not in raw and not is_message(raw):
                self.report.drop(place, f"item of type {kind:.60}")
                return
        for m in messages(raw, place, self.report):
            if m.role == "system" and m.text and m.text in self.turns.system:
                # Every response of a chain states its instructions again.
                self.report.drop(place, "the same instructions again")
                continue
            if m.role == "assistant":
                self.write(m, said=True)
            else:
                self.open = False
                self.turns.add(m)

    def write(self, m: Message, said: bool = False) -> None:
        """Add to the step that the model is writing, or begin the next."""
        if not self.open or (said and self.said):
            self.step += 1
            self.said = False
        self.open = True
        self.said = self.said or said
        m.turn = f"turn {self.step}"
        m.name = m.name or self.agent
        self.turns.add(m)

    def call(self, raw: dict[str, Any], kind: str, place: str) -> None:
        """Place a call, and its output where the item holds it too."""
        call_id = pick(raw, ("call_id", "id"), self.report)
        name = text_of(raw.get("name"), self.report) or kind.removesuffix("_call")
        arguments = as_arguments(first(raw, *ARGUMENTS), self.report)
        call = ToolCall(name, arguments, call_id)
        self.write(Message("assistant", calls=(call,), place=place))
        if kind != "function_call" and (own := first(raw, *OUTPUTS)) is not None:
            self.report.met()
            text = flatten(own, self.report)[0]
            self.turns.add(Message("tool", text, call_id=call_id, place=place))

    def output(self, raw: dict[str, Any], place: str) -> None:
        """Place the output of a call."""
        self.open = False
        text = flatten(first(raw, "output", "content", "result"), self.report)[0]
        call_id = pick(raw, ("call_id", "id"), self.report)
        self.turns.add(Message("tool", text, call_id=call_id, place=place))


def read(source: Source) -> Iterator[Trajectory]:
    """Yield one trajectory for each record that holds items, one for all single items."""
    report = source.report
    loose: tuple[Row, Items] | None = None
    chains: dict[str, tuple[Row, Items, dict[str, Any]]] = {}
    for row in source.rows():
        found = items_of(row.value)
        if not found:
            loose = loose or (row, Items(report))
            report.met()
            loose[1].add(row.value, row.place)
            continue
        raw = row.value if isinstance(row.value, dict) else {}
        known = chains.pop(pick(raw, ("previous_response_id",), report), None)
        first_row, items, first_raw = known or (row, Items(report), raw)
        items.open = False  # another response is another turn
        for index, item in enumerate(found):
            report.met()
            items.add(item, row.at(index, "items" if raw else ""))
        own = pick(raw, ("id",), report)
        if raw.get("object") == "response" and own:
            chains[own] = (first_row, items, first_raw)
        else:
            yield conversation(first_row, items, first_raw, source)
    for first_row, items, first_raw in chains.values():
        yield conversation(first_row, items, first_raw, source)
    if loose is not None:
        yield conversation(*loose, {}, source)


def conversation(row: Row, items: Items, raw: dict[str, Any], source: Source) -> Trajectory:
    """Return the collected items as a trajectory."""
    report = source.report
    return finish(
        source,
        row,
        items.turns,
        NAME,
        id=pick(raw, ("id", "trajectory_id"), report),
        task_id=pick(raw, ("task_id", "example_id"), report),
        outcome=find_outcome(raw, items.turns, row.place),
        model=pick(raw, ("model",), report),
        meta=carry(raw, ("id", "model", "tools", "instructions", *LISTS), report),
    )
