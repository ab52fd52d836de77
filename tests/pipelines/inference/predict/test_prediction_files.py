"""The files that `proser predict` writes: whole or not there, and of any number of classes."""

import os
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pipeline_runs import printed
from pyarrow import parquet
from small_disks import with_disk_at

from pipelines.commands.predict import PredictRequest, predict
from pipelines.inference import prediction_files
from pipelines.inference.prediction_files import FORMATS, open_output
from pipelines.inference.predictions import PredictedPart
from pipelines.output_files import check_output
from proser_core.data.decoding import Failure
from proser_core.errors import ConfigError, DataError
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.open_set_classifier import Predictions
from proser_core.recognition.scoring import unknown_probabilities

READ = {".parquet": pd.read_parquet, ".csv": pd.read_csv, ".jsonl": partial(pd.read_json, lines=True)}


@pytest.mark.parametrize("ending", FORMATS)
def test_where_no_image_can_be_decoded_an_earlier_output_is_left_as_it_was(
    model: str, tmp_path: Path, ending: str
) -> None:
    (tmp_path / "damaged.png").write_bytes(b"no image")
    output = tmp_path / f"predictions{ending}"
    output.write_text("earlier")
    with pytest.raises(DataError, match="no image can be decoded, of 1;"):
        printed(predict, PredictRequest(model, (str(tmp_path / "damaged.png"),), output=output))
    assert output.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged.png", output.name]


def test_an_output_that_was_there_stays_until_the_new_one_is_whole(
    model: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "predictions.csv"
    output.write_text("old")

    def fail(*arguments: object) -> None:
        raise DataError("a file was damaged in the middle")

    monkeypatch.setattr("pipelines.inference.predictions.predict_part", fail)
    with pytest.raises(DataError, match="in the middle"):
        printed(predict, PredictRequest(model, (f"{images}/0*.png",), output=output))
    assert output.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.csv"]


def test_predictions_whose_place_was_taken_meanwhile_are_kept_beside_it(tmp_path: Path) -> None:
    output, zeros = tmp_path / "out.csv", np.zeros(1, int)
    found = Predictions(["ant"], zeros, zeros - 0.5, np.array([[0.75, 0.25]]), zeros)

    def predict_and_take() -> None:
        with open_output(output, ["ant"]) as write:
            write(PredictedPart(["a.png"], found, [], np.zeros(0, int), np.zeros(0)))
            output.mkdir()

    with pytest.raises(ConfigError, match=r"out\.csv cannot be replaced \(Is a directory\); the pred") as refused:
        predict_and_take()
    (kept,) = (path for path in tmp_path.iterdir() if path != output)
    assert str(refused.value).endswith(f"are in {kept}")
    assert (kept.name[0], kept.suffix, pd.read_csv(kept)["image"].tolist()) == ("o", ".csv", ["a.png"])


@pytest.mark.parametrize("source", ["disk/it", "it"], ids=["another disk", "the same disk"])
def test_a_file_that_is_mounted_by_itself_is_refused_before_any_work(source: str, tmp_path: Path) -> None:
    """On a machine that lets the test mount it."""
    output = tmp_path / "out file.csv"
    (tmp_path / "disk").mkdir()
    output.touch()
    mount = f'touch {tmp_path}/{source} && mount --bind {tmp_path}/{source} "{output}" && exec "$@"'
    check = (
        "import pathlib, sys; from pipelines.output_files import check_output as f; f(pathlib.Path(sys.argv[1]), '-o')"
    )
    command = [*with_disk_at(tmp_path / "disk", "16k"), "sh", "-c", mount, "sh", sys.executable, "-c", check, output]
    done = subprocess.run(command, capture_output=True, text=True)
    assert f"ConfigError: -o got {output}, a mount, which no file can replace; mount its folder" in done.stderr


def test_a_file_of_another_user_in_a_sticky_folder_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / "out.csv").touch()
    check_output(tmp_path / "out.csv", "-o")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ConfigError, match=r"-o got .*out\.csv, another user's file, which only they may replace"):
        check_output(tmp_path / "out.csv", "-o")


def test_parquet_of_many_classes_does_not_wait_as_python_objects(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(prediction_files, "ROW_GROUP", 500_000)
    classes, names = [f"class {number}" for number in range(100)], [f"{row}.png" for row in range(50)]
    zeros, probabilities = np.zeros(50, int), np.random.default_rng(0).random((50, 101))
    found = Predictions(["class 0"] * 50, zeros, zeros - 0.5, probabilities, zeros)
    part = PredictedPart(names, found, [Failure("x.png", "it is empty")], np.zeros(0, int), np.zeros(0))
    with open_output(tmp_path / "out.parquet", classes) as write:
        tracemalloc.start()
        try:
            for _ in range(20):
                write(part)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held < 20 * found.probabilities.nbytes
    assert parquet.read_metadata(tmp_path / "out.parquet").num_row_groups == 2
    table = parquet.read_table(tmp_path / "out.parquet").to_pandas()
    assert table["image"].tolist() == [*names, "x.png"] * 20
    assert table["error"].tolist() == [*[""] * 50, "it is empty"] * 20
    kept = table[table["error"] == ""].filter(like="p_").to_numpy()
    np.testing.assert_array_equal(kept, np.tile(found.probabilities, (20, 1)))


@pytest.mark.parametrize("ending", FORMATS)
def test_the_nearest_class_of_an_image_whose_known_probabilities_are_all_0_is_of_its_logits(
    tmp_path: Path, ending: str
) -> None:
    classes, scores = ["one", "two", "three"], np.full(2, 1e4, np.float32)
    logits = LogitTable(np.array([[0, 1, 5], [0, 6, 1]], np.float32), np.zeros((2, 0), np.float32))
    probabilities = unknown_probabilities(logits, scores, 0.0)
    assert not probabilities[:, :-1].any()
    found = Predictions(["unknown"] * 2, np.full(2, 3), scores, probabilities, logits.known.argmax(1))
    output = tmp_path / f"out{ending}"
    with open_output(output, classes) as write:
        write(PredictedPart(["a.png", "b.png"], found, [], np.zeros(0, int), np.zeros(0)))
    assert READ[ending](output)["nearest_class"].tolist() == ["three", "two"]
