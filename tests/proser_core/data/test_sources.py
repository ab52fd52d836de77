"""Where images come from: digits, torchvision's folders, and data directories that hold nothing."""

import hashlib
import pickle
import shutil
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torchvision
from PIL import Image
from small_tasks import random_images

from proser_core.data.catalogue import SOURCES
from proser_core.data.data_sets import open_data_set
from proser_core.data.decoding import to_rgb_square
from proser_core.data.image_sets import ImageSet
from proser_core.data.readers.torchvision_roots import TorchvisionLayout
from proser_core.errors import ConfigError, DataError

LABELS = {"CIFAR10": ("labels", "label_names", 10), "CIFAR100": ("fine_labels", "fine_label_names", 100)}


def write_cifar(root, class_name, monkeypatch, per_file=4):
    """A small folder as torchvision unpacks it; torchvision is told the checksums of these files."""
    cls = getattr(torchvision.datasets, class_name)
    key, names_key, num_classes = LABELS[class_name]
    folder = root / cls.base_folder
    folder.mkdir(parents=True)
    images, labels = {}, {}
    for part, files in (("train", cls.train_list), ("test", cls.test_list)):
        count = per_file * len(files)
        images[part] = random_images(count, 32, seed=len(part))
        labels[part] = [(3 * i) % num_classes for i in range(count)]
        listed = []
        for index, (name, _) in enumerate(files):
            rows = slice(index * per_file, (index + 1) * per_file)
            data = images[part][rows].transpose(0, 3, 1, 2).reshape(per_file, -1)
            content = pickle.dumps({"data": data, key: labels[part][rows]})
            (folder / name).write_bytes(content)
            listed.append([name, hashlib.md5(content).hexdigest()])
        monkeypatch.setattr(cls, f"{part}_list", listed)
    meta = pickle.dumps({names_key: [f"class {index}" for index in range(num_classes)]})
    (folder / cls.meta["filename"]).write_bytes(meta)
    monkeypatch.setattr(cls, "meta", cls.meta | {"md5": hashlib.md5(meta).hexdigest()})
    return images, labels


@pytest.mark.parametrize("class_name", ["CIFAR10", "CIFAR100"])
@pytest.mark.parametrize("part", ["train", "test"])
def test_torchvisions_folders_are_read_with_names_and_classes(tmp_path, monkeypatch, class_name, part):
    images, labels = write_cifar(tmp_path, class_name, monkeypatch)
    image_set = TorchvisionLayout(class_name).read(tmp_path, part, size=32, count=len(labels[part]))
    np.testing.assert_array_equal(image_set.images, images[part])
    assert image_set.labels.tolist() == labels[part]
    assert image_set.class_names[3] == "class 3"
    some = TorchvisionLayout(class_name).read(tmp_path, part, size=32, classes=[0, 9])
    wanted = np.isin(labels[part], [0, 9])
    np.testing.assert_array_equal(some.images, images[part][wanted])
    assert some.labels.tolist() == np.array(labels[part])[wanted].tolist()


@pytest.mark.parametrize("size", [28, 32])
def test_torchvisions_grey_digits_become_rgb(tmp_path, size):
    folder = tmp_path / "MNIST/raw"
    folder.mkdir(parents=True)
    pixels, labels = (
        np.random.default_rng(0).integers(0, 256, (12, 28, 28), np.uint8),
        np.arange(12, dtype=np.uint8) % 10,
    )
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, 12, 28, 28) + pixels.tobytes())
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, 12) + labels.tobytes())
    for part in ("train", "test"):
        found = TorchvisionLayout("MNIST").read(tmp_path, part, size=size, classes=[1, 2, 9])
        assert found.labels.tolist() == [1, 2, 9, 1]
        want = [to_rgb_square(Image.fromarray(pixels[row]), size) for row in (1, 2, 9, 11)]
        np.testing.assert_array_equal(found.images, np.stack(want))
    assert TorchvisionLayout("MNIST").read(tmp_path, "test", size=28, classes=[]).images.shape == (0, 28, 28, 3)


