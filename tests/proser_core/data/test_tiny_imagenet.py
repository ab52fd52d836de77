"""Tiny-ImageNet in its published layout, and ODIN's sets that were made of it, on small trees."""

from dataclasses import replace

import numpy as np
import pytest
from encoded_images import encode
from PIL import Image
from small_tasks import random_images
from test_parquet import write

from proser_core.config import DataConfig
from proser_core.data import catalogue as sources
from proser_core.data.catalogue import Source
from proser_core.data.data_sets import open_data_set
from proser_core.data.image_sets import ImageSet
from proser_core.data.outliers import odin
from proser_core.data.outliers.outlier_sets import open_outlier_set, outlier_notes
from proser_core.data.preparation import make_task, split_of
from proser_core.data.readers.layout import Embedded
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError, DataError

WNIDS = ("n03", "n01", "n02", "n04")  # in no order, as in wnids.txt
WORDS = {"n01": "goldfish, Carassius auratus", "n02": "crane", "n03": "crane, machine", "n04": "bee"}
SHADES = {wnid: 40 + 50 * number for number, wnid in enumerate(sorted(WNIDS))}
TRAIN, TEST = 3, 2  # images of a class


def picture(wnid: str, number: int) -> Image.Image:
    """A shade for each class; the first of a class is grey."""
    return Image.new("L" if number == 0 else "RGB", (64, 64), (SHADES[wnid],) * (1 if number == 0 else 3))


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Four classes in the published tree; the registered set is told of these counts."""
    counts = {"train": TRAIN * len(WNIDS), "test": TEST * len(WNIDS)}
    small = replace(sources.SOURCES["tiny-imagenet"], num_classes=len(WNIDS), counts=counts)
    monkeypatch.setitem(sources.SOURCES, "tiny-imagenet", small)
    folder = tmp_path / "tiny-imagenet-200"
    lines = []
    for wnid in WNIDS:
        images = folder / "train" / wnid / "images"
        images.mkdir(parents=True)
        (images.parent / f"{wnid}_boxes.txt").write_text("")
        for number in range(TRAIN):
            picture(wnid, number).save(images / f"{wnid}_{number}.JPEG")
    (folder / "val" / "images").mkdir(parents=True)
    for number in range(TEST * len(WNIDS)):
        wnid = WNIDS[number % len(WNIDS)]
        picture(wnid, number // len(WNIDS)).save(folder / "val" / "images" / f"val_{number}.JPEG")
        lines.append(f"val_{number}.JPEG\t{wnid}\t0\t0\t63\t63")
    (folder / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    (folder / "wnids.txt").write_text("\n".join(WNIDS) + "\n")
    (folder / "words.txt").write_text(
        "".join(f"{wnid}\t{text}\n" for wnid, text in WORDS.items()) + "n99\tbee, worker\n"
    )
    return tmp_path


def shade_of(image: np.ndarray) -> int:
    return round(float(image.mean()) / 10) * 10


@pytest.mark.parametrize(("part", "each"), [("train", TRAIN), ("test", TEST)])
def test_every_image_has_the_label_of_its_wnid_in_sorted_order(root, part, each):
    assert open_data_set("tiny-imagenet", root).layout.name == "published"
    found = open_data_set("tiny-imagenet", root).load(part, size=16)
    assert np.bincount(found.labels).tolist() == [each] * 4
    shades = [SHADES[wnid] for wnid in sorted(WNIDS)]
    assert [shade_of(image) for image in found.images] == [shades[label] for label in found.labels.tolist()]
    assert found.class_names == ("goldfish", "crane n02", "crane n03", "bee")


def test_images_of_other_classes_are_not_decoded(root):
    for path in (root / "tiny-imagenet-200").rglob("n0[13]_*.JPEG"):
        path.write_bytes(b"no image")
    found = open_data_set("tiny-imagenet", root).load("train", size=16, classes=[3, 1])
    assert found.labels.tolist() == [1] * TRAIN + [3] * TRAIN
    with pytest.raises(DataError, match=r"n01_\d\.JPEG: the image cannot be decoded"):
        open_data_set("tiny-imagenet", root).load("train", size=16, classes=[0])


def annotations(root):
    return root / "tiny-imagenet-200" / "val" / "val_annotations.txt"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"val_annotations\.txt cannot be read .*Tiny-ImageNet needs it"),
        ("", r"has 0 test images of n01; the data set has 2 of each class"),
        ("val_1.JPEG\tn01\t0\t0\t63\t63\n", r"has 1 test images of n01; the data set has 2 of each class"),
        ("val_1.JPEG n01 0 0 63 63\n", r"has the line 'val_1.JPEG n01 0 0 63 63'; need a file name, a tab and a WNID"),
        ("val_1.JPEG\tn77\n", r"has the line 'val_1.JPEG\\tn77'; need a file name, a tab and a WNID"),
    ],
)
def test_labels_of_test_images_that_are_missing_or_short_are_an_error_and_no_empty_set(root, text, message):
    annotations(root).unlink() if text is None else annotations(root).write_text(text)
    with pytest.raises(DataError, match=message):
        open_data_set("tiny-imagenet", root).load("test", size=16)


def test_a_training_image_or_a_class_that_is_missing_is_an_error(root):
    images = root / "tiny-imagenet-200" / "train" / "n02" / "images"
    next(images.iterdir()).unlink()
    with pytest.raises(DataError, match="has 2 train images of n02; the data set has 3 of each class"):
        open_data_set("tiny-imagenet", root).load("train", size=16)
    images.rename(images.with_name("elsewhere"))
    with pytest.raises(DataError, match=r"images is missing, and .*wnids\.txt names n02"):
        open_data_set("tiny-imagenet", root).load("train", size=16, classes=[1])


def test_fingerprints_change_with_a_label_and_with_a_file(root):
    first = open_data_set("tiny-imagenet", root).fingerprints()
    annotations(root).write_text(annotations(root).read_text().replace("n01", "n02"))
    second = open_data_set("tiny-imagenet", root).fingerprints()
    (root / "tiny-imagenet-200" / "train" / "n01" / "images" / "n01_0.JPEG").unlink()
    third = open_data_set("tiny-imagenet", root).fingerprints()
    names = ["labels", "train", "val"]
    assert [[name for name, _, _ in each] for each in (first, second, third)] == [names] * 3
    assert [one != two for one, two in zip(first, second, strict=True)] == [True, False, False]
    assert [one != two for one, two in zip(second, third, strict=True)] == [False, True, False]


def test_the_hubs_parquet_calls_the_test_part_valid(root, tmp_path):
    folder = tmp_path / "hub" / "tiny-imagenet"
    images = random_images(8, 64)
    encoded, columns = [encode(image) for image in images], {"column": "image", "label_column": "label"}
    path = folder / "valid-00000-of-00001-70d5.parquet"
    write(path, encoded, [0, 1, 2, 3] * 2, names=sorted(WNIDS), **columns)
    (folder / "train-00000-of-00001-1359.parquet").write_bytes(b"")
    found = open_data_set("tiny-imagenet", tmp_path / "hub").load("test", size=64)
    np.testing.assert_array_equal(found.images, images)
    assert found.class_names == tuple(sorted(WNIDS))


def test_a_task_of_some_classes_and_a_refusal_to_stream_the_tree(root):
    config = DataConfig(name="tiny-imagenet", num_known=2, unknown_settings=(1, 2), development="none", image_size=16)
    task = make_task(config, root, seed=0)
    assert (len(task.train), len(task.val), len(task.test)) == (4, 2, 8)
    with pytest.raises(ConfigError, match=r"data\.streaming is on, and tiny-imagenet has the layout published"):
        open_data_set("tiny-imagenet", root).packed_files()


@pytest.fixture
def few_outliers(monkeypatch):
    monkeypatch.setattr(odin, "COUNT", 6)


def numbered(count, size):
    """Images of which each pixel says where it stands, and the blue channel which image it is."""
    rows, columns = np.mgrid[:size, :size].astype(np.uint8)
    return [np.dstack([rows, columns, np.full_like(rows, 40 * number)]) for number in range(count)]


def write_folder(folder, count=6, size=64, ending="png"):
    folder.mkdir(parents=True)
    for number, image in enumerate(numbered(count, size)):
        Image.fromarray(image).save(folder / f"test_{number}.{ending}")


@pytest.mark.parametrize("below", ["", "test"])
@pytest.mark.parametrize(("name", "folder"), [("imagenet-crop", "Imagenet"), ("lsun-crop", "LSUN")])
def test_odins_crops_are_the_middle_of_its_larger_images(tmp_path, few_outliers, name, folder, below):
    write_folder(tmp_path / folder / below, size=36)
    place = open_outlier_set(name, tmp_path).place
    assert place is not None
    assert (place.layout, place.note) == ("ODIN's folder", "")
    images = open_outlier_set(name, tmp_path).load(size=32, count=6)
    expected = np.stack([image[2:34, 2:34] for image in numbered(6, 36)])
    np.testing.assert_array_equal(images, expected)
    some = open_outlier_set(name, tmp_path).load(size=32, count=4)
    assert {image.tobytes() for image in some} < {image.tobytes() for image in expected}


@pytest.mark.parametrize(("name", "folder"), [("imagenet-resize", "Imagenet_resize"), ("lsun-resize", "LSUN_resize")])
def test_odins_resized_images_are_taken_as_they_are(tmp_path, few_outliers, name, folder):
    write_folder(tmp_path / folder / folder, size=32)
    images = open_outlier_set(name, tmp_path).load(size=32, count=6)
    np.testing.assert_array_equal(images, np.stack(numbered(6, 32)))
    assert open_outlier_set(name, tmp_path).fingerprints()[0][0] == folder
    assert outlier_notes((name,), tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "folder", "size"), [("lsun-crop", "LSUN", 36), ("imagenet-resize", "Imagenet_resize", 32)]
)
def test_odins_images_are_read_from_the_hubs_parquet_too(tmp_path, few_outliers, name, folder, size):
    encoded = [encode(image) for image in numbered(6, size)]
    for shard, part in enumerate((encoded[:4], encoded[4:])):
        write(tmp_path / folder / f"test-{shard:05}-of-00002.parquet", part, [0] * len(part), column="image")
    images = open_outlier_set(name, tmp_path).load(size=32, count=6)
    edge = (size - 32) // 2
    expected = [image[edge : edge + 32, edge : edge + 32] for image in numbered(6, size)]
    np.testing.assert_array_equal(images, np.stack(expected))
    names = [f"test-0000{shard}-of-00002.parquet" for shard in (0, 1)]
    assert [name for name, _, _ in open_outlier_set(name, tmp_path).fingerprints()] == names
    (tmp_path / folder / names[1]).unlink()
    with pytest.raises(DataError, match=f"{folder} holds 4 images; need 6"):
        open_outlier_set(name, tmp_path).load(size=32, count=6)


def test_without_odins_folder_the_imagenet_sets_are_made_again_and_say_so(tmp_path, few_outliers, monkeypatch):
    write_folder(tmp_path / "tiny-imagenet-200" / "test" / "images")
    notes = outlier_notes(("imagenet-crop", "imagenet-resize"), tmp_path)
    assert all(note.startswith("re-created, not ODIN's own images") for note in notes.values())
    assert len(notes) == 2
    crops = open_outlier_set("imagenet-crop", tmp_path).load(size=32, count=6)
    corners = crops[:, 0, 0, :2].astype(int)
    for number, (crop, (top, left)) in enumerate(zip(crops, corners, strict=True)):
        whole = numbered(6, 64)[number]
        np.testing.assert_array_equal(crop, whole[top : top + 32, left : left + 32])
    assert len({tuple(corner) for corner in corners.tolist()}) > 3
    np.testing.assert_array_equal(crops, open_outlier_set("imagenet-crop", tmp_path).load(size=32, count=6))
    resized = open_outlier_set("imagenet-resize", tmp_path).load(size=32, count=6)
    expected = Image.fromarray(numbered(6, 64)[1]).resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(resized[1], np.asarray(expected))
    known = {"name": "digits", "image_size": 8, "num_known": 10, "unknown_settings": (), "development": "none"}
    counts = {"train": 20, "test": 5}
    few = {part: ImageSet(random_images(n), np.arange(n) % 10, tuple("0123456789")) for part, n in counts.items()}
    digits = Source("digits", 10, counts, layouts=(Embedded(lambda part, size: few[part]),))
    monkeypatch.setitem(sources.SOURCES, "digits", digits)
    make_task(DataConfig(**known, padding=1, outliers=("imagenet-crop",)), tmp_path, 0).save(tmp_path / "task")
    assert OpenSetTask.load(tmp_path / "task").notes["imagenet-crop"] == notes["imagenet-crop"]
    assert open_outlier_set("lsun-crop", tmp_path).missing
    write_folder(tmp_path / "Imagenet" / "test", size=36)
    assert outlier_notes(("imagenet-crop",), tmp_path) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "tiny-imagenet"}, "imagenet-crop, whose classes are those of tiny-imagenet, and these are known"),
        (
            {"development": "tiny-imagenet"},
            "development is tiny-imagenet, which shares classes or images with imagenet-crop",
        ),
    ],
)
def test_outliers_of_the_classes_that_are_known_or_choose_are_refused(changes, message):
    values = {"name": "cifar10", "num_known": 10, "unknown_settings": (), "development": "none"}
    config = DataConfig(**(values | {"outliers": ("imagenet-crop",)} | changes))
    with pytest.raises(ConfigError, match=message):
        split_of(config, None)
