"""Forms that the samples do not show: other generations of a format, other ways to keep it."""

import gzip
import json
import zipfile

import pytest

from rubricnb import importers


def write(path, value, lines=False, **dump):
    path.parent.mkdir(parents=True, exist_ok=True)
    if lines:
        path.write_text("".join(json.dumps(v) + "\n" for v in value))
    else:
        path.write_text(json.dumps(value, **dump))
    return path


def read(path, format):
    reading = importers.read(path)
    got = list(reading)
    assert reading.report.format == format, importers.detect(path)[:3]
    assert reading.report.balanced
    return got


def shape(t):
    """Per step: text, calls, observations."""
    return [
        (
            s.text,
            [(c.name, c.arguments, c.id) for c in s.calls],
            [(o.role, o.call_id, o.text) for o in s.observations],
        )
        for s in t.steps
    ]


ANTHROPIC = [
    {"role": "user", "content": "weather?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "use the tool"},
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "t1", "name": "sky", "input": {"at": "Oslo"}},
            {"type": "tool_use", "id": "t2", "name": "sky", "input": {"at": "Bergen"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t2",
                "content": [{"type": "text", "text": "wet"}],
            },
            {"type": "tool_result", "tool_use_id": "t1", "content": "dry", "is_error": False},
            {"type": "text", "text": "and tomorrow?"},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "The same."}]},
]


def test_anthropic_messages(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"system": "be brief", "messages": ANTHROPIC}], lines=True)
    (t,) = read(path, "openai-chat")
    assert (t.task.system, t.task.prompt) == ("be brief", "weather?")
    assert shape(t) == [
        (
            "Looking.",
            [("sky", '{"at": "Oslo"}', "t1"), ("sky", '{"at": "Bergen"}', "t2")],
            [("tool", "t2", "wet"), ("tool", "t1", "dry"), ("user", "", "and tomorrow?")],
        ),
        ("The same.", [], []),
    ]
    assert t.steps[0].thinking == "use the tool"


def test_claude_code_transcript(tmp_path):
    base = {"sessionId": "s", "isSidechain": False}
    rows = [
        {"type": "file-history-snapshot", "snapshot": {}},
        {**base, "type": "user", "uuid": "1", "message": {"role": "user", "content": "hello"}},
        {**base, "type": "assistant", "uuid": "2", "requestId": "r1",
         "message": {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}},
        {**base, "type": "assistant", "uuid": "3", "requestId": "r1",
         "message": {"role": "assistant",
                     "content": [{"type": "tool_use", "id": "a", "name": "Bash", "input": {}}]}},
        {**base, "type": "assistant", "uuid": "3", "requestId": "r1", "message": {}},
        {**base, "type": "user", "uuid": "4",
         "message": {"content": [{"type": "tool_result", "tool_use_id": "a", "content": "ok"}]}},
        {**base, "isSidechain": True, "type": "assistant", "uuid": "5",
         "message": {"id": "m", "role": "assistant", "content": "from below"}},
        {"type": "summary", "summary": "a talk"},
    ]  # fmt: skip
    reading = importers.read(write(tmp_path / "s.jsonl", rows, lines=True))
    (t,) = reading
    assert t.task.prompt == "hello"
    assert shape(t) == [
        ("hi", [("Bash", "{}", "a")], [("tool", "a", "ok")]),
        ("from below", [], []),
    ]
    assert [s.agent for s in t.steps] == ["", "sub-agent"]
    reasons = set(reading.report.dropped)
    assert "event of type file-history-snapshot" in reasons
    assert "event of type summary" in reasons
    assert "the same event a second time" in reasons


def test_sharegpt_gemini_and_langchain_messages(tmp_path):
    sharegpt = {
        "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}],
        "id": "x",
    }
    gemini = {
        "messages": [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"x": 1}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"y": 2}}}]},
        ]
    }
    langchain = {
        "messages": [
            {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "HumanMessage"],
             "kwargs": {"content": "q", "type": "human"}},
            {"type": "ai", "data": {"content": "a", "tool_calls": [],
                                    "invalid_tool_calls": [{"name": "f", "args": "{bad"}]}},
        ]
    }  # fmt: skip
    path = write(tmp_path / "m.jsonl", [sharegpt, gemini, langchain], lines=True)
    first, second, third = read(path, "openai-chat")
    assert (first.id, first.task.prompt, first.steps[0].text) == ("x", "q", "a")
    assert shape(second) == [("", [("f", '{"x": 1}', "")], [("tool", "", '{"y": 2}')])]
    assert shape(third) == [("a", [("f", "{bad", "")], [])]