def test_torchvisions_images_are_resampled_to_the_asked_size(tmp_path, monkeypatch):
    images, _ = write_cifar(tmp_path, "CIFAR10", monkeypatch)
    image_set = TorchvisionLayout("CIFAR10").read(tmp_path, "test", size=16)
    expected = Image.fromarray(images["test"][1]).resize((16, 16), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(image_set.images[1], np.asarray(expected))


def test_a_torchvision_folder_with_another_number_of_images_is_refused(tmp_path, monkeypatch):
    write_cifar(tmp_path, "CIFAR10", monkeypatch)
    with pytest.raises(DataError, match="has 20 train images; the data set has 50000"):
        open_data_set("cifar10", tmp_path).load("train", size=32)


@pytest.mark.parametrize("damage", ["missing", "changed", "something else"])
def test_a_damaged_torchvision_folder_is_refused_by_name(tmp_path, monkeypatch, damage):
    write_cifar(tmp_path, "CIFAR10", monkeypatch)
    path = tmp_path / "cifar-10-batches-py" / "data_batch_3"
    contents = {"changed": path.read_bytes()[:-1] + b"x", "something else": b"something else"}
    path.unlink() if damage == "missing" else path.write_bytes(contents[damage])
    with pytest.raises(DataError, match=r"cifar-10-batches-py cannot be read as torchvision's CIFAR10.*--download of"):
        open_data_set("cifar10", tmp_path).load("train", size=32)


@pytest.mark.parametrize("asked", ["images", "files"])
@pytest.mark.parametrize(
    ("directory", "state"),
    [
        (None, "no data directory was given"),
        ("none", "does not exist"),
        ("empty", "is empty"),
        ("other", "does not hold it"),
    ],
)
def test_missing_images_are_reported_with_what_is_needed_where(tmp_path, directory, state, asked):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other" / "mnist").mkdir(parents=True)
    data = open_data_set("cifar100", tmp_path / directory if directory else None)
    need = r"need cifar100/train-\*\.parquet"
    with pytest.raises(DataError, match=rf"cifar100 was not found: .*{state}; {need}") as caught:
        data.load("train", size=32) if asked == "images" else data.fingerprints()
    assert "cifar-100-python" in str(caught.value)
    assert "--data-dir" in str(caught.value)
    assert "(--data.download, or --download of proser reproduce)" in str(caught.value)


def test_a_missing_data_set_has_its_place_its_size_and_its_licence_named():
    for source in SOURCES.values():
        if source.counts and source.needs:
            with pytest.raises(DataError, match=r"Download it from \S+\.\S+, \d+ MB, .*(licence|CC|commercial)"):
                open_data_set(source.name, None).load("test", size=8)


def test_a_mistyped_data_set_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"did you mean 'cifar100'\?"):
        open_data_set("cifar1000", None).load("train", size=32)


def test_fingerprints_are_of_the_files_that_are_read(tmp_path, monkeypatch):
    def files(name, *place, **options):
        return [name for name, _, _ in open_data_set(name, *place, **options).fingerprints()]

    write_cifar(tmp_path / "torchvision", "CIFAR10", monkeypatch)
    assert len(files("cifar10", tmp_path / "torchvision")) == 7
    (tmp_path / "hub" / "cifar10").mkdir(parents=True)
    for name in ("train-0.parquet", "test-0.parquet"):
        (tmp_path / "hub" / "cifar10" / name).touch()
    assert files("cifar10", tmp_path / "hub") == ["test-0.parquet", "train-0.parquet"]
    assert files("digits", None) == files("cifar10", None, download=True) == []


def test_what_torchvision_fetches_has_the_same_fingerprints_before_and_after(tmp_path, monkeypatch):
    """Its archive is there already, and torchvision unpacks it."""
    write_cifar(tmp_path / "published", "CIFAR10", monkeypatch)
    root, cls = tmp_path / "data", torchvision.datasets.CIFAR10
    archive = shutil.make_archive(root / "cifar-10-python", "gztar", tmp_path / "published")
    monkeypatch.setattr(cls, "tgz_md5", hashlib.md5(Path(archive).read_bytes()).hexdigest())
    before = open_data_set("cifar10", root, download=True)
    assert len(before.layout.read(root, "train", size=32)) == 20
    after = open_data_set("cifar10", root, download=True)
    assert after.fingerprints() == before.fingerprints()
    assert open_data_set("cifar10", root).fingerprints() != []


def test_digits_need_no_data_directory_and_hold_a_third_of_every_class_for_the_test():
    parts = {part: open_data_set("digits", None).load(part, size=8) for part in ("train", "test")}
    assert {part: len(images) for part, images in parts.items()} == SOURCES["digits"].counts
    sizes = {part: Counter(images.labels.tolist()) for part, images in parts.items()}
    for label in range(10):
        share = sizes["test"][label] / (sizes["train"][label] + sizes["test"][label])
        assert abs(share - 1 / 3) < 0.01
    assert parts["train"].class_names == tuple("0123456789")


def test_digits_of_both_parts_are_scikit_learns_images_each_once():
    from sklearn.datasets import load_digits

    read = [open_data_set("digits", None).load(part, size=8) for part in ("train", "test")]
    seen = Counter(
        (label, image[:, :, 0].tobytes())
        for part in read
        for label, image in zip(part.labels.tolist(), part.images, strict=True)
    )
    original = load_digits()
    levels = np.round(original.images * 255 / 16).astype(np.uint8)
    expected = Counter((label, image.tobytes()) for label, image in zip(original.target.tolist(), levels, strict=True))
    assert seen == expected


def test_digits_of_some_classes_are_those_rows_of_all():
    everything = open_data_set("digits", None).load("test", size=8)
    some = open_data_set("digits", None).load("test", size=8, classes=[0, 7])
    np.testing.assert_array_equal(some.images, everything.images[np.isin(everything.labels, [0, 7])])
    assert set(some.labels.tolist()) == {0, 7}


def test_an_image_set_checks_pixels_labels_and_names():
    images = random_images(2)
    for bad in (images.astype(np.float32), images[..., :1], images[0]):
        with pytest.raises(DataError, match="need uint8"):
            ImageSet(bad, np.zeros(len(bad), int), ("a",))
    with pytest.raises(DataError, match="2 images have labels of shape"):
        ImageSet(images, np.zeros(3, int), ("a",))
    with pytest.raises(DataError, match="labels run from 0 to 1; need 0 to 0"):
        ImageSet(images, np.array([0, 1]), ("a",))
