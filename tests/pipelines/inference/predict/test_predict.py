"""`proser predict` on real digits: what it writes, in three forms, here and on a cluster; what it skips."""

import csv
import io
import json
import os
import pickle
import shutil
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import ray
from encoded_images import encode
from pipeline_runs import printed
from pyarrow import parquet
from ray_nodes import holding_all_cpus
from registered_models import Registry
from rich.console import Console

from pipelines.cluster.session import join
from pipelines.commands import predict as predict_command
from pipelines.commands.predict import PredictRequest, predict
from pipelines.inference import predictions_on_ray
from pipelines.inference.prediction_files import FORMATS
from pipelines.inference.predictions import decoded_parts, predict_paths
from pipelines.inference.predictions_on_ray import predict_paths_on_ray
from proser_core.data.readers import image_files
from proser_core.data.readers.image_files import NO_OUTPUTS, Piece, pieces
from proser_core.errors import ClusterError, ConfigError, DataError
from proser_core.recognition.open_set_classifier import OpenSetClassifier


def predicted(**request) -> tuple[int, str]:
    return printed(predict, PredictRequest(**request))


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open() as file:
        return list(csv.DictReader(file))


def assert_as_predicted(rows: list[dict[str, Any]], classifier: OpenSetClassifier, pixels: np.ndarray) -> None:
    want = classifier.predict(pixels)
    assert [Path(row["image"]).name for row in rows] == [f"{number:03}.png" for number in range(len(pixels))]
    for row, label, score, nearest, probabilities in zip(
        rows, want.labels, want.unknown_scores, want.known_predictions, want.probabilities, strict=True
    ):
        if abs(score) > 1e-4:
            assert row["label"] == label
            assert str(row["unknown"]) == str(label == "unknown")
            assert row["nearest_class"] == classifier.class_names[nearest]
        assert float(row["unknown_score"]) == pytest.approx(score, abs=1e-4)
        got = [float(value) for name, value in row.items() if name.startswith("p_")]
        np.testing.assert_allclose(got, probabilities, atol=1e-4)
        assert row["error"] == ""


@pytest.mark.parametrize("ending", FORMATS)
def test_one_row_per_image_as_the_classifier_predicts_and_skipped_ones_with_their_reason(
    model: str, images: Path, classifier: OpenSetClassifier, pixels: np.ndarray, tmp_path: Path, ending: str
) -> None:
    output = tmp_path / f"predictions{ending}"
    code, text = predicted(model=model, paths=(str(images),), output=output)
    assert code == 1
    *rows, last = rows_of(output)
    assert_as_predicted(rows, classifier, pixels)
    cells = [float(value) for row in rows for name, value in row.items() if name == "unknown_score"]
    assert ending == ".parquet" or [float(f"{cell:.6g}") for cell in cells] == cells
    assert last["image"] == str(images / "999.png")
    assert "cannot be decoded" in last["error"]
    assert not last["label"]
    assert f"skipped: {images / '999.png'}" in text
    assert "ignored: 1 non-image file, the first is" in text
    assert [path.name for path in tmp_path.iterdir()] == [output.name]


def test_where_no_image_can_be_decoded_that_is_refused_and_the_rows_say_why(model: str, tmp_path: Path) -> None:
    (tmp_path / "damaged.png").write_bytes(b"no image")
    with pytest.raises(DataError, match="no image can be decoded, of 1;"):
        predicted(model=model, paths=(str(tmp_path),), output=tmp_path / "predictions.csv")
    assert [row["image"] for row in rows_of(tmp_path / "predictions.csv")] == [str(tmp_path / "damaged.png")]


def test_the_rate_of_a_slow_model_is_not_0() -> None:
    assert [predict_command._rate(images) for images in (0.0421, 99.94, 1234.5)] == ["0.0421", "99.9", "1,234"]


def test_the_summary_counts_every_class_and_the_exit_code_is_clean(
    model: str, images: Path, classifier: OpenSetClassifier, pixels: np.ndarray
) -> None:
    code, text = predicted(model=model, paths=(f"{images}/0*.png",))
    assert code == 0
    labels = classifier.predict(pixels).labels
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if len(line.split()) == 3}
    for name in {*labels, "unknown"}:
        assert lines[name] == [str(labels.count(name)), f"{100 * labels.count(name) / len(pixels):.1f}"]
    assert f"{len(pixels)} images in" in text


