"""Chat messages and tau-bench: what becomes a step, how results find calls, what is mended."""

import json

import pytest

from rubricnb import importers
from rubricnb.errors import FormatError
from rubricnb.files import group_by_task, read_jsonl, write_jsonl


def lines(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return path


def one(tmp_path, messages, **more):
    reading = importers.read(lines(tmp_path / "log.jsonl", [{"messages": messages, **more}]))
    (trajectory,) = reading
    assert reading.report.balanced
    return trajectory, reading.report


def call(name, arguments, id=None):
    body = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return body if id is None else {"id": id, **body}


ASK = [{"role": "system", "content": "rules"}, {"role": "user", "content": "do it"}]


def test_one_assistant_turn_is_one_step(tmp_path):
    t, report = one(
        tmp_path,
        [
            *ASK,
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": "b"},
            {"role": "assistant", "content": ""},
            {"role": "assistant", "content": None},
        ],
    )
    assert (t.task.system, t.task.prompt) == ("rules", "do it")
    assert [s.text for s in t.steps] == ["a", "", ""]
    assert [(o.role, o.text) for o in t.steps[0].observations] == [("user", "b")]
    assert dict(report.placed) == {"task": 2, "step": 3, "observation": 1}


def test_parallel_results_out_of_order_are_matched_by_id(tmp_path):
    t, report = one(
        tmp_path,
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [call("f", "{}", "a"), call("g", "{bad", "b")],
            },
            {"role": "tool", "tool_call_id": "b", "content": "B"},
            {"role": "tool", "tool_call_id": "a", "content": "A"},
            {"role": "tool", "content": "C"},
        ],
    )
    (step,) = t.steps
    assert [c.arguments for c in step.calls] == ["{}", "{bad"]
    assert [(o.call_id, o.name, o.text) for o in step.observations] == [
        ("b", "g", "B"),
        ("a", "f", "A"),
        ("", "", "C"),
    ]
    assert "answers no open call" in " ".join(t.warnings)
    assert "line 1, messages[3]" in next(iter(report.warnings.values())).places


def test_results_without_ids_are_paired_by_order_with_a_warning(tmp_path):
    t, _ = one(
        tmp_path,
        [
            {"role": "assistant", "tool_calls": [call("f", "{}"), call("g", "{}")]},
            {"role": "tool", "content": "F"},
            {"role": "tool", "content": "G"},
        ],
    )
    assert [(o.name, o.text) for o in t.steps[0].observations] == [("f", "F"), ("g", "G")]
    assert sum("paired by order" in w for w in t.warnings) == 2


def test_images_become_placeholders_and_no_data_url_survives(tmp_path):
    url = "data:image/png;base64," + "A" * 400
    content = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}]
    t, report = one(
        tmp_path,
        [
            {"role": "user", "content": [*content, None]},
            {"role": "assistant", "content": f"I see {url}"},
        ],
    )
    assert t.task.prompt == "look [image]"
    assert t.steps[0].text == "I see [image]"
    assert report.mended == {"image": 1, "data URL": 1}


def test_the_collected_cases(shared_data, tmp_path):
    path = shared_data.parent / "spec" / "judge_cases.json"
    if not path.is_file():
        pytest.skip(f"no collected cases at {path}")
    raw = json.loads(path.read_text())
    cases = {c["id"]: c["input"] for c in raw if c["kind"] == "msgs"}
    assert {"19", "31", "32"} <= set(cases)
    injected, _ = one(tmp_path, cases["19"])
    assert injected.task.prompt == cases["19"][0]["content"]
    assert any("before the first assistant turn" in w for w in injected.warnings)
    image, _ = one(tmp_path, cases["31"])
    assert image.task.prompt == "look [image]"
    parallel, _ = one(tmp_path, cases["32"])
    names = {o.text: o.name for o in parallel.steps[0].observations}
    assert names == {"A": "f", "B": "g", "C": ""}


