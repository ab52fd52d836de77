"""Tasks from arrays."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proser_core.data.arrays import task_from_arrays
from proser_core.data.repeats import REPEATS
from proser_core.errors import DataError, ProserError


def pixels(count: int, size: int = 4) -> np.ndarray:
    """Grey images that differ: image i is i everywhere."""
    return np.broadcast_to(np.arange(count, dtype=np.uint8)[:, None, None], (count, size, size))


@given(
    labels=st.lists(st.sampled_from("cab"), min_size=0, max_size=20),
    tested=st.lists(st.sampled_from("azbyc"), max_size=20),
    seed=st.integers(0, 5),
)
def test_every_image_keeps_its_class_and_has_one_role(labels: list[str], tested: list[str], seed: int) -> None:
    labels, tested = [*labels, *"aabbcc"], [*tested, "a"]
    task = task_from_arrays(
        pixels(len(labels)), np.array(labels), test_images=pixels(len(tested)), test_labels=np.array(tested), seed=seed
    )
    assert task.class_names == ("a", "b", "c")
    rows = [*task.train.images[:, 0, 0, 0], *task.val.images[:, 0, 0, 0]]
    targets = [*task.train.targets, *task.val.targets]
    assert sorted(rows) == list(range(len(labels)))
    assert [task.class_names[target] for target in targets] == [labels[row] for row in rows]
    assert {*task.val.targets} == {0, 1, 2}
    assert [(*task.class_names, "unknown")[target] for target in task.test.targets] == [
        name if name in "abc" else "unknown" for name in tested
    ]
    unknown = sorted({*tested} - {*"abc"})
    assert task.split.settings == ((len(unknown),) if unknown else ())
    named = [*task.class_names, *unknown]
    assert [named[number] for number in task.test_classes] == tested


def test_without_test_and_development_images_these_parts_are_empty() -> None:
    task = task_from_arrays(pixels(8), np.arange(8) % 2, val_fraction=0.5)
    assert (len(task.train), len(task.val), len(task.development), len(task.test)) == (4, 4, 0, 0)
    assert task.mean == pytest.approx((task.train.images.mean() / 255,) * 3)


def test_an_image_in_two_parts_or_two_classes_is_noted() -> None:
    images, labels = pixels(8), np.arange(8) % 2
    assert task_from_arrays(images, labels, test_images=pixels(9)[8:], test_labels=labels[:1]).notes == {}
    twice = task_from_arrays(images, labels, test_images=pixels(9)[5:], test_labels=labels[5:9].repeat(2)[:4])
    both = {image.tobytes() for part in (twice.train, twice.val) for image in part.images}
    assert sum(image.tobytes() in both for image in twice.test.images) == 3
    assert sum(map(int, re.findall(r"test images that are \w+ images too: (\d+) of 4", twice.notes[REPEATS]))) == 3
    everywhere = task_from_arrays(pixels(2).repeat(4, axis=0), labels, development=pixels(1))
    assert "development images that are training images too: 1 of 1" in everywhere.notes[REPEATS]
    assert everywhere.notes[REPEATS].endswith("images with more than one class: 2")


def test_development_images_are_unknown() -> None:
    task = task_from_arrays(pixels(8), np.arange(8) % 2, development=pixels(3))
    assert task.development.targets.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"labels": np.zeros(8, int)}, "1 class.*at least 2"),
        ({"labels": np.arange(7) % 2}, "8 images have labels"),
        ({"images": pixels(8).astype(np.float32)}, "images are float32.*need uint8"),
        ({"images": np.zeros((8, 4, 5, 3), np.uint8)}, "images are 5 x 4 pixels"),
        ({"images": np.zeros((8, 0, 0, 3), np.uint8)}, "images are 0 x 0 pixels"),
        ({"images": [*pixels(7), pixels(1, size=5)[0]]}, "images have several sizes; resize all"),
        ({"labels": [[0], [0, 1]] * 4}, "labels have several lengths"),
        ({"development": pixels(2).astype(np.float32)}, "images are float32.*need uint8"),
        ({"development": np.zeros((2, 4, 4, 4), np.uint8)}, r"images are uint8\(2, 4, 4, 4\).*need uint8"),
        ({"development": pixels(2, size=5)}, "development are 5 x 5 pixels.*resize"),
        ({"test_images": pixels(2, size=5), "test_labels": np.zeros(2, int)}, "test_images are 5 x 5"),
        ({"test_images": pixels(2)}, "given together"),
        ({"labels": np.array([0] * 7 + [1])}, "has 1 training image"),
        ({"test_images": pixels(2), "test_labels": np.array([7, 8])}, "no known class: they are int64 such as 7"),
        (
            {"test_images": pixels(2), "test_labels": np.array(["0", "1"])},
            "such as '0', and the known ones int64 such as 0",
        ),
        (
            {
                "labels": np.array(["a", "b"] * 4, object),
                "test_images": pixels(2),
                "test_labels": np.array(["x", "y"], object),
            },
            "no known class: they are object such as 'x', and the known ones object such as 'a'",
        ),
        (
            {
                "images": pixels(80),
                "labels": np.arange(80) % 40,
                "test_images": pixels(80),
                "test_labels": np.arange(80).astype(str),
            },
            "such as '0', and the known ones int64 such as 0",
        ),
        ({"labels": np.array([0, 1] * 3 + [np.nan] * 2)}, "2 of 8 labels are missing"),
        ({"labels": np.array(["a", "b"] * 3 + [None] * 2, object)}, "2 of 8 labels are missing"),
        ({"labels": pd.array([0, 1] * 3 + [pd.NA] * 2, "Int64")}, "2 of 8 labels are missing"),
        ({"test_images": pixels(2), "test_labels": np.array([0, np.nan])}, "1 of 2 test_labels are missing"),
        ({"labels": np.array([0, "b"] * 4, object)}, "labels of type int and str have no common order"),
        ({"labels": np.arange(8)[:, None] % 2}, r"labels have the shape \(8, 1\); need one"),
        ({"test_images": pixels(2), "test_labels": np.zeros((2, 1), int)}, r"test_labels have the shape \(2, 1\)"),
        (
            {"test_images": pixels(2), "test_labels": np.array([0, "new"], object)},
            "test_labels of type int and str have no common order; give numbers alone, or names alone",
        ),
        ({"val_fraction": float("nan")}, "val_fraction is nan; need a share between 0 and 1"),
        ({"val_fraction": 5.0}, "val_fraction is 5.0"),
    ],
)
def test_arrays_that_are_no_task_are_refused_with_what_is_needed(given_: dict[str, Any], words: str) -> None:
    arguments = {"images": pixels(8), "labels": np.arange(8) % 2, **given_}
    with pytest.raises(DataError, match=words) as refused:
        task_from_arrays(**arguments)
    assert isinstance(refused.value, ProserError)
