"""A command lists each folder of a user's own images once, and looks once at each file, before it decodes any."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from digit_folders import write_digits
from own_digits import own_recipe
from pipeline_runs import printed
from walks import counted_walks, twice_walked

from pipelines.commands.inspect_ import InspectRequest, inspect
from pipelines.commands.run import run_recipe
from pipelines.workflow.offline_jobs import write_job
from pipelines.workflow.requests import JobRequest, RunRequest, SweepRequest
from pipelines.workflow.sweeping import sweep
from proser_core.config import Recipe

pytestmark = pytest.mark.usefixtures("trains_here")
CLASSES, IMAGES = 4, 12


def some_known() -> Recipe:
    """The recipe for a user's own images, with unknown classes to sweep by."""
    own = own_recipe()
    data = replace(own.data, num_known=2, unknown_settings=(1,), development="held-out-1")
    return replace(own, space="", data=data)


COMMANDS: dict[str, Callable[[Path, Path], object]] = {
    "run": lambda root, out: printed(run_recipe, RunRequest(own_recipe(), root, out / "storage", dry_run=True)),
    "sweep": lambda root, out: printed(
        sweep,
        SweepRequest(some_known(), ("mixup_alpha",), (0, 1), data_dir=root, storage=out / "storage", dry_run=True),
    ),
    "job": lambda root, out: printed(
        write_job, JobRequest(some_known(), out / "JOB.json", root, with_task=True, storage=out / "storage")
    ),
    "inspect": lambda root, out: printed(lambda console: inspect(InspectRequest(root), console, "")),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_folder_is_listed_once(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    write_digits(tmp_path / "images", {str(value): value for value in range(CLASSES)}, IMAGES)
    with counted_walks(tmp_path / "images") as walks:
        COMMANDS[command](tmp_path / "images", tmp_path)
    files = CLASSES * IMAGES if command != "inspect" else 0  # it has a look at files where it decodes them
    assert sum(path.endswith(".png") for path in walks) == files
    assert walks
    assert twice_walked(walks) == []
