"""The version of a stage's code: blind to words, places and names of modules, awake to statements."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import proser_core
from proser_core.store.code_version import code_version, imported_modules

ROOT = Path(proser_core.__file__).parent.parent
VERSION = "import sys; from proser_core.store.code_version import code_version; print(code_version(sys.argv[1]))"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in ("pipelines", "proser_core", "tune_spaces"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def version_in(copy: Path, module: str = "proser_core.jobs.worker") -> str:
    """The version as a fresh process computes it, which sees the copied packages first."""
    done = subprocess.run(
        [sys.executable, "-c", VERSION, module], cwd=copy, env={"PYTHONPATH": str(copy)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_comments_docstrings_and_layout_leave_the_version(copy: Path) -> None:
    losses = copy / "proser_core/learning/losses.py"
    edit(losses, "First term of eq. 5", "Another text")
    losses.write_text("\n\n# a comment\n" + losses.read_text().replace("import torch\n", "import torch  # why\n", 1))
    edit(copy / "proser_core/config/optimizer.py", '"""Peak learning rate', '"""The largest rate')
    assert version_in(copy) == code_version("proser_core.jobs.worker")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("proser_core/learning/losses.py", "-torch.inf", "0.0"),
        ("proser_core/config/finetune.py", "gamma: float = 0.1", "gamma: float = 0.2"),
        ("proser_core/jobs/worker.py", "rank == 0", "rank == 1"),
    ],
)
def test_a_changed_statement_in_a_module_it_needs_changes_the_version(
    copy: Path, file: str, old: str, new: str
) -> None:
    edit(copy / file, old, new)
    assert version_in(copy) != code_version("proser_core.jobs.worker")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (
            "proser_core/recognition/calibration.py",
            "from scipy.special import betaincinv",
            "from scipy.special import bdtri as betaincinv",
        ),
        ("proser_core/recognition/metrics.py", "import numpy as np", "import torch as np"),
    ],
)
def test_another_function_of_a_library_by_the_same_name_changes_the_version(
    copy: Path, file: str, old: str, new: str
) -> None:
    module = file.removesuffix(".py").replace("/", ".")
    edit(copy / file, old, new)
    assert version_in(copy, module) != code_version(module)


def move(copy: Path, old: str, new: str) -> None:
    """Rename a module, and its name in every import line."""
    source, target = (copy / f"{name.replace('.', '/')}.py" for name in (old, new))
    target.parent.mkdir(exist_ok=True)
    (target.parent / "__init__.py").touch()
    source.rename(target)
    (package, stem), (to, name) = old.rsplit(".", 1), new.rsplit(".", 1)
    for path in (file for top in ("pipelines", "proser_core") for file in (copy / top).rglob("*.py")):
        text = path.read_text().replace(f"from {old} import", f"from {new} import")
        path.write_text(text.replace(f"from {package} import {stem}\n", f"from {to} import {name} as {stem}\n"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("proser_core.learning.losses", "proser_core.learning.terms"),
        ("proser_core.jobs.spec", "proser_core.work.described"),
        ("proser_core.rng", "proser_core.randomness.keyed"),
    ],
)
def test_a_module_that_moves_and_is_renamed_leaves_the_version_so_that_its_trainings_are_found(
    copy: Path, old: str, new: str
) -> None:
    move(copy, old, new)
    assert version_in(copy) == code_version("proser_core.jobs.worker")


def test_a_name_that_is_imported_from_elsewhere_changes_the_version(copy: Path) -> None:
    (copy / "proser_core/other.py").write_text("WIDTHS = 2\n")
    (copy / "proser_core/widths.py").write_text("WIDTHS = 1\n")
    worker = copy / "proser_core/jobs/worker.py"
    worker.write_text("from proser_core.widths import WIDTHS\n" + worker.read_text() + "\nUSED = WIDTHS\n")
    before = version_in(copy)
    edit(worker, "proser_core.widths", "proser_core.other")
    assert version_in(copy) != before


def test_a_name_that_a_package_hands_on_is_the_one_of_its_module(copy: Path) -> None:
    (copy / "proser_core/learning/__init__.py").write_text("from proser_core.learning.ranks import current_world\n")
    edit(copy / "proser_core/jobs/worker.py", "proser_core.learning.ranks import", "proser_core.learning import")
    assert version_in(copy) == code_version("proser_core.jobs.worker")


def test_a_module_that_does_not_exist_has_no_version() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"no module 'pipelines\.nope'"):
        code_version("pipelines.nope")
    with pytest.raises(ModuleNotFoundError, match="no module 'elsewhere'"):
        code_version("elsewhere")


def test_modules_that_import_each_other_have_no_version(copy: Path) -> None:
    for name, other in (("one", "two"), ("two", "one")):
        (copy / f"proser_core/{name}.py").write_text(f"from proser_core.{other} import value\n")
    with pytest.raises(
        AssertionError, match=r"import circle: proser_core\.one -> proser_core\.two -> proser_core\.one"
    ):
        version_in(copy, "proser_core.one")


def test_metrics_that_training_does_not_use_leave_its_version(copy: Path) -> None:
    for file in ("proser_core/recognition/metrics.py", "pipelines/reports/page.py", "pipelines/cli.py"):
        (copy / file).write_text((copy / file).read_text() + "\nCHANGED = 1\n")
    assert version_in(copy) == code_version("proser_core.jobs.worker")
    assert version_in(copy, "pipelines.workflow.stages.evaluate") != code_version("pipelines.workflow.stages.evaluate")


def test_training_code_is_without_tracking_command_line_figures_and_cluster() -> None:
    modules = imported_modules("proser_core.jobs.worker")
    assert {"proser_core.learning.fit", "proser_core.learning.losses", "proser_core.networks.nets"} <= modules
    outside = tuple(f"pipelines.{room}" for room in ("tracking", "cli", "reports", "cluster", "workflow"))
    assert not [name for name in modules if name.startswith(outside)]


def test_no_module_imports_relatively_which_the_version_would_not_follow() -> None:
    files = [path for package in ("pipelines", "proser_core", "tune_spaces") for path in (ROOT / package).rglob("*.py")]
    assert files
    for path in files:
        nodes = ast.walk(ast.parse(path.read_text()))
        assert not [node.lineno for node in nodes if isinstance(node, ast.ImportFrom) and node.level], path