def test_the_pieces_that_are_read_change_nothing(
    images: Path, classifier: OpenSetClassifier, pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [part.predictions.unknown_scores for part in predict_paths(classifier, [str(images)], NO_OUTPUTS)]
    monkeypatch.setattr(image_files, "PIECE", 7)
    cut = [part.predictions.unknown_scores for part in predict_paths(classifier, [str(images)], NO_OUTPUTS)]
    assert len(cut) == 9
    np.testing.assert_allclose(np.concatenate(cut), np.concatenate(whole), atol=1e-4)


@pytest.mark.slow
def test_a_cluster_answers_the_same_in_the_same_order(
    model: str,
    images: Path,
    classifier: OpenSetClassifier,
    pixels: np.ndarray,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "predictions.jsonl"
    join("")
    monkeypatch.chdir(images.parent)
    monkeypatch.setattr(image_files, "PIECE", 40)
    monkeypatch.setattr(predictions_on_ray, "WINDOW", 1)
    address = ray.get_runtime_context().gcs_address
    code, text = predicted(model=model, paths=(images.name,), output=output, address=address, workers=1)
    assert code == 1, text
    *rows, last = rows_of(output)
    assert_as_predicted(rows, classifier, pixels)
    assert "cannot be decoded" in last["error"]
    walked: list[Piece] = []
    monkeypatch.setattr(predictions_on_ray, "pieces", lambda *of: (walked.append(each) or each for each in pieces(*of)))
    next(predict_paths_on_ray(classifier, (images.name,), NO_OUTPUTS, address, 1))
    assert len(walked) == 1, "the folder is not read to its end before the first images are classified"
    assert "arguments in the object store" not in capfd.readouterr().err, "Ray says of an actor that it may not restart"
    piece = {"piece": np.array([pickle.dumps(next(pieces([images.name])))], dtype=object)}
    for (part,) in (row["part"] for row in predictions_on_ray._OnGpu(ray.put(classifier), "cpu", 0)(piece)):
        assert [Path(name).name for name in part.names] == [f"{number:03}.png" for number in range(40)]


@pytest.mark.slow
def test_a_cluster_without_a_free_cpu_is_refused(model: str, images: Path) -> None:
    join("")
    address = ray.get_runtime_context().gcs_address
    busy = holding_all_cpus()
    few = r"--workers 1 need one CPU each; .*, 0 of them free\. Give fewer workers"
    try:
        for workers, words in ((0, r"has no free CPU; wait for what runs there"), (1, few)):
            with pytest.raises(ClusterError, match=words):
                predicted(model=model, paths=(str(images),), address=address, workers=workers)
    finally:
        ray.kill(busy)  # the tests after this one need its CPUs


def test_the_next_images_are_decoded_while_the_caller_works_on_these(
    images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, decode = Event(), image_files._decode

    def watched(name: str, *others: Any) -> Any:
        if name.endswith("030.png"):
            begun.set()
        return decode(name, *others)

    monkeypatch.setattr(image_files, "PIECE", 30)
    monkeypatch.setattr(image_files, "_decode", watched)
    with closing(decoded_parts([str(images)], 8)) as parts:
        assert len(next(parts).names) == 30
        assert begun.wait(60)


@pytest.mark.usefixtures("empty_programs")
def test_a_registered_model_is_found_by_its_alias(
    classifier: OpenSetClassifier, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    Registry(tmp_path, "digits").add(classifier)
    code, text = predicted(model="models:/digits@champion", paths=(f"{images}/00?.png",))
    assert code == 0
    assert "digits version 1" in text


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"device": "cuda"}, "--device got cuda, and torch finds no GPU here"),
        ({"workers": -1}, "--workers got -1"),
        ({"workers": 2}, "--workers 2 needs a Ray cluster; name it with --address"),
        (
            {"output": Path("predictions.txt")},
            r"got predictions\.txt; need a file that ends in \.parquet, \.csv, \.jsonl",
        ),
        ({"output": Path("gone/predictions.csv")}, "and there is no folder gone; make it"),
        ({"output": Path("/proc/predictions.csv")}, "predictions.csv, which cannot be written .*; give another"),
        ({"contact_sheet": Path("/proc/sheet.png")}, "--contact-sheet got /proc/sheet.png, which cannot be written"),
        ({"contact_sheet": Path("sheet.bmp")}, r"--contact-sheet got sheet\.bmp; need"),
        ({"paths": ()}, "no image was given"),
        ({"paths": ("gone.png",)}, r"gone\.png does not exist"),
        ({"paths": ("*.png",)}, r"\*\.png matches no image"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    model: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: dict[str, Any], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigError, DataError), match=reason):
        predicted(**{"model": model, "paths": (str(images),)} | request_)
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_into_the_folder_that_is_read_is_not_read(
    model: str, images: Path, classifier: OpenSetClassifier, pixels: np.ndarray, tmp_path: Path
) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(images, folder)
    for _ in range(2):
        written = {"output": folder / "predictions.parquet", "contact_sheet": folder / "sheet.png"}
        code, text = predicted(model=model, paths=(str(folder),), **written)
        assert code == 1
        assert f"{len(pixels)} images in" in text
        assert len(rows_of(folder / "predictions.parquet")) == len(pixels) + 1


def test_names_that_are_not_utf8_are_written(model: str, pixels: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.png")).write_bytes(encode(pixels[0]))
    for ending in FORMATS:
        output = tmp_path / f"out{ending}"
        code, _ = predicted(model=model, paths=(f"{tmp_path}/*.png",), output=output)
        assert code == 0
        assert rows_of(output)[0]["image"].endswith("caf\\xe9.png")


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_names_of_any_bytes_are_said_and_drawn(model: str, pixels: np.ndarray, tmp_path: Path, ending: str) -> None:
    for name in (b"caf\xe9.png", b"a$^$b.png"):
        (tmp_path / os.fsdecode(name)).write_bytes(encode(pixels[0]))
    (tmp_path / os.fsdecode(b"damaged\n\xe9.png")).write_bytes(b"no image")
    (tmp_path / os.fsdecode(b"notes\n\xe9.txt")).write_bytes(b"no image")
    terminal = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="strict", write_through=True)
    request = PredictRequest(model, (str(tmp_path),), contact_sheet=tmp_path / f"sheet{ending}")
    assert predict(request, Console(file=terminal, width=200)) == 1
    assert (tmp_path / f"sheet{ending}").stat().st_size > 1000
    terminal.seek(0)
    text = terminal.read()
    assert "2 images in" in text
    assert f"skipped: {tmp_path}/damaged\\x0a\\xe9.png" in text
    assert f"the first is {tmp_path}/notes\\x0a\\xe9.txt" in text
