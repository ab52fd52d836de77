"""`proser export MODEL`: a checked file, or one line that says why there is none."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pipeline_runs import Proser
from pyarrow import parquet
from registered_models import classifier_of
from small_disks import with_disk_at

from proser_core.recognition import onnx_program, program
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.program import Outputs, Run
from proser_core.store.store import Artefact

ROOT = Path(__file__).parents[3]


@pytest.fixture
def model(classifier: OpenSetClassifier, tmp_path: Path) -> str:
    """The folder of a classifier of real digits."""
    classifier.save(tmp_path / "model")
    return str(tmp_path / "model")


def test_the_file_decides_as_the_model_and_says_what_it_is(
    model: str, classifier: OpenSetClassifier, pixels: np.ndarray, tmp_path: Path, proser: Proser
) -> None:
    code, out, error = proser("export", model, "-o", str(tmp_path / "digits.pt2"))
    assert (code, error, "compared on 64 random images" in out) == (0, "", True)
    extra = {"classes.json": "", "about.json": ""}
    run = torch.export.load(tmp_path / "digits.pt2", extra_files=extra).module()
    want = classifier.predict(pixels)
    np.testing.assert_array_equal(run(torch.from_numpy(pixels))[0], want.indices)
    about = json.loads(extra["about.json"])
    assert about["classes"] == json.loads(extra["classes.json"]) == [*classifier.class_names, "unknown"]
    assert (about["image_size"], about["bias"]) == (8, classifier.calibration.bias)


def test_the_documented_lines_that_need_torch_alone_take_numpy_images(
    model: str,
    classifier: OpenSetClassifier,
    pixels: np.ndarray,
    tmp_path: Path,
    proser: Proser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/models.md").read_text(), re.DOTALL)
    (code,) = (block for block in blocks if '"model.pt2"' in block)
    monkeypatch.chdir(tmp_path)
    assert proser("export", model, "-o", "model.pt2")[0] == 0
    found = {"images": pixels}
    exec(code, found)
    np.testing.assert_array_equal(found["indices"], classifier.predict(pixels).indices)
    assert found["names"] == [*classifier.class_names, "unknown"]


@pytest.mark.slow
def test_in_onnx_it_is_compared_on_images_that_are_given(
    model: str, encoded: list[bytes], tmp_path: Path, proser: Proser
) -> None:
    for number, content in enumerate(encoded[:5]):
        (tmp_path / f"{number}.png").write_bytes(content)
    (tmp_path / "5.png").write_text("no image")
    arguments = ("-o", str(tmp_path / "digits.onnx"), "--images", str(tmp_path / "?.png"))
    code, out, _ = proser("export", model, *arguments)
    assert (code, "compared on 5 images" in out, (tmp_path / "digits.onnx").is_file()) == (1, True, True)
    (tmp_path / "5.png").rename(tmp_path / "none.png")
    code, _, error = proser("export", model, *arguments[:-1], str(tmp_path / "none.png"))
    assert (code, "no image can be decoded, of 1; " in error) == (2, True)


def test_it_is_compared_on_the_first_256_images_of_all_files_whatever_the_name_of_its_own(
    model: str, encoded: list[bytes], tmp_path: Path, proser: Proser
) -> None:
    images = tmp_path / "images"
    images.mkdir()
    (images / "a.png").write_bytes(encoded[0])
    (images / "b.png").write_text("no image")
    parquet.write_table(pa.table({"image": encoded[:64] * 5}), images / "c.parquet")
    output = tmp_path / os.fsdecode(b"mod\xe9l.pt2")
    code, out, _ = proser("export", model, "-o", str(output), "--images", str(images))
    assert (code, "compared on 256 images" in out, f"skipped: {images}/b.png" in out) == (1, True, True)
    assert output.is_file()


def test_a_score_without_such_a_form_is_refused_by_name_before_any_work(
    task: Artefact, closed_set_weights: Path, tmp_path: Path, proser: Proser, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier_of(task, closed_set_weights, control="OpenMax").save(tmp_path / "model")
    monkeypatch.setattr(torch.export, "export", lambda *_, **__: pytest.fail("it was exported"))
    code, _, error = proser("export", str(tmp_path / "model"), "-o", str(tmp_path / "digits.pt2"))
    assert (code, error.count("\n"), "the score OpenMax has no form" in error) == (2, 1, True)


def test_a_file_that_decides_in_another_way_is_not_written_and_an_older_one_stays(
    model: str, tmp_path: Path, proser: Proser, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "digits.pt2").write_text("older")

    def load(path: Path) -> Run:
        def run(images: np.ndarray) -> Outputs:
            indices, scores, probabilities = loaded(images)
            return indices, scores + 1, probabilities

        loaded = load_program(path)
        return run

    load_program = program.load_program
    monkeypatch.setattr(program, "load_program", load)
    code, _, error = proser("export", model, "-o", str(tmp_path / "digits.pt2"))
    assert (code, error.count("\n"), "does not decide as the model does" in error) == (2, 1, True)
    assert (tmp_path / "digits.pt2").read_text() == "older"


@pytest.mark.slow
def test_a_full_temporary_folder_is_named(model: str, tmp_path: Path) -> None:
    """On a machine that lets the test mount a disk of 16 kB."""
    place = tmp_path / "small"
    place.mkdir()
    small = with_disk_at(place, "16k")
    command = [*small, sys.executable, "-m", "pipelines.cli", "export", model, "-o", str(tmp_path / "it.pt2")]
    done = subprocess.run(command, env={**os.environ, "TMPDIR": str(place)}, capture_output=True, text=True)
    assert (done.returncode, f"the disk of {place}" in done.stderr.splitlines()[-1]) == (1, True), done.stderr


def test_onnx_without_its_packages_is_refused_before_the_model_is_loaded(
    tmp_path: Path, proser: Proser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_program, "PACKAGES", ("onnx_of_another_name",))
    code, _, error = proser("export", "nowhere", "-o", str(tmp_path / "digits.onnx"))
    assert (code, "pip install onnx" in error) == (2, True)
