"""LSUN's outlier sets, made again from a folder of raw images of any size and kind."""

import numpy as np
import pytest
from PIL import Image

from proser_core.data.outliers import odin
from proser_core.data.outliers.outlier_sets import open_outlier_set, outlier_notes
from proser_core.errors import DataError

SETS = ("lsun-crop", "lsun-resize")
SIZES = ((40, 56), (64, 48), (32, 32), (33, 71), (48, 48), (36, 34))  # width, height
ENDINGS = (".webp", ".jpg", ".png", ".webp", ".jpeg", ".PNG")


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A raw image of each size, some of them in folders, as exported with and without --flat."""
    monkeypatch.setattr(odin, "COUNT", len(SIZES))
    generator = np.random.default_rng(0)
    for number, ((width, height), ending) in enumerate(zip(SIZES, ENDINGS, strict=True)):
        path = tmp_path / "lsun-test" / ("a/b" if number < 3 else "") / f"{number}{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(generator.integers(0, 256, (height, width, 3), np.uint8))
        image.convert("L" if number == 4 else "RGB").save(path, lossless=True)
    return tmp_path


def raw_images(root):
    paths = sorted((root / "lsun-test").rglob("*.*"), key=lambda path: path.name)
    return [np.asarray(Image.open(path).convert("RGB")) for path in paths]


def shows(whole, crop):
    """Whether the crop is a window of the image."""
    windows = np.lib.stride_tricks.sliding_window_view(whole, crop.shape).reshape(-1, *crop.shape)
    return (windows == crop).all(axis=(1, 2, 3)).any()


def test_each_crop_is_a_part_of_its_image_and_the_same_each_time(root):
    crops = open_outlier_set("lsun-crop", root).load(size=32, count=6)
    wholes = raw_images(root)
    assert [[shows(whole, crop) for crop in crops].count(True) for whole in wholes] == [1] * 6
    np.testing.assert_array_equal(crops, open_outlier_set("lsun-crop", root).load(size=32, count=6))
    some = open_outlier_set("lsun-crop", root).load(size=32, count=4)
    assert {crop.tobytes() for crop in some} < {crop.tobytes() for crop in crops}


def test_resized_are_all_of_each_image_at_32_pixels(root):
    wholes = raw_images(root)
    expected = {Image.fromarray(whole).resize((32, 32), Image.Resampling.BICUBIC).tobytes() for whole in wholes}
    images = open_outlier_set("lsun-resize", root).load(size=32, count=6)
    assert {image.tobytes() for image in images} == expected


def test_they_are_called_re_created_unless_odins_own_folder_is_there(root):
    notes = outlier_notes(SETS, root)
    assert notes["lsun-crop"] == (
        "re-created, not ODIN's own images: a random crop of 32 pixels from each of lsun-test"
    )
    assert notes["lsun-resize"].endswith("those of lsun-test, resampled to 32 pixels with antialiasing")
    assert open_outlier_set("lsun-crop", root).fingerprints()[0][0] == "lsun-test"
    for folder in ("LSUN", "LSUN_resize"):
        (root / folder).mkdir()
    places = [open_outlier_set(name, root).place for name in SETS]
    assert [place and place.layout for place in places] == ["ODIN's folder"] * 2
    assert outlier_notes(SETS, root) == {}
    assert open_outlier_set("lsun-crop", root).fingerprints()[0][0] == "LSUN"


@pytest.mark.parametrize("name", SETS)
def test_an_image_that_cannot_be_decoded_is_named(root, name):
    path = root / "lsun-test" / "5.PNG"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"lsun-test/5\.PNG: the image cannot be decoded \(.*(truncated|not enough)"):
        open_outlier_set(name, root).load(size=32, count=6)


@pytest.mark.parametrize("name", SETS)
def test_an_image_smaller_than_a_crop_is_named(root, name):
    Image.new("RGB", (31, 80)).save(root / "lsun-test" / "5.PNG")
    with pytest.raises(DataError, match=r"lsun-test/5\.PNG has 31 x 80 pixels; need 32 or more"):
        open_outlier_set(name, root).load(size=32, count=6)


@pytest.mark.parametrize("name", SETS)
def test_another_number_of_raw_images_is_refused(root, name):
    (root / "lsun-test" / "5.PNG").unlink()
    with pytest.raises(DataError, match=r"lsun-test holds 5 images; need 6\. Unpack or export them again"):
        open_outlier_set(name, root).load(size=32, count=5)
