"""Brackets in a path are part of it, and no style of the terminal's."""

from pathlib import Path

import pytest
from pipeline_runs import Proser, printed
from training_jobs import tiny_recipe

from pipelines.reproduction.offline_studies import write_jobs
from pipelines.workflow.training import TrainingInputs
from proser_core.jobs.own_networks.methods import NO_METHODS
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


COMMANDS = {
    "run": ["run", "digits"],
    "sweep": ["sweep", "digits", "trade_off"],
    "reproduce": ["reproduce", "cifar10", "--data-dir", "empty"],
    "import": ["import", "out"],
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_storage_is_printed_as_it_is(command: str, name: str, place: Path, proser: Proser) -> None:
    if command == "import":
        (place / "out").mkdir()
        assert proser("job", "digits", "--output", f"out/{JOB_FILE}")[0] == 0
        write_json(place / "out" / RESULTS, {"task": "none", "bf16": False})
    code, text, _ = proser(*COMMANDS[command], "--storage", f"file/{name}")
    assert code == 2
    assert f"storage file/{name}, tracking " in text


@pytest.mark.parametrize("name", PLACES)
def test_job_files_are_printed_as_they_are(name: str, place: Path, proser: Proser) -> None:
    folder = place / name
    folder.mkdir(parents=True)
    code, text, _ = proser("job", "digits", "--output", f"{name}/{JOB_FILE}")
    assert code == 0
    assert f"{name}/{JOB_FILE}: pretraining" in text
    recipe = tiny_recipe()
    _, text = printed(write_jobs, [TrainingInputs.of([recipe], None, [recipe.finetune])], None, folder, NO_METHODS)
    assert f"{folder}/{recipe.name}-split-" in text
    assert f"Copy {folder} and the folder proser_core" in text