def test_logged_requests_and_loose_messages(tmp_path):
    logged = {
        "request": {"messages": [{"role": "user", "content": "q"}]},
        "response": {"choices": [{"message": {"role": "assistant", "content": "a"}}]},
    }
    (t,) = read(write(tmp_path / "r.jsonl", [logged], lines=True), "openai-chat")
    assert shape(t) == [("a", [], [])]
    loose = [
        {"conversation_id": c, "role": r, "content": f"{c}{r}"}
        for r in ("user", "assistant")
        for c in "xy"
    ]
    got = read(write(tmp_path / "l.jsonl", loose, lines=True), "openai-chat")
    assert [(t.id, t.task.prompt, t.steps[0].text) for t in got] == [
        ("x", "xuser", "xassistant"),
        ("y", "yuser", "yassistant"),
    ]


def test_codex_rollout_and_response_objects(tmp_path):
    def item(payload):
        return {"type": "response_item", "payload": payload}

    said = {"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": "done"}]}  # fmt: skip
    rows = [
        {"type": "session_meta", "payload": {"id": "s"}},
        item({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]}),
        item({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}),
        item({"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"}),
        item({"type": "function_call_output", "call_id": "c", "output": "out"}),
        {"type": "event_msg", "payload": {"type": "token_count"}},
        item(said),
    ]
    (t,) = read(write(tmp_path / "c.jsonl", rows, lines=True), "openai-responses")
    assert shape(t) == [("", [("shell", "{}", "c")], [("tool", "c", "out")]), ("done", [], [])]
    assert t.steps[0].thinking == "hm"
    assert t.task.prompt == "q"
    chain = [
        {"object": "response", "id": "r1", "input": "q", "model": "m", "output": [
            {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}]},
        {"object": "response", "id": "r2", "previous_response_id": "r1", "input": [
            {"type": "function_call_output", "call_id": "c", "output": "o"}], "output": [said]},
    ]  # fmt: skip
    (t,) = read(write(tmp_path / "r.jsonl", chain, lines=True), "openai-responses")
    assert shape(t) == [("", [("f", "{}", "c")], [("tool", "c", "o")]), ("done", [], [])]


def test_built_in_calls_bring_their_results(tmp_path):
    items = [
        {"role": "user", "content": "q"},
        {"type": "web_search_call", "id": "w", "status": "completed", "action": {"query": "x"}},
        {"type": "code_interpreter_call", "id": "k", "code": "1+1", "outputs": [{"text": "2"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "2"}]},
        {"type": "compaction", "encrypted_content": "..."},
    ]
    reading = importers.read(write(tmp_path / "i.json", items))
    (t,) = reading
    assert [c.name for c in t.steps[0].calls] == ["web_search", "code_interpreter"]
    assert t.steps[0].observations[0].text == "2"
    assert "item of type compaction" in reading.report.dropped


def test_generation_spans_give_the_messages_once(tmp_path):
    u, a = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
    v, b = {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}

    def span(n, sent, said):
        data = {"type": "generation", "input": sent, "output": said}
        return {"object": "trace.span", "id": f"s{n}", "trace_id": "t", "started_at": str(n),
                "span_data": data}  # fmt: skip

    rows = [span(2, [u, a, v], [b]), span(1, [u], [{**a, "id": "m1"}])]
    (t,) = read(write(tmp_path / "t.jsonl", rows, lines=True), "openai-agents-trace")
    assert shape(t) == [("a", [], [("user", "", "r")]), ("b", [], [])]


def otel(n, operation, **own):
    return {
        "name": operation,
        "context": {"trace_id": "t", "span_id": f"s{n}"},
        "start_time": str(n),
        "attributes": {"gen_ai.operation.name": operation, **own},
    }


