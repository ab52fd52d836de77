"""Outlier sets: generated, read from small folders and Parquet files in the published layouts, and in a task."""

import re

import numpy as np
import pytest
from encoded_images import encode
from PIL import Image
from test_parquet import write

from proser_core.config import DataConfig, Recipe
from proser_core.data import catalogue as sources
from proser_core.data.catalogue import Source
from proser_core.data.image_sets import ImageSet
from proser_core.data.outliers import grey as grey_outliers
from proser_core.data.outliers import odin
from proser_core.data.outliers.outlier_sets import OUTLIERS, OutlierSet, open_outlier_set
from proser_core.data.outliers.places import OutlierSource, Place
from proser_core.data.preparation import make_task, split_of
from proser_core.data.readers.layout import Embedded
from proser_core.errors import ConfigError, DataError
from proser_core.jobs.preparing import prepare_inputs
from proser_core.recognition.metrics import evaluate_settings
from proser_core.recognition.scoring import OpenSetScores

NUM_DRAWINGS = 12


def drawing(number: int) -> Image.Image:
    """One bit, black ink on white, as Omniglot is; each number has ink of its own."""
    pixels = np.ones((105, 105), bool)
    pixels[20:80, 10 + 6 * number : 16 + 6 * number] = False
    return Image.fromarray(pixels)


def write_omniglot(root, layout, count=NUM_DRAWINGS):
    if layout == "parquet":
        encoded = [encode(drawing(number)) for number in range(count)]
        write(root / "omniglot" / "test-00000-of-00001.parquet", encoded, [0] * count)
        return root
    for number in range(count):
        folder = root / "omniglot-py/images_evaluation" / f"Alphabet_{number % 2}" / f"character{number:02}"
        folder.mkdir(parents=True)
        drawing(number).save(folder / f"{number:04}_01.png")
    return root


@pytest.fixture
def few_drawings(monkeypatch):
    monkeypatch.setattr(grey_outliers, "NUM_OMNIGLOT", NUM_DRAWINGS)


@pytest.fixture
def small_mnist(monkeypatch):
    """Twenty digits: a white bar on black, at the left or at the right."""
    pixels = np.zeros((20, 28, 28, 3), np.uint8)
    pixels[:10, 4:24, 6:10] = 255
    pixels[10:, 4:24, 18:22] = 255
    digits = ImageSet(pixels, np.repeat([0, 1], 10), ("left", "right"))
    made = Source("mnist", 2, {"train": 20, "test": 20}, layouts=(Embedded(lambda part, size: digits),))
    monkeypatch.setitem(sources.SOURCES, "mnist", made)
    return pixels


@pytest.mark.parametrize("layout", ["parquet", "torchvision"])
def test_omniglot_is_white_on_black_like_mnist_and_drawn_the_same_each_time(tmp_path, few_drawings, layout):
    root = write_omniglot(tmp_path, layout)
    place = open_outlier_set("omniglot", root).place
    assert place is not None
    assert place.layout == layout
    images = open_outlier_set("omniglot", root).load(size=32, count=8)
    assert images.shape == (8, 32, 32, 3)
    assert images.mean() < 60
    assert (images[:, 0, 0] == 0).all()
    assert (images.max(axis=(1, 2, 3)) > 180).all()
    assert (images[..., 0] == images[..., 2]).all()
    assert len({image.tobytes() for image in images}) == 8
    np.testing.assert_array_equal(images, open_outlier_set("omniglot", root).load(size=32, count=8))
    everything = open_outlier_set("omniglot", root).load(size=32, count=NUM_DRAWINGS)
    assert {image.tobytes() for image in images} < {image.tobytes() for image in everything}


@pytest.mark.parametrize("layout", ["parquet", "torchvision"])
def test_an_omniglot_that_lacks_an_image_is_refused(tmp_path, few_drawings, layout):
    root = write_omniglot(tmp_path, layout, count=NUM_DRAWINGS - 1)
    with pytest.raises(DataError, match=r"holds 11 images; need 12\. Unpack"):
        open_outlier_set("omniglot", root).load(size=8, count=4)


def test_a_changed_drawing_changes_the_fingerprint(tmp_path, few_drawings):
    root = write_omniglot(tmp_path, "torchvision")
    before = open_outlier_set("omniglot", root).fingerprints()
    Image.new("1", (105, 105), 1).save(next(root.rglob("*.png")))
    assert open_outlier_set("omniglot", root).fingerprints() != before


