"""A model watched for drift on images of a user's own."""

import errno
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rcParams
from PIL import Image
from pipeline_runs import printed
from registered_models import Registry
from rich.console import Console

from pipelines.commands.drift import DriftRequest, drift
from pipelines.inference.drift import drift_figure, measure_drift
from pipelines.output_files import write_picture
from proser_core.errors import DataError, StorageError
from proser_core.recognition.open_set_classifier import OpenSetClassifier

pytestmark = pytest.mark.usefixtures("empty_programs")


def test_images_of_the_same_kind_do_not_drift_and_others_do(
    registry: Registry, known: Path, labelled: Path, classifier: OpenSetClassifier, tmp_path: Path
) -> None:
    same = [str(known / name) for name in classifier.class_names]
    code, text = printed(drift, DriftRequest("models:/own/1", same))
    assert code == 0
    assert "no drift shown" in text
    assert re.search(r"drift shows from a distance of about 0\.\d\d on", text)
    strangers = [str(path) for path in labelled.iterdir() if path.name not in classifier.class_names]
    code, text = printed(drift, DriftRequest("models:/own/1", strangers, tmp_path / "drift.png"))
    assert code == 0
    assert "drift: the scores differ" in text
    with Image.open(tmp_path / "drift.png") as picture:
        assert picture.size[0] > 500


@pytest.mark.filterwarnings("error")
def test_a_models_name_is_drawn_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(rcParams, "svg.fonttype", "none")
    scores = np.linspace(-1, 1, 20)
    write_picture(
        drift_figure(scores, scores, "minus the best known logit", "$a_$ \udcff \u65e5"), tmp_path / "drift.svg"
    )
    assert r">$a_$ \xff \u65e5: scores of new images" in (tmp_path / "drift.svg").read_text()


def test_what_was_found_is_printed_though_its_figure_cannot_be_written(
    known: Path, classifier: OpenSetClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    classifier.save(tmp_path / "model")
    terminal = io.StringIO()
    monkeypatch.setattr("os.fsync", fill)
    with pytest.raises(StorageError, match="is full"):
        drift(DriftRequest(str(tmp_path / "model"), [str(known)], tmp_path / "drift.png"), Console(file=terminal))
    assert "validation images, all of known classes" in " ".join(terminal.getvalue().split())


def test_its_numbers_are_those_of_the_scores() -> None:
    generator = np.random.default_rng(0)
    validation = generator.normal(size=400)
    bias = -float(np.quantile(validation, 0.95))
    same = measure_drift(generator.normal(size=500) + bias, validation + bias)
    assert not same.drifted
    assert measure_drift(validation[:2], validation).least_shown == 1
    shifted = [measure_drift(validation + shift, validation) for shift in np.linspace(0, 1, 200)]
    assert min(each.distance for each in shifted if each.drifted) == pytest.approx(shifted[0].least_shown, abs=0.005)
    assert same.interval[0] < 0.05 < same.interval[1]
    moved = measure_drift(generator.normal(1, size=500) + bias, validation + bias)
    assert moved.drifted
    assert moved.unknown_share > 3 * moved.expected_share
    assert [replace(same, p_value=p_value).drifted for p_value in (0.009, 0.011)] == [True, False]


def test_the_interval_of_5_unknown_images_in_100_is_wilsons() -> None:
    """The two solutions of (p - 0.05)^2 = 1.959964^2 p (1 - p) / 100."""
    found = measure_drift(np.repeat([1.0, -1.0], [5, 95]), np.array([-1.0]))
    assert found.interval == pytest.approx((0.0215437, 0.1117505), abs=1e-7)


def test_an_image_whose_score_is_0_is_known() -> None:
    found = measure_drift(np.array([0.0, 1.0, -1.0, 2.0]), np.array([0.0, -1.0]))
    assert (found.unknown_share, found.expected_share) == (0.5, 0.0)


def test_false_alarms_are_as_rare_as_the_level_says() -> None:
    generator = np.random.default_rng(1)
    alarms = [measure_drift(generator.normal(size=80), generator.normal(size=120)).drifted for _ in range(400)]
    assert sum(alarms) <= 12  # 4 expected; 13 or more would come once in 4,000 times


def test_a_model_without_its_validation_images_is_refused(
    classifier: OpenSetClassifier, known: Path, tmp_path: Path
) -> None:
    replace(classifier, validation_scores=None).save(tmp_path / "model")
    with pytest.raises(DataError, match="has no record of its validation images"):
        printed(drift, DriftRequest(str(tmp_path / "model"), [str(known)]))