def test_spans_with_content(tmp_path):
    sent = [{"role": "user", "parts": [{"type": "text", "content": "where?"}]}]
    call = {"type": "tool_call", "id": "c", "name": "find", "arguments": {"id": 2}}
    said = [{"role": "assistant", "parts": [call], "finish_reason": "tool_call"}]
    back = [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "ok"}]}
    ]
    last = [{"role": "assistant", "parts": [{"type": "text", "content": "there"}]}]
    rows = [
        otel(1, "chat", **{
            "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "be kind"}]),
            "gen_ai.input.messages": json.dumps(sent),
            "gen_ai.output.messages": json.dumps(said)}),
        otel(2, "execute_tool", **{"gen_ai.tool.name": "find", "gen_ai.tool.call.result": "ok"}),
        otel(3, "chat", **{"gen_ai.input.messages": json.dumps(sent + said + back),
                           "gen_ai.output.messages": json.dumps(last)}),
    ]  # fmt: skip
    (t,) = read(write(tmp_path / "o.jsonl", rows, lines=True), "otel-genai")
    assert (t.task.system, t.task.prompt) == ("be kind", "where?")
    assert shape(t) == [
        ("", [("find", '{"id": 2}', "c")], [("tool", "c", "ok")]),
        ("there", [], []),
    ]
    pretty = "\n".join(json.dumps(r, indent=2) for r in rows)
    (tmp_path / "pretty.json").write_text(pretty)
    assert shape(*read(tmp_path / "pretty.json", "otel-genai")) == shape(t)


def test_otlp_and_numbered_attributes(tmp_path):
    own = {
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "q",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "a",
        "gen_ai.completion.0.tool_calls.0.name": "f",
        "gen_ai.completion.0.tool_calls.0.arguments": "{}",
    }
    listed = [{"key": k, "value": {"stringValue": v}} for k, v in own.items()]
    span = {"traceId": "t", "spanId": "s", "startTimeUnixNano": "1", "attributes": listed}
    batch = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    (t,) = read(write(tmp_path / "o.json", batch), "otel-genai")
    assert t.task.prompt == "q"
    assert shape(t) == [("a", [("f", "{}", "")], [])]


def test_spans_that_hold_nothing_are_refused(tmp_path):
    path = write(tmp_path / "o.jsonl", [otel(1, "chat"), otel(2, "invoke_agent")], lines=True)
    with pytest.raises(importers.FormatError, match=r"line 1.*content capture was off"):
        list(importers.read(path))


INSPECT = {
    "id": "one",
    "epoch": 1,
    "input": "q",
    "target": "a",
    "messages": [
        {"role": "user", "content": "attachment://" + "a" * 32},
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "I"}],
            "tool_calls": [{"id": "c", "function": "bash", "arguments": {"cmd": "ls"}}],
        },
        {
            "role": "tool",
            "content": "",
            "tool_call_id": "c",
            "function": "bash",
            "error": {"type": "timeout", "message": "too slow"},
        },
    ],
    "attachments": {"a" * 32: "a long question"},
    "scores": {"match": {"value": "I"}, "speed": {"value": 0.5}},
    "limit": {"type": "message"},
}


@pytest.mark.parametrize("epochs", [1, 3])
def test_inspect_archive(tmp_path, epochs):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("header.json", json.dumps({"eval": {"task": "quiz", "model": "m"}}))
        for e in range(epochs):
            z.writestr(f"samples/one_epoch_{e}.json", json.dumps({**INSPECT, "epoch": e}))
        z.writestr("samples/two_epoch_1.json", '{"id": "two", "epoch": 1, "mess')
    reading = importers.read(path)
    got = list(reading)
    assert [t.id for t in got] == [f"quiz/one/{e}" for e in range(epochs)]
    assert {t.task.id for t in got} == {"quiz/one"}
    t = got[0]
    assert (t.task.prompt, t.outcome, t.termination) == ("a long question", 0.0, "turn_limit")
    assert shape(t) == [("I", [("bash", '{"cmd": "ls"}', "c")], [("tool", "c", "too slow")])]
    ((_, dropped),) = reading.report.dropped.items()
    assert dropped.places == ["samples/two_epoch_1.json"]


