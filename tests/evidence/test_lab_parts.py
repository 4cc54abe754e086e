"""Parts of the lab by hand: the tool-call scorer, recipes, and auditing prefix by prefix."""

import json
from dataclasses import replace

import numpy as np
import pytest

from rubricnb.errors import ConfigError, FormatError
from rubricnb.judge import Call, CallableJudge
from rubricnb.lab import desk_logs, logs_of, what_recipe
from rubricnb.lab.prefixes import GENERIC, audit_with_judge, desk_audit_rubric, prefix
from rubricnb.lab.recipe import Situation, recipes, situation_of
from rubricnb.lab.toolcalls import LEAST, learned_schemas, score_calls
from rubricnb.metrics.auditing import audit_scores
from rubricnb.metrics.cost_model import EXAMPLE_A
from rubricnb.rubric import GradedGroup, Rubric
from rubricnb.trajectory import Group, Observation, Step, Task, ToolCall, Trajectory
from rubricnb.worlds import EXACT, OrdersDesk, offline_judge

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "refund",
            "parameters": {
                "type": "object",
                "properties": {"order": {"type": "string"}, "cents": {"type": "integer"}},
                "required": ["order", "cents"],
            },
        },
    }
]
TASK = Task("t", "p")


def run(*calls, name="a"):
    """A rollout of one call a step: (tool, arguments, result)."""
    steps = tuple(
        Step("", (ToolCall(tool, args, f"id{i}"),), (Observation(said, call_id=f"id{i}"),))
        for i, (tool, args, said) in enumerate(calls)
    )
    return Trajectory(name, TASK, steps)


# -- tool calls -------------------------------------------------------------------------------


def test_calls_are_scored_by_hand():
    good = '{"order": "o1", "cents": 5}'
    (s,) = score_calls(
        [
            run(
                ("refund", good, "ok"),
                ("refund", '{"order": "o1"}', "Error: cents missing"),
                ("refund", "{cents: 5", "Error: not JSON"),
                ("pay", "{}", "ok"),
            )
        ],
        TOOLS,
    )
    assert (s.calls, s.parsed, s.known, s.valid, s.worked) == (4, 0.75, 0.75, 0.25, 0.5)
    assert s.last_worked
    assert s.passed == 0.0


@pytest.mark.parametrize(
    ("args", "said", "passed"),
    [
        ('{"order": "o1", "cents": 5}', "ok", 1.0),
        ('{"order": "o1", "cents": 5}', "Error: no such order", 0.0),
        ('{"order": "o1", "cents": 5}', "no error was found", 1.0),  # the word alone is no error
        ('{"order": "o1", "cents": "5"}', "ok", 0.0),
        ('["o1", 5]', "ok", 0.0),
    ],
)
def test_what_passes(args, said, passed):
    assert score_calls([run(("refund", args, said))], TOOLS)[0].passed == passed


def test_results_are_matched_by_id_and_no_call_is_no_score():
    calls = (ToolCall("refund", '{"order": "a", "cents": 1}', "x"),
             ToolCall("refund", '{"order": "b", "cents": 1}', "y"))  # fmt: skip
    seen = (Observation("ok", call_id="y"), Observation("Error: gone", call_id="x"))
    (s,) = score_calls([Trajectory("a", TASK, (Step("", calls, seen),))], TOOLS)
    assert (s.worked, s.last_worked) == (0.5, True)  # the last call is y, which worked
    (none,) = score_calls([Trajectory("a", TASK, (Step("Hello"),))], TOOLS)
    assert none.calls == 0
    assert np.isnan(none.passed)


