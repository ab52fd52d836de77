"""Commands in a locale that is not UTF-8: files are UTF-8 all the same, and what the terminal lacks is escaped."""

import csv
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from encoded_images import encode
from scenes import scene

from proser_core.recognition.open_set_classifier import OpenSetClassifier

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SAVED_AGAIN = """
import sys
from proser_core.recognition.open_set_classifier import OpenSetClassifier
OpenSetClassifier.load(sys.argv[1]).save(sys.argv[2])
"""


@pytest.fixture
def named(classifier: OpenSetClassifier) -> OpenSetClassifier:
    """With a class whose name is not ASCII."""
    return replace(classifier, class_names=("猫", *classifier.class_names[1:]))


def in_ascii(*arguments: str) -> str:
    """What a process of Python prints."""
    command, environment = [sys.executable, *arguments], {**os.environ, **ASCII}
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    return done.stdout.decode("ascii")


@pytest.mark.slow
def test_a_classifier_is_saved_and_its_predictions_are_written(
    named: OpenSetClassifier, pixels: np.ndarray, tmp_path: Path
) -> None:
    named.save(tmp_path / "model")
    in_ascii("-c", SAVED_AGAIN, str(tmp_path / "model"), str(tmp_path / "again"))
    files = list((tmp_path / "model").iterdir())
    assert len(files) > 1
    for path in files:
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name
    (tmp_path / "images").mkdir()
    for number, image in enumerate(pixels):
        (tmp_path / "images" / f"{number:03}.png").write_bytes(encode(image))
    table = tmp_path / "predictions.csv"
    in_ascii("-m", "pipelines.cli", "predict", str(tmp_path / "again"), str(tmp_path / "images"), "-o", str(table))
    with table.open(encoding="utf-8", newline="") as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    assert labels == named.predict(pixels).labels
    assert "猫" in labels


def test_what_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    for number in range(12):
        folder = tmp_path / "own" / ("flower", "猫")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        scene(number).save(folder / f"{number}.png")
    printed = in_ascii("-m", "pipelines.cli", "inspect", os.fsdecode(os.fsencode(tmp_path / "own")))
    assert "12 in 2 classes" in printed
