"""Logs as other programs and other versions write them; each of these was once read wrongly."""

import json

import pytest
from typer.testing import CliRunner

from rubricnb import importers
from rubricnb.cli import app
from rubricnb.errors import ConfigError
from rubricnb.importers import Redactor

ASKED = {"role": "user", "content": "q"}
SAID = {"role": "assistant", "content": "a"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def read(tmp_path, rows, name="log.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    reading = importers.read(path)
    got = list(reading)
    assert reading.report.balanced
    return got, reading.report


def test_calls_kept_as_text_are_calls(tmp_path):
    completion = [
        {"role": "assistant", "content": "", "tool_calls": [json.dumps(CALL)]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
        {"role": "assistant", "content": "", "tool_calls": ["{broken", '{"x": 1}']},
    ]
    (t,), report = read(tmp_path, [{"prompt": [ASKED], "completion": completion, "reward": 1}])
    assert [(c.name, c.arguments, c.id) for c in t.steps[0].calls] == [("f", "{}", "c")]
    assert [c.arguments for c in t.steps[1].calls] == ["{broken", '{"x": 1}']
    assert not report.warnings


def test_examples_of_several_environments_are_several_tasks(tmp_path):
    rows = [
        {"example_id": 0, "task": env, "prompt": [ASKED], "completion": [SAID], "reward": 1}
        for env in ("gsm", "math", "default")
    ]
    got, _ = read(tmp_path, rows)
    assert [t.task.id for t in got] == ["gsm/0", "math/0", "0"]


def test_further_choices_of_a_completion_are_reported(tmp_path):
    choices = [{"message": SAID}, {"message": {**SAID, "content": "b"}}]
    row = {"request": {"messages": [ASKED]}, "response": {"model": "m", "choices": choices}}
    (t,), report = read(tmp_path, [row])
    assert [s.text for s in t.steps] == ["a"]
    assert t.model == "m"
    assert report.messages == 3
    assert report.dropped_count == 1


def test_sharegpt_calls_and_system(tmp_path):
    talk = [
        {"from": "human", "value": "q"},
        {"from": "function_call", "value": '{"name": "f", "arguments": {"x": 1}}'},
        {"from": "observation", "value": "o"},
        {"from": "gpt", "value": "z"},
    ]
    (t,), report = read(tmp_path, [{"system": "rules", "conversations": talk}])
    assert t.task.system == "rules"
    assert [(c.name, c.arguments) for c in t.steps[0].calls] == [("f", '{"x": 1}')]
    assert [o.text for o in t.steps[0].observations] == ["o"]
    assert not report.dropped


def test_conversations_among_other_records(tmp_path):
    rows = [{"messages": [ASKED, SAID]}, {"event": "start"}, {"event": "ping"}, {"event": "end"}]
    (t,), report = read(tmp_path, rows)
    assert [s.text for s in t.steps] == ["a"]
    assert report.dropped["a record without chat messages"].places == ["line 2", "line 3", "line 4"]


@pytest.mark.parametrize("where", ["meta", "content", "arguments"])
def test_a_value_nested_900_levels_deep(tmp_path, where):
    deep = "[" * 900 + "]" * 900
    slots = dict.fromkeys(("meta", "content", "arguments"), '"x"') | {where: deep}
    line = (
        '{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": '
        + slots["content"]
        + ', "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '
        + slots["arguments"]
        + '}}]}], "more": '
        + slots["meta"]
        + "}\n"
    )
    path = tmp_path / "deep.jsonl"
    path.write_text(line + json.dumps({"messages": [ASKED, SAID]}) + "\n")
    reading = importers.read(path, redact=True)
    assert len(list(reading)) == 2
    assert reading.report.balanced
    assert reading.report.mended["nested too deep, kept as text"] == 1


def response(n, items, before=None):
    return {"object": "response", "id": f"r{n}", "previous_response_id": before,
            "instructions": "rules", "output": items}  # fmt: skip


def test_chained_responses_are_turns_under_one_system_prompt(tmp_path):
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "a"}],
    }
    (t,), report = read(tmp_path, [response(1, [call]), response(2, [said], "r1")])
    assert [(s.text, len(s.calls), s.observations) for s in t.steps] == [("", 1, ()), ("a", 0, ())]
    assert t.task.system == "rules"
    assert not report.warnings
    assert report.dropped["the same instructions again"].count == 1


def test_a_logged_request_of_the_responses_api(tmp_path):
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    row = {"request": {"model": "m", "input": [ASKED]}, "response": response(1, [call])}
    (t,), report = read(tmp_path, [row])
    assert report.format == "openai-responses"
    assert (t.task.system, t.task.prompt) == ("rules", "q")
    assert [c.name for s in t.steps for c in s.calls] == ["f"]


def run(id, inputs, said, **more):
    return {"id": id, "trace_id": "r", "parent_run_id": "r", "run_type": "llm", "name": "m",
            "inputs": {"messages": [inputs]},
            "outputs": {"generations": [[{"text": "", "message": said}]]}, **more}  # fmt: skip


