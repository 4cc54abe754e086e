"""Damaged samples: an import gives values and a balanced report, or a FormatError with a place."""

import json
import random
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rubricnb import importers
from rubricnb.errors import FormatError
from rubricnb.files import decode, encode

F = "formats"
SAMPLES = [
    "tau_bench_v1/gpt-4o-airline.json",
    "agent_process_bench/hotpotqa.jsonl",
    "who_and_when/algorithm_generated/1.json",
    f"{F}/anthropic_claude_code_stream/claude-code.jsonl",
    f"{F}/atif_harbor/trajectory.json",
    f"{F}/inspect_ai/security-guide.json",
    f"{F}/langgraph_langsmith/messages.json",
    f"{F}/langgraph_langsmith/run_tree.json",
    f"{F}/mini_swe_agent/github_issue.traj.json",
    f"{F}/openai_agents_sdk/responses_input_list.json",
    f"{F}/openai_agents_sdk/trace_export.jsonl",
    f"{F}/openhands_events/basic.json",
    f"{F}/otel_genai/spans.jsonl",
    f"{F}/swe_agent_traj/marshmallow-1867_function_calling.traj",
    f"{F}/tau2_results/airline_results_head.json",
    f"{F}/verifiers_prime_rl/multi_turn_rollout.jsonl",
    f"{F}/verifiers_prime_rl/verifiers_eval_run/results.jsonl",
]
JUNK = [
    *(None, True, 0, -1, 1.5, float("nan"), "", "x", "\x1b[31m\x00\ud800", [], {}, [None]),
    *({"a": 1}, "9" * 30, [[]], [{"role": "assistant"}], {"type": "unknown_event"}, 10**400),
]


def load(path):
    """The sample's value, cut to a few records, and whether it is JSON lines."""
    text = path.read_text()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()][:20], True
    value = json.loads(text)
    if "airline.json" in path.name:
        value = value[:3]
    if isinstance(value, dict) and "simulations" in value:
        value["simulations"] = value["simulations"][:2]
    return value, False


def nodes(value, found, depth=0):
    if isinstance(value, (dict, list)) and depth < 9:
        found.append(value)
        for one in value.values() if isinstance(value, dict) else value:
            nodes(one, found, depth + 1)
    return found


def mutate(value, r):
    """Drop members, put junk in their place, shuffle, add events of unknown types."""
    found = nodes(value, [])
    for _ in range(r.choice([1, 1, 2, 5])):
        node = r.choice(found[: max(3, len(found) // r.choice([1, 4, 20]))])
        if not node:
            continue
        key = r.choice(list(node)) if isinstance(node, dict) else r.randrange(len(node))
        kind = r.random()
        if kind < 0.4:
            del node[key]
        elif kind < 0.6:
            node[key] = r.choice(JUNK)
        elif isinstance(node, dict):
            items = list(node.items())
            r.shuffle(items)
            node.clear()
            node.update(items)
        elif kind < 0.8:
            r.shuffle(node)
        else:
            node.insert(key, r.choice(JUNK))


def damaged(value, is_lines, seed):
    """The bytes of a sample after mutation, cuts and a wrong byte, as the seed says."""
    r = random.Random(seed)
    value = json.loads(json.dumps(value))
    if r.random() < 0.8:
        mutate(value, r)
    if is_lines:
        text = "".join(json.dumps(v) + "\n" for v in value)
    else:
        text = json.dumps(value, indent=r.choice([None, 1]))
    data = text.encode()
    if r.random() < 0.4:
        data = data[: r.randrange(len(data) + 1)]
    if r.random() < 0.1 and data:
        at = r.randrange(len(data))
        data = data[:at] + bytes([r.randrange(256)]) + data[at + 1 :]
    format = None if r.random() < 0.7 else r.choice(list(importers.FORMATS))
    return data, format, r.random() < 0.1


def check(path, format, redact):
    refused = ""
    try:
        reading = importers.read(path, format, redact=redact)
        got = list(reading)
    except FormatError as e:
        refused = str(e)
    if refused:
        assert path.name in refused
        assert re.search(r"line \d+|want the folder", refused), refused
        return
    report = reading.report
    assert report.balanced, report.to_dict()
    assert report.placed["step"] == sum(len(t) for t in got)
    assert len({t.id for t in got}) == len(got) > 0
    json.dumps(report.to_dict(), allow_nan=False)
    for t in got:
        line = encode(t)
        assert decode(line) == t
        assert "\x00" not in (said := repr(t))
        assert not re.search("[\ud800-\udfff\x1b]", said)


@pytest.mark.parametrize("name", SAMPLES)
def test_damage_gives_values_or_a_format_error(shared_data, tmp_path, name):
    value, is_lines = load(shared_data / name)
    path = tmp_path / (shared_data / name).name

    @settings(
        max_examples=60,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32))
    def run(seed):
        data, format, redact = damaged(value, is_lines, seed)
        path.write_bytes(data)
        check(path, format, redact)

    run()


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(
    st.one_of(
        st.binary(max_size=300),
        st.text(max_size=200).map(lambda s: s.encode("utf-8", "surrogatepass")),
    )
)
def test_garbage_is_refused_and_no_format_is_sure_of_it(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "garbage.jsonl"
    path.write_bytes(data)
    assert importers.detect(path)[0][1] < 0.3
    with pytest.raises(FormatError, match=r"garbage.jsonl, line 1: want one of the formats"):
        importers.read(path)


def test_half_the_file_keeps_the_whole_records_before_the_cut(shared_data, tmp_path):
    text = (shared_data / "tau_bench_v1/gpt-4o-airline.json").read_text()
    path = tmp_path / "cut.json"
    path.write_text(text[: len(text) // 2])
    reading = importers.read(path)
    got = list(reading)
    whole = list(importers.read(shared_data / "tau_bench_v1/gpt-4o-airline.json"))
    assert 90 < len(got) < 110
    assert [t.steps for t in got] == [t.steps for t in whole[: len(got)]]
    ((reason, dropped),) = reading.report.dropped.items()
    assert "cut" in reason
    line = int(dropped.places[0].split()[1])
    assert abs(line - (path.read_text().count("\n") + 1)) <= 1


def test_a_cut_single_run_keeps_its_first_steps(shared_data, tmp_path):
    for name in (f"{F}/atif_harbor/trajectory.json", f"{F}/mini_swe_agent/github_issue.traj.json"):
        text = (shared_data / name).read_text()
        path = tmp_path / (shared_data / name).name
        path.write_text(text[: int(len(text) * 0.6)])
        (t,) = importers.read(path)
        (full,) = importers.read(shared_data / name)
        assert 2 < len(t) < len(full)
        assert [s.text for s in t.steps] == [s.text for s in full.steps[: len(t)]]
        assert any("cut at line" in w for w in t.warnings)
