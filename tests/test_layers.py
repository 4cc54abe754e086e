"""The layers hold: imports point down only, and the light part stays light."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rubricnb"

# Top-level module or sub-package -> (layer, allowed outside packages besides the standard library)
LAYER = {
    "values": ["errors", "names", "trajectory", "rubric", "files", "seeds"],
    "maths": ["credit", "grading", "metrics"],
    "edges": ["importers", "judge", "worlds"],
    "learning": ["policy", "train"],
    "evidence": ["figures", "widgets", "experiments", "report", "cli", "lab", "fidelity"],
}
ORDER = list(LAYER)
LAYER_OF = {name: layer for layer, names in LAYER.items() for name in names}
HEAVY = {"torch", "transformers", "peft", "trl", "accelerate", "datasets", "safetensors"}
OUTSIDE = {
    "values": {"numpy"},
    "maths": {"numpy", "scipy", "sklearn", "krippendorff"},
}
# Beyond the layers: (importer, imported) pairs that are forbidden on the same or a lower layer.
FORBIDDEN = [
    ("judge", "worlds"),
    ("figures", "judge"),
    ("figures", "importers"),
    ("figures", "policy"),
    ("figures", "train"),
]


def imports(path: Path) -> set[str]:
    """Absolute dotted names that a file imports anywhere, relative ones resolved."""
    package = ["rubricnb", *path.relative_to(PACKAGE).parent.parts]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{stem}.{a.name}" for a in node.names}
    return found


def files() -> list[tuple[str, Path]]:
    out = []
    for path in sorted(PACKAGE.rglob("*.py")):
        top = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if top not in ("__init__", "__main__"):
            out.append((top, path))
    return out


def test_every_module_has_a_layer():
    assert {top for top, _ in files()} <= set(LAYER_OF)


@pytest.mark.parametrize(("top", "path"), files(), ids=lambda v: getattr(v, "name", v))
def test_imports_point_down(top, path):
    layer = LAYER_OF[top]
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "rubricnb":
            other = parts[1] if len(parts) > 1 else ""
            if other in LAYER_OF:
                assert ORDER.index(LAYER_OF[other]) <= ORDER.index(layer), f"{path}: {name}"
                assert (top, other) not in FORBIDDEN, f"{path}: {name}"
            continue
        if parts[0] in HEAVY:
            assert layer == "learning", f"{path}: {name}"
        if parts[0] in sys.stdlib_module_names:
            continue
        if layer in OUTSIDE:
            assert parts[0] in OUTSIDE[layer], f"{path}: {name}"
        if top in ("credit", "grading"):
            assert parts[0] == "numpy", f"{path}: {name}"


def test_no_credit_rule_imports_another():
    common = {"common", "batch"}
    for path in sorted((PACKAGE / "credit").glob("*.py")) if (PACKAGE / "credit").exists() else []:
        if path.stem in {"__init__", *common}:
            continue
        for name in imports(path):
            parts = name.split(".")
            if parts[:2] == ["rubricnb", "credit"] and len(parts) > 2:
                assert parts[2] in common, f"{path}: {name}"


LIGHT = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Block())
import numpy as np
from rubricnb.credit import draco
a = draco(np.array([1.0]), np.array([[1, 0]]), np.array([[0, 0]]), np.array([[2, 4]]))
print(a.tolist())
"""


def run_light(blocked):
    return subprocess.run(
        [sys.executable, "-c", LIGHT.format(blocked=blocked)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )


def test_credit_runs_without_the_heavy_packages():
    done = run_light({*HEAVY, "plotly", "ipywidgets", "pandas", "scipy", "openai"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[[1.5, 0.75]]"


def test_the_light_check_can_fail():
    assert run_light({"numpy"}).returncode != 0


def test_looked_up_names_are_there_and_hide_no_module():
    for path in sorted(PACKAGE.rglob("__init__.py")):
        if "looked_up" not in path.read_text(encoding="utf-8"):
            continue
        name = ".".join(["rubricnb", *path.parent.relative_to(PACKAGE).parts])
        package = importlib.import_module(name)
        modules = {p.stem for p in path.parent.iterdir() if p.suffix == ".py" or p.is_dir()}
        for known in package._WHERE:
            assert known not in modules, f"{name}.{known} is a module, too"
            assert getattr(package, known) is getattr(package, known)
        assert set(dir(package)) == set(package._WHERE)
        with pytest.raises(AttributeError, match="'nothing'"):
            package.nothing  # noqa: B018
