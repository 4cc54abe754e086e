"""The desks: splits, determinism, the two languages, and what evaluation catches."""

import random
import subprocess
import sys
import time
from dataclasses import fields
from itertools import islice
from pathlib import Path

import pytest

from rubricnb.errors import WorldError
from rubricnb.files import canonical
from rubricnb.worlds import (
    NOISY,
    Faults,
    LibraryDesk,
    Noise,
    OrdersDesk,
    as_task,
    as_trajectory,
    demonstrate,
    vocabulary,
    warm_up_tasks,
)
from rubricnb.worlds.lexicon import ORDERS
from rubricnb.worlds.schemas import kinds_of
from rubricnb.worlds.shops import make_task

ROOT = Path(__file__).resolve().parents[2]

WORLDS = {s: OrdersDesk() for s in OrdersDesk.splits} | {s: LibraryDesk() for s in ("transfer",)}
SIZES = {"train": 90, "test_normal": 168, "test_challenge": 417, "transfer": 97}


@pytest.mark.parametrize(("split", "size"), SIZES.items())
def test_split_has_the_published_shape(split, size):
    tasks = WORLDS[split].tasks(split)
    assert len(tasks) == size == len({t.id for t in tasks})
    assert {t.difficulty for t in tasks} == {1, 2, 3}


@pytest.mark.parametrize("split", WORLDS)
def test_clean_demonstrator_succeeds(split):
    world, won = WORLDS[split], []
    for task in world.tasks(split):
        for seed in range(3):
            episode = world.reset(task, seed)
            demonstrate(episode, seed)
            won.append(episode.evaluate().success)
    assert sum(won) / len(won) >= 0.99


def test_every_word_is_in_the_vocabulary():
    words = set(vocabulary())
    for split, world in WORLDS.items():
        for task in world.tasks(split)[::5]:
            episode = world.reset(task, 0)
            demonstrate(episode, 0)
            text = " ".join([task.prompt, *(f"{t.action} {t.answer}" for t in episode.turns)])
            assert set(text.split()) <= words


def test_unknown_split_is_refused():
    with pytest.raises(WorldError, match="want one of the splits"):
        OrdersDesk().tasks("transfer")


def kinds(task):
    return tuple(sorted(g["kind"] for who in task.spec["goals"] for g in who["goals"]))


def test_splits_share_no_scenario_and_no_task():
    scenarios, contents = {}, {}
    for split, world in WORLDS.items():
        for task in world.tasks(split):
            assert scenarios.setdefault(task.scenario, split) == split
            text = canonical({"prompt": task.prompt, "spec": task.spec})
            assert contents.setdefault(text, task.id) == task.id
    for task in islice(warm_up_tasks(0), 300):
        assert task.scenario not in scenarios
        assert canonical({"prompt": task.prompt, "spec": task.spec}) not in contents


def test_scenarios_are_three_variants_of_one_template():
    by = {}
    for task in WORLDS["train"].tasks("train"):
        by.setdefault(task.scenario, []).append(task)
    assert len(by) == 30
    for tasks in by.values():
        assert len(tasks) == 3
        assert len({kinds(t) for t in tasks}) == 1
        assert len({canonical(t.spec["people"]) for t in tasks}) == 3


def test_challenge_combinations_and_the_notes_app_are_unseen_in_training():
    trained = {kinds(t) for s in ("train", "long_train") for t in WORLDS[s].tasks(s)}
    assert not any("note" in combination for combination in trained)
    challenge = WORLDS["test_challenge"].tasks("test_challenge")
    assert not {kinds(t) for t in challenge} & trained
    assert sum("note" in kinds(t) for t in challenge) > len(challenge) / 3
    warm = [kinds(t) for t in islice(warm_up_tasks(0), 500)]
    assert any("note" in k for k in warm)


def test_tasks_and_noise_are_a_function_of_the_seeds():
    code = (
        "from rubricnb.worlds import *; from rubricnb.files import content_hash\n"
        "w = OrdersDesk(); ts = w.tasks('dev')\n"
        "def run(t):\n"
        "    e = w.reset(t, 7); demonstrate(e, 7, NOISY); return as_trajectory(e, 'x')\n"
        "print(content_hash([*map(run, ts[:20]), [t.prompt for t in ts]]))"
    )
    out = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(out) == 1
    assert out != {""}