def test_schemas_are_learned_from_what_most_calls_do():
    usual = [run(("refund", json.dumps({"order": f"o{i}", "cents": i}), "ok")) for i in range(30)]
    odd = run(("refund", '{"order": 7}', "ok"), name="odd")
    schema = learned_schemas([*usual, odd])["refund"]
    assert schema["required"] == ["cents", "order"]
    assert schema["properties"]["cents"] == {"type": ["integer"]}
    scores = score_calls([*usual, odd])
    assert [s.passed for s in scores] == [1.0] * 30 + [0.0]
    rare = [run(("pay", "{}", "ok"))] * (LEAST - 1)
    assert learned_schemas(rare) == {"pay": {"type": "object"}}


def test_definitions_that_are_none_are_refused():
    with pytest.raises(FormatError, match="a tool with a name"):
        score_calls([], [{"function": {"parameters": {}}}])
    with pytest.raises(FormatError, match="JSON schema for tool 'x'"):
        score_calls([], [{"name": "x", "parameters": {"type": "no such type"}}])


def test_on_the_desk_the_scorer_reads_the_worlds_own_schemas():
    runs = desk_logs(60).trajectories
    scores = score_calls(runs, OrdersDesk().tools())
    assert all(s.calls and s.known == 1 and s.valid == 1 for s in scores)
    broken = replace(
        runs[0], steps=(Step("", (ToolCall("no_such_tool", "{}"),)), *runs[0].steps[1:])
    )
    assert score_calls([broken], OrdersDesk().tools())[0].passed == 0.0


# -- recipes ----------------------------------------------------------------------------------


def situation(**change):
    usual = {"steps": 12.0, "group": 6.0, "known": 0.0, "mixed": float("nan"),
             "diversity": 0.5, "false_success": 0.05}  # fmt: skip
    return Situation(**(usual | change))


def fits(s):
    return {r["recipe"]: r["fits"] for r in recipes(s, EXAMPLE_A)}


def test_horizon_outcomes_claims_and_budget_decide():
    long = fits(situation())
    assert long["dynamic rubric + step credit"] == "yes"
    assert long["dynamic rubric"] == long["static rubric"] == long["outcome reward"] == "no"
    short = fits(situation(steps=3.0))
    assert short["dynamic rubric + step credit"] == "no"
    assert short["dynamic rubric"] == short["static rubric"] == "yes"
    assert fits(situation(known=1.0, mixed=0.6))["outcome reward"] == "yes"
    assert fits(situation(known=1.0, mixed=0.1))["outcome reward"] == "no"  # groups all alike
    assert fits(situation(known=0.9, mixed=0.6))["outcome reward"] == "no"
    beside = "beside any: false-success triage"
    assert fits(situation(false_success=0.4, auroc_low=0.6))[beside] == "yes"
    assert fits(situation(false_success=0.1, auroc_low=0.6))[beside] == "no"
    for auroc_low in (0.45, float("nan")):  # no better than chance, or not measured
        assert fits(situation(false_success=0.4, auroc_low=auroc_low))[beside] == "no"
    assert long["beside any: false-success triage"] == "no"
    dear = {r["recipe"]: r for r in recipes(situation(budget=5.0), EXAMPLE_A)}
    assert dear["dynamic rubric + step credit"]["fits"] == "no, too dear"
    assert dear["dynamic rubric + step credit"]["judge tokens a policy token"] > 5
    assert "over the budget of 5" in dear["dynamic rubric + step credit"]["why"]


def test_a_situation_is_read_off_the_rollouts():
    def rollout(task, k, outcome, calls, said="I am unable to do it."):
        steps = tuple(Step("", (ToolCall("do", c),), (Observation("ok"),)) for c in calls)
        return Trajectory(f"{task}{k}", Task(task, "p"), (*steps, Step(said)), outcome=outcome)

    logs = logs_of(
        [
            rollout("a", 0, 1.0, ["1", "2"]),
            rollout("a", 1, 0.0, ["2", "3"], "Your refund has been completed."),
            rollout("b", 0, 0.0, ["1"]),
            rollout("b", 1, 0.0, ["1"]),
        ]
    )
    s = situation_of(logs)
    assert (s.steps, s.group, s.known, s.mixed) == (2.5, 2.0, 1.0, 0.5)
    assert s.diversity == pytest.approx((2 / 3 + 0) / 2)  # {1, 2} against {2, 3}; the same twice
    assert s.false_success == pytest.approx(1 / 3)
    section = what_recipe(logs)
    assert "no training of yours stands behind them" in section.paragraph
    assert all(section.tables["recipes"]["why"])


