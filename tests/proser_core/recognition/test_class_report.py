"""Test images by class: counts, intervals, and what is shown of them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix
from small_tasks import labelled, make_classifier, random_images, small_task

from proser_core.config import from_json, to_json
from proser_core.data.tasks import Labelled
from proser_core.recognition.class_report import LISTED, ClassReport
from proser_core.recognition.model_card import model_card
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scoring import OpenSetScores, score

COUNTS = ((8, 1, 0, 1), (3, 4, 1, 2), (0, 0, 0, 0), (1, 0, 0, 9))
REPORT = ClassReport.of_matrix(("ant", "bee", "owl|hawk"), np.array(COUNTS))


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Wilson 1927, as in textbooks."""
    z, share = 1.959963984540054, hits / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    return middle - half, middle + half


@given(st.integers(1, 500), st.data())
def test_intervals_are_wilsons(count: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, count))
    report = ClassReport.of_matrix(("a",), np.array([[hits, count - hits], [0, 0]]))
    assert report.interval(0) == pytest.approx(wilson(hits, count), abs=1e-9)


def test_rows_are_worst_first_and_say_what_a_class_is_taken_for() -> None:
    assert REPORT.rows() == [
        ("bee", "10", "40.0", "16.8 to 68.7", "20.0", "ant (3)"),
        ("ant", "10", "80.0", "49.0 to 94.3", "10.0", "bee (1)"),
        ("unknown", "10", "90.0", "59.6 to 98.2", "", "ant (1)"),
        ("owl\\|hawk", "0", "", "", "", ""),
    ]


def test_a_class_that_is_mostly_called_unknown_is_shown_with_the_known_one_it_is_taken_for() -> None:
    report = ClassReport.of_matrix(("ant", "bee"), np.array([[1, 1, 3], [0, 5, 0], [0, 0, 4]]))
    assert report.rows()[0][-2:] == ("60.0", "bee (1)")


def test_without_unknown_test_images_there_is_no_row_of_them() -> None:
    known = ClassReport.of_matrix(("ant", "bee"), np.diag([5, 5, 0]))
    assert [row[0] for row in known.rows()] == ["ant", "bee"]


def test_of_many_classes_the_worst_are_listed() -> None:
    count = LISTED + 5
    counts = np.diag(np.arange(1, count + 2)) + np.eye(count + 1, k=1, dtype=int)
    report = ClassReport.of_matrix(tuple(f"class {number}" for number in range(count)), counts)
    lines = report.lines()
    assert len(lines) == LISTED + 4
    assert f"The {LISTED} worst of {count + 1}." in lines[0]
    assert lines[4].startswith("| class 0 | 2 | 50.0 |")


@pytest.fixture
def classifier() -> OpenSetClassifier:
    """With the report of random test images of its three classes, and of unknown ones."""
    made = make_classifier()
    test = Labelled(random_images(40, seed=4), np.arange(40) % 4)
    split, names = made.split, made.class_names
    task = replace(small_task(), split=split, class_names=names, development=labelled(0), test=test)
    classes = ClassReport.of(score(made.logits(test.images), made.score_function, made.calibration), task)
    called = made.predict(test.images).indices
    np.testing.assert_array_equal(classes.confusion, confusion_matrix(test.targets, called, labels=range(4)))
    return replace(made, classes=classes)


def test_it_is_saved_and_stands_in_the_card(classifier: OpenSetClassifier, tmp_path: Path) -> None:
    classifier.save(tmp_path)
    again = OpenSetClassifier.load(tmp_path)
    assert again.classes == classifier.classes
    assert "\n".join(["### Classes", "", *again.classes.lines()]) in model_card(again)
    assert "### Classes" not in model_card(replace(again, classes=None))


def test_what_is_kept_grows_with_the_images_and_not_with_pairs_of_classes() -> None:
    many = ClassReport.of_matrix(tuple(map(str, range(2000))), np.eye(2001, k=1, dtype=np.int64))
    assert len(many.cells) == 2000
    assert from_json(ClassReport, json.loads(json.dumps(to_json(many)))) == many


def test_without_test_images_there_is_no_report() -> None:
    none = replace(small_task(), test=Labelled(random_images(0), np.zeros(0, int)))
    assert ClassReport.of(OpenSetScores(none.test.targets, np.zeros(0), none.num_known, 0.0), none) is None
