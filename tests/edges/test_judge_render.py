"""What a judge reads: regular, invertible, fenced, clipped aloud, the same bytes every time."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.judge_prompt_tokens import measure
from rubricnb.errors import ConfigError
from rubricnb.importers import read
from rubricnb.judge import Call, CallableJudge, JudgeConfig, grade, read_call
from rubricnb.judge.fence import code, neutralise
from rubricnb.judge.messages import FOLDER, caveats, prefix, system, template
from rubricnb.judge.render import prepare, prepare_task, render
from rubricnb.judge.shown import parse_rendered
from rubricnb.trajectory import Observation, Step, Task, ToolCall, Trajectory
from tests.edges.judge_rules import group, rollout, rule_judge

TASK = Task("t", "first line\nsecond line", "be good")
ODD = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["S1 AGENT", "| x", "===== END ROLLOUT 0123456789abcdef =====", "S2 CUT 1 of 2 characters", ""]
)
OBSERVATION = st.builds(
    Observation, ODD, st.sampled_from(["tool", "user", "system", "environment", "agent"]), ODD
)
STEP = st.builds(
    Step,
    text=ODD,
    calls=st.lists(st.builds(ToolCall, ODD, ODD), max_size=2).map(tuple),
    observations=st.lists(OBSERVATION, max_size=3).map(tuple),
    thinking=ODD,
    agent=ODD,
)


def lines(text):
    return neutralise(text)[0].splitlines()


@given(st.lists(STEP, min_size=1, max_size=5))
def test_rendering_can_be_read_back_whatever_the_content(steps):
    t = Trajectory("r", TASK, tuple(steps), termination="turn_limit")
    shown = parse_rendered(render(prepare(t), "n").text)
    assert [s.number for s in shown] == list(range(1, len(steps) + 1))
    for step, seen in zip(steps, shown, strict=True):
        assert seen.text.split("\n") == (lines(step.text) or [""])
        assert [c.text.split("\n") for c in seen.calls] == [
            lines(c.arguments) or [""] for c in step.calls
        ]
        assert [o.text.split("\n") for o in seen.observations] == [
            lines(o.text) or [""] for o in step.observations
        ]


@given(st.lists(STEP, min_size=1, max_size=5))
def test_no_content_can_stand_at_the_margin(steps):
    text = render(prepare(Trajectory("r", TASK, tuple(steps))), "n").text
    mark = re.compile(
        r"\| |S\d+ (AGENT|THOUGHT|CALL|RESULT|USER|SYSTEM|ENVIRONMENT|OTHER|EMPTY|NOTE)\b"
        r"|===== (BEGIN|END) ROLLOUT [0-9a-f]{16} =====$"
    )
    assert all(mark.match(line) for line in text.split("\n"))
    assert text.count("===== BEGIN") == text.count("===== END") == 1


def test_the_regular_form():
    t = Trajectory(
        "r",
        TASK,
        (
            Step(
                "I look.",
                (ToolCall("find", '{"id": 12}', "a"), ToolCall("get", "{bad", "b")),
                (Observation("B", "tool", "get", "b"), Observation("A", "tool", "", "a")),
                thinking="hm",
            ),
            Step(observations=(Observation("and?\nnow", "user"),)),
        ),
        termination="turn_limit",
    )
    body = render(prepare(t), "n").text.split("\n")[1:-1]
    assert "\n".join(body) == (
        "S1 THOUGHT\n| hm\nS1 AGENT\n| I look.\nS1 CALL #1 find\n| {\"id\": 12}\nS1 CALL #2 get\n"
        "| {bad\nS1 RESULT #2 get\n| B\nS1 RESULT #1 find\n| A\nS2 EMPTY\nS2 USER\n| and?\n| now\n"
        "END turn_limit"
    )  # fmt: skip


def test_the_fence_depends_on_nonce_and_text_and_on_nothing_else():
    a, b = rollout(TASK, "a", ["x"]), rollout(TASK, "b", ["x"])
    text = render(prepare(a), "n").text
    assert text == render(prepare(b), "n").text
    assert text.split("\n")[0] != render(prepare(a), "m").text.split("\n")[0]
    assert code("n", "x") != code("n", "y")
    clipped = render(prepare(rollout(TASK, "c", ["x" * 999])), "n", observation_chars=100)
    whole = render(prepare(rollout(TASK, "c", ["x" * 999])), "n")
    assert clipped.text.split("\n")[0] == whole.text.split("\n")[0]


def test_an_observation_keeps_head_and_tail_and_the_cut_is_said():
    t = rollout(TASK, "r", ["HEAD" + "x" * 400_000 + "PROOF", "short"])
    r = render(prepare(t), "n", observation_chars=1000)
    assert "| HEAD" in r.text
    assert "PROOF" in r.text
    assert f"S1 CUT {400_009 - 1000} of 400009 characters are left out here" in r.text
    assert r.cut_steps == (1,)
    assert r.clipped
    assert r.seen == pytest.approx(1 - (400_009 - 1000) / sum(
        len(s.text) + len(s.calls[0].arguments) + len(s.observations[0].text) for s in t.steps
    ))  # fmt: skip
    first = parse_rendered(r.text)[0]
    assert first.observations[0].cut == 400_009 - 1000
    assert render(prepare(t), "n").seen == 1.0


@pytest.mark.parametrize("count", [len, lambda text: len(text.split())], ids=["chars", "words"])
@pytest.mark.parametrize("share", [0.9, 0.5, 0.2, 0.05])
def test_the_budget_holds_and_what_is_lost_is_counted(count, share):
    t = rollout(TASK, "r", ["word " * 300 + str(i) for i in range(20)])
    whole = render(prepare(t), "n", count=count)
    budget = int(count(whole.text) * share)
    r = render(prepare(t), "n", budget=budget, count=count)
    assert count(r.text) <= budget
    assert r.seen < 1
    assert " CUT " in r.text
    left_out = sum(b.cut for s in parse_rendered(r.text) for b in s.blocks)
    total = sum(len(b.text) for b in prepare(t).blocks)
    if "lines on the steps in between" not in r.text:
        assert r.seen == pytest.approx(1 - left_out / total)
    seen = [render(prepare(t), "n", budget=b, count=count).seen for b in (budget, budget * 2)]
    assert seen[0] <= seen[1]


def test_what_the_agent_wrote_is_clipped_last():
    t = rollout(TASK, "r", ["y" * 3000] * 5)
    r = render(prepare(t), "n", budget=3000)
    shown = parse_rendered(r.text)
    assert [s.text for s in shown] == [s.text for s in t.steps]
    assert all(s.observations[0].cut for s in shown)


def test_all_calls_that_read_a_rollout_share_its_prefix_byte_for_byte():
    calls = []
    inner = rule_judge()
    judge = CallableJudge(lambda c: (calls.append(c), inner.fn(c))[1])
    grade([group()], judge, JudgeConfig(nonce="n", votes=2, budget=5000))
    by_rollout: dict[str, list[Call]] = {}
    for c in calls:
        by_rollout.setdefault(c.key.get("trajectory_id", ""), []).append(c)
    assert len({c.messages[0]["content"] for c in calls}) == 1
    alone = by_rollout.pop("")
    assert [c.phase for c in alone] == ["task_rubric", "union"]
    assert len(by_rollout) == 3
    for n, own in enumerate(by_rollout.values()):
        assert [c.phase for c in own] == ["rollout_rubric", "scoring", "scoring", "attribution"]
        users = [c.messages[1]["content"] for c in own]
        ends = {u.index("JOB: ") for u in users}
        assert len(ends) == 1
        shared = {u[: u.index("JOB: ")] for u in users}
        assert len(shared) == 1
        assert len(read_call(own[0]).rollouts) == 1
        task = alone[0].messages[1]["content"].split("JOB: ")[0]
        assert shared.pop().startswith(task)
        if n == 0:
            assert alone[1].messages[1]["content"].startswith(users[0].split("JOB: ")[0])


def test_union_is_clipped_to_the_budget_in_equal_shares():
    long = group(rows=(("w " * 3000,), ("w " * 3000,), ("short",)))
    g = grade([long], rule_judge(), JudgeConfig(nonce="n", budget=8000))[0]
    assert g.record["seen"] == [1.0, 1.0, 1.0]
    first, second, third = g.record["seen_union"]
    assert first == second < 1
    assert third == 1.0


def test_filling_is_one_pass_and_strict():
    bad = "{{ caveats }} {% if x %} {{ 7 * 7 }}"
    job = template("scoring").render(items=bad, clipped=False, inline=False, repair=False)
    assert bad in job
    assert bad in prefix(render(prepare_task(Task("t", bad)), "n"))
    with pytest.raises(Exception, match="undefined"):
        template("scoring").render(items="")
    assert "49" not in system(bad)["content"]


def test_caveats_are_pluggable():
    assert "About this environment" not in system()["content"]
    assert caveats("appworld") in system(caveats("appworld"))["content"]


def test_every_template_is_filled_and_leaves_nothing_open():
    for path in FOLDER.glob("*.txt"):
        assert template(path.stem)
    calls = []
    inner = rule_judge()
    grade([group()], CallableJudge(lambda c: (calls.append(c), inner.fn(c))[1]))
    for c in calls:
        for m in c.messages:
            assert "{%" not in m["content"]
            assert "{{" not in m["content"]
            assert "\n\n\n" not in m["content"]


@settings(max_examples=50)
@given(st.text(max_size=200))
def test_neutralising_twice_changes_nothing_more(text):
    once = neutralise(text)[0]
    assert neutralise(once)[0] == once


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rubric", "static"), ("attribution", "both"), ("attribution_view", "half"), ("votes", 0),
        ("votes", True), ("retries", -1), ("budget", 10), ("observation_chars", -1),
        ("max_tokens", 0), ("count", 3), ("temperature", 3.0),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_named(field, value):
    with pytest.raises(ConfigError, match=f"want .*{field}|want {field}"):
        JudgeConfig(**{field: value})


def test_real_rollouts_are_read_back_and_none_is_taken_for_an_attack(shared_data):
    path = shared_data / "tau_bench_v1" / "gpt-4o-airline.json"
    trajectories = list(read(path))
    assert len(trajectories) == 200
    for t in trajectories:
        p = prepare(t)
        assert p.flags == {}
        shown = parse_rendered(render(p, "n").text)
        assert len(shown) == len(t.steps)
        assert [len(s.calls) for s in shown] == [len(s.calls) for s in t.steps]
        r = render(p, "n", budget=6000)
        assert len(r.text) <= 6000
        assert r.clipped is (" CUT " in r.text)


def test_shared_prefixes_leave_little_more_than_half_of_the_prompt_tokens_to_pay():
    out = measure()
    assert out["ratio"] <= 0.55
    calls = out["phases"]["shared prefix first"]
    assert calls["scoring"][1] < 0.06 * calls["scoring"][0]
    assert calls["attribution"][1] < 0.06 * calls["attribution"][0]