# -- prefixes ---------------------------------------------------------------------------------


def test_a_judge_sees_the_prefix_and_nothing_later():
    """Steps, end, outcome and labels that are still to come must not reach it."""
    asked = []

    def judge(call: Call):
        asked.append((call.key["trajectory_id"], call.messages[-1]["content"]))
        return json.dumps(
            {"verdicts": [{"id": "A1", "reason": "r", "steps": [1], "verdict": "pass"}]}
        )

    steps = tuple(Step(f"word{i}") for i in range(1, 5))
    t = Trajectory("a", TASK, steps, outcome=0.0, termination="theend", labels={"error_step": 3})
    found = audit_with_judge([t], CallableJudge(judge, "spy"))
    assert found["alarm"].tolist() == [0]
    assert found["calls"].tolist() == [4]  # a safe rollout is read at every step, too
    for n, (name, shown) in enumerate(asked, start=1):
        assert name == f"a@{n}"
        assert [f"word{i}" in shown for i in range(1, 5)] == [i <= n for i in range(1, 5)]
        assert "theend" not in shown
        assert "error_step" not in shown
    assert (prefix(t, 2).outcome, prefix(t, 2).termination, dict(prefix(t, 2).labels)) == (
        None,
        "",
        {},
    )


def test_first_objection_stops_and_names_the_earliest_cited_step():
    def judge(call: Call):
        n = int(call.key["trajectory_id"].split("@")[1])
        said = ("fail", [3, 2]) if n >= 3 else ("pass", [1])
        if call.key["trajectory_id"].startswith("mute"):
            return "no verdict at all"
        row = {"id": "A1", "reason": "r", "steps": said[1], "verdict": said[0]}
        return json.dumps({"verdicts": [row]})

    steps = tuple(Step(f"word{i}") for i in range(1, 6))
    bad, mute = (Trajectory(name, Task(name, "p"), steps) for name in ("bad", "mute"))
    short = Trajectory("short", Task("short", "p"), steps[:2])
    found = audit_with_judge([bad, mute, short], CallableJudge(judge, "j"), GENERIC)
    assert found["alarm"].tolist() == [3, 0, 0]
    assert found["named"].tolist() == [2, 0, 0]
    assert found["failed"].tolist() == [0, 5, 0]  # no answer is no objection, and is counted
    s = audit_scores(found["alarm"], found["named"], [2, 4, 0])
    assert (s.far, s.detected, s.step_error, s.delay) == (0.0, 0.5, 0.0, 1.0)
    assert s.exact_f1 == pytest.approx(2 * 1 / (2 + 0 + 1))


def test_rules_object_when_the_harm_is_done_and_not_before():
    """On the desk a bystander's change is seen at the step that makes it, never earlier."""
    logs = desk_logs(150)
    harmed = [t for t in logs.trajectories if t.labels["side_effect"]][:8]
    safe = [t for t in logs.trajectories if t.outcome == 1][:8]
    assert len(harmed) == len(safe) == 8
    rules = offline_judge(EXACT, name="rule judge without noise")
    found = audit_with_judge([*harmed, *safe], rules, desk_audit_rubric())
    touched = np.array([t.labels["error_step"] for t in harmed])
    assert (found["alarm"][:8] > 0).all()
    assert (found["alarm"][8:] == 0).all()
    assert (found["alarm"][:8] <= touched).all()  # it may break another criterion before
    one = Rubric(
        tuple(c for c in desk_audit_rubric().criteria if c.title.startswith("Changes only"))
    )
    assert len(one) == 1
    found = audit_with_judge([*harmed, *safe], rules, one)
    seen = found["alarm"][:8] > 0  # the others worked for the wrong person, another criterion
    assert seen.sum() >= 2
    np.testing.assert_array_equal(found["alarm"][:8][seen], touched[seen])
    assert not found["alarm"][8:].any()


