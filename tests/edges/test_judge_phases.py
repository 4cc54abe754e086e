"""The five phases: calls, limits, votes, repairs, and what follows from each failure."""

import asyncio
import json
import time

import numpy as np
import pytest

from rubricnb.errors import BudgetError, CallError, ConfigError, JudgeError, QuotaError
from rubricnb.files import decode, encode
from rubricnb.grading import arrays
from rubricnb.judge import (
    CallableJudge,
    JudgeConfig,
    Reply,
    Usage,
    grade,
    grade_group,
    grade_iter,
    grade_stream,
)
from rubricnb.judge.quotes import Quotes
from rubricnb.judge.render import prepare
from rubricnb.judge.verdicts import attributed
from rubricnb.rubric import Criterion, FailedJudgement, Label, Rubric, Verdict
from rubricnb.trajectory import Group, Step, Task, Trajectory
from tests.edges.judge_rules import criterion, group, rollout, rule_judge

PASS, FAIL, NA = Label.PASS, Label.FAIL, Label.NOT_APPLICABLE
N = JudgeConfig(nonce="n")
FIXED = Rubric(tuple(Criterion(f"K{i}", f"shows {w}", instruction=f"want {w}") for i, w in
                     enumerate("ab")))  # fmt: skip


def phases(graded):
    return graded.record["calls"]


def on(phase, then, trajectory=None, repair=None, vote=None):
    """A change of the rule judge's replies for some calls."""

    def change(call, out):
        key = call.key
        if call.phase != phase or (trajectory and key.get("trajectory_id") != trajectory):
            return None
        if repair is not None and bool(key.get("repair")) is not repair:
            return None
        if vote is not None and key.get("vote") != vote:
            return None
        return then(call, out) if callable(then) else then

    return change


def without(*ids):
    """A reply that lacks some verdicts."""
    return lambda call, out: json.dumps(
        {"verdicts": [v for v in out["verdicts"] if v["id"] not in ids]}
    )


def with_field(cid, **fields):
    return lambda call, out: json.dumps(
        {"verdicts": [{**v, **fields} if v["id"] == cid else v for v in out["verdicts"]]}
    )


# What is asked


def test_twenty_calls_when_a_task_is_new_and_nineteen_after():
    rows = [("a", "b")] * 3 + [("a", "x checked")] * 3
    known = {}
    first, second = (
        grade([group(rows=rows)], rule_judge(), N, task_rubrics=known)[0] for _ in range(2)
    )
    assert phases(first) == {
        "task_rubric": 1, "rollout_rubric": 6, "union": 1, "scoring": 6, "attribution": 6,
    }  # fmt: skip
    assert sum(phases(first).values()) == 20
    assert sum(phases(second).values()) == 19
    assert first.judgements == second.judgements


def test_groups_of_one_task_in_flight_together_ask_for_its_rubric_once():
    graded = grade([group(), group(), group("t2")], rule_judge(), N)
    assert [g.record["calls"].get("task_rubric", 0) for g in graded] == [1, 0, 1]


def test_the_memory_of_task_rubrics_outlives_the_nonce_but_not_another_prompt():
    known = {}
    run = [
        grade([group(needs=w)], rule_judge(), JudgeConfig(caveats=c), task_rubrics=known)[0]
        for w, c in (("a b", ""), ("a b", ""), ("a c", ""), ("a b", "other"))
    ]
    assert [g.record["calls"].get("task_rubric", 0) for g in run] == [1, 0, 1, 1]
    assert run[0].record["nonce"] != run[1].record["nonce"]


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({"votes": 3}, {"scoring": 9, "attribution": 3}),
        ({"attribution": "inline"}, {"scoring": 3}),
        ({"attribution": "none"}, {"scoring": 3}),
        ({"attribution_view": "summary"}, {"scoring": 3, "attribution": 3}),
    ],
)
def test_options_change_the_calls_and_not_the_verdicts(options, calls):
    g = grade([group()], rule_judge(), JudgeConfig(nonce="n", rubric=FIXED, **options))[0]
    assert phases(g) == calls
    assert [[j.label for j in row] for row in g.judgements] == [[PASS, PASS], [PASS, FAIL],
                                                               [FAIL, FAIL]]  # fmt: skip
    cited = [[j.steps for j in row] for row in g.judgements]
    none = options.get("attribution") == "none"
    assert cited == ([[(), ()]] * 3 if none else [[(1,), (1,)], [(1,), (2,)], [(2,), (2,)]])
    assert g.rubric == Rubric(FIXED.criteria, "t1")


