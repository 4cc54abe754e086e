"""The static arm's set: selection by measured rates, its file and its command."""

from itertools import islice

import pytest
from typer.testing import CliRunner

from rubricnb import files
from rubricnb.cli import app
from rubricnb.errors import FormatError, WorldError
from rubricnb.worlds import EXACT, offline_judge
from rubricnb.worlds.static_rubric import (
    Limits,
    base_rollouts,
    candidates,
    load_static,
    measure,
    save_static,
    select_static,
)


@pytest.fixture(scope="module")
def selected():
    return select_static(islice(base_rollouts(per_task=3), 30), offline_judge())


def test_selection_keeps_what_is_within_the_limits(selected):
    rubric, rows = selected
    limits = Limits()
    kept = {c.id for c in rubric.criteria}
    assert 5 <= len(kept) < len(candidates())
    for row in rows:
        within = row.failed is not None and 0.028 <= row.failed <= 0.98 and row.applicable >= 0.25
        assert (row.criterion.id in kept) == within == row.kept(limits)


def test_no_candidate_left_is_an_error():
    groups = islice(base_rollouts(per_task=2), 3)
    with pytest.raises(WorldError, match="want a candidate within"):
        select_static(groups, offline_judge(EXACT), limits=Limits(least_failed=0.97))
    with pytest.raises(WorldError, match="got none"):
        measure([])


def test_file_round_trip(tmp_path, selected):
    rubric, rows = selected
    path = tmp_path / "static.json"
    save_static(path, rows, Limits(), "here", "a judge")
    assert load_static(path) == rubric
    path.write_text('{"kind": "other"}')
    with pytest.raises(FormatError, match="want a static rubric"):
        load_static(path)


def test_the_command_on_rollouts_of_a_file_and_on_scripted_ones(tmp_path):
    rollouts = tmp_path / "base.jsonl"
    files.write_jsonl(
        rollouts, (t for g in islice(base_rollouts(per_task=2), 40) for t in g.trajectories)
    )
    out = tmp_path / "static.json"
    for arguments in ([str(rollouts)], ["--per-task", "1"]):
        done = CliRunner().invoke(app, ["static-rubric", *arguments, "-o", str(out)])
        assert done.exit_code == 0, done.output
        assert "Everything asked for is in place" in done.output
        assert len(load_static(out)) > 3
