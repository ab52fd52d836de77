"""The Parquet reader on small files in the layout of the Hugging Face Hub."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from encoded_images import encode
from PIL import Image
from small_tasks import random_images

from proser_core.data.readers.parquet import ParquetLayout, find_shards, unpack
from proser_core.errors import DataError, StorageError
from proser_core.store.files import disk_full_errors

NAMES = ["ant", "bee", "cow"]


def pngs(count: int) -> list[bytes]:
    return [encode(image) for image in random_images(count)]


def write(
    path, encoded, labels, *, names=NAMES, column="img", label_column="fine_label", label_type=None, row_group_size=None
):
    path.parent.mkdir(parents=True, exist_ok=True)
    image_type = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table(
        {
            column: pa.array([{"bytes": item, "path": None} for item in encoded], image_type),
            label_column: pa.array(list(labels), label_type or pa.int64()),
            "coarse_label": pa.array([0] * len(encoded), pa.int64()),
        }
    )
    if names is not None:
        features = {column: {"_type": "Image"}, label_column: {"names": names, "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path, row_group_size=row_group_size)
    return path


LAYOUT = ParquetLayout("", label_column="fine_label")


def read(folder, part="train", **more):
    return LAYOUT.read(folder, part, **({"size": 8} | more))


def index(folder, part="train", **more):
    """The images of a part as places in what was unpacked just now."""
    unpacked = folder / "unpacked"
    unpacked.mkdir(exist_ok=True)
    unpack(find_shards(folder, ""), unpacked)
    return LAYOUT.index(folder, part, size=8, unpacked=unpacked, **more)


at_once_or_in_any_order = pytest.mark.parametrize("load", [read, index])


@pytest.mark.parametrize("column", ["img", "image"])
@pytest.mark.parametrize("file_format", ["PNG", "WEBP"])
def test_lossless_images_come_back_pixel_for_pixel(tmp_path, file_format, column):
    images = random_images(4)
    encoded = [encode(image, file_format, lossless=True) for image in images]
    write(tmp_path / "train-00000-of-00001.parquet", encoded, [2, 0, 1, 2], column=column)
    image_set = read(tmp_path, count=4)
    np.testing.assert_array_equal(image_set.images, images)
    assert image_set.labels.tolist() == [2, 0, 1, 2]
    assert image_set.labels.dtype == np.int64
    assert image_set.class_names == tuple(NAMES)


def test_shards_are_read_in_their_order_and_each_part_on_its_own(tmp_path):
    images, encoded = random_images(6), pngs(6)
    write(tmp_path / "train-00001-of-00002.parquet", encoded[2:4], [1, 1])
    write(tmp_path / "train-00000-of-00002.parquet", encoded[:2], [0, 2])
    write(tmp_path / "test-00000-of-00001.parquet", encoded[4:], [2, 2])
    assert read(tmp_path).labels.tolist() == [0, 2, 1, 1]
    np.testing.assert_array_equal(read(tmp_path).images, images[:4])
    np.testing.assert_array_equal(read(tmp_path, "test").images, images[4:])


@pytest.mark.parametrize("mode", ["L", "1"])
def test_grey_images_become_rgb(tmp_path, mode):
    grey = Image.fromarray(random_images(1)[0]).convert(mode)
    write(tmp_path / "train.parquet", [encode(grey)], [0])
    pixels = read(tmp_path).images[0]
    assert pixels.shape == (8, 8, 3)
    for channel in range(3):
        np.testing.assert_array_equal(pixels[:, :, channel], np.asarray(grey.convert("L")))


def test_images_of_another_size_are_resampled_with_antialiasing(tmp_path):
    stripes = np.zeros((32, 48, 3), np.uint8)
    stripes[:, ::2] = 200
    write(tmp_path / "train.parquet", [encode(stripes)], [0])
    pixels = read(tmp_path).images[0]
    assert pixels.shape == (8, 8, 3)
    np.testing.assert_allclose(pixels[2:-2, 2:-2], 100, atol=4)


def test_only_the_asked_classes_are_read_and_the_others_are_not_even_decoded(tmp_path):
    images, encoded = random_images(4), pngs(4)
    encoded[1] = b"damaged, but of a class that nobody asks for"
    write(tmp_path / "train.parquet", encoded, [2, 1, 0, 2])
    image_set = read(tmp_path, classes=(0, 2), count=4)
    assert image_set.labels.tolist() == [2, 0, 2]
    assert image_set.class_names == tuple(NAMES)
    np.testing.assert_array_equal(image_set.images, images[[0, 2, 3]])


@at_once_or_in_any_order
def test_another_number_of_images_than_published_is_refused(tmp_path, load):
    write(tmp_path / "train.parquet", pngs(3), [0, 1, 2])
    with pytest.raises(DataError, match=r"has 3 train images in 1 files; the data set has 5"):
        load(tmp_path, count=5)


@at_once_or_in_any_order
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_a_truncated_file_is_refused_by_name(tmp_path, share, load):
    path = write(tmp_path / "train-0.parquet", pngs(5), [0] * 5)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(DataError, match=r"train-0\.parquet is not a whole Parquet file"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("written", "wanted", "message"),
    [
        ({}, {"part": "test"}, r"holds no test\*\.parquet; give the directory above it as"),
        ({"label_column": "other"}, {}, r"no column 'fine_label'; it has img, other, coarse_label"),
        ({"names": None}, {}, "does not name the classes of 'fine_label'"),
        ({"names": []}, {}, "does not name the classes of 'fine_label'"),
        ({"labels": ["ant"], "label_type": pa.string()}, {}, "'fine_label' of type string"),
        ({"encoded": pngs(2), "labels": [0, None]}, {"classes": [0]}, "'fine_label' of type int64, 1 missing"),
    ],
)
def test_a_file_without_the_part_its_labels_or_their_names_is_refused(tmp_path, written, wanted, message):
    write(tmp_path / "train.parquet", **({"encoded": pngs(1), "labels": [0]} | written))
    with pytest.raises(DataError, match=message):
        read(tmp_path, **wanted)


def test_a_file_without_an_image_column_is_refused(tmp_path):
    path = write(tmp_path / "train.parquet", [b""], [0])
    pq.write_table(pq.read_table(path).drop_columns(["img"]), path)
    with pytest.raises(DataError, match="has no image column"):
        read(tmp_path)


def test_damaged_pages_are_refused_by_name(tmp_path):
    path = write(tmp_path / "train-0.parquet", pngs(5), [0] * 5)
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train-0\.parquet"):
        read(tmp_path)


@pytest.mark.parametrize("bad", [b"no image", b"", None, "truncated"])
def test_an_image_that_cannot_be_decoded_is_named_with_its_row(tmp_path, bad):
    encoded = pngs(4)
    encoded[2] = encoded[2][:60] if bad == "truncated" else bad
    write(tmp_path / "train-0.parquet", encoded, [0, 0, 1, 0])
    stored = index(tmp_path).images
    assert stored.read(np.array([0, 1, 3])).shape == (3, 8, 8, 3)
    for load in (lambda: read(tmp_path), lambda: stored.read(np.array([3, 2]))):
        with pytest.raises(DataError, match=r"train-0\.parquet, row 2: the image cannot be decoded"):
            load()


def test_files_of_a_part_that_is_not_read_are_neither_unpacked_nor_fingerprinted(tmp_path):
    paths = [write(tmp_path / f"{part}-0.parquet", pngs(1), [0]) for part in ("extra", "test", "train")]
    assert LAYOUT.packed_files(tmp_path) == paths[1:]
    assert [name for name, _, _ in LAYOUT.fingerprints(tmp_path)] == ["test-0.parquet", "train-0.parquet"]


@pytest.mark.parametrize("label", [3, -1])
@pytest.mark.parametrize("classes", [None, (0,)])
def test_a_label_without_a_name_is_refused_even_where_its_class_is_not_asked_for(tmp_path, label, classes):
    write(tmp_path / "train.parquet", pngs(1) * 2, [0, label])
    with pytest.raises(DataError, match=f"labels from .*{label}.*, and names 3 classes; need labels from 0 to 2"):
        read(tmp_path, classes=classes)


@pytest.mark.parametrize("classes", [None, (0, 2), (1,), ()])
@pytest.mark.parametrize("row_group_size", [1, 2, 100])
def test_images_that_stay_encoded_are_those_that_are_read_at_once_in_any_order(tmp_path, classes, row_group_size):
    encoded = pngs(9)
    write(tmp_path / "train-0.parquet", encoded[:4], [2, 1, 0, 2], row_group_size=row_group_size)
    write(tmp_path / "train-1.parquet", [], [])
    write(tmp_path / "train-2.parquet", encoded[4:7], [1, 1, 0], row_group_size=row_group_size)
    write(tmp_path / "test-0.parquet", encoded[7:], [2, 0])
    for part, count in (("train", 7), ("test", 2)):
        in_memory, stored = read(tmp_path, part, classes=classes), index(tmp_path, part, classes=classes, count=count)
        assert stored.labels.tolist() == in_memory.labels.tolist()
        assert stored.class_names == in_memory.class_names
        rows = np.random.default_rng(0).permutation(len(in_memory))
        np.testing.assert_array_equal(stored.images.read(rows), in_memory.images[rows])
        kept = stored.select(stored.labels != 2)
        np.testing.assert_array_equal(kept.images.read(np.arange(len(kept))), in_memory.images[in_memory.labels != 2])


def test_a_disk_that_is_full_is_named_when_files_are_unpacked(tmp_path):
    write(tmp_path / "train-0.parquet", pngs(1), [0])
    (tmp_path / "unpacked").mkdir()
    (tmp_path / "unpacked/.train-0.parquet").symlink_to("/dev/full")
    with pytest.raises(StorageError, match=r"the disk of .* is full; free some space"), disk_full_errors(tmp_path):
        index(tmp_path)
