"""The registered model as MLflow loads and serves it, beside the library and the exported program: one answer."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
import torch
from mlflow.exceptions import MlflowException
from mlflow.pyfunc import PyFuncModel
from ray_nodes import running
from registered_models import Registry
from served_models import COUNT, ask, assert_as_predicted, environment_of
from small_disks import with_disk_at

from pipelines.ports import free_ports
from pipelines.tracking.models import load
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.program import PROGRAM

URI = "models:/served@champion"


@pytest.fixture(scope="module")
def environment(
    classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Of a process that finds the model, and unpickles nothing."""
    patch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    return environment_of(classifier, tmp_path_factory.mktemp("served"), "served", patch)


@pytest.fixture(scope="module")
def model(environment: dict[str, str]) -> PyFuncModel:
    return mlflow.pyfunc.load_model(URI)


@pytest.fixture(scope="module")
def address(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`mlflow models serve`, as the documentation has it."""
    (port,) = free_ports(1)
    root = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", URI, "--env-manager", "local"]
    command += ["--port", str(port), "--host", "127.0.0.1", "--workers", "1"]
    with running(command, environment, tmp_path_factory.mktemp("server") / "log", f"{root}/ping"):
        yield f"{root}/invocations"


class TestInPython:
    def test_pixels_of_any_integer_type_are_classified(
        self, model: PyFuncModel, classifier: OpenSetClassifier, pixels: np.ndarray
    ) -> None:
        for images in (pixels, pixels.astype(np.int64)):
            assert_as_predicted(model.predict({"image": images}), classifier, pixels)

    def test_the_signature_names_what_goes_in_and_comes_out(
        self, model: PyFuncModel, classifier: OpenSetClassifier
    ) -> None:
        signature = model.metadata.signature
        assert signature.inputs.input_names() == ["image", "path"]
        assert signature.outputs.input_names()[:3] == ["label", "unknown", "unknown_score"]
        assert len(model.predict(model.input_example)) == 1

    def test_a_table_of_encoded_images_or_paths_is_classified(
        self,
        model: PyFuncModel,
        classifier: OpenSetClassifier,
        pixels: np.ndarray,
        encoded: list[bytes],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("PROSER_IMAGE_ROOT", str(tmp_path))
        paths = [tmp_path / f"{number:03}.png" for number in range(COUNT)]
        for path, content in zip(paths, encoded, strict=True):
            path.write_bytes(content)
        as_text = [base64.b64encode(content).decode() for content in encoded]
        for table in ({"image": encoded}, {"image": as_text}, {"path": [str(path) for path in paths]}):
            assert_as_predicted(model.predict(pd.DataFrame(table)), classifier, pixels)

    @pytest.mark.parametrize(
        ("table", "reason"),
        [
            ({"picture": [b"x"]}, "a table without an image; need a column `image`"),
            ({"image": ["no base64!"]}, "row 0: `image` is neither bytes nor base64"),
            ({"image": [b"no image"]}, "row 0: the image cannot be decoded"),
            ({"path": ["/etc/passwd"]}, "needs PROSER_IMAGE_ROOT, which is not set"),
            ({"image": []}, "a table without an image"),
            ({"image": [[[1, 2]], [[1], [2]]]}, "no pixels of one size"),
        ],
    )
    def test_anything_else_is_refused(self, model: PyFuncModel, table: dict[str, list[Any]], reason: str) -> None:
        with pytest.raises(MlflowException, match=reason):
            model.predict(pd.DataFrame(table))

    @pytest.mark.parametrize(
        ("path", "reason"),
        [
            ("gone.png", r"row 0: gone\.png cannot be read"),
            ("circle.png", "row 0: `path` is that of no file; give one in the folder that PROSER_IMAGE_ROOT names"),
            ("null\0.png", "row 0: `path` is that of no file"),
            ("long" * 1000 + ".png", r"row 0: long\S*\.png cannot be read \(File name too long\)"),
            ("/etc/passwd", "/etc/passwd is not below the folder"),
            ("../secret.png", "is not below"),
            ("link.png", "is not below"),
        ],
    )
    def test_no_path_leads_out_of_the_image_root_or_reveals_it(
        self, model: PyFuncModel, path: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "secret.png").write_text("secret")
        (tmp_path / "root").mkdir()
        (tmp_path / "root/link.png").symlink_to(tmp_path / "secret.png")
        (tmp_path / "root/circle.png").symlink_to("circle.png")
        monkeypatch.setenv("PROSER_IMAGE_ROOT", str(tmp_path / "root"))
        with pytest.raises(MlflowException, match=reason) as refused:
            model.predict(pd.DataFrame({"path": [path]}))
        assert refused.value.error_code == "INVALID_PARAMETER_VALUE"
        assert str(tmp_path) not in str(refused.value), "nobody learns where the folder is"

    def test_pixels_out_of_range_are_refused(self, model: PyFuncModel, pixels: np.ndarray) -> None:
        for images in (pixels.astype(np.int64) + 1, pixels / 255):
            with pytest.raises(MlflowException, match="got images of"):
                model.predict({"image": images})

    def test_the_program_beside_it_decides_the_same(
        self, environment: dict[str, str], classifier: OpenSetClassifier, pixels: np.ndarray
    ) -> None:
        path = mlflow.artifacts.download_artifacts(f"{URI}/artifacts/{PROGRAM}")
        indices, scores, probabilities = torch.export.load(path).module()(torch.from_numpy(pixels))
        want = classifier.predict(pixels)
        np.testing.assert_allclose(scores.numpy(), want.unknown_scores, atol=1e-4)
        np.testing.assert_allclose(probabilities.numpy(), want.probabilities, atol=1e-4)
        sure = np.abs(want.unknown_scores) > 1e-4
        np.testing.assert_array_equal(indices.numpy()[sure], want.indices[sure])

    def test_a_network_that_torch_cannot_export_is_registered_without_a_program(
        self, classifier: OpenSetClassifier, pixels: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise RuntimeError("a constant number of images")

        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
        monkeypatch.setattr(torch.export, "export", refuse)
        Registry(tmp_path, "served").add(classifier)
        found = load(URI)
        assert found.classifier.predict(pixels).labels == classifier.predict(pixels).labels
        listed = mlflow.artifacts.list_artifacts(f"{URI}/artifacts")
        assert [each.path for each in listed if each.path.endswith(PROGRAM)] == []


class TestServed:
    def test_pixels_and_encoded_images_get_the_librarys_answer(
        self, address: str, classifier: OpenSetClassifier, pixels: np.ndarray, encoded: list[bytes]
    ) -> None:
        rows = [[base64.b64encode(content).decode()] for content in encoded]
        for content in (
            {"inputs": {"image": pixels.tolist()}},
            {"dataframe_split": {"columns": ["image"], "data": rows}},
        ):
            status, answer = ask(address, content)
            assert status == 200, answer
            assert_as_predicted(pd.DataFrame(answer["predictions"]), classifier, pixels)

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ({"dataframe_split": {"columns": ["image"], "data": [["no base64!"]]}}, "neither bytes nor base64"),
            ({"inputs": {"image": [[[0.5, 0.5]]]}}, "got images of"),
            ({"nothing": 1}, "dataframe_split"),
        ],
    )
    def test_a_malformed_request_gets_a_reason(self, address: str, content: dict[str, Any], reason: str) -> None:
        status, answer = ask(address, content)
        assert 400 <= status < 500
        assert reason in json.dumps(answer)


@pytest.mark.slow
def test_a_full_temporary_folder_is_not_taken_for_a_broken_registry(
    environment: dict[str, str], encoded: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of a machine that lets the test mount a disk of 16 kB."""
    place, image = tmp_path_factory.mktemp("small"), tmp_path_factory.mktemp("images") / "digit.png"
    image.write_bytes(encoded[0])
    small = with_disk_at(place, "16k")
    command = [*small, sys.executable, "-m", "pipelines.cli", "predict", URI, str(image)]
    done = subprocess.run(command, env={**environment, "TMPDIR": str(place)}, capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert f"the disk of {place}" in done.stderr
    assert "free some space, or name another folder in TMPDIR" in done.stderr
