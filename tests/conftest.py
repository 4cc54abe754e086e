"""Shared fixtures: the folder of real trajectories, where it is there."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of third-party trajectories beside the project; tests skip without it."""
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    path = Path(os.environ.get("RUBRICNB_SHARED", beside))
    if not path.is_dir():
        pytest.skip(f"no real trajectories at {path}")
    return path
