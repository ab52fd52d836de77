"""The version of a stage's code: blind to words, awake to statements, and only of what it imports."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pipelines
from proser_core.jobs.code_version import code_version, imported_modules

ROOT = Path(pipelines.__file__).parent.parent
VERSION = "import sys; from proser_core.jobs.code_version import code_version; print(code_version(sys.argv[1]))"


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


def test_copies_at_two_places_have_one_version(copy: Path) -> None:
    assert version_in(copy) == code_version("proser_core.jobs.worker")


def test_comments_docstrings_and_layout_leave_the_version(copy: Path) -> None:
    losses = copy / "proser_core/learning/losses.py"
    edit(losses, "First term of eq:dummyloss", "Another text")
    losses.write_text("\n\n# a comment\n" + losses.read_text().replace("import torch\n", "import torch  # why\n", 1))
    edit(copy / "proser_core/config.py", '"""Peak learning rate', '"""The largest rate')
    assert version_in(copy) == code_version("proser_core.jobs.worker")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("proser_core/learning/losses.py", "-torch.inf", "0.0"),
        ("proser_core/rng.py", "2**63 - 1", "2**62 - 1"),
        ("proser_core/networks/classifier32.py", "nn.LeakyReLU(0.2", "nn.LeakyReLU(0.1"),
        ("proser_core/config.py", "gamma: float = 0.1", "gamma: float = 0.2"),
        ("proser_core/jobs/worker.py", "rank == 0", "rank == 1"),
    ],
)
def test_a_changed_statement_in_a_module_it_needs_changes_the_version(
    copy: Path, file: str, old: str, new: str
) -> None:
    edit(copy / file, old, new)
    assert version_in(copy) != code_version("proser_core.jobs.worker")


def test_metrics_that_training_does_not_use_leave_its_version(copy: Path) -> None:
    for file in ("proser_core/recognition/metrics.py", "pipelines/figures.py", "pipelines/cli.py"):
        (copy / file).write_text((copy / file).read_text() + "\nCHANGED = 1\n")
    assert version_in(copy) == code_version("proser_core.jobs.worker")
    assert version_in(copy, "pipelines.stages.evaluate") != code_version("pipelines.stages.evaluate")


def test_training_code_is_without_tracking_command_line_figures_and_cluster() -> None:
    modules = imported_modules("proser_core.jobs.worker")
    assert {"proser_core.learning.fit", "proser_core.learning.losses", "proser_core.networks.nets"} <= modules
    outside = ("pipelines.tracking", "pipelines.cli", "pipelines.figures", "pipelines.cluster", "pipelines.stages")
    assert not [name for name in modules if name.startswith(outside)]


def test_no_module_imports_relatively_which_the_version_would_not_follow() -> None:
    files = [path for package in ("pipelines", "proser_core", "tune_spaces") for path in (ROOT / package).rglob("*.py")]
    assert files
    assert not [path for path in files if "\nfrom ." in path.read_text()]
