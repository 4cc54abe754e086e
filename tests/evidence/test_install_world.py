"""The command that installs other people's engines: what it refuses, and that its pins agree."""

import subprocess
import sys
from pathlib import Path

import pytest

from rubricnb.cli import install_world
from rubricnb.errors import ConfigError, WorldError
from rubricnb.worlds import appworld_engine

ROOT = Path(__file__).resolve().parents[2]


def test_an_unknown_world_is_named():
    with pytest.raises(ConfigError, match=r"want a world among .*appworld.*; got 'nothing'"):
        install_world.install_world("nothing")


def test_a_failed_installation_is_an_error_that_says_what_was_run(monkeypatch):
    monkeypatch.setitem(install_world.WHEELS, "bfcl", ("--no-such-option",))
    with pytest.raises(WorldError, match="pip install --quiet --no-deps --no-such-option"):
        install_world.install_world("bfcl")


def test_the_benchmark_of_calls_is_pinned_once():
    lines = (ROOT / "requirements-nodeps.txt").read_text().splitlines()
    assert install_world.WHEELS["bfcl"][0] in lines


@pytest.mark.slow
def test_appworlds_engine_can_be_made_from_nothing(tmp_path):
    """Needs a package index; 230 MB."""
    index = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(tmp_path)]
    if subprocess.run([*index, f"appworld=={appworld_engine.VERSION}"]).returncode:
        pytest.skip("no package index to take appworld from")
    folder = tmp_path / "engine"
    assert appworld_engine.install(folder) == folder
    assert appworld_engine.python_of(folder).exists()
    assert appworld_engine.install(folder) == folder  # found, not made again
