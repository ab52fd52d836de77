"""Brackets in a path are part of it, and no style of the terminal's."""

import io
import sys
from pathlib import Path

import pytest
from pipeline_runs import tiny_recipe
from rich.console import Console

from pipelines.cli import main
from pipelines.reproduction.offline_jobs import write_jobs
from proser_core.jobs.runner import JOB_FILE, RESULTS
from proser_core.store.files import write_json

PLACES = ["br[old]", "a[/b]"]  # one that would vanish, and one that would be an error


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a file, below which no storage can be made, and its own database."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    return tmp_path


def proser(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["proser", *arguments])
    return main()


COMMANDS = {
    "run": ["run", "digits"],
    "sweep": ["sweep", "digits", "trade_off"],
    "reproduce": ["reproduce", "cifar10", "--data-dir", "empty"],
    "import": ["import", "out"],
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_storage_is_printed_as_it_is(
    command: str, name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if command == "import":
        (place / "out").mkdir()
        assert proser(monkeypatch, "job", "digits", "--output", f"out/{JOB_FILE}") == 0
        write_json(place / "out" / RESULTS, {"task": "none", "bf16": False})
    assert proser(monkeypatch, *COMMANDS[command], "--storage", f"file/{name}") == 2
    assert f"storage file/{name}, tracking " in capsys.readouterr().out


@pytest.mark.parametrize("name", PLACES)
def test_job_files_are_printed_as_they_are(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = place / name
    folder.mkdir(parents=True)
    assert proser(monkeypatch, "job", "digits", "--output", f"{name}/{JOB_FILE}") == 0
    assert f"{name}/{JOB_FILE}: pretraining" in capsys.readouterr().out
    out, recipe = io.StringIO(), tiny_recipe()
    write_jobs([recipe], [recipe.finetune], None, None, folder, Console(file=out, width=120))
    assert f"{folder}/{recipe.name}-split-" in out.getvalue()
    assert f"Copy {folder} and the folder proser_core" in out.getvalue()