def test_attribution_by_summary_sees_results_shortened_and_actions_whole():
    calls = []
    g = group(rows=(("a b " + "x" * 2000,),))
    first = g.trajectories[0].steps[0]
    act = Step("word " * 500, first.calls, first.observations)
    g = Group(g.task, (Trajectory("r", g.task, (act,)),))
    inner = rule_judge()
    judge = CallableJudge(lambda c: (calls.append(c), inner.fn(c))[1])
    grade([g], judge, JudgeConfig(nonce="n", rubric=FIXED, attribution_view="summary"))
    texts = {c.phase: c.messages[1]["content"] for c in calls}
    assert "word " * 499 in texts["attribution"]
    assert "x" * 2000 in texts["scoring"]
    assert "x" * 2000 not in texts["attribution"]
    assert "CUT" in texts["attribution"].split("JOB:")[0]


def test_limits_on_criteria_are_enforced_and_counted():
    def many(call, out):
        return json.dumps({"criteria": [criterion(f"w{i}") for i in range(40)]})

    def change(call, out):
        return many(call, out) if call.phase in ("task_rubric", "rollout_rubric", "union") else None

    g = grade([group()], rule_judge(change), N)[0]
    assert len(g.rubric) == 24
    sources = [c["source"] for c in g.record["candidates"]]
    assert (sources.count("task"), sources.count("rollout")) == (15, 30)
    assert g.record["over_limit"] == {"task_rubric": 25, "rollout_rubric": 90, "union": 16}


def test_the_record_says_where_criteria_come_from():
    g = grade([group()], rule_judge(), N)[0]
    assert [(c.id, c.source) for c in g.rubric.criteria] == [
        ("C1", "task"), ("C2", "task"), ("C3", "rollout"),
    ]  # fmt: skip
    assert g.record["merges"] == {"C1": ["T1"], "C2": ["T2"], "C3": ["R1.1", "R3.1"]}
    assert [c["id"] for c in g.record["candidates"]] == ["T1", "T2", "R1.1", "R3.1"]
    assert g.record["judge"] == "rules"
    assert g.record["seen"] == [1.0, 1.0, 1.0]
    assert decode(encode(g)) == g


# What fails


@pytest.mark.parametrize("phase", ["task_rubric", "union"])
@pytest.mark.parametrize("text", ["", "no", '{"criteria": []}'])
def test_without_a_rubric_the_group_gives_no_update(phase, text):
    g, other = grade([group(), group("t2")], rule_judge(
        lambda call, out: text if call.phase == phase and call.key["task_id"] == "t1" else None
    ), N)  # fmt: skip
    assert len(g.rubric) == 0
    assert g.judgements == ((), (), ())
    assert all(f.startswith(phase.replace("_", " ")) for f in g.failures)
    assert g.record["calls"][phase] == 3
    assert g.record["retries"] == {phase: 2}
    assert g.record["unreadable"] == {phase: 1}
    assert np.isnan(arrays(g, "chars").reward_G).all()
    assert len(other.rubric) == 3
    assert decode(encode(g)) == g


def test_without_one_rollout_s_suggestions_the_group_goes_on():
    g = grade([group()], rule_judge(on("rollout_rubric", "?", "t1-0")), N)[0]
    assert [c["id"] for c in g.record["candidates"]] == ["T1", "T2", "R3.1"]
    assert g.failures == ()
    assert [bool(p) for p in g.record["rollout_rubric_failures"]] == [True, False, False]


