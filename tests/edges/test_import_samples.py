"""Every real sample: recognised, every message accounted for, outcomes and labels along.

The messages of each file are counted here by plain code of its own, not by the importer.
"""

import json
from collections import Counter

import pytest

from rubricnb import importers
from rubricnb.files import group_by_task, read_jsonl, write_jsonl

# path -> (format, how many messages the file holds, trajectories, steps)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def whole(path):
    return json.loads(path.read_text())


def chats(path):
    return sum(len(r["messages"]) for r in rows(path)), Counter(
        m["role"] for r in rows(path) for m in r["messages"]
    )["assistant"]


def claude(path):
    events = rows(path)
    turns = {e["message"]["id"] for e in events if e["type"] == "assistant"}
    return len(events), len(turns)


def atif(path):
    steps = whole(path)["steps"]
    results = sum(len(s.get("observation", {}).get("results", [])) for s in steps)
    return len(steps) + results, sum(s["source"] == "agent" for s in steps)


def inspect(path):
    samples = whole(path)["samples"]
    return sum(len(s["messages"]) for s in samples), len(samples)


def langgraph(path):
    return len(whole(path)), sum(m["type"] == "ai" for m in whole(path))


def run_tree(path):
    def runs(run):
        return 1 + sum(runs(c) for c in run["child_runs"])

    found = whole(path)[0]["outputs"]["messages"]
    return len(found) + runs(whole(path)[0]), sum(m["type"] == "ai" for m in found)


def listed(path):
    return len(whole(path)), sum(m["role"] == "assistant" for m in whole(path))


def responses(path):
    return len(whole(path)), sum(i.get("type") in ("function_call", "message") for i in whole(path))


def trace(path):
    data = [r.get("span_data", {}).get("data", {}) for r in rows(path)]
    return len(data), sum(d.get("sdk_span_type") == "turn" for d in data)


def openhands(path):
    return len(whole(path)), sum(e["source"] == "agent" and "action" in e for e in whole(path))


def otel(path):
    tools = sum(s["name"].startswith("execute_tool") for s in rows(path))
    return len(rows(path)) + tools, tools  # each tool span is a turn and a result


def swe(path):
    history = whole(path)["history"]
    return len(history), sum(m["role"] == "assistant" for m in history)


def tau2(path):
    messages = [m for s in whole(path)["simulations"] for m in s["messages"]]
    return len(messages), sum(m["role"] == "assistant" for m in messages)


def tau(path):
    messages = [m for r in whole(path) for m in r["traj"]]
    return len(messages), sum(m["role"] == "assistant" for m in messages)


def pairs(path):
    messages = [m for r in rows(path) for m in [*r["prompt"], *r["completion"]]]
    return len(messages), sum(m["role"] == "assistant" for m in messages)


def blocks(path):
    logs = path.rglob("environment_io.md")
    n = sum(log.read_text().count("### Environment Interaction") for log in logs)
    return 2 * n + 2, n  # a call and its output each, and two instructions


def histories(path):
    n = sum(len(whole(p)["history"]) for p in path.glob("*.json"))
    return n, n


F = "formats"
SAMPLES = [
    ("tau_bench_v1/gpt-4o-airline.json", "tau-bench", tau, 200),
    ("agent_process_bench/hotpotqa.jsonl", "agent-process-bench", chats, 250),
    ("who_and_when/algorithm_generated", "who-and-when", histories, 126),
    (f"{F}/anthropic_claude_code_stream/claude-code.jsonl", "claude-code", claude, 1),
    (f"{F}/appworld_own_task", "appworld", blocks, 2),
    (f"{F}/appworld_own_task/experiments/outputs/mini_run", "appworld", blocks, 2),
    (f"{F}/atif_harbor/trajectory.json", "atif", atif, 1),
    (f"{F}/inspect_ai/security-guide.json", "inspect", inspect, 3),
    (f"{F}/langgraph_langsmith/messages.json", "langsmith", langgraph, 1),
    (f"{F}/langgraph_langsmith/run_tree.json", "langsmith", run_tree, 1),
    (f"{F}/mini_swe_agent/github_issue.traj.json", "mini-swe-agent", listed, 1),
    (f"{F}/openai_agents_sdk/responses_input_list.json", "openai-responses", responses, 1),
    (f"{F}/openai_agents_sdk/trace_export.jsonl", "openai-agents-trace", trace, 1),
    (f"{F}/openhands_events/basic.json", "openhands", openhands, 1),
    (f"{F}/otel_genai/spans.jsonl", "otel-genai", otel, 1),
    (f"{F}/swe_agent_traj/marshmallow-1867_function_calling.traj", "swe-agent", swe, 1),
    (f"{F}/tau2_results/airline_results_head.json", "tau2", tau2, 7),
    (f"{F}/verifiers_prime_rl/multi_turn_rollout.jsonl", "verifiers", pairs, 1),
    (f"{F}/verifiers_prime_rl/verifiers_eval_run/results.jsonl", "verifiers", pairs, 5),
]