def test_swe_agent_with_trajectory_alone_and_demonstrations(tmp_path):
    turn = {
        "action": "ls",
        "observation": "a b",
        "response": "look:\n```\nls\n```",
        "thought": "look",
    }
    history = [
        {"role": "system", "content": "rules", "agent": "main"},
        {"role": "assistant", "content": "as in", "is_demo": True, "agent": "main"},
        {"role": "user", "content": "issue", "agent": "main", "message_type": "observation"},
        {"role": "assistant", "content": "look", "agent": "main"},
    ]
    raw = {"trajectory": [turn, turn], "history": history, "info": {"exit_status": "exit_cost"}}
    reading = importers.read(write(tmp_path / "pallets__flask-1.traj", raw))
    (t,) = reading
    assert t.task.id == "pallets__flask-1"
    assert (t.task.system, t.task.prompt) == ("rules", "issue")
    assert shape(t) == [(turn["response"], [], [("environment", "", "a b")])] * 2
    assert t.termination == "turn_limit"
    assert reading.report.balanced
    assert "a demonstration, not a turn of this run" in reading.report.dropped


def test_mini_swe_agent_with_tool_calls(tmp_path):
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "bash", "arguments": '{"command": 1}'},
    }
    raw = {
        "info": {"exit_status": "Submitted", "mini_version": "2.3.0",
                 "config": {"model": {"model_name": "m", "model_kwargs": {"api_key": "sk-1"}}}},
        "messages": [
            {"role": "system", "content": "rules"},
            {"role": "user", "content": "issue"},
            {"role": "assistant", "content": "", "tool_calls": [call], "extra": {"cost": 1}},
            {"role": "tool", "content": "<returncode>0</returncode>", "tool_call_id": "c"},
            {"role": "exit", "content": "patch", "extra": {"exit_status": "Submitted"}},
        ],
        "trajectory_format": "mini-swe-agent-1.1",
        "instance_id": "a__b-1",
    }  # fmt: skip
    (t,) = read(write(tmp_path / "x.traj.json", raw), "mini-swe-agent")
    assert shape(t) == [
        (
            "",
            [("bash", '{"command": 1}', "c")],
            [("tool", "c", "<returncode>0</returncode>"), ("environment", "", "patch")],
        )
    ]
    assert (t.task.id, t.model, t.termination) == ("a__b-1", "m", "finished")
    assert "sk-1" not in repr(t)


def test_tau2_user_tools_bundles_and_order(tmp_path):
    messages = [
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": None,
         "tool_calls": [{"id": "u", "name": "toggle", "arguments": {}, "requestor": "user"}]},
        {"role": "tool", "id": "u", "content": "on", "requestor": "user"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "name": "f", "arguments": {}}, {"id": "b", "name": "g", "arguments": {}}]},
        {"role": "tool", "tool_messages": [{"role": "tool", "id": "b", "content": "B"},
                                           {"role": "tool", "id": "a", "content": "A"}]},
    ]  # fmt: skip
    run = {"id": "s", "task_id": "7", "trial": 1, "termination_reason": "max_steps",
           "messages": messages, "reward_info": {"reward": 1.0}}  # fmt: skip
    tasks = [{"id": "7", "ticket": "no data"}]
    # Simulations before the tasks that they refer to.
    raw = {"simulations": [run], "tasks": tasks, "info": {"environment_info": {"policy": "rules"}}}
    (t,) = read(write(tmp_path / "r.json", raw), "tau2")
    assert (t.id, t.task.system, t.task.prompt) == ("7/1", "rules", "no data")
    assert (t.outcome, t.termination) == (1.0, "turn_limit")
    assert shape(t)[0] == (
        "hello",
        [],
        [("user", "", "[user calls toggle {}]"), ("environment", "u", "[to the user] on")],
    )
    assert shape(t)[1][2] == [("tool", "b", "B"), ("tool", "a", "A")]
    (alone,) = read(write(tmp_path / "one.json", run), "tau2")
    assert shape(alone) == shape(t)