def test_an_unreadable_scoring_fails_its_rollout_alone():
    truth = grade([group()], rule_judge(), N)[0]
    g = grade([group()], rule_judge(on("scoring", "I refuse.", "t1-1")), N)[0]
    assert g.failures[0] == g.failures[2] == ""
    assert "verdicts" in g.failures[1]
    assert all(isinstance(j, FailedJudgement) for j in g.judgements[1])
    assert (g.judgements[0], g.judgements[2]) == (truth.judgements[0], truth.judgements[2])
    assert g.record["calls"] == {**truth.record["calls"], "scoring": 5, "attribution": 2}
    reward = arrays(g, "chars").reward_G
    assert np.isnan(reward).tolist() == [False, True, False]


def test_a_retry_says_what_was_wrong_and_has_a_number_of_its_own():
    calls = []

    def change(call, out):
        calls.append(call)
        return "<think>" if call.key.get("retry", 0) < 2 else None

    g = grade([group()], rule_judge(change), JudgeConfig(nonce="n", rubric=FIXED, votes=2))[0]
    assert g.failures == ()
    own = [c for c in calls if c.phase == "scoring" and c.key["trajectory_id"] == "t1-0"]
    assert sorted(c.sample for c in own) == [0, 1, 2, 3, 4, 5]
    assert len({(c.messages[1]["content"], c.sample) for c in own}) == 6
    again = next(c for c in own if c.sample == 2).messages[1]["content"]
    assert "its thinking never ends" in again.rsplit("\n\n", 1)[1]


def test_a_missing_verdict_is_asked_for_once_and_then_failed():
    g = grade([group()], rule_judge(on("scoring", without("C2"), repair=False)), N)[0]
    assert g.record["repairs"] == {"scoring": 3}
    assert g.record["failed_judgements"] == 0
    g = grade([group()], rule_judge(on("scoring", without("C2"))), N)[0]
    assert g.record["repairs"] == {"scoring": 3}
    assert [type(row[1]) for row in g.judgements] == [FailedJudgement] * 3
    assert [type(row[0]) for row in g.judgements] == [Verdict] * 3
    got = arrays(g, "chars")
    assert np.isnan(got.verdict_GK[:, 1]).all()
    assert not got.keep_K[1]
    assert not got.cite_GKS[:, 1].any()


def test_a_repair_asks_for_the_missing_ones_alone():
    asked = []

    def note(call, out):
        if call.key.get("repair"):
            asked.append([v["id"] for v in out["verdicts"]])

    def change(call, out):
        note(call, out)
        return on("scoring", without("C1", "C3"), repair=False)(call, out)

    grade([group()], rule_judge(change), N)
    assert asked == [["C1", "C3"]] * 3


def test_when_no_criterion_gets_a_verdict_the_rollout_has_none():
    g = grade([group()], rule_judge(on("scoring", with_field("K0", verdict="?"), "t1-0")),
              JudgeConfig(nonce="n", rubric=Rubric(FIXED.criteria[:1])))[0]  # fmt: skip
    assert g.failures == ("scoring: no criterion got a verdict", "", "")


def test_an_unreadable_attribution_leaves_verdicts_without_steps():
    truth = grade([group()], rule_judge(), N)[0]
    g = grade([group()], rule_judge(on("attribution", "?", "t1-0")), N)[0]
    assert [j.label for j in g.judgements[0]] == [j.label for j in truth.judgements[0]]
    assert [j.steps for j in g.judgements[0]] == [(), (), ()]
    assert g.judgements[1:] == truth.judgements[1:]
    assert [bool(f) for f in g.record["attribution_failures"]] == [True, False, False]
    assert g.failures == ()


def test_a_verdict_left_without_steps_is_repaired_once_and_then_cites_nothing():
    empty = with_field("C1", steps=[77])
    g = grade([group()], rule_judge(on("attribution", empty, repair=False)), N)[0]
    assert g.record["repairs"] == {"attribution": 3}
    assert [row[0].steps for row in g.judgements] == [(1,), (1,), (2,)]
    assert g.record["dropped_citations"] == 3
    g = grade([group()], rule_judge(on("attribution", empty)), N)[0]
    assert [row[0].steps for row in g.judgements] == [(), (), ()]
    assert [row[0].label for row in g.judgements] == [PASS, PASS, FAIL]
    assert np.isfinite(arrays(g, "chars").reward_G).all()


