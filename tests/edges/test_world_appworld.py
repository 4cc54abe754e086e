"""AppWorld's real engine, in its own environment, on tasks of our own."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rubricnb.errors import WorldError
from rubricnb.worlds import appworld_engine as engine
from rubricnb.worlds import appworld_mini as mini
from rubricnb.worlds.agent import play
from rubricnb.worlds.agent_model import Said
from rubricnb.worlds.appworld import AppWorld
from rubricnb.worlds.base import Episode, World


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    try:
        engine.python_of(engine.engine_folder())
    except WorldError as e:
        pytest.skip(str(e))
    folder = tmp_path_factory.mktemp("appworld")
    assert mini.make(folder) == 6
    return folder


@pytest.fixture(scope="module")
def world(root):
    with AppWorld(root, servers=1) as world:
        yield world


def solve(episode):
    for block in mini.solution(episode.task):
        result = episode.act(block)
    return result


def test_tasks_of_our_own_are_solved_and_judged_by_the_engine(world):
    assert isinstance(world, World)
    assert world.splits == ("mini",)
    appended, *_, counted = world.tasks("mini")
    assert (appended.scenario, appended.difficulty) == ("miniappend", 1)
    for task in (appended, counted):
        episode = world.reset(task)
        assert isinstance(episode, Episode)
        assert not episode.evaluate().success
        assert solve(episode).done
        assert (episode.evaluate().success, episode.termination) == (True, "finished")
        assert all(episode.evaluate().checks.values())
        with pytest.raises(WorldError, match="want no action after the end"):
            episode.act("1")


class Script:
    """A model of this process that says these things in order."""

    name, identity = "script", {}

    def __init__(self, *texts):
        self.texts = list(texts)

    def reply(self, messages, tools):
        assert tools == []
        return Said(self.texts.pop(0))


def test_an_agent_plays_it_by_code_blocks(world):
    task = world.tasks("mini")[5]
    blocks = [f"First:\n```python\n{b}\n```" for b in mini.solution(task)]
    made = play(world, task, Script(*blocks), "r")
    assert (made.outcome, made.termination) == (1.0, "finished")
    assert [s.kind for s in made.steps] == ["python"] * 4
    assert "note_id" in made.steps[1].observations[0].text
    assert "Your supervisor: Tess Arden" in made.task.prompt


def test_what_is_wrong_is_named_and_code_stays_in_the_engine(world):
    task = world.tasks("mini")[3]
    episode = world.reset(task)
    assert "not allowed" in episode.act("import os; os.system('true')").text
    assert "NameError" in episode.act("nothing").text
    assert episode.call("other", {}).text.startswith("Call execute")
    episode.call("execute", {"code": "apis.supervisor.complete_task(answer=9)"})
    verdict = episode.evaluate()
    assert verdict.checks == {"nothing has changed": True, "the answer is right": False}
    assert (verdict.success, verdict.reason) == (False, "the answer is right")


def test_a_snapshot_goes_back_in_apps_and_in_variables(world):
    episode = world.reset(world.tasks("mini")[0])
    blocks = mini.solution(episode.task)
    episode.act("x = 1")
    for block in blocks[:2]:
        episode.act(block)
    here = episode.snapshot()
    episode.act("x = 2")
    for block in blocks[2:]:
        episode.act(block)
    assert episode.evaluate().success
    episode.restore(here)
    assert episode.act("print(x)").text == "1"
    assert not episode.evaluate().success
    for block in blocks[2:]:
        episode.act(block)
    assert episode.evaluate().success


def test_missing_engine_data_and_tasks_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("RUBRICNB_APPWORLD", str(tmp_path / "none"))
    with pytest.raises(WorldError, match="rubricnb install-world appworld"):
        mini.make(tmp_path)
    world = AppWorld(tmp_path)
    with pytest.raises(WorldError, match="appworld download data --root"):
        world.tasks("train")
    (tmp_path / "data" / "datasets").mkdir(parents=True)
    (tmp_path / "data" / "datasets" / "train.txt").write_text("a_1\n")
    with pytest.raises(WorldError, match=r"specs\.json: want a task"):
        world.tasks("train")


def test_our_tasks_are_not_mixed_with_other_data(tmp_path):
    (tmp_path / "data" / "tasks").mkdir(parents=True)
    with pytest.raises(WorldError, match="want a folder without other AppWorld data"):
        mini.make(tmp_path)


def test_the_tasks_are_ours_alone():
    text = json.dumps(mini.rows()) + engine.HERE.joinpath("appworld_make.py").read_text()
    assert "canary" not in text.lower()
    assert {r["id"].rsplit("_", 1)[0] for r in mini.rows()} == {"miniappend", "minicount"}


@pytest.mark.slow
def test_goal_completion_is_the_engines_own(root):
    """TGC and SGC from our verdicts equal those of the engine's evaluate_dataset."""
    failing = {"miniappend_2"}
    with AppWorld(root, servers=2, experiment="whole") as world:
        tasks = world.tasks("mini")

        def play(task):
            episode = world.reset(task)
            if task.id in failing:
                episode.act("apis.supervisor.complete_task()")
            else:
                solve(episode)
            return episode.evaluate().success

        with ThreadPoolExecutor(2) as pool:
            won = dict(zip((t.scenario + t.id for t in tasks), pool.map(play, tasks), strict=True))
    code = (
        "import json, sys; from appworld import update_root; update_root(sys.argv[1]);"
        "from appworld.evaluator import evaluate_dataset;"
        "print(json.dumps(evaluate_dataset('whole_run0', 'mini', print_report=False)))"
    )
    python = engine.python_of(engine.engine_folder())
    said = engine.run(python, "-c", code, str(root), root=root)
    theirs = json.loads(said.strip().splitlines()[-1])["aggregate"]
    scenarios = {t.scenario for t in tasks}
    sgc = [all(v for k, v in won.items() if k.startswith(s)) for s in scenarios]
    ours = {
        "task_goal_completion": round(100 * sum(won.values()) / len(won), 1),
        "scenario_goal_completion": round(100 * sum(sgc) / len(sgc), 1),
    }
    assert ours == {"task_goal_completion": 83.3, "scenario_goal_completion": 50.0}
    assert theirs == ours


