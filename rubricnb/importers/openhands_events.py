"""OpenHands events of either generation, placed in turns one by one."""

from __future__ import annotations

from typing import Any

from ..trajectory import ToolCall
from .dialects import as_arguments, first, is_message, text_of
from .records import pick, rows_of, table
from .source import Source
from .text import flatten
from .turns import Message, Turns

# Not calls of a tool: what the agent says is the step's text.
SPEECH = {"message", "finish", "think", "reject"}
SILENT = {"recall", "change_agent_state", "condensation", "condensation_request", "null", "pause",
          "start", "stop", "loop_recovery", "task_tracking_state"}  # fmt: skip
KINDS = {"MessageEvent", "ActionEvent", "ObservationEvent", "SystemPromptEvent", "AgentErrorEvent",
         "UserRejectObservation"}  # fmt: skip


class Stream:
    """Collects events into turns."""

    def __init__(self, source: Source) -> None:
        self.report = source.report
        self.turns = Turns(source.report)
        self.termination = ""
        self.model = ""
        self.calls: dict[str, str] = {}  # event id -> call id

    def add(self, raw: Any, place: str) -> None:
        """Place one event, which has been met."""
        if not isinstance(raw, dict):
            self.report.drop(place, "no event: not an object")
        elif str(raw.get("kind")) in KINDS:
            self.sdk(raw, place)
        elif raw.get("kind") == "ConversationErrorEvent":
            self.termination = "error"
            self.report.drop(place, "event of type ConversationErrorEvent: the run's error")
        elif isinstance(raw.get("action"), str):
            self.action(raw, place)
        elif isinstance(raw.get("observation"), str):
            self.observation(raw, place)
        elif is_message(raw):
            self.report.drop(place, "a chat message among events")
        else:
            kind = first(raw, "kind", "type", "action", "observation")
            self.report.drop(place, f"event of unknown type {kind!s:.40}")

    def action(self, raw: dict[str, Any], place: str) -> None:
        """Place an action: a step where the agent acts, else a message."""
        kind, args = raw["action"], table(raw, "args")
        said = first(args, "content", "final_thought") or ""
        if kind == "system":
            self.say("system", said, place)
        elif kind in SILENT:
            self.report.drop(place, f"event of type {kind}: it says nothing to the agent")
        elif raw.get("source") == "user":
            if kind == "message":
                self.say("user", said or raw.get("message"), place)
            else:
                self.report.drop(place, f"event of type {kind:.40} by the user")
        elif raw.get("source") == "environment" and kind != "message":
            self.report.drop(place, f"event of type {kind:.40} by the environment")
        else:
            self.step(raw, kind, args, place)

    def step(self, raw: dict[str, Any], kind: str, args: dict[str, Any], place: str) -> None:
        """Place an action of the agent."""
        call_info = table(raw, "tool_call_metadata")
        response = table(call_info, "model_response")
        self.model = self.model or pick(response, ("model",), self.report)
        call_id = pick(call_info, ("tool_call_id",), self.report)
        body = spoken(response)
        thought = body.get("content") or args.get("thought")
        if not thought and kind in SPEECH:
            thought = first(args, "content", "final_thought") or raw.get("message")
        text, thinking = flatten(thought, self.report)
        reasoned = flatten(first(body, "reasoning_content"), self.report)[0]
        calls: tuple[ToolCall, ...] = ()
        if call_info or kind not in SPEECH:
            call_id = call_id or f"event {pick(raw, ('id',), self.report)}"
            calls = (self.call(kind, args, call_info, body, call_id),)
        self.calls[pick(raw, ("id",), self.report)] = call_id
        turn = pick(response, ("id",), self.report)
        message = Message("assistant", text, thinking or reasoned, calls, place=place, turn=turn)
        if turn and len(self.turns) and self.turns.is_open(turn):
            message.text = message.thinking = ""  # each call repeats the response's text
        if kind == "finish":
            self.termination = "finished"
        self.turns.add(message)

    def call(
        self,
        kind: str,
        args: dict[str, Any],
        call_info: dict[str, Any],
        body: dict[str, Any],
        call_id: str,
    ) -> ToolCall:
        """Return the call of an action, its arguments as the model wrote them if they are there."""
        for raw in rows_of(body, "tool_calls"):
            if isinstance(raw, dict) and text_of(raw.get("id"), self.report) == call_id:
                own = table(raw, "function")
                name = pick(own, ("name",), self.report) or kind
                return ToolCall(name, as_arguments(own.get("arguments"), self.report), call_id)
        kept = {k: v for k, v in args.items() if k not in ("thought", "security_risk") and v not in
                (None, "")}  # fmt: skip
        name = pick(call_info, ("function_name",), self.report) or kind
        return ToolCall(name, as_arguments(kept, self.report), call_id)

    def observation(self, raw: dict[str, Any], place: str) -> None:
        """Place an observation."""
        kind = raw["observation"]
        if kind in SILENT or kind == "agent_state_changed":
            state = pick(table(raw, "extras"), ("agent_state",), self.report)
            if state in ("error", "stuck_in_loop"):
                self.termination = "error"
            self.report.drop(place, f"event of type {kind}: it says nothing to the agent")
            return
        call_info = table(raw, "tool_call_metadata")
        call_id = pick(call_info, ("tool_call_id",), self.report)
        call_id = call_id or self.calls.get(pick(raw, ("cause",), self.report), "")
        text = flatten(first(raw, "content", "message"), self.report)[0]
        role = "tool" if call_id and len(self.turns) else "environment"
        self.turns.add(Message(role, text, call_id=call_id, place=place))

    def say(self, role: str, content: Any, place: str) -> None:
        """Place a message of somebody else than the agent."""
        self.turns.add(Message(role, flatten(content, self.report)[0], place=place))

    def sdk(self, raw: dict[str, Any], place: str) -> None:
        """Place an event of the newer SDK."""
        kind = raw["kind"]
        body = table(raw, "llm_message")
        if kind == "SystemPromptEvent":
            self.say("system", raw.get("system_prompt"), place)
        elif kind == "MessageEvent" and raw.get("source") != "agent":
            role = "environment" if raw.get("source") == "environment" else "user"
            self.say(role, first(body, "content") or raw.get("content"), place)
        elif kind == "MessageEvent":
            text, thinking = flatten(first(body, "content") or raw.get("content"), self.report)
            self.turns.add(Message("assistant", text, thinking, place=place))
        elif kind == "ActionEvent":
            self.sdk_action(raw, place)
        else:
            inner = table(raw, "observation")
            held = first(inner, "content", "output", "stdout", "result", "message")
            said = held if held is not None else first(raw, "error", "rejection_reason")
            said = raw.get("observation") if said is None else said
            call_id = pick({**inner, **raw}, ("tool_call_id",), self.report)
            call_id = call_id or self.calls.get(pick(raw, ("action_id",), self.report), "")
            text = flatten(said, self.report)[0]
            name = pick(raw, ("tool_name",), self.report)
            self.turns.add(Message("tool", text, name=name, call_id=call_id, place=place))

    def sdk_action(self, raw: dict[str, Any], place: str) -> None:
        """Place an action of the newer SDK."""
        text, thinking = flatten(raw.get("thought"), self.report)
        reasoned = flatten(raw.get("reasoning_content"), self.report)[0]
        own = table(raw, "tool_call")
        own = table(own, "function") or own
        action = table(raw, "action")
        arguments = first(own, "arguments") or first(raw, "action")
        call_id = pick({**action, **raw}, ("tool_call_id",), self.report)
        call_id = call_id or f"event {pick(raw, ('id',), self.report)}"
        self.calls[pick(raw, ("id",), self.report)] = call_id
        name = pick(raw, ("tool_name",), self.report) or pick(own, ("name",), self.report)
        name = name or pick(action, ("kind",), self.report).removesuffix("Action").lower()
        if name == "finish" and not text:
            text = flatten(action.get("message"), self.report)[0]
        call = ToolCall(name, as_arguments(arguments, self.report), call_id)
        turn = pick(raw, ("llm_response_id",), self.report)
        self.termination = "finished" if name == "finish" else self.termination
        self.turns.add(
            Message("assistant", text, thinking or reasoned, (call,), place=place, turn=turn)
        )


def spoken(response: dict[str, Any]) -> dict[str, Any]:
    """Return the message of a model response, {} where there is none."""
    choices = rows_of(response, "choices")
    return table(choices[0], "message") if choices else {}