def test_inline_citations_are_repaired_with_the_missing_verdicts():
    def drop(call, out):
        return json.dumps({"verdicts": [{**v, "steps": []} for v in out["verdicts"][1:]]})

    config = JudgeConfig(nonce="n", rubric=FIXED, attribution="inline")
    g = grade([group()], rule_judge(on("scoring", drop, repair=False)), config)[0]
    assert g.judgements == grade([group()], rule_judge(), config)[0].judgements
    assert g.record["repairs"] == {"scoring": 3}


# Attribution against scoring


def test_scoring_s_verdict_stands_and_the_override_is_kept():
    v = Verdict("C1", FAIL, "late")
    said = Verdict("C1", PASS, "fine", (3,))
    out = attributed(v, said)
    assert (out.label, out.steps, out.flags) == (FAIL, (3,), ("override:pass",))
    out = attributed(v, Verdict("C1", NA, "moot", (3,)))
    assert (out.label, out.steps, out.flags) == (FAIL, (), ("override:not_applicable",))
    assert attributed(v, Verdict("C1", FAIL, "", (2,))).flags == ()
    assert attributed(v, FailedJudgement("C1")) == v


def test_overrides_reach_credit_as_they_should():
    change = on("attribution", with_field("C1", verdict="not_applicable"), "t1-0")
    g = grade([group()], rule_judge(change), N)[0]
    assert g.judgements[0][0].label is PASS
    assert not arrays(g, "chars").cite_GKS[0, 0].any()
    assert g.record["repairs"] == {}


# Votes


@pytest.mark.parametrize(
    ("change", "label"),
    [
        (on("scoring", with_field("K0", verdict="fail", reason="no"), "t1-0", vote=2), FAIL),
        (on("scoring", with_field("K0", verdict="n/a"), "t1-0", vote=1), NA),
        (on("scoring", without("K0"), "t1-0", vote=1), None),
    ],
)
def test_votes_are_unanimous(change, label):
    config = JudgeConfig(nonce="n", rubric=FIXED, votes=3)
    g = grade([group()], rule_judge(change), config)[0]
    first = g.judgements[0][0]
    assert getattr(first, "label", None) is label
    assert g.judgements[0][1].label is PASS
    assert [len(v) for v in g.record["vote_labels"]] == [3, 3, 3]
    if label is FAIL:
        assert first.reason == "no"


def test_with_one_vote_unreadable_the_rollout_has_no_reward():
    config = JudgeConfig(nonce="n", rubric=FIXED, votes=3)
    g = grade([group()], rule_judge(on("scoring", "", "t1-1", vote=1)), config)[0]
    assert g.failures[1].startswith("scoring:")
    assert (g.failures[0], g.failures[2]) == ("", "")
    # Its two other votes would leave one fail and no pass: a reward of -1 that nobody gave.
    assert np.isnan(arrays(g, "chars").verdict_GK[1]).all()


# Cut replies


