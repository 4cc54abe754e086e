"""The offline rule judge: it reads the messages alone, errs as stated, and says what it cites."""

import ast
import json
import subprocess
import sys
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from rubricnb.errors import ConfigError, JudgeError
from rubricnb.files import content_hash, graded_to_json
from rubricnb.judge import CallableJudge, JudgeConfig, grade
from rubricnb.rubric import Criterion, FailedJudgement, Rubric, Verdict
from rubricnb.trajectory import Group, Step, Task, Trajectory
from rubricnb.worlds import (
    EXACT,
    LENIENT,
    LENIENT_NAME,
    NAME,
    NOISY,
    STRICT,
    DeskJudge,
    JudgeNoise,
    LibraryDesk,
    Noise,
    OrdersDesk,
    as_task,
    as_trajectory,
    demonstrate,
    lenient_judge,
    offline_judge,
    sample_pair,
)
from rubricnb.worlds.static_rubric import base_rollouts, candidates, measure

ROOT = Path(__file__).resolve().parents[2]
NONCE = JudgeConfig(nonce="n")


@pytest.fixture(scope="module")
def groups():
    return list(islice(base_rollouts(split="dev", per_task=6), 0, 120, 3))


def rewards_and_outcomes(graded):
    """R of Eq. 3 after dropout, and the world's verdict, of every rollout."""
    R, outcome = [], []
    for g in graded:
        v = np.array(
            [[j.value if isinstance(j, Verdict) else np.nan for j in r] for r in g.judgements]
        )
        v = v[:, (v == -1).any(axis=0)]
        p, f = (v == 1).sum(axis=1), (v == -1).sum(axis=1)
        R += list(np.where(p + f > 0, (p - f) / np.maximum(p + f, 1), 0.0))
        outcome += [t.outcome for t in g.group.trajectories]
    return np.array(R), np.array(outcome)


def recorded(judge):
    """A judge that keeps every call's messages and reply."""
    kept = []

    async def complete(call):
        reply = await judge.complete(call)
        kept.append((call.phase, call.messages, reply.text))
        return reply

    return CallableJudge(complete, judge.name), kept


# -- it reads text and nothing else ----------------------------------------------------------------


def test_swapping_the_hidden_end_state_moves_no_verdict():
    """Two worlds that differ in whether a change was lost look the same until it is read back."""
    kept, lost = OrdersDesk(noise=Noise(0, 0)), OrdersDesk(noise=Noise(0, 1))
    moved = 0
    for task in kept.tasks("dev"):
        pair = []
        for world in (kept, lost):
            episode = world.reset(task, 0)
            demonstrate(episode, 0, replace(NOISY, no_readback=1.0, wrong_customer=0.0))
            pair.append(as_trajectory(episode, "same"))
        a, b = pair
        if a.outcome == b.outcome or a.steps != b.steps:
            continue
        moved += 1
        graded = []
        for hidden in (a, b):
            judge, calls = recorded(offline_judge())
            out = grade(Group(as_task(task), (hidden,)), judge, NONCE)
            graded.append((calls, out[0].rubric, out[0].judgements))
        assert graded[0] == graded[1]
    assert moved >= 10


def test_outcome_labels_and_meta_reach_no_message():
    pair = sample_pair().group
    told = [
        replace(t, outcome=1.0 - t.outcome, labels={"success": True}, meta={"spec": "x"})
        for t in pair.trajectories
    ]
    task = replace(pair.task, meta={"spec": "hidden"})
    other = Group(task, tuple(replace(t, task=task) for t in told))
    calls = []
    for group in (pair, other):
        judge, kept = recorded(offline_judge())
        grade(group, judge, NONCE)
        calls.append(kept)
    assert calls[0] == calls[1]