def test_verifiers_strings_tokens_and_turn_logs(tmp_path):
    rows = [
        {"example_id": 1, "prompt": "q", "completion": "<think>hm</think>a", "reward": 3.5},
        {
            "example_id": 2,
            "prompt": [{"role": "user", "content": "q"}],
            "completion": [{"role": "assistant", "content": "a"}],
            "reward": 0.5,
            "is_truncated": True,
            "trajectory": [{"tokens": {"completion_ids": [1, 2, 3]}}],
        },
    ]
    first, second = read(write(tmp_path / "v.jsonl", rows, lines=True), "verifiers")
    assert (first.steps[0].text, first.steps[0].thinking, first.outcome) == ("a", "hm", None)
    assert first.meta["reward"] == 3.5
    assert (second.steps[0].tokens, second.outcome, second.termination) == (3, 0.5, "length")


def test_langsmith_flat_runs_and_runs_without_messages(tmp_path):
    human, ai = {"type": "human", "content": "q"}, {"type": "ai", "content": "a"}
    rows = [
        {"id": "2", "run_type": "llm", "parent_run_id": "1", "trace_id": "1", "start_time": "2",
         "inputs": {"messages": [[human]]}, "outputs": {"generations": [[{"message": ai}]]}},
        {"id": "1", "run_type": "chain", "parent_run_id": None, "trace_id": "1", "start_time": "1",
         "inputs": {"question": "q"}, "outputs": {"answer": "a"}},
        {"id": "4", "run_type": "tool", "name": "find", "trace_id": "3", "parent_run_id": "3",
         "dotted_order": "2", "inputs": {"x": 1}, "outputs": {"output": "o"}},
        {"id": "3", "run_type": "llm", "name": "model", "trace_id": "3", "dotted_order": "1",
         "parent_run_id": None, "inputs": {}, "outputs": {}},
    ]  # fmt: skip
    first, second = read(write(tmp_path / "l.jsonl", rows, lines=True), "langsmith")
    assert (first.task.prompt, shape(first)) == ("q", [("a", [], [])])
    assert shape(second) == [("", [("find", '{"x": 1}', "4")], [("tool", "4", "o")])]


def test_openhands_sdk_events_in_files_and_pages(tmp_path):
    events = [
        {"kind": "SystemPromptEvent", "source": "agent", "system_prompt": {"text": "rules"}},
        {"kind": "MessageEvent", "source": "user",
         "llm_message": {"role": "user", "content": [{"type": "text", "text": "q"}]}},
        {"kind": "ActionEvent", "source": "agent", "id": "e1", "llm_response_id": "r",
         "thought": [{"type": "text", "text": "go"}], "tool_name": "terminal", "tool_call_id": "a",
         "tool_call": {"name": "terminal", "arguments": '{"command": "ls"}'}},
        {"kind": "ActionEvent", "id": "e2", "llm_response_id": "r", "tool_name": "view",
         "tool_call_id": "b", "action": {"path": "x"}},
        {"kind": "ObservationEvent", "tool_call_id": "b",
         "observation": {"content": [{"text": "B"}]}},
        {"kind": "AgentErrorEvent", "tool_call_id": "a", "error": "no such tool"},
        {"kind": "ConversationStateUpdateEvent", "key": "k"},
        {"kind": "ActionEvent", "id": "e3", "llm_response_id": "s",
         "action": {"kind": "FinishAction", "message": "done"}},
    ]  # fmt: skip
    expected = [
        (
            "go",
            [("terminal", '{"command": "ls"}', "a"), ("view", '{"path": "x"}', "b")],
            [("tool", "b", "B"), ("tool", "a", "no such tool")],
        ),
        ("done", [("finish", '{"kind": "FinishAction", "message": "done"}', "event e3")], []),
    ]
    for i, e in enumerate(events):
        write(tmp_path / "conv" / "events" / f"event-{i:05d}-x.json", e)
    write(tmp_path / "conv" / "base_state.json", {"stats": {}})
    for path in (tmp_path / "conv", write(tmp_path / "page.json", {"items": events})):
        (t,) = read(path, "openhands")
        assert (t.task.system, t.task.prompt, t.termination) == ("rules", "q", "finished")
        assert shape(t) == expected