def test_a_cut_reply_is_asked_for_again_with_twice_the_room():
    limits = []

    def fn(call):
        limits.append(call.max_tokens)
        whole = rule_judge().fn(call)
        if call.max_tokens < 400:
            return Reply(whole[: len(whole) // 2], finish_reason="length")
        return whole

    config = JudgeConfig(nonce="n", rubric=FIXED, max_tokens=100, attribution="none")
    g = grade([group()], CallableJudge(fn), config)[0]
    assert g.failures == ()
    assert sorted(limits) == [100] * 3 + [200] * 3 + [400] * 3


def test_whole_verdicts_of_a_cut_reply_are_kept_and_the_others_repaired():
    def cut(call, out):
        text = json.dumps(out)
        return Reply(text[: text.index("}") + 20], finish_reason="length")

    config = JudgeConfig(nonce="n", rubric=FIXED, attribution="none")
    g = grade([group()], rule_judge(on("scoring", cut, repair=False)), config)[0]
    assert g.judgements == grade([group()], rule_judge(), config)[0].judgements
    assert g.record["calls"] == {"scoring": 6}
    assert g.record["repairs"] == {"scoring": 3}


# Errors of the judge


def test_one_call_without_an_answer_counts_as_unreadable():
    def change(call, out):
        if call.phase == "scoring" and call.key["trajectory_id"] == "t1-1":
            raise CallError("no answer within 5 s")

    g = grade([group()], rule_judge(change), N)[0]
    assert "no answer within 5 s" in g.failures[1]
    assert g.failures[0] == ""
    assert g.record["calls"]["scoring"] == 5


@pytest.mark.parametrize("error", [QuotaError, BudgetError, JudgeError])
def test_a_hard_error_cancels_what_is_in_flight_and_keeps_what_is_finished(error):
    cancelled, started = [], []
    inner = rule_judge()

    async def fn(call):
        started.append(call.key["task_id"])
        if call.key["task_id"] == "t3":
            await asyncio.sleep(0.05)
            raise error("used up")
        if call.key["task_id"] in ("t2", "t4"):
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.append(call.key["task_id"])
                raise
        return inner.fn(call)

    groups = [group(f"t{i}") for i in range(6)]
    start = time.perf_counter()
    with pytest.raises(error, match="used up") as caught:
        grade(groups, CallableJudge(fn), N, in_flight=6)
    assert time.perf_counter() - start < 10
    assert [g.group.task.id for g in caught.value.graded] == ["t0", "t1", "t5"]
    assert set(cancelled) == {"t2", "t4"}
    n = len(started)
    time.sleep(0.05)
    assert len(started) == n
    seen = []
    with pytest.raises(error):
        seen.extend(g.group.task.id for g in grade_iter(groups, CallableJudge(fn), N, in_flight=6))
    assert seen == ["t0", "t1", "t5"]


def test_an_error_in_the_user_s_function_comes_out_as_it_is():
    def fn(call):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        grade([group()], CallableJudge(fn), N)


# Many groups


def test_groups_come_in_order_and_only_so_many_are_in_flight():
    taken, done, most = [], [], 0

    def source():
        for i in range(8):
            taken.append(i)
            yield group(f"t{i}")

    inner = rule_judge()

    async def fn(call):
        await asyncio.sleep(0.02 if call.key["task_id"] == "t0" else 0)
        return inner.fn(call)

    for g in grade_iter(source(), CallableJudge(fn), N, in_flight=3):
        done.append(g.group.task.id)
        most = max(most, len(taken) - len(done))
    assert done == [f"t{i}" for i in range(8)]
    assert most <= 3


def test_twice_in_a_row_inside_a_running_loop_and_awaited():
    first = grade([group()], rule_judge(), N)

    async def kernel():
        blocking = grade([group()], rule_judge(), N)
        streamed = [g async for g in grade_stream([group()], rule_judge(), N)]
        return blocking, streamed, [await grade_group(group(), rule_judge(), N)]

    assert all(first == other for other in asyncio.run(kernel()))
    assert grade(group(), rule_judge(), N) == first
    assert grade([], rule_judge(), N) == []


def test_progress_counts_replies_and_groups():
    seen = []
    grade([group(), group("t2")], rule_judge(), N, progress=seen.append)
    assert (seen[-1].groups, seen[-1].of, seen[-1].replies) == (2, 2, 22)
    assert [p.replies for p in seen] == sorted(p.replies for p in seen)
    grade([group()], rule_judge(), N, progress=True)


def test_in_flight_is_checked():
    with pytest.raises(ConfigError, match="in_flight"):
        grade([group()], rule_judge(), N, in_flight=0)


def test_tokens_are_added_by_phase_and_unknown_stays_unknown():
    def change(call, out):
        usage = Usage(100, 60, 10) if call.phase != "union" else None
        return Reply(json.dumps(out), usage=usage, model="m-1")

    g = grade([group()], rule_judge(change), N)[0]
    assert g.record["tokens"]["scoring"] == {"prompt": 300, "cached": 180, "completion": 30}
    assert g.record["tokens"]["union"] == {"unknown": 1}
    assert g.record["models"] == ["m-1"]


# Degenerate groups


def test_a_group_of_one_and_a_rollout_without_steps():
    task = Task("t", "needs: a")
    g = grade([Group(task, (rollout(task, "r", ["a"]),))], rule_judge(), N)[0]
    assert [j.label for j in g.judgements[0]] == [PASS, FAIL]

    def change(call, out):
        return json.dumps({"verdicts": [{"id": "K0", "reason": "nothing was done", "steps": [1],
                                         "verdict": "fail"}]})  # fmt: skip

    empty = Group(task, (Trajectory("e", task, ()),))
    judge = CallableJudge(lambda call: change(call, None))
    g = grade([empty], judge, JudgeConfig(nonce="n", rubric=Rubric(FIXED.criteria[:1])))[0]
    assert (g.judgements[0][0].label, g.judgements[0][0].steps) == (FAIL, ())


# Evidence


def test_quotations_are_looked_up_and_flagged_where_they_do_not_fit():
    quotes = Quotes(prepare(group().trajectories[1]))
    assert (
        quotes.first_step("S2: x  \u201cchecked\u201d".replace("\u201c", "").replace("\u201d", ""))
        == 2
    )
    assert quotes.first_step("x checked") == 2
    assert quotes.first_step("never said this") is None
    assert quotes.first_step("I do 1 ... x checked") == 1
    assert quotes.first_step("a") == 0
    change = on("scoring", with_field("C2", evidence="x checked"), "t1-1")
    cite = on("attribution", with_field("C2", steps=[1]), "t1-1")
    g = grade([group()], rule_judge(lambda c, o: change(c, o) or cite(c, o)), N)[0]
    assert g.judgements[1][1].label is FAIL
    assert g.judgements[1][1].flags == ("quote_after_step",)
    change = on("scoring", with_field("C1", evidence="was never there"), "t1-0")
    g = grade([group()], rule_judge(change), N)[0]
    assert g.judgements[0][0].flags == ("quote_not_found",)
    assert g.record["evidence"][0]["C1"] == "was never there"


# Speed


def test_a_training_step_of_offline_calls_costs_well_under_a_second():
    rows = [["a word or two that a tool of the world returned, sixty chars"] * 6] * 6
    groups = [group(f"t{i}", rows=rows) for i in range(16)]
    canned = {p: json.dumps({"criteria": [criterion(f"w{i}") for i in range(8)]})
              for p in ("task_rubric", "rollout_rubric", "union")}  # fmt: skip
    verdicts = [{"id": f"C{i}", "reason": "because", "steps": [2], "verdict": "fail"}
                for i in range(1, 9)]  # fmt: skip
    canned |= dict.fromkeys(("scoring", "attribution"), json.dumps({"verdicts": verdicts}))
    judge = CallableJudge(lambda call: canned[call.phase])
    times = []
    for _ in range(3):
        start = time.process_time()
        graded = grade(groups, judge, N)
        times.append(time.process_time() - start)
    assert sum(sum(g.record["calls"].values()) for g in graded) == 320
    assert min(times) < 0.6


def test_insufficient_is_not_applicable_only_where_text_was_cut_and_is_counted():
    change = on("scoring", with_field("K1", verdict="insufficient"))
    long = group(rows=(("a b " + "x " * 4000,), ("a",)))
    for budget, label in ((400_000, FAIL), (3000, NA)):
        config = JudgeConfig(nonce="n", rubric=FIXED, budget=budget)
        g = grade([long], rule_judge(change), config)[0]
        assert g.judgements[0][1].label is label
        assert g.judgements[1][1].label is FAIL
        assert g.record["flags"]["insufficient"] == 2