@pytest.mark.slow
def test_a_server_that_hangs_is_replaced_and_a_killed_one_too(root):
    with AppWorld(root, servers=1, seconds=3) as world:
        task = world.tasks("mini")[0]
        episode = world.reset(task)
        assert "timed out after 3 seconds" in episode.act("while True: pass").text
        server = episode._server
        with pytest.raises(WorldError, match=r"want an answer within 0\.001 s"):
            server.ask("evaluate", {"task_id": task.id}, seconds=0.001)
        assert not server.alive
        with pytest.raises(WorldError, match="AppWorld execute"):
            episode.act("1")
        again = world.reset(task)
        assert again._server is not server
        assert again._server.healthy()
        solve(again)
        assert again.evaluate().success
        world.reset(task)._server.stop()
        assert world.reset(task).act("print(1)").text == "1"


@pytest.mark.slow
def test_a_server_ends_with_the_process_that_started_it(root):
    server = engine.Server(engine.python_of(engine.engine_folder()), root)
    assert server.healthy(60)
    server._process.stdin.close()  # what the end of this process does
    until = time.monotonic() + 20
    while server.alive and time.monotonic() < until:
        time.sleep(0.1)
    assert not server.alive


@pytest.mark.slow
def test_waiting_for_a_server_ends(root):
    with AppWorld(root, servers=1) as world:
        held = world.reset(world.tasks("mini")[0])
        with pytest.raises(WorldError, match="want one of 1 AppWorld servers"):
            world.servers.borrow(seconds=0.2)
        held.close()
        world.servers.give_back(world.servers.borrow(seconds=5))
