"""What an attempt at a training left is taken up where it helps, and gone where it would mislead."""

from pathlib import Path

import pytest
import torch

from proser_core.jobs.spec import EPOCHS, FAILURE, STATE, read_epochs
from proser_core.jobs.worker import DurableReport, clear_folder
from proser_core.store.files import temporary_path
from proser_core.store.store import MANIFEST


@pytest.mark.parametrize("left", [(EPOCHS, STATE), (EPOCHS,)], ids=["with a checkpoint", "without one"])
def test_epochs_stay_with_the_checkpoint_that_goes_on_from_them_alone(tmp_path: Path, left: tuple[str, ...]) -> None:
    for name in (*left, FAILURE, MANIFEST, f".{STATE}.77", "weights"):
        (tmp_path / name).touch()
    clear_folder(tmp_path)
    kept = {*left, "weights"} if STATE in left else {"weights"}
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_an_epoch_that_is_repeated_takes_the_place_of_the_row_that_a_crash_left(tmp_path: Path) -> None:
    for loss in (3.0, 2.0):
        report = DurableReport(tmp_path, lambda _: None, write=True)
        report(0, {"loss": 4.0}, {"epoch": 0})
        report(1, {"loss": loss}, {"epoch": 1})
    assert read_epochs(tmp_path) == [{"epoch": 0, "loss": 4.0}, {"epoch": 1, "loss": 2.0}]


def test_a_checkpoint_is_of_no_later_epoch_than_the_last_row_where_the_disk_is_full(tmp_path: Path) -> None:
    report = DurableReport(tmp_path, lambda _: None, write=True)
    report(0, {"loss": 4.0}, {"epoch": 0})
    temporary_path(tmp_path / EPOCHS).symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space"):
        report(1, {"loss": 3.0}, {"epoch": 1})
    state = report.last_state(torch.device("cpu"))
    assert state is not None
    assert [row["epoch"] for row in read_epochs(tmp_path)] == list(range(state["epoch"] + 1)) == [0]
