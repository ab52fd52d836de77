"""SVHN's .mat files as torchvision keeps them in its root, and its Parquet files as on the Hugging Face Hub."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torchvision
from encoded_images import encode
from scipy.io import savemat
from small_tasks import random_images
from test_parquet import write

from proser_core.data import catalogue as sources
from proser_core.data.catalogue import SOURCES
from proser_core.data.data_sets import open_data_set
from proser_core.errors import DataError

PUBLISHED = np.array([10, 1, 2, 9, 10, 5], np.uint8)  # 10 is the digit 0


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Six images in each file; torchvision is told the checksums, the registered set the counts."""
    split_list = {part: list(about) for part, about in torchvision.datasets.SVHN.split_list.items()}
    for part in ("train", "test"):
        path = tmp_path / f"{part}_32x32.mat"
        savemat(path, {"X": random_images(6, 32, seed=len(part)).transpose(1, 2, 3, 0), "y": PUBLISHED[:, None]})
        split_list[part][2] = hashlib.md5(path.read_bytes()).hexdigest()
    monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", split_list)
    monkeypatch.setitem(sources.SOURCES, "svhn", replace(SOURCES["svhn"], counts={"train": 6, "test": 6}))
    return tmp_path


def loaded(root, part, layout):
    """The part from files of this layout, with the digits that were published."""
    assert open_data_set("svhn", root).layout.name == layout
    found = open_data_set("svhn", root).load(part, size=32)
    np.testing.assert_array_equal(found.images, random_images(6, 32, seed=len(part)))
    assert found.labels.tolist() == [0, 1, 2, 9, 0, 5]
    assert found.class_names == tuple("0123456789")
    return found


@pytest.mark.parametrize("part", ["train", "test"])
def test_images_and_digits_are_those_of_the_file_and_ten_is_zero(root, part):
    found = loaded(root, part, "torchvision")
    some = open_data_set("svhn", root).load(part, size=32, classes=[0, 9])
    np.testing.assert_array_equal(some.images, found.images[[0, 3, 4]])
    assert some.labels.tolist() == [0, 9, 0]


def test_the_hubs_parquet_is_read_and_its_zeros_are_zeros(root):
    """Beside train and test it has `extra`, which is not a part here."""
    columns = {"names": list("0123456789"), "column": "image", "label_column": "label"}
    for part in ("train", "test", "extra"):
        encoded = [encode(image) for image in random_images(6, 32, len(part))]
        write(root / "svhn" / f"{part}-00000-of-00001.parquet", encoded, PUBLISHED % 10, **columns)
    for part in ("train", "test"):
        loaded(root, part, "parquet")


def test_its_files_alone_decide_though_they_lie_in_the_root(root):
    (root / "notes.txt").write_text("another file")
    assert [name for name, _, _ in open_data_set("svhn", root).fingerprints()] == ["train_32x32.mat", "test_32x32.mat"]


def test_a_damaged_file_is_refused_by_name(root):
    path = root / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"train_32x32\.mat and test_32x32\.mat cannot be read as torchvision's SVHN"):
        open_data_set("svhn", root).load("test", size=32)


def test_one_file_alone_is_not_the_data_set_and_both_are_named(root):
    (root / "test_32x32.mat").unlink()
    with pytest.raises(DataError) as caught:
        open_data_set("svhn", root).load("train", size=32)
    assert "torchvision's train_32x32.mat and test_32x32.mat" in str(caught.value)
    assert "ufldl.stanford.edu/housenumbers, 246 MB, non-commercial use only" in str(caught.value)
