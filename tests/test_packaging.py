"""What installs the project agrees with itself: extras, conda file, lock, README's map."""

import json
import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WANTED = [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())]


def name(requirement: str) -> str:
    return re.split(r"[<>=!~ \[;]", requirement)[0].lower().replace("_", "-")


def test_environment_yml_lists_what_pyproject_lists():
    env = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pip,) = [d["pip"] for d in env["dependencies"] if isinstance(d, dict)]
    assert sorted(pip) == sorted([*WANTED, "-e ."])


def test_the_lock_pins_every_requirement_and_only_pins():
    lines = [
        x for x in (ROOT / "requirements.lock").read_text().splitlines() if x and x[0] not in "# "
    ]
    assert all(re.match(r"^[A-Za-z0-9._-]+==[^ ]+( ;.*)?$", x) for x in lines), lines
    assert {name(r) for r in WANTED} <= {name(x) for x in lines}


def test_the_lock_leaves_the_cuda_choice_to_torch():
    text = (ROOT / "requirements.lock").read_text()
    assert "torch==2.13.0" in text
    assert not re.search(r"^(nvidia|cuda|triton)", text, re.M)


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.name)
def test_notebooks_are_stripped_tagged_and_short(path):
    nb = json.loads(path.read_text())
    assert nb["metadata"]["kernelspec"]["name"] == "python3"
    assert "widgets" not in nb["metadata"]
    code = [c for c in nb["cells"] if c["cell_type"] == "code"]
    assert all(not c["outputs"] and c["execution_count"] is None for c in code)
    assert sum("parameters" in c["metadata"].get("tags", []) for c in code) == 1
    assert max(len("".join(c["source"]).splitlines()) for c in code) <= 15


def test_readme_maps_every_file_of_the_package():
    readme = (ROOT / "README.md").read_text()
    for path in sorted((ROOT / "rubricnb").rglob("*.py")):
        if path.name != "__init__.py":
            assert path.name in readme, f"README.md does not say what {path} is for"