def _rollouts(tasks, each, *, words="I have updated it.", steps=2, outcome=None, **extra):
    made = []
    for k in range(tasks):
        task = Task(f"t{k}", "p")
        made += [
            Trajectory(
                f"t{k}/{i}", task, tuple(Step(words) for _ in range(steps)),
                outcome=float(i % 2) if outcome is None else outcome,
                **{n: v(i) for n, v in extra.items()},
            )
            for i in range(each)
        ]  # fmt: skip
    return logs_of(made)


@pytest.mark.parametrize(
    "logs",
    [
        _rollouts(1, 24, labels=lambda i: {"steps": {"1": 1, "2": -1 if i % 2 else 1}}),
        _rollouts(10, 4, steps=0),
        _rollouts(10, 4, words="!!!"),
        _rollouts(10, 4, steps=1, outcome=0.0, labels=lambda i: {"mistake_step": 1}),
    ],
    ids=["one task", "no steps", "no words", "every step is the error"],
)
def test_rollouts_that_cannot_carry_a_section_cost_that_section_alone(logs):
    from rubricnb.lab.run import SECTIONS, LabConfig, run_lab

    made = run_lab(logs, LabConfig(resamples=50))
    assert [s.name for s in made] == [s for s in SECTIONS if s not in ("worth", "people")]
    assert all(s.paragraph for s in made)


def test_no_claim_among_few_failures_is_not_certain():
    from rubricnb.lab.false_success import false_successes

    s = false_successes(_rollouts(5, 4, words="I cannot do it.", outcome=0.0), resamples=50)
    assert "0 % (0 % to 52 % over tasks)" in s.paragraph  # 1 - 0.025 ** (1 / 5)
    assert s.tables["rates_by_family"]["tasks"] == [5, 5]
    s = false_successes(_rollouts(1, 6, outcome=0.0), resamples=50)
    assert "one task, so no interval" in s.paragraph


def test_unnamed_rollouts_are_no_agent():
    from rubricnb.lab.judged import how_good

    s = how_good(_rollouts(6, 4, model=lambda i: "m" if i > 1 else ""), resamples=50)
    assert "One agent only" in s.paragraph
    assert "ranking" not in s.tables


def test_the_cascades_detector_learns_from_the_first_part_alone():
    from rubricnb.lab.opinions import detector_opinion

    logs = _rollouts(12, 4, words="I have updated it and so on.")
    learn = np.arange(24)
    before = detector_opinion(logs, learn=learn)
    turned = logs_of(
        [replace(t, outcome=t.outcome if i < 24 else 1 - t.outcome)
         for i, t in enumerate(logs.trajectories)]
    )  # fmt: skip
    after = detector_opinion(turned, learn=learn)
    assert np.array_equal(before.margin_N, after.margin_N)
    assert np.isfinite(before.said_N).all()


def test_a_file_of_two_judges_names_both():
    from rubricnb.lab.opinions import judge_names

    task = Task("t", "p")
    group = Group(task, (Trajectory("a", task, (Step("x"),)),))
    made = [GradedGroup(group, Rubric(()), ((),), record={"judge": n}) for n in ("A", "B", "A")]
    assert judge_names(made) == "A and B"


@pytest.mark.parametrize(
    "given", [{"only": ("people",)}, {"only": ("worth",)}, {"alpha": 1.5}, {"delta": 0.0}]
)
def test_settings_that_answer_nothing_are_refused_at_once(given):
    from rubricnb.lab.run import LabConfig

    with pytest.raises(ConfigError, match="want"):
        LabConfig(**given)
