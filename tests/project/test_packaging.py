"""The project as it is installed and checked elsewhere: the wheel, the citation, and the workflow of the forge."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = ("proser_core", "tune_spaces", "pipelines")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built in a copy, where no older build lies."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(built), str(source))
    return next(built.glob("*.whl"))


@pytest.mark.slow
def test_the_source_distribution_has_the_documents_and_the_tests(tmp_path: Path) -> None:
    source, folders = tmp_path / "source", ("docs", "tests", "examples", "benchmarks", "clusters", ".ci", ".github")
    for name in (*PACKAGES, *folders):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    further = {
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "README.md",
        "SECURITY.md",
        "constraints.txt",
        "mkdocs.yml",
        "ray_cluster.yaml",
    }
    for name in further | {"MANIFEST.in", "pyproject.toml"}:
        shutil.copy(ROOT / name, source)
    build = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    run(source, sys.executable, "-c", build, str(tmp_path))
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    files = {path for name in folders for path in (ROOT / name).rglob("*") if path.is_file()}
    needed = {str(path.relative_to(ROOT)) for path in files if path.parent.name != "__pycache__"}
    assert needed | further <= names


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_packages_and_the_licence(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.is_file()}
    assert {str(path.relative_to(ROOT)) for path in files if path.parent.name != "__pycache__"} == {
        name for name in names if ".dist-info/" not in name
    }
    assert {"proser_core/py.typed", "tune_spaces/py.typed"} <= names  # what a user's score or search space imports
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_the_installed_wheel_runs_outside_the_repository(wheel: Path, tmp_path: Path) -> None:
    python = installed(wheel, tmp_path / "venv")
    assert run(tmp_path, python, "-c", "import pipelines; print(pipelines.__file__)").startswith(str(tmp_path))
    command = str(python.with_name("proser"))
    assert run(tmp_path, command, "--version") == f"proser {PROJECT['version']}\n"
    assert "proser COMMAND" in run(tmp_path, command, "--help")
    assert "trade_off" in run(tmp_path, command, "list")
    run(tmp_path, python, "-c", "from proser_core import OpenSetClassifier")


def installed(wheel: Path, place: Path) -> Path:
    """The Python of a new environment with the wheel, which sees the packages of this one behind its own."""
    venv.create(place, symlinks=True)
    (site,) = place.glob("lib/python*/site-packages")
    python = place / "bin" / "python"
    pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    (site / "packages.pth").write_text(sysconfig.get_path("purelib"))
    return python


def run(folder: Path, *command: object) -> str:
    """What a command prints, in a folder of its own and without this one's search path."""
    words = [str(word) for word in command]
    return subprocess.run(
        words, cwd=folder, env={"PATH": "/usr/bin:/bin"}, check=True, text=True, capture_output=True
    ).stdout


def test_the_citation_names_the_licence_of_the_project() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["title"], citation["license"]) == (PROJECT["name"], PROJECT["license"])


def test_the_workflow_runs_what_must_pass_on_the_oldest_python_and_nothing_else() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    checkout, python, checks = job["steps"]
    assert checkout["uses"].startswith("actions/checkout@v")
    assert python["uses"].startswith("actions/setup-python@v")
    assert PROJECT["requires-python"] == f">={python['with']['python-version']}"
    assert (ROOT / python["with"]["cache-dependency-path"]).exists()
    assert checks == {"run": ".ci/run"}
    assert os.access(ROOT / checks["run"], os.X_OK)