def test_its_modules_cannot_reach_a_state():
    folder = ROOT / "rubricnb" / "worlds"
    closed = {
        "engine",
        "evaluation",
        "shops",
        "pools",
        "desk",
        "demonstrator",
        "transcript",
        "base",
    }
    for path in folder.glob("desk_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                names = {node.module} if node.module else {a.name for a in node.names}
                assert not names & closed, path.name


def test_replies_do_not_depend_on_the_process():
    code = (
        "from rubricnb.worlds import *; from rubricnb.worlds.static_rubric import base_rollouts\n"
        "from rubricnb.judge import grade, JudgeConfig; from itertools import islice\n"
        "from rubricnb.files import content_hash, graded_to_json\n"
        "gs = list(islice(base_rollouts(per_task=3), 5))\n"
        "out = grade(gs, offline_judge(), JudgeConfig(nonce='n'))\n"
        "print(content_hash([graded_to_json(g) for g in out]))"
    )
    here = grade(list(islice(base_rollouts(per_task=3), 5)), offline_judge(), NONCE)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == content_hash([graded_to_json(g) for g in here])


def test_both_languages_get_the_same_verdicts():
    for world, split in ((OrdersDesk(), "test_challenge"), (LibraryDesk(), "transfer")):
        for seed, task in enumerate(world.tasks(split)[::9]):
            rows = []
            episode = world.reset(task, seed)
            demonstrate(episode, seed, NOISY)
            for thoughts in (None, [""] * len(episode.turns)):
                t = as_trajectory(episode, "a", thoughts=thoughts)
                graded = grade(Group(t.task, (t,)), offline_judge(), NONCE)[0]
                rows.append((graded.rubric, graded.judgements))
            assert rows[0] == rows[1]


# -- what it decides -------------------------------------------------------------------------------


def test_reward_goes_with_the_outcome_on_base_rollouts(groups, record_property):
    corr = {}
    for name, judge in (
        ("exact", offline_judge(EXACT)),
        ("strict", offline_judge()),
        ("lenient", lenient_judge()),
    ):
        graded = grade(groups, judge, NONCE)
        corr[name] = float(np.corrcoef(*rewards_and_outcomes(graded))[0, 1])
        record_property(f"corr(R, outcome), {name}", corr[name])
    assert corr["exact"] > corr["lenient"] > 0.4
    assert corr["strict"] > 0.55
    assert corr["exact"] < 1.0  # a lost change that nobody read back cannot be known


def rule_table(graded):
    return {
        c.title: [row[k].label.value for row in graded.judgements]
        for k, c in enumerate(graded.rubric.criteria)
    }


def test_criteria_line_up_and_are_moot_where_nothing_was_done(groups):
    moot = 0
    for graded in grade(groups, offline_judge(EXACT), NONCE):
        for k, c in enumerate(graded.rubric.criteria):
            labels = [row[k].label.value for row in graded.judgements]
            assert "fail" in labels or len(graded.rubric) == 1
            if c.title.startswith("Reads back"):
                moot += labels.count("not_applicable")
    assert moot > 0


def test_union_merges_paraphrases_and_drops_what_nobody_fails(groups):
    judge = offline_judge(replace(EXACT, paraphrase=1.0))
    merged = 0
    for graded in grade(groups, judge, NONCE):
        titles = {c["id"]: c["title"] for c in graded.record["candidates"]}
        for ids in graded.record["merges"].values():
            merged += len({titles[i] for i in ids}) > 1
        assert len(graded.rubric) < len(set(titles.values())) or len(titles) == len(graded.rubric)
        assert len({c.title for c in graded.rubric.criteria}) == len(graded.rubric)
        table = rule_table(graded)
        assert all("fail" in row for row in table.values()) or len(table) == 1
    assert merged > 20


def script(world, task, *actions, seed=0):
    episode = world.reset(task, seed)
    for action in actions:
        episode.act(action)
    return as_trajectory(episode, "scripted")


def told(task):
    """The one goal of an easy task, as (name, "city id", goal)."""
    who = task.spec["goals"][0]
    return who["name"], f"{who['city']} {who['person']}", who["goals"][0]


@pytest.fixture
def moving():
    world = OrdersDesk(noise=Noise(0, 0))
    task = next(
        t
        for t in world.tasks("train")
        if t.difficulty == 1 and t.spec["goals"][0]["goals"][0]["kind"] == "move"
    )
    name, person, goal = told(task)
    row = task.spec["things"][goal["thing"]]
    thing = f"{row[1]} {row[2]} {goal['thing']}"
    return {
        "world": world,
        "task": task,
        "find": f"find {name}",
        "list": f"orders {name} {person}",
        "move": f"move {thing} {goal['value']}",
        "read": f"order {thing}",
    }


def judged(moving, *names, style="flip", **noise):
    t = script(moving["world"], moving["task"], *(moving.get(n, n) for n in names))
    judge = offline_judge(replace(EXACT, keep=1.0, **noise), style)
    graded = grade(Group(t.task, (t,)), judge, NONCE)[0]
    titles = [c.title.split(":")[0] for c in graded.rubric.criteria]
    return {
        title: (j.label.value, j.steps)
        for title, j in zip(titles, graded.judgements[0], strict=True)
    }


def test_a_careful_rollout_passes_and_cites_the_deeds(moving):
    out = judged(moving, "find", "list", "move", "read", "finish done")
    assert out["Part 1 reached"] == ("pass", (3,))
    assert out["Reads back part 1"] == ("pass", (4,))
    assert out["Closing claim fits the transcript"] == ("pass", (5,))


def test_an_omission_is_cited_where_it_was_last_due_or_where_it_began(moving):
    calls = ("find", "list", "read", "finish done")
    assert judged(moving, *calls)["Part 1 reached"] == ("fail", (4,))
    assert judged(moving, *calls, style="root")["Part 1 reached"] == ("fail", (3,))
    assert judged(moving, *calls, style="all")["Part 1 reached"] == ("fail", (3,))
    assert judged(moving, *calls, style="last")["Part 1 reached"] == ("fail", (4,))
    out = judged(moving, "find", "list", "move", "finish done")
    assert out["Reads back part 1"] == ("fail", (4,))
    assert out["Part 1 reached"] == ("pass", (3,))


def test_a_claim_of_success_is_no_evidence(moving):
    out = judged(moving, "find", "finish done")
    assert out["Part 1 reached"][0] == "fail"
    assert out["Closing claim fits the transcript"] == ("fail", (2,))
    assert (
        judged(moving, "find", "finish blocked")["Closing claim fits the transcript"][0] == "fail"
    )


def test_a_mix_up_is_cited_at_the_change_or_at_the_choice():
    world = OrdersDesk(noise=Noise(0, 0))
    task = next(
        t
        for t in world.tasks("train")
        if t.difficulty == 1 and t.spec["goals"][0]["goals"][0]["kind"] == "address"
    )
    name, person, goal = told(task)
    other = next(
        f"{p[1]} {k}"
        for k, p in task.spec["people"].items()
        if p[0] == name and k != person.split()[1]
    )
    calls = (f"find {name}", f"customer {name} {other}", f"address {name} {other} {goal['value']}")
    moving = {"world": world, "task": task}
    flip = judged(moving, *calls, "finish done")
    root = judged(moving, *calls, "finish done", style="root")
    person_of = next(k for k in flip if k.startswith("Acts for"))
    assert flip[person_of] == ("fail", (3,))
    assert root[person_of] == ("fail", (2,))
    assert flip["Part 1 reached"] == ("fail", (3,))
    assert root["Part 1 reached"] == ("fail", (2,))


def test_a_lost_change_is_known_only_after_a_look(moving):
    moving["world"] = OrdersDesk(noise=Noise(0, 1))
    unread = judged(moving, "find", "list", "move", "finish done")
    looked = judged(moving, "find", "list", "move", "read", "finish done")
    assert unread["Part 1 reached"][0] == "pass"
    assert looked["Part 1 reached"] == ("fail", (5,))
    assert looked["Repeats a change that was lost"] == ("fail", (5,))


def test_a_timeout_left_alone(moving):
    moving["world"] = OrdersDesk(noise=Noise(1, 0))
    out = judged(moving, "find", "list", "move", "read", "finish blocked")
    assert out["Tries again after a timeout"] == ("fail", (4,))
    assert out["Part 1 reached"] == ("fail", (4,))
    assert out["Closing claim fits the transcript"][0] == "fail"


def test_citations_are_in_range_and_never_missing(groups):
    for style in ("flip", "root", "all", "last"):
        for graded in grade(groups[:10], offline_judge(STRICT, style), NONCE):
            for t, row in zip(graded.group.trajectories, graded.judgements, strict=True):
                for j in row:
                    if isinstance(j, Verdict) and j.value:
                        assert j.steps, j
                        assert not j.dropped
                        assert j.steps[-1] <= len(t)


# -- how it errs -----------------------------------------------------------------------------------


def static_values(groups, noise, votes=1):
    """Verdict values on the static set: (rollout, criterion), missing as NaN."""
    config = JudgeConfig(rubric=candidates(), attribution="none", nonce="n", votes=votes)
    out = []
    for graded in grade(groups, offline_judge(noise), config):
        for row in graded.judgements:
            out.append([j.value if isinstance(j, Verdict) else np.nan for j in row])
    return np.array(out)


def test_error_rates_are_the_stated_ones(groups):
    truth = static_values(groups, EXACT)
    heard = static_values(groups, replace(EXACT, false_pass=0.3, false_fail=0.1))
    fails, passes = truth == -1, truth == 1
    # A group's identical rollouts err alike, so there are fewer draws than verdicts.
    assert (heard[fails] == 1).mean() == pytest.approx(0.3, abs=0.06)
    assert (heard[passes] == -1).mean() == pytest.approx(0.1, abs=0.02)
    assert (heard[truth == 0] == 0).all()
    shy = static_values(groups, replace(EXACT, hesitate=0.2))
    assert (shy[fails | passes] == 0).mean() == pytest.approx(0.2, abs=0.03)
    assert (shy[truth == 0] == -1).mean() == pytest.approx(0.2, abs=0.05)


def test_both_rubric_kinds_get_the_same_noise(groups):
    noise = replace(EXACT, false_pass=0.3, false_fail=0.1, paraphrase=1.0, keep=1.0)
    exact = grade(groups, offline_judge(replace(EXACT, paraphrase=1.0, keep=1.0)), NONCE)
    noisy = grade(groups, offline_judge(noise), NONCE)
    flips = {-1: [], 1: []}
    for a, b in zip(exact, noisy, strict=True):
        assert a.rubric == b.rubric
        for r, s in zip(a.judgements, b.judgements, strict=True):
            for x, y in zip(r, s, strict=True):
                if x.value:
                    flips[x.value].append(x.value != y.value)
    assert np.mean(flips[-1]) == pytest.approx(0.3, abs=0.06)
    assert np.mean(flips[1]) == pytest.approx(0.1, abs=0.03)


def test_votes_help_only_as_far_as_their_errors_are_independent(groups):
    groups = groups[::2]
    truth = static_values(groups, EXACT)
    rate = {}
    for rho in (0.0, 0.6, 1.0):
        noise = replace(EXACT, false_pass=0.3, correlation=rho)
        single, three = (static_values(groups, noise, votes=k) for k in (1, 3))
        assert (single[truth == -1] == 1).mean() == pytest.approx(0.3, abs=0.06)
        rate[rho] = (three[truth == -1] == 1).mean()
    assert rate[0.0] == pytest.approx(0.027, abs=0.02)
    assert rate[0.0] < rate[0.6] - 0.05
    assert rate[1.0] == pytest.approx(0.3, abs=0.06)


def test_miscitation_moves_citations_and_no_verdict(groups):
    right = grade(groups[:15], offline_judge(EXACT), NONCE)
    wrong = grade(groups[:15], offline_judge(replace(EXACT, miscite=1.0)), NONCE)
    moved = []
    for a, b in zip(right, wrong, strict=True):
        for r, s in zip(a.judgements, b.judgements, strict=True):
            assert [x.value for x in r] == [x.value for x in s]
            moved += [x.steps != y.steps for x, y in zip(r, s, strict=True) if x.value]
    assert np.mean(moved) > 0.5


def test_missing_verdicts_are_failed_judgements_or_asked_again(groups):
    some = grade(groups[:15], offline_judge(replace(EXACT, missing=0.3)), NONCE)
    rows = [j for g in some for row in g.judgements for j in row]
    failed = sum(isinstance(j, FailedJudgement) for j in rows) / len(rows)
    assert 0.02 < failed < 0.2  # about 0.3 squared: asked once more
    assert sum(g.record["repairs"].get("scoring", 0) for g in some) > 5


def test_foreign_criteria_get_no_verdict(groups):
    config = JudgeConfig(rubric=Rubric((Criterion("X", "Is kind", "", "Met if kind."),)), nonce="n")
    graded = grade(groups[0], offline_judge(), config)[0]
    assert all(isinstance(j, FailedJudgement) for row in graded.judgements for j in row)


def test_foreign_tasks_are_refused():
    task = Task("t", "Book a flight to Rome.")
    group = Group(task, (Trajectory("a", task, (Step("hello"),)),))
    with pytest.raises(JudgeError, match="bundled desk"):
        grade(group, offline_judge(), NONCE)


def test_names_say_what_it_is_and_settings_are_checked():
    assert offline_judge().name == NAME == "offline rule judge (bundled world)"
    assert lenient_judge().name == LENIENT_NAME
    with pytest.raises(ConfigError, match="citation style"):
        DeskJudge(style="best")
    with pytest.raises(ConfigError, match="false_pass"):
        JudgeNoise(false_pass=1.5)
    assert LENIENT.false_pass > STRICT.false_pass


def test_empty_and_malformed_rollouts_are_judged(moving):
    t = script(moving["world"], moving["task"])
    for steps in ((), (Step("hm"),), (Step(""),)):
        graded = grade(Group(t.task, (replace(t, steps=steps),)), offline_judge(EXACT), NONCE)[0]
        assert all(isinstance(j, Verdict) and j.value <= 0 for j in graded.judgements[0])
    assert judged(moving, "dance", "find", "finish done")["Calls name things that exist"][1] == (1,)


def test_a_training_step_of_calls_is_quick(groups):
    few = groups[:16]
    judge, calls = recorded(offline_judge())
    grade(few, judge, NONCE)
    rule = DeskJudge()
    from rubricnb.judge import Call

    asked = [Call(phase, messages) for phase, messages, _ in calls]
    start = time.process_time()
    for call in asked:
        rule(call)
    rate = len(asked) / (time.process_time() - start)
    assert 16 * 20 <= len(asked) <= 16 * 20 + 8  # and a few repairs of missing verdicts
    assert rate > 320 / 0.6


def test_the_sample_pair():
    pair = sample_pair()
    assert pair.same_end_state
    assert pair.end_state == pair.last_call == (True, True)
    assert [w.success for w in pair.world] == [True, False]
    graded = grade(pair.group, offline_judge(EXACT), NONCE)[0]
    clean, long = graded.judgements
    failed = [c.title for c, j in zip(graded.rubric.criteria, long, strict=True) if j.value < 0]
    assert failed == ["Acts for gina of oslo only"]
    assert all(j.value == 1 for j in clean)
    assert next(j for j in long if j.value < 0).steps == (4, 9)


def test_rates_of_the_static_set_are_counted_by_hand(groups):
    config = JudgeConfig(rubric=candidates(), attribution="none", nonce="n")
    graded = grade(groups[:8], offline_judge(EXACT), config)
    rows = measure(graded)
    for k, row in enumerate(rows):
        values = [r[k].value for g in graded for r in g.judgements]
        applied = [v for v in values if v != 0]
        assert row.applicable == pytest.approx(len(applied) / len(values))
        assert row.judged == len(values)
        if applied:
            assert row.failed == pytest.approx(applied.count(-1) / len(applied))
        else:
            assert row.failed is None


def test_replies_are_the_wire_format(groups):
    judge, calls = recorded(offline_judge())
    grade(groups[:3], judge, NONCE)
    assert {phase for phase, _, _ in calls} == {
        *("task_rubric", "rollout_rubric", "union", "scoring", "attribution")
    }
    for phase, _, text in calls:
        reply = json.loads(text)
        if phase in ("scoring", "attribution"):
            for row in reply["verdicts"]:
                assert row["verdict"] in ("pass", "fail", "not_applicable")
                assert row["reason"]
        else:
            limit = {"task_rubric": 15, "rollout_rubric": 10, "union": 24}[phase]
            assert len(reply["criteria"]) <= limit
            for row in reply["criteria"]:
                assert 2 <= len(row["title"].split()) <= 9, row["title"]