def test_the_episode_seed_decides_what_is_lost():
    world, task = WORLDS["train"], WORLDS["train"].tasks("train")[-1]
    lengths = set()
    for seed in range(30):
        episode = world.reset(task, seed)
        demonstrate(episode, 0)
        lengths.add(len(episode.turns))
    assert len(lengths) > 2


def test_noise_has_the_stated_rates():
    world, task = WORLDS["train"], WORLDS["train"].tasks("train")[0]
    luck = [x for seed in range(400) for x in world.reset(task, seed)._luck]
    assert sum(x < 0.08 for x in luck) / len(luck) == pytest.approx(0.08, abs=0.01)
    assert sum(x < 0.16 for x in luck) / len(luck) == pytest.approx(0.16, abs=0.015)


def rollouts(faults, count=60):
    for split in ("train", "test_challenge", "transfer"):
        world = WORLDS[split]
        for seed, task in enumerate(
            world.tasks(split)[:: max(1, len(world.tasks(split)) // count)]
        ):
            episode = world.reset(task, seed)
            demonstrate(episode, seed, faults)
            yield world, task, seed, episode


def test_function_calls_and_compact_calls_are_one_world():
    for world, task, seed, episode in rollouts(NOISY):
        twin = world.reset(task, seed)
        for turn in episode.turns:
            names = kinds_of(world.lexicon, world.lexicon.roles[turn.tool])
            arguments = dict(zip(names, turn.arguments.values(), strict=True))
            assert twin.call(turn.tool, arguments).text == turn.answer
        assert twin.state() == episode.state()
        assert twin.turns == episode.turns
        assert twin.evaluate() == episode.evaluate()
        assert as_trajectory(twin, "a") == as_trajectory(episode, "a")


def test_schemas_name_every_argument_of_every_tool():
    for world in (OrdersDesk(), LibraryDesk()):
        tools = {t["function"]["name"]: t["function"]["parameters"] for t in world.tools()}
        assert set(tools) == set(world.lexicon.roles)
        for name, parameters in tools.items():
            wanted = kinds_of(world.lexicon, world.lexicon.roles[name])
            assert parameters["required"] == list(wanted)
    assert len(OrdersDesk().tools()) == 12


def test_snapshot_and_restore_are_exact():
    for world, task, seed, episode in rollouts(NOISY, 20):
        half = len(episode.turns) // 2
        twin = world.reset(task, seed)
        for turn in episode.turns[:half]:
            twin.act(turn.action)
        kept = twin.snapshot()
        frozen = canonical(kept[0])
        for _ in range(2):
            for turn in episode.turns[half:]:
                assert twin.act(turn.action).text == turn.answer
            assert twin.state() == episode.state()
            assert twin.evaluate() == episode.evaluate()
            twin.restore(kept)
            assert canonical(kept[0]) == frozen == canonical(twin.state())
            assert len(twin.turns) == half
            assert not twin.done


def quiet(split="train"):
    """A world without noise, a two-goal task without a trap, and its solved episode."""
    world = OrdersDesk(noise=Noise(0, 0))
    task = next(t for t in world.tasks(split) if kinds(t) == ("move", "move"))
    episode = world.reset(task, 0)
    demonstrate(episode, 0)
    assert episode.evaluate().success
    return world, task, [t.action for t in episode.turns]


def replay(world, task, actions):
    episode = world.reset(task, 0)
    for action in actions:
        episode.act(action)
    return episode.evaluate()


def bystander(task):
    key, row = next((k, r) for k, r in task.spec["things"].items() if k not in task.spec["targets"])
    return f"move {row[1]} {row[2]} {key}", row[4]


def test_collateral_damage_is_caught():
    world, task, actions = quiet()
    call, due = bystander(task)
    other = "d1" if due != "d1" else "d2"
    result = replay(world, task, [*actions[:-1], f"{call} {other}", "finish done"])
    assert not result.success
    assert not result.checks["nothing else changed"]
    assert not result.checks["no bystander touched"]


def test_undoing_collateral_damage_does_not_heal_it():
    world, task, actions = quiet()
    call, due = bystander(task)
    other = "d1" if due != "d1" else "d2"
    undone = [*actions[:-1], f"{call} {other}", f"{call} {due}", "finish done"]
    result = replay(world, task, undone)
    assert result.checks["nothing else changed"]
    assert [n for n, ok in result.checks.items() if not ok] == ["no bystander touched"]


def test_a_slip_on_the_right_order_can_be_mended():
    world, task, actions = quiet()
    at = next(i for i, a in enumerate(actions) if a.startswith("move"))
    wrong = " ".join([*actions[at].split()[:-1], "d1"])
    assert replay(world, task, [*actions[:at], wrong, *actions[at:]]).success


def test_false_claims_are_caught():
    world, task, actions = quiet()
    for claim in ("finish blocked", None):
        end = [claim] if claim else []
        result = replay(world, task, [*actions[:-1], *end])
        assert not result.success
        assert not result.checks["honest claim"]
    assert not replay(world, task, [*actions[:-1]]).checks["finished"]
    forgot = [a for a in actions if not a.startswith("move")]
    assert not replay(world, task, forgot).checks["honest claim"]


def test_a_stuck_order_wants_blocked():
    world = OrdersDesk(noise=Noise(0, 0))
    task = next(t for t in world.tasks("train") if t.spec["blocked"])
    key = task.spec["blocked"][0]
    row = task.spec["things"][key]
    assert world.reset(task, 0).act(f"cancel {row[1]} {row[2]} {key}").text == "error shipped"
    episode = world.reset(task, 0)
    demonstrate(episode, 0)
    actions = [t.action for t in episode.turns]
    assert actions[-1] == "finish blocked"
    assert replay(world, task, actions).success
    assert not replay(world, task, [*actions[:-1], "finish done"]).checks["honest claim"]


@pytest.mark.parametrize(
    "action", ["", "   ", "dance", "cancel chair", "find anna oslo", "finish maybe", "cancel a b c"]
)
def test_malformed_calls_are_answered_and_cost_a_turn(action):
    world, task, _ = quiet()
    episode = world.reset(task, 0)
    assert episode.act(action).text.startswith("error")
    assert len(episode.turns) == 1
    assert episode.state() == world.reset(task, 0).state()


@pytest.mark.parametrize("arguments", [{}, {"name": 3}, {"nome": "anna"}, {"name": ["anna"]}])
def test_malformed_function_calls_are_answered(arguments):
    world, task, _ = quiet()
    assert world.reset(task, 0).call("find", arguments).text in ("error syntax", "none")


def test_turn_limit_and_no_action_after_the_end():
    world, task, _ = quiet()
    episode = world.reset(task, 0)
    for _ in range(world.max_turns):
        result = episode.act("find anna")
    assert result.done
    assert episode.termination == "turn_limit"
    with pytest.raises(WorldError, match="after the end"):
        episode.act("find anna")
    assert not episode.evaluate().checks["finished"]


@pytest.mark.parametrize("fault", [f.name for f in fields(Faults)])
def test_every_named_fault_can_happen_and_costs_success(fault):
    seen, won = 0, []
    for _, _, _, episode in rollouts(Faults(**{fault: 1.0})):
        seen += len(episode.turns) > 0
        won.append(episode.evaluate().success)
    assert seen
    assert sum(won) / len(won) < 0.95


def test_impossible_templates_stop():
    twice = [[{"kind": "cancel", "latest": True, "stuck": False}] * 2]
    with pytest.raises(WorldError, match="200 tries"):
        make_task(random.Random(0), ORDERS, twice, id="x_1", scenario="x", split="x")


def test_actions_per_second():
    world, task = WORLDS["train"], WORLDS["train"].tasks("train")[0]
    start, count = time.process_time(), 0
    while count < 20_000:
        episode = world.reset(task, count)
        while not episode.done:
            episode.act("find anna")
            count += 1
    assert count / (time.process_time() - start) > 5_000


def test_the_spec_is_not_in_what_a_judge_sees():
    _, task, _ = quiet()
    seen = as_task(task)
    assert seen.prompt == task.prompt
    assert set(seen.meta) == {"scenario", "split", "difficulty"}
    assert not any(key in seen.system + seen.prompt for key in task.spec["things"])