def test_openhands_evaluation_output(tmp_path):
    history = [
        [{"source": "user", "action": "message", "args": {"content": "issue"}, "id": 0},
         {"source": "agent", "observation": "null", "content": "", "cause": 0}],
        [{"source": "agent", "action": "run", "id": 2,
          "args": {"command": "ls", "thought": "look"}},
         {"source": "agent", "observation": "run", "content": "a b", "cause": 2, "id": 3}],
        [{"source": "agent", "action": "finish", "args": {"final_thought": "bye"}, "id": 4}],
    ]  # fmt: skip
    row = {"instance_id": "i", "history": history, "test_result": {"resolved": True}}
    (t,) = read(write(tmp_path / "output.jsonl", [row], lines=True), "openhands")
    assert (t.task.id, t.task.prompt, t.outcome) == ("i", "issue", 1.0)
    assert shape(t) == [
        ("look", [("run", '{"command": "ls"}', "event 2")], [("tool", "event 2", "a b")]),
        ("bye", [], []),
    ]


def test_atif_of_other_versions(tmp_path):
    raw = {
        "schema_version": "ATIF-v1.7",
        "trajectory_id": "x",
        "agent": {"name": "n", "model_name": "m"},
        "steps": [
            {"step_id": 1, "source": "system", "message": "rules"},
            {"step_id": 2, "source": "user",
             "message": [{"type": "text", "text": "look"}, {"type": "image", "source": {}}]},
            {"step_id": 3, "source": "agent", "message": "go", "reasoning_content": "hm",
             "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {}}],
             "observation": {"results": [{"source_call_id": "c", "content": "o"},
                                         {"content": None, "subagent_trajectory_ref": [{}]}]},
             "metrics": {"completion_token_ids": [1, 2]}},
            {"step_id": 4, "source": "oracle", "message": "?"},
        ],
    }  # fmt: skip
    reading = importers.read(write(tmp_path / "t.json", raw))
    (t,) = reading
    assert (t.task.system, t.task.prompt) == ("rules", "look [image]")
    assert shape(t) == [
        (
            "go",
            [("f", "{}", "c")],
            [
                ("tool", "c", "o"),
                ("environment", "", "[the trajectory of a sub-agent, kept in another file]"),
            ],
        )
    ]
    assert t.steps[0].tokens == 2
    assert "a step of unknown source oracle" in reading.report.dropped


def test_appworld_with_fences_in_code_and_several_experiments(tmp_path):
    rule = "-" * 76
    log = (
        f"\n### Environment Interaction 1\n{rule}\n```python\nx = '''\n```\n'''\nprint(x)\n```\n\n"
        f"```\n### Environment Interaction 9\n{rule}\nfake\n```\n\n\n"
        f"### Environment Interaction 2\n{rule}\n```python\napis.supervisor.complete_task()\n"
    )
    for name in ("run_a", "run_b"):
        folder = tmp_path / "outputs" / name / "tasks" / "abc_1"
        write(folder / "logs" / "environment_io.md", "")
        (folder / "logs" / "environment_io.md").write_text(log)
        reply = {"output": {"choices": [{"message": {"content": "I print.\n```python\nx\n```"}}]}}
        write(folder / "logs" / "lm_calls.jsonl", [reply, reply], lines=True)
    reading = importers.read(tmp_path)
    first, second = reading
    assert [t.id for t in (first, second)] == ["run_a/abc_1", "run_b/abc_1"]
    assert first.task.id == second.task.id == "abc_1"
    assert len(first) == 2
    step = first.steps[0]
    assert (step.text, step.calls[0].arguments) == ("I print.", "x = '''\n```\n'''\nprint(x)")
    assert step.observations[0].text == f"### Environment Interaction 9\n{rule}\nfake"
    assert any("cut in this interaction" in w for w in first.warnings)
    assert reading.report.balanced


def test_gzip_bom_and_windows_line_ends(tmp_path):
    row = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
    data = b"\xef\xbb\xbf" + b"".join(json.dumps(row).encode() + b"\r\n" for _ in range(3))
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(data))
    assert len(read(path, "openai-chat")) == 3
    path.write_bytes(gzip.compress(data * 5000)[:-40])
    reading = importers.read(path)
    assert len(list(reading)) > 1000
    assert any("cannot be read on" in r for r in reading.report.dropped)
