"""The plan of `proser sweep`, which a dry run prints: what is to do, on what and for how long."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from digit_folders import write_digits
from own_digits import own_recipe
from pipeline_runs import RunFolder, printed, quick_recipe
from sweep_runs import Done, request

from pipelines.ports import free_ports
from pipelines.workflow.sweeping import sweep
from proser_core.config import CalibrationConfig
from proser_core.errors import TrackingError

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures", "empty_programs")


@pytest.fixture(scope="module")
def planned(folder: RunFolder) -> tuple[Done, Path]:
    """A dry run, and the storage that it had for itself."""
    storage = folder.root / "planned"
    return printed(sweep, request(folder, storage=storage, dry_run=True)), storage


def test_it_says_what_is_to_do_on_what_and_for_how_long(planned: tuple[Done, Path]) -> None:
    (code, text), _ = planned
    assert code == 0
    for part in ("betas (2 points), pairs (2 points)", "2 to make", "2 to train", "8 to train", "4 per split"):
        assert part in text
    assert "1 worker of 1 CPU" in text
    assert "ms per step, measured now" in text
    assert re.search(r"time +about \d+:\d\d", text)


def test_it_says_what_the_calibration_of_a_model_does_not_change(folder: RunFolder, tmp_path: Path) -> None:
    recipe = replace(quick_recipe(), calibration=CalibrationConfig(score="KNN", mirror=True))
    code, text = printed(sweep, request(folder, recipe=recipe, storage=tmp_path / "storage", dry_run=True))
    said = " ".join(text.split())
    assert code == 0
    assert "Rows are by each method's own score, without mirrored images;" in said
    assert "; calibration.score and calibration.mirror will be used by `proser promote --best-of`." in said


def test_its_time_counts_the_photos_that_are_to_be_decoded(folder: RunFolder, tmp_path: Path) -> None:
    images, own = write_digits(tmp_path / "images", {"one": 1, "two": 2, "three": 3, "four": 4}, 12), own_recipe()
    data = replace(own.data, num_known=2, unknown_settings=(1,), development="held-out-1")
    recipe = replace(own, space="", data=data)
    asked = request(folder, recipe=recipe, data_dir=images, storage=tmp_path / "storage", dry_run=True)
    _, text = printed(sweep, asked)
    assert re.search(r"photos +48 to decode", text)
    assert re.search(r"time +about \d+:\d\d \(photos \d+:\d\d, pretrain", text)


def test_a_dry_run_makes_nothing(planned: tuple[Done, Path], folder: RunFolder) -> None:
    _, storage = planned
    assert not storage.exists()
    assert not (folder.root / "mlflow.db").exists()


def test_a_tracking_server_that_does_not_answer_is_refused_as_by_a_sweep(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(TrackingError, match=r"does not answer \(Connection refused\)"):
        printed(sweep, request(folder, storage=tmp_path / "storage", dry_run=True))
    assert list(tmp_path.iterdir()) == []
