"""The search world: disjoint splits, exact match, luck, rewinding; searchers and their roles."""

import numpy as np
import pytest

from rubricnb.credit import RULES, CreditBatch
from rubricnb.errors import WorldError
from rubricnb.judge import CallableJudge, JudgeConfig
from rubricnb.judge.rivals.roles import label_roles
from rubricnb.trajectory import Group
from rubricnb.worlds import open_world
from rubricnb.worlds.agent import play
from rubricnb.worlds.base import Episode, World
from rubricnb.worlds.search import Search, same_answer
from rubricnb.worlds.search_agent import (
    SKILLED,
    SLOPPY,
    ScriptedSearcher,
    search_demo,
    search_notes,
    search_roles,
)
from rubricnb.worlds.search_corpus import SPLITS, corpora, read_question


@pytest.fixture(scope="module")
def world():
    return open_world("search")


def test_it_follows_the_protocols(world):
    assert isinstance(world, World)
    episode = world.reset(world.tasks("dev")[0], 0)
    assert isinstance(episode, Episode)
    other = world.reset(world.tasks("dev")[0], 0)
    said = episode.call("search", {"query": "mayor"})
    assert said == other.act("search mayor")


def test_splits_share_no_name_and_no_fact(world):
    names = {s: {w for n in corpora(0)[s].kinds for w in n.split()[-1:]} for s in SPLITS}
    texts = {s: set(corpora(0)[s].passages.values()) for s in SPLITS}
    for a in SPLITS:
        assert len(world.tasks(a)) >= 90
        for b in SPLITS:
            if a != b:
                assert not names[a] & names[b]
                assert not texts[a] & texts[b]


def test_questions_are_read_back_and_their_way_is_in_the_corpus(world):
    for split in SPLITS:
        corpus = world.corpus(split)
        for task in world.tasks(split):
            start, chain = read_question(task.prompt)
            way = task.spec["way"]
            assert (start, len(chain)) == (way[0], task.difficulty + 1)
            for x, relation, y in zip(way, chain, way[1:], strict=False):
                assert corpus.facts[x, relation] == y
                assert y in corpus.passages[x]
    assert read_question("what is love") is None


def test_a_skilled_searcher_solves_everything_where_no_search_misses():
    sure = Search(miss=0.0)
    for task in sure.tasks("test"):
        t = search_demo(sure.reset(task), 0)
        assert t.outcome == 1.0
        assert len(t) == task.difficulty + 2  # one search a fact, and the answer
        assert t.labels["intermediate_reward"] == [1.0] * len(t)
        assert set(search_roles(t)) == {"decisive"}


def test_a_sloppy_one_succeeds_sometimes(world):
    rate = [search_demo(world.reset(t, 1), 1, SLOPPY).outcome for t in world.tasks("train")]
    assert 0.3 < np.mean(rate) < 0.9
    again = [search_demo(world.reset(t, 1), 1, SLOPPY).outcome for t in world.tasks("train")]
    assert rate == again


def test_answers_match_exactly_or_not_at_all():
    assert same_answer("the Malo River!", "malo river")
    assert not same_answer("malo", "malo river")
    assert not same_answer("", "malo")


def test_a_snapshot_goes_back_and_the_end_is_the_end(world):
    task = world.tasks("dev")[3]
    episode = world.reset(task, 0)
    start, _ = read_question(task.prompt)
    episode.act(f"search {start}")
    here = episode.snapshot()
    for _ in range(2):
        answer = task.spec["way"][-1]
        assert episode.act(f"finish {answer}").done
        assert episode.evaluate().success
        with pytest.raises(WorldError, match="after the end"):
            episode.act("search again")
        episode.restore(here)
        assert not episode.done
        assert not episode.evaluate().success
    while not episode.done:
        episode.call("jump", {})
    assert (episode.termination, len(episode.turns)) == ("turn_limit", world.max_turns)


@pytest.mark.parametrize("faults", [SKILLED, SLOPPY])
def test_a_chat_agent_can_play(world, faults):
    rollouts = [
        play(world, t, ScriptedSearcher(faults, k), f"{t.id}/{k}", seed=k)
        for t in world.tasks("dev")[:6]
        for k in range(3)
    ]
    outcomes = {t.outcome for t in rollouts}
    assert outcomes == ({0.0, 1.0} if faults is SLOPPY else {1.0})
    for t in rollouts:
        assert len(search_roles(t)) == len(t) == len(t.labels["intermediate_reward"])
        assert t.task.prompt.endswith("?")


def test_triage_can_use_it(world):
    """Roles by rule, and roles by a judge that knows them, are the same credit."""
    task = world.tasks("train")[40]
    members = [search_demo(world.reset(task, k), k, SLOPPY, f"{task.id}/{k}") for k in range(6)]
    group = Group(members[0].task, tuple(members))
    roles = [search_roles(t) for t in members]
    S = max(map(len, roles))
    padded = np.array([[*r, *[""] * (S - len(r))] for r in roles])
    batch = CreditBatch(
        (padded != "").astype(float), role_GS=padded, outcome_G=[t.outcome for t in members]
    )
    credit = RULES["triage"](batch)
    assert np.isfinite(credit).all()
    judge = CallableJudge(lambda call: "no", "mute")
    (labelled,) = label_roles([group], judge, JudgeConfig())
    assert labelled.batch(tokens=len).tokens_GS.shape == (6, S)


def test_notes_sum_to_the_outcome(world):
    for k in range(10):
        t = search_demo(world.reset(world.tasks("train")[k], k), k, SLOPPY)
        notes = search_notes(t, 3)
        assert sum(np.mean(n.scores) for n in notes) == pytest.approx(t.outcome, abs=1e-5)
        assert all(len(n.criteria) == 3 for n in notes)
