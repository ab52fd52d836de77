"""Which room may import which, who may speak to MLflow and Ray, and that importing does nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pipelines
from pipelines.workflow.stage import STAGES
from proser_core.store.code_version import code_version, imported_modules

FOLDER = Path(pipelines.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
FLOORS = (
    ("cli",),
    ("commands",),
    ("reproduction",),
    ("workflow", "inference"),
    ("reports", "serving"),
    ("cluster",),
    ("tracking",),
    ("storage", "recipes", "progress", "output_files", "ports"),
    ("console",),
    ("tune_spaces",),
    ("proser_core",),
)
"""Rooms from the top down: each imports from floors below its own alone."""
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
IMPORT_ALL = """
import importlib, os, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
import ray
assert not ray.is_initialized()
assert "MLFLOW_TRACKING_URI" not in os.environ
assert os.listdir(".") == [], os.listdir(".")
"""


def imported(path: Path) -> set[str]:
    """Whatever a file imports, by its whole name, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def room_of(module: str) -> str:
    """The room of a module of ours: a package or a loose file of `pipelines`, or another package."""
    top, *inside = module.split(".")
    return inside[0] if top == "pipelines" and inside else top


def calls(path: Path) -> set[str]:
    """Calls of the form `module.function(...)`."""
    nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {ast.unparse(node.func) for node in nodes}


def test_rooms_import_from_floors_below_their_own_alone() -> None:
    assert FILES
    for path in FILES:
        own = path.relative_to(FOLDER).parts[0].removesuffix(".py")
        if own != "__init__":
            others = ({room_of(name) for name in imported(path)} & FLOOR.keys()) - {own}
            assert {room for room in others if FLOOR[room] <= FLOOR[own]} == set(), path


def test_at_most_six_files_lie_outside_of_rooms() -> None:
    loose = [path.name for path in FOLDER.glob("*.py") if path.name != "__init__.py"]
    assert len(loose) <= 6, loose


@pytest.mark.parametrize("package", ["pipelines", "proser_core"])
def test_no_module_imports_itself_through_others(package: str) -> None:
    for path in sorted((FOLDER.parent / package).rglob("*.py")):
        parts = path.relative_to(FOLDER.parent).with_suffix("").parts
        code_version(".".join(parts[:-1] if parts[-1] == "__init__" else parts))  # raises for a circle


def test_only_tracking_imports_mlflow() -> None:
    users = {path for path in FILES if "mlflow" in map(room_of, imported(path))}
    assert users
    assert all(path.parent == FOLDER / "tracking" for path in users), users


@pytest.mark.parametrize("stage", STAGES)
def test_no_key_holds_code_that_knows_ray_or_mlflow(stage: str) -> None:
    for module in imported_modules(STAGES[stage]):
        if module.startswith("tune_spaces"):  # spaces are in Tune's own words
            continue
        path = FOLDER.parent.joinpath(*module.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        assert {"ray", "mlflow"}.isdisjoint(map(room_of, imported(file))), module


def test_ray_is_started_or_joined_in_one_place() -> None:
    assert [path.name for path in FILES if "ray.init" in calls(path)] == ["session.py"]


def test_every_module_has_a_docstring() -> None:
    assert [path for path in FILES if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_importing_every_module_makes_no_file_and_starts_nothing(tmp_path: Path) -> None:
    modules = [
        "pipelines." + ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        for path in FILES
        if path.name not in ("__init__.py", "pyfunc_model.py")
    ]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *modules], cwd=tmp_path, env={}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