@pytest.mark.parametrize(("name", "format", "count", "n"), SAMPLES, ids=[s[0] for s in SAMPLES])
def test_every_message_is_accounted_for(shared_data, tmp_path, name, format, count, n):
    path = shared_data / name
    ranked = importers.detect(path)
    assert ranked[0][0] == format
    assert ranked[0][1] >= 0.8
    assert ranked[0][1] - ranked[1][1] >= 0.2
    reading = importers.read(path)
    written = write_jsonl(tmp_path / "out.jsonl", reading)
    got = list(read_jsonl(tmp_path / "out.jsonl"))
    report = reading.report
    messages, steps = count(path)
    assert report.messages == messages
    assert report.balanced
    assert written == report.trajectories == len(got) == n
    assert sum(len(t) for t in got) == report.placed["step"] == steps
    placed = sum(len(s.observations) for t in got for s in t.steps)
    assert placed == report.placed["observation"]
    assert len({t.id for t in got}) == n
    assert all(t.task.id for t in got)
    assert f"{messages} = " in str(report)


def read(shared_data, name):
    return list(importers.read(shared_data / name))


def test_outcomes_come_along(shared_data):
    def outcomes(name):
        return [t.outcome for t in read(shared_data, name)]

    assert outcomes(f"{F}/appworld_own_task") == [1.0, 0.0]
    assert outcomes(f"{F}/atif_harbor/trajectory.json") == [0.0]
    assert outcomes(f"{F}/inspect_ai/security-guide.json") == [1.0] * 3
    assert outcomes(f"{F}/tau2_results/airline_results_head.json") == [0, 1, 1, 0, 1, 1, 1]
    assert outcomes(f"{F}/verifiers_prime_rl/verifiers_eval_run/results.jsonl") == [
        1.0,
        0.2,
        0.8,
        0.2,
        1.0,
    ]
    assert set(outcomes("who_and_when/algorithm_generated")) == {0.0}


def test_human_labels_are_kept_by_step_number(shared_data):
    raw = rows(shared_data / "agent_process_bench/hotpotqa.jsonl")
    got = read(shared_data, "agent_process_bench/hotpotqa.jsonl")
    groups = group_by_task(got)
    assert [len(g) for g in groups] == [5] * 50
    assert sum(len({t.outcome for t in g.trajectories}) > 1 for g in groups) == 26
    assert sum(-1 in t.labels["steps"].values() for t in got) == 104
    for one, t in zip(raw, got, strict=True):
        assert len(t.labels["steps"]) == len(one["step_labels"]) == len(t)
        for index, label in one["step_labels"].items():
            said = one["messages"][int(index)]
            turn = [m for m in one["messages"][: int(index) + 1] if m["role"] == "assistant"]
            step = t.steps[len(turn) - 1]
            assert t.labels["steps"][str(len(turn))] == label
            assert [c.arguments for c in step.calls] == [
                c["function"]["arguments"] for c in said.get("tool_calls") or []
            ]


def test_mistakes_are_steps_from_one_and_doubts_are_flagged(shared_data):
    folder = shared_data / "who_and_when/algorithm_generated"
    got = {t.id: t for t in importers.read(folder)}
    for path in folder.glob("*.json"):
        raw, t = whole(path), got[path.stem]
        assert t.labels["mistake_step"] == int(raw["mistake_step"]) + 1
        entry = raw["history"][int(raw["mistake_step"])]
        assert t.steps[t.labels["mistake_step"] - 1].text == entry["content"]
        assert t.task.prompt == raw["question"]
    assert [i for i, t in got.items() if "agent_and_step_disagree" in t.labels] == [
        "14",
        "15",
        "59",
    ]


def test_parts_of_one_api_message_are_one_step(shared_data):
    (t,) = read(shared_data, f"{F}/anthropic_claude_code_stream/claude-code.jsonl")
    second = t.steps[1]
    assert second.thinking.startswith("The user wants me")
    assert second.text.strip().startswith("I'll implement")
    assert [c.name for c in second.calls] == ["Bash"]
    assert [o.text for o in second.observations] == ["(Bash completed with no output)"]
    assert t.termination == "finished"


def test_spans_without_content_say_so(shared_data):
    for name in (f"{F}/otel_genai/spans.jsonl", f"{F}/openai_agents_sdk/trace_export.jsonl"):
        (t,) = read(shared_data, name)
        assert any("calls and results only" in w for w in t.warnings)
        assert [c.name for s in t.steps for c in s.calls] == [
            "get_order",
            "get_order",
            "cancel_order",
        ]


def test_a_mixed_folder_names_what_it_leaves_out(shared_data):
    reading = importers.read(shared_data / F / "atif_harbor")
    assert len(list(reading)) == 1
    assert reading.report.format == "atif"
    ((text, left),) = [(k, d) for k, d in reading.report.warnings.items() if "left out" in k]
    assert left.places == ["SOURCE.txt", "result.json", "reward.txt"]
    assert "atif" in text
