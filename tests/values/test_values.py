"""Values are frozen, survive a round trip through JSON Lines, and say what is wrong with a line."""

import dataclasses
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rubricnb
from rubricnb import files, seeds
from rubricnb.errors import FormatError
from rubricnb.rubric import Criterion, FailedJudgement, GradedGroup, Label, Rubric, Verdict
from rubricnb.trajectory import Group, Observation, Step, Task, ToolCall, Trajectory

words = st.text(max_size=20)
metas = st.dictionaries(words, st.integers() | words | st.none() | st.booleans(), max_size=2)
steps = st.builds(
    Step,
    text=words,
    calls=st.lists(st.builds(ToolCall, words, words, words), max_size=2).map(tuple),
    observations=st.lists(st.builds(Observation, words, words, words, words), max_size=2).map(
        tuple
    ),
    thinking=words,
    tokens=st.none() | st.integers(0, 99),
    meta=metas,
)
trajectories = st.builds(
    Trajectory,
    id=words,
    task=st.builds(Task, id=st.just("t"), prompt=words, system=words, meta=metas),
    steps=st.lists(steps, max_size=3).map(tuple),
    outcome=st.none() | st.floats(0, 1),
    labels=metas,
    warnings=st.lists(words, max_size=2).map(tuple),
)


def graded(trajectory: Trajectory) -> GradedGroup:
    rubric = Rubric((Criterion("a", "Reads back"), Criterion("b", "Right customer", weight=2.0)))
    row = (
        Verdict("a", Label.PASS, "why", (1,), 1, ("flag",)),
        FailedJudgement("b", "empty reply", ("cut",)),
    )
    return GradedGroup(Group(trajectory.task, (trajectory,)), rubric, (row,), ("",), {"judge": "x"})


@given(trajectories)
def test_a_trajectory_survives_a_line(trajectory):
    line = files.encode(trajectory)
    assert "\n" not in line
    assert files.decode(line) == trajectory


@given(trajectories)
def test_a_graded_group_survives_a_line(trajectory):
    assert files.decode(files.encode(graded(trajectory))) == graded(trajectory)


@given(trajectories, trajectories)
def test_hashes_are_equal_exactly_where_values_are(a, b):
    assert (files.content_hash(a) == files.content_hash(b)) == (
        files.canonical(a) == files.canonical(b)
    )
    assert files.content_hash(a) == files.content_hash(files.decode(files.encode(a)))


def test_values_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Task("t", "p").prompt = "other"
    with pytest.raises(TypeError):
        Task("t", "p").meta["x"] = 1


def test_a_failed_judgement_has_no_number():
    assert not hasattr(FailedJudgement("a"), "value")
    with pytest.raises(TypeError):
        float(FailedJudgement("a"))
    assert [Verdict("a", x).value for x in Label] == [1, -1, 0]


def test_groups_and_rubrics_refuse_what_does_not_belong_together():
    task = Task("t", "p")
    stranger = Trajectory("r", Task("other", "p"), ())
    with pytest.raises(ValueError, match="'other'"):
        Group(task, (stranger,))
    with pytest.raises(ValueError, match="'a' twice"):
        Rubric((Criterion("a", "x"), Criterion("a", "y")))
    own = Trajectory("r", task, ())
    rubric = Rubric((Criterion("a", "x"),))
    with pytest.raises(ValueError, match="row 0"):
        GradedGroup(Group(task, (own,)), rubric, ((Verdict("b", Label.PASS),),))
    with pytest.raises(ValueError, match="one row of judgements per rollout, 1; got 0"):
        GradedGroup(Group(task, (own,)), rubric, ())
    with pytest.raises(ValueError, match="no failures or one entry"):
        GradedGroup(Group(task, (own,)), rubric, ((Verdict("a", Label.PASS),),), ("", ""))


def test_files_stream_group_and_appear_whole(tmp_path):
    a, b = Task("a", "p"), Task("b", "q")
    made = [Trajectory(str(i), t, (Step("hi"),)) for i, t in enumerate([a, b, a])]
    path = tmp_path / "x.jsonl"
    assert files.write_jsonl(path, made) == 3
    assert list(files.read_jsonl(path)) == made
    groups = list(files.read_groups(path))
    assert groups == files.group_by_task(made)
    assert [len(g) for g in groups] == [2, 1]

    def broken():
        yield made[0]
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        files.write_jsonl(tmp_path / "y.jsonl", broken())
    assert not (tmp_path / "y.jsonl").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "broken JSON"),
        ("[]", 'want an object with "rubricnb"'),
        ('{"rubricnb": 99, "kind": "trajectory"}', "version 1"),
        ('{"rubricnb": 1, "kind": "song"}', "got 'song'"),
        ('{"rubricnb": 1, "kind": "trajectory", "id": "x"}', "fields that do not fit"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(files.encode(Trajectory("r", Task("t", "p"), ())) + "\n" + line + "\n")
    with pytest.raises(FormatError, match="line 2") as e:
        list(files.read_jsonl(path))
    assert message in str(e.value)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    for read in (files.read_jsonl, files.read_groups):
        with pytest.raises(FormatError, match="empty file"):
            list(read(tmp_path / "empty.jsonl"))


def test_credit_lines_are_plain_mappings(tmp_path):
    row = {"id": "r", "credit": [0.5, None]}
    files.write_jsonl(tmp_path / "c.jsonl", [row])
    assert list(files.read_jsonl(tmp_path / "c.jsonl")) == [row]
    with pytest.raises(FormatError, match="another kind"):
        list(files.read_groups(tmp_path / "c.jsonl"))


@given(st.integers(0, 2**40), st.lists(words, min_size=1, max_size=3))
def test_seeds_depend_on_the_root_and_every_name(root, names):
    seed = seeds.child_seed(root, *names)
    assert 0 <= seed < 2**32
    assert seed != seeds.child_seed(root + 1, *names)
    assert seed != seeds.child_seed(root, *names, "more")
    assert seeds.generator(root, *names).integers(9**9) == seeds.generator(root, *names).integers(
        9**9
    )


def test_the_front_door_is_lazy_and_complete():
    for name in rubricnb.__all__:
        assert getattr(rubricnb, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = rubricnb.nothing
    assert json.loads(files.encode({"x": 1}))["kind"] == "credit"


@given(trajectories)
def test_values_cross_processes(t):
    """A training on several processes gathers trajectories as pickles of its own making."""
    assert pickle.loads(pickle.dumps(t)) == t
    bare = Trajectory("a", Task("t", "p"), (Step("x"),))  # nothing but the shared empty mappings
    again = pickle.loads(pickle.dumps(bare))
    assert again == bare
    with pytest.raises(TypeError):
        again.meta["x"] = 1
