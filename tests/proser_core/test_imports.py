"""The import direction that the architecture promises."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import proser_core

ROOT = Path(proser_core.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
FLOORS = [
    ("store", "config"),
    ("data", "networks"),
    ("learning",),
    ("generative",),
    ("recognition",),
    ("baselines",),
    ("jobs",),
]
LEVELS = {package: level for level, floor in enumerate(FLOORS) for package in floor}


WITHOUT = """
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

class Present(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in {absent} else super().find_spec(name, path, target)

sys.meta_path[:] = [BuiltinImporter, FrozenImporter, Present]
from proser_core.job import main
sys.exit(main(sys.argv[1:]))
"""


def imports_of(path: Path) -> list[str]:
    """Absolute names of the imported modules, wherever in the file they stand."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == "proser_core" and len(parts) > 1 and parts[1] in LEVELS else ""


def test_the_method_knows_nothing_of_the_workflow():
    assert MODULES
    for path in MODULES:
        tops = {name.split(".")[0] for name in imports_of(path)}
        assert tops.isdisjoint({"pipelines", "tune_spaces", "ray", "mlflow", "hamilton", "tyro", "rich"}), path


@pytest.mark.parametrize("package", LEVELS)
def test_packages_of_the_method_import_downward_only(package):
    modules = sorted((ROOT / package).rglob("*.py"))
    assert modules
    for path in modules:
        imported = {package_of(name) for name in imports_of(path)} - {"", package}
        upward = {name for name in imported if LEVELS[name] >= LEVELS[package]}
        assert not upward, f"{path.name} of {package} imports {upward}"


@pytest.mark.parametrize("name", ["digests", "errors", "naming", "rng"])
def test_modules_at_the_root_import_no_package(name):
    assert {package_of(module) for module in imports_of(ROOT / f"{name}.py")} <= {""}


@pytest.mark.parametrize(
    ("modules", "tools"),
    [
        (
            "proser_core.baselines, proser_core.jobs.in_memory, proser_core.recognition.open_set_classifier",
            {"ray", "mlflow", "hamilton", "tyro", "pandas"},
        ),
        ("proser_core.config, proser_core.naming", {"torch"}),
    ],
    ids=["the method", "reading a recipe"],
)
def test_importing_the_method_loads_no_workflow_tool_and_reading_a_recipe_no_torch(modules, tools):
    code = f"import sys, {modules}; print(*sorted({tools} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, check=True)
    assert done.stdout.split() == []


@pytest.mark.slow
def test_the_runner_works_where_nothing_of_the_workflow_is_installed(tmp_path):
    data = {"name": "digits", "image_size": 8, "num_known": 5, "unknown_settings": [3], "development": "held-out-2"}
    training = {"epochs": 1, "batch_size": 64}
    recipe = {"precision": "fp32", "data": {**data, "padding": 1}, "pretrain": training, "finetune": training}
    (tmp_path / "JOB.json").write_text(json.dumps({"recipe": recipe, "finetunes": [{}]}))
    absent = [
        "ray",
        "mlflow",
        "hamilton",
        "tyro",
        "rich",
        "pandas",
        "pyarrow",
        "matplotlib",
        "pipelines",
        "tune_spaces",
    ]
    command = [sys.executable, "-c", WITHOUT.format(absent=absent), str(tmp_path / "JOB.json"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT.parent)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/results.json").is_file()


def test_parquet_without_its_reader_is_refused_with_what_to_do(tmp_path, monkeypatch):
    from proser_core.data.readers.parquet import ParquetLayout
    from proser_core.errors import DataError

    (tmp_path / "train-0.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match="read by pyarrow, which cannot be imported here"):
        ParquetLayout("").read(tmp_path, "train", size=8)
