"""The import direction that the architecture promises."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import proser_core

ROOT = Path(proser_core.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
LEVELS = {"data": 0, "networks": 0, "learning": 1, "recognition": 2, "baselines": 3, "jobs": 4}


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


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_method_knows_nothing_of_the_workflow(path):
    tops = {name.split(".")[0] for name in imports_of(path)}
    assert tops.isdisjoint({"pipelines", "tune_spaces", "ray", "mlflow", "hamilton", "tyro", "rich"})


@pytest.mark.parametrize("package", LEVELS)
def test_packages_of_the_method_import_downward_only(package):
    modules = sorted((ROOT / package).rglob("*.py"))
    assert modules
    for path in modules:
        imported = {package_of(name) for name in imports_of(path)} - {"", package}
        upward = {name for name in imported if LEVELS[name] > LEVELS[package]}
        assert not upward, f"{path.name} of {package} imports {upward}"


@pytest.mark.parametrize("name", ["config", "errors", "naming", "rng", "processor"])
def test_modules_at_the_root_import_no_package(name):
    assert {package_of(module) for module in imports_of(ROOT / f"{name}.py")} <= {""}


@pytest.mark.parametrize(
    "module",
    [
        "proser_core",
        "proser_core.recognition.open_set_classifier",
        "proser_core.baselines",
    ],
)
def test_importing_the_method_loads_no_workflow_tool(module):
    code = f"import sys, {module}; print(*sorted({{'ray', 'mlflow', 'hamilton', 'tyro', 'pandas'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, check=True)
    assert done.stdout.split() == []


def test_the_runner_works_where_nothing_of_the_workflow_is_installed():
    absent = (
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
    )
    code = f"import sys; sys.modules.update(dict.fromkeys({absent}))\n"
    code += "import proser_core.job, proser_core.jobs.job_file, proser_core.jobs.runner"
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, check=True)


def test_reading_a_recipe_does_not_load_torch():
    code = "import sys, proser_core.config, proser_core.naming; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, check=True)
    assert done.stdout.strip() == "False"


def test_the_classifier_is_public_and_other_names_are_not():
    from proser_core.recognition.open_set_classifier import OpenSetClassifier

    assert proser_core.OpenSetClassifier is OpenSetClassifier
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = proser_core.Nothing