def test_noise_is_grey_even_and_the_same_each_time():
    images = open_outlier_set("noise", None).load(size=28, count=50)
    np.testing.assert_array_equal(images, open_outlier_set("noise", None).load(size=28, count=50))
    assert (images[..., 0] == images[..., 1]).all()
    shares = np.bincount(images[..., 0].ravel() // 64) / images[..., 0].size
    np.testing.assert_allclose(shares, 0.25, atol=0.01)
    assert abs(np.corrcoef(images[:, :, :-1, 0].ravel(), images[:, :, 1:, 0].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(images[0, ..., 0].ravel(), images[1, ..., 0].ravel())[0, 1]) < 0.15
    np.testing.assert_array_equal(images[:7], open_outlier_set("noise", None).load(size=28, count=7))
    larger = Image.fromarray(images[0]).resize((32, 32), Image.Resampling.BICUBIC)  # as MNIST is resampled
    np.testing.assert_array_equal(open_outlier_set("noise", None).load(size=32, count=1)[0], np.asarray(larger))


def test_digits_over_noise_keep_their_ink_and_have_the_noise_elsewhere(small_mnist):
    images = open_outlier_set("mnist-noise", None).load(size=28, count=20)
    noise = open_outlier_set("noise", None).load(size=28, count=20)
    np.testing.assert_array_equal(images, np.where(small_mnist == 255, 255, noise))
    some = open_outlier_set("mnist-noise", None).load(size=28, count=5)
    assert {image.tobytes() for image in some} < {image.tobytes() for image in images}
    with pytest.raises(DataError, match="mnist-noise has 20 images; need 21, one per known test image"):
        open_outlier_set("mnist-noise", None).load(size=28, count=21)


@pytest.mark.parametrize("name", [name for name in OUTLIERS if name != "noise"])
@pytest.mark.parametrize("directory", [None, "empty"])
def test_a_missing_outlier_set_says_what_is_needed_where(tmp_path, name, directory):
    data_dir = tmp_path if directory else None
    assert open_outlier_set(name, data_dir).place is None
    state = "no data directory was given" if data_dir is None else f"the data directory {data_dir} is empty"
    with pytest.raises(DataError) as caught:
        open_outlier_set(name, data_dir).load(size=8, count=4)
    message = str(caught.value)
    assert f"the outlier set {name} was not found: {state}; need {OUTLIERS[name].needs} in it" in message
    assert re.search(r"Download it from \S+\.(com|co)/.* MB.*(licence|CC)", message)
    assert "no option downloads outlier sets" in message


def outlier_config(**changes) -> DataConfig:
    values = {"name": "digits", "image_size": 8, "num_known": 10, "unknown_settings": (), "development": "none"}
    return DataConfig(**(values | {"padding": 1, "outliers": ("mnist-noise", "noise")} | changes))


def test_a_task_has_as_many_outliers_of_each_set_as_known_test_images(monkeypatch, small_mnist):
    large = ImageSet(np.tile(small_mnist, (40, 1, 1, 1)), np.tile(np.repeat([0, 1], 10), 40), ("left", "right"))
    made = Source("mnist", 2, {"train": 800, "test": 800}, layouts=(Embedded(lambda part, size: large),))
    monkeypatch.setitem(sources.SOURCES, "mnist", made)
    task = make_task(outlier_config(), None, seed=0)
    known = int((task.test.targets < 10).sum())
    assert known == sources.SOURCES["digits"].counts["test"]
    assert np.bincount(task.test_classes)[10:].tolist() == [known, known]
    assert (task.test.targets[task.test_classes >= 10] == 10).all()
    for class_id, name in ((10, "mnist-noise"), (11, "noise")):
        assert task.split.unknown_in(name) == (class_id,)
        expected = open_outlier_set(name, None).load(size=8, count=known)
        np.testing.assert_array_equal(task.test.images[task.test_classes == class_id], expected)
    again = make_task(outlier_config(), None, seed=1)
    np.testing.assert_array_equal(again.test.images, task.test.images)
    values = np.where(task.test_classes == 11, 1.0, -1.0)
    scores = OpenSetScores(np.zeros(len(values), int), values, num_known=10, bias=0.0)
    metrics = evaluate_settings(scores, task.test.targets, task.test_classes, task.split)
    assert [metrics.settings[name].auroc for name in task.split.settings] == [0.5, 1.0]


def test_outlier_sets_are_among_what_decides_a_task(tmp_path, few_drawings):
    root = write_omniglot(tmp_path, "torchvision")
    inputs = prepare_inputs(Recipe(data=outlier_config(outliers=("omniglot", "noise")), space=""), root)
    assert inputs["data"]["outliers"] == ["omniglot", "noise"]
    assert [name for name, _, _ in inputs["files"]] == ["images_evaluation"]


def test_a_mistyped_outlier_set_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"no outlier set is called 'omniglott'; did you mean 'omniglot'\?"):
        split_of(outlier_config(outliers=("omniglott",)), None)


def test_fewer_images_than_a_set_has_are_drawn_from_all_of_it_and_the_same_each_time() -> None:
    """The first ones would be of one alphabet."""
    place = Place("rows", lambda rows, size: rows, list, 1000)
    drawn = [OutlierSet(OutlierSource("mine", "", lambda _: place), None, place).load(size=8, count=20) for _ in "ab"]
    np.testing.assert_array_equal(*drawn)
    assert (np.diff(drawn[0]) > 0).all()
    assert drawn[0].min() < 300
    assert drawn[0].max() > 700


def test_a_random_crop_may_touch_every_edge() -> None:
    columns = np.broadcast_to(np.arange(33, dtype=np.uint8), (33, 33))
    image, cut = Image.fromarray(columns), odin._random("lsun-crop")
    first = [np.asarray(cut(image, row))[0, 0] for row in range(20)]
    assert set(first) == {0, 1}