def test_a_run_tree_without_times_is_read_to_its_end(tmp_path):
    asked = {"type": "human", "content": "q"}
    called = {"type": "ai", "content": "", "tool_calls": [{"name": "f", "args": {}, "id": "c"}]}
    result = {"type": "tool", "content": "r", "tool_call_id": "c"}
    end = {"type": "ai", "content": "end"}
    children = [run("a", [asked], called), run("b", [asked, called, result], end)]
    root = {"id": "r", "run_type": "chain", "inputs": {"q": "q"}, "outputs": {"a": "end"}}
    (t,), _ = read(tmp_path, [{**root, "child_runs": children}], "tree.json")
    assert [s.text for s in t.steps] == ["", "end"]
    assert [o.text for o in t.steps[0].observations] == ["r"]


def test_a_team_of_agents_keeps_every_conversation(tmp_path):
    one = run("a", [{"type": "human", "content": "plan"}], {"type": "ai", "content": "P"},
              dotted_order="1.1")  # fmt: skip
    two = run("b", [{"type": "human", "content": "do"}], {"type": "ai", "content": "D"},
              dotted_order="1.2")  # fmt: skip
    root = {"id": "r", "trace_id": "r", "run_type": "chain", "dotted_order": "1", "inputs": {},
            "outputs": {"answer": "D"}}  # fmt: skip
    (t,), _ = read(tmp_path, [root, one, two])
    assert [s.text for s in t.steps] == ["P", "D"]
    final = {"messages": [{"type": "human", "content": "do"}, {"type": "ai", "content": "D"}]}
    (t,), report = read(tmp_path, [{**root, "outputs": final}, one, two])
    assert [s.text for s in t.steps] == ["D"]
    lacks = report.dropped["a model run whose words the conversation of the root run lacks"]
    assert lacks.places == ["line 2"]


def test_sub_agents_side_by_side_keep_their_turns(tmp_path):
    def event(kind, id, content, parent=None):
        body = {"role": kind, "content": content} | ({"id": id} if id else {})
        return {"type": kind, "session_id": "s", "parent_tool_use_id": parent, "message": body}

    def use(id):
        return [{"type": "tool_use", "id": id, "name": "Read", "input": {}}]

    rows = [
        event("user", "", "go"),
        event("assistant", "m1", use("A") + use("B")),
        event("assistant", "a1", [{"type": "text", "text": "a"}], "A"),
        event("assistant", "b1", [{"type": "text", "text": "b"}], "B"),
        event("assistant", "a1", use("x"), "A"),
        event("assistant", "b1", use("y"), "B"),
    ]
    (t,), report = read(tmp_path, rows)
    assert [(s.text, [c.id for c in s.calls]) for s in t.steps] == [
        ("", ["A", "B"]),
        ("a", ["x"]),
        ("b", ["y"]),
    ]
    assert report.placed["joined"] == 2


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("psql postgres://admin:Pa55word@db:5432/x", "psql postgres://admin:[key]@db:5432/x"),
        ("https://ann:hunter2@example.org/a", "https://ann:[key]@example.org/a"),
        ("write to jürgen@müller.de today", "write to [email] today"),
        ("pat.o'neil@example.com", "[email]"),
        ("{'to': 'ann@example.com'}", "{'to': '[email]'}"),
        ("git clone git@github.com:foo/bar.git", "git clone git@github.com:foo/bar.git"),
        ("open http://host:8080/a@b", "open http://host:8080/a@b"),
        ("see pkg@1.2.3 and icon@2x.png", "see pkg@1.2.3 and icon@2x.png"),
    ],
)
def test_addresses_and_logins(text, want):
    assert Redactor().text(text) == want


def test_a_log_is_not_written_over_by_its_import(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"messages": [ASKED, SAID]}) + "\n")
    (tmp_path / "link.jsonl").symlink_to(log)
    before = log.read_bytes()
    for output in (log, tmp_path / "link.jsonl", tmp_path, tmp_path / "none" / "out.jsonl"):
        result = CliRunner().invoke(app, ["import", str(log), "-o", str(output)])
        assert isinstance(result.exception, ConfigError), output
    assert log.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.jsonl", "log.jsonl"]


def test_what_is_redacted_is_not_in_the_report_either(tmp_path):
    row = {"messages": [ASKED, SAID, {"role": "ann@example.com EMP-17", "content": "x"}],
           "bob@example.com": "x" * 5000}  # fmt: skip
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(row) + "\n")
    reading = importers.read(path, redact=True, patterns=iter(["EMP-[0-9]+"]))
    list(reading)
    said = json.dumps(reading.report.to_dict()) + str(reading.report)
    assert "example.com" not in said
    assert "EMP-17" not in said
    assert "unknown role" in said
    assert not reading.report.redacted  # nothing of it is in what was written