@pytest.mark.parametrize("reason", ["length", "stop"])
def test_a_last_turn_cut_by_length_is_said(tmp_path, reason):
    t, _ = one(tmp_path, [{"role": "assistant", "content": "a"}], finish_reason=reason)
    assert t.termination == {"length": "length", "stop": "finished"}[reason]


def test_a_system_prompt_that_changes_midway_is_an_observation(tmp_path):
    t, _ = one(tmp_path, [*ASK, {"role": "assistant"}, {"role": "system", "content": "new"}])
    assert [(o.role, o.text) for o in t.steps[0].observations] == [("system", "new")]
    assert any("changes midway" in w for w in t.warnings)


def test_control_codes_are_replaced_once_and_counted(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(
        b'{"messages": [{"role": "user", "content": "caf\xe9"}, {"role": "assistant", "content": '
        b'"\\u001b[31mred\\u001b[0m \\u0000 \\ud83d \\ud83d\\ude00"}]}\n'
    )
    reading = importers.read(path)
    (t,) = reading
    assert t.steps[0].text == "red � � 😀"
    assert t.task.prompt == "caf�"
    assert reading.report.mended == {
        "ansi": 2,
        "nul": 1,
        "surrogate": 1,
        "byte that is not UTF-8": 1,
    }
    write_jsonl(tmp_path / "out.jsonl", [t])
    assert next(read_jsonl(tmp_path / "out.jsonl")) == t


@pytest.mark.parametrize(
    ("content", "more", "text", "thinking"),
    [
        ("<think>why</think>so", {}, "so", "why"),
        ("<think>why", {}, "", "why"),
        ("so", {"reasoning_content": "why"}, "so", "why"),
        (
            [{"type": "thinking", "thinking": "why"}, {"type": "text", "text": "so"}],
            {},
            "so",
            "why",
        ),
    ],
)
def test_thinking_is_kept_apart(tmp_path, content, more, text, thinking):
    t, _ = one(tmp_path, [{"role": "assistant", "content": content, **more}])
    assert (t.steps[0].text, t.steps[0].thinking) == (text, thinking)


def test_a_cut_last_line_is_reported_and_the_rest_is_kept(tmp_path):
    path = lines(tmp_path / "log.jsonl", [{"messages": [*ASK, {"role": "assistant"}]}] * 3)
    path.write_text(path.read_text()[:-30])
    reading = importers.read(path)
    assert len(list(reading)) == 2
    ((reason, dropped),) = reading.report.dropped.items()
    assert "cut" in reason
    assert dropped.places == ["line 3"]
    assert reading.report.balanced


def test_prompts_that_are_equal_form_a_group(tmp_path):
    rows = [{"messages": [*ASK, {"role": "assistant", "content": str(i)}]} for i in range(3)]
    rows.append({"task_id": 7, "reward": 1, "messages": rows[0]["messages"]})
    groups = group_by_task(importers.read(lines(tmp_path / "log.jsonl", rows)))
    assert [len(g) for g in groups] == [3, 1]
    assert groups[1].task.id == "7"
    assert groups[1].trajectories[0].outcome == 1.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "looks like none"),
        ("hello\n", "looks like none"),
        ('{"messages": [', "looks like none"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, text, said):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(FormatError, match=said):
        list(importers.read(path))


def test_tau_bench_file(shared_data):
    reading = importers.read(shared_data / "tau_bench_v1" / "gpt-4o-airline.json")
    groups = group_by_task(reading)
    raw = json.loads((shared_data / "tau_bench_v1" / "gpt-4o-airline.json").read_text())
    report = reading.report
    assert report.format == "tau-bench"
    assert report.messages == sum(len(r["traj"]) for r in raw)
    assert report.balanced
    assert not report.dropped
    assert [len(g) for g in groups] == [4] * 50
    assert sum(t.outcome for g in groups for t in g.trajectories) == 84
    mixed = [g for g in groups if len({t.outcome for t in g.trajectories}) == 2]
    assert len(mixed) == 26
