"""Which folders are taken for classes and parts: those without a test folder, and those that are refused."""

import os
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_folders import load, save
from small_tasks import random_images

from proser_core.config import DataConfig
from proser_core.data.data_sets import open_data_set
from proser_core.data.grouping import Grouping
from proser_core.data.inspection import inspect_folder
from proser_core.data.preparation import make_task
from proser_core.data.readers.image_folders import FolderLayout
from proser_core.data.readers.listed_folder import LOOKED_AT
from proser_core.errors import DataError


def test_a_class_without_an_image_is_named(root):
    (root / "train/owl").mkdir()
    (root / "train/owl/notes.txt").touch()
    (root / "test/owl").mkdir()
    for read in (lambda: load(root), lambda: open_data_set("folder", root).fingerprints()):
        with pytest.raises(DataError, match=r"train/owl holds no image \(\.bmp, .*add some"):
            read()


@pytest.mark.parametrize(("has", "lacks"), [("train", "test"), ("test", "train")])
def test_a_class_of_one_part_alone_is_named(root, has, lacks):
    (root / has / "owl").mkdir()
    with pytest.raises(DataError, match=rf"has {has}/owl and no {lacks}/owl"):
        _ = open_data_set("folder", root).num_classes


def test_a_class_whose_accents_are_stored_in_two_ways_is_named_as_that(root):
    for part, form in (("train", "NFD"), ("test", "NFC")):
        save(random_images(1)[0], root / part / unicodedata.normalize(form, "caf\u00e9") / "1.png")
    with pytest.raises(DataError, match=r"train/.* and test/.*, which differ only in how accents are stored .*rename"):
        _ = open_data_set("folder", root).num_classes


@pytest.mark.parametrize("folder", ["", "cat", "train/cat/day 1"])
def test_a_folder_of_images_of_formats_that_are_not_read_is_refused_with_their_endings(tmp_path, folder):
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for name in ("1.HEIC", "2.heic", "3.dng", "notes.txt"):
        (tmp_path / folder / name).touch()
    message = r"has images only of formats that are not read \(\.dng, \.heic\); convert them to JPEG or PNG"
    with pytest.raises(DataError, match=message):
        open_data_set("folder", tmp_path).fingerprints()
    with pytest.raises(DataError, match=message):
        inspect_folder(tmp_path, Grouping())


@pytest.mark.parametrize("count", [0, 1])
def test_a_class_that_lacks_images_says_how_many_it_has_of_formats_that_are_not_read(tmp_path, count):
    for number in range(5):
        save(random_images(1)[0], tmp_path / "dog" / f"{number}.png")
        save(random_images(1)[0], tmp_path / "cat 2" / f"{number}.png")
        (tmp_path / "cat").mkdir(exist_ok=True)
        (tmp_path / "cat" / f"{number}.HEIC").touch()
    (tmp_path / "dog/6.HEIC").touch()
    if count:
        save(random_images(1)[0], tmp_path / "cat/1.png")
    has = "1 image" if count else r"no image \(\.bmp, .*\)"
    with pytest.raises(DataError, match=rf"cat holds {has}, and 5 of formats that are not read \(convert them to JPEG"):
        load(tmp_path)


@pytest.mark.parametrize("state", ["no data directory was given", "does not exist", "is empty", "does not hold them"])
def test_a_directory_without_class_folders_is_refused_with_what_is_needed(tmp_path, state):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other/train").mkdir(parents=True)
    places = {"no data directory was given": None, "does not exist": "none", "is empty": "empty"}
    place = places.get(state, "other")
    root = tmp_path / place if place else None
    data = open_data_set("folder", root)
    for read in (lambda: data.num_classes, data.fingerprints, lambda: data.load("train", size=8)):
        with pytest.raises(DataError, match=rf"images were not found: .*{state}.*; need a folder of images for each"):
            read()


def test_a_folder_is_found_where_it_has_classes(root, tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/train-00000.parquet").touch()
    assert open_data_set("folder", root).layout.name == "folder"
    assert open_data_set("folder", root / "train").layout.name == "folder"
    assert open_data_set("folder", tmp_path / "tables").layout is None
    (tmp_path / "other/tables").mkdir(parents=True)
    (tmp_path / "other/tables/train-00000.parquet").touch()
    assert open_data_set("folder", tmp_path / "other").layout is None
    for number in range(LOOKED_AT):
        (tmp_path / f"other/tables/{number}.xml").touch()
    save(random_images(1)[0], tmp_path / "other/tables/images/1.png")
    assert open_data_set("folder", tmp_path / "other").layout.name == "folder"


class TestWithoutATestFolder:
    """ROOT/CLASS/*, or ROOT/train/CLASS/* alone."""

    @pytest.fixture(params=["", "train"])
    def flat(self, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
        for number, image in enumerate(random_images(40)):
            save(image, tmp_path / "flat" / request.param / ("ant" if number < 30 else "bee") / f"{number}.png")
        return tmp_path / "flat"

    def test_a_fifth_of_each_class_is_kept_for_the_test_and_nothing_is_in_both_parts(self, flat):
        parts = [load(flat, part) for part in ("train", "test")]
        assert [np.bincount(part.labels).tolist() for part in parts] == [[24, 8], [6, 2]]
        together = np.concatenate([part.images for part in parts])
        np.testing.assert_array_equal(np.unique(together, axis=0), np.unique(random_images(40), axis=0))

    def test_further_images_hardly_change_which_are_kept(self, flat):
        def tested() -> set[bytes]:
            return {image.tobytes() for image in load(flat, "test").images}

        before = tested()
        folder = next(flat.rglob("ant"))
        for number, image in enumerate(random_images(10, seed=1)):
            save(image, folder / f"new {number}.png")
        after = tested()
        assert len(after) == 10
        assert len(before & after) >= 5

    def test_a_class_of_too_few_images_is_named(self, flat):
        for path in sorted(next(flat.rglob("bee")).iterdir())[2:]:
            path.unlink()
        with pytest.raises(DataError, match=r"bee holds 2 images; a class needs 3 or more, to train and to draw val"):
            load(flat, "test")

    def test_two_images_of_a_class_are_enough_next_to_validation_images_of_its_own(self, tmp_path):
        for number, place in enumerate(("train/ant", "train/ant", "val/ant", "train/bee", "train/bee", "val/bee")):
            save(random_images(1)[0], tmp_path / place / f"{number}.png")
        assert [load(tmp_path, part).labels.tolist() for part in ("train", "val", "test")] == 3 * [[0, 1]]


@pytest.mark.parametrize(
    ("folders", "reason"),
    [
        (["cat", "dog", "train/steam", "train/diesel"], r"has train/ with classes, and also cat/ with images"),
        (["train/cat", "train/dog", "valid/cat", "valid/dog"], r"also valid/ with images; only val/ and test/"),
        (["train", "test"], r"has a folder test/ and no train/CLASS/"),
        (["val/cat", "test/cat"], r"has a folder test/ and no train/CLASS/"),
        (["Train/cat", "Test/cat"], r"has a folder Test/ and no train/CLASS/"),
        (["cat", "Validation/cat"], r"has a folder Validation/ and no train/CLASS/"),
        (["train/cat", "train/dog", "test"], r"test has images and no folder of a class"),
        (["train/cat", "train/dog", "val", "test/cat", "test/dog"], r"val has images and no folder of a class"),
    ],
)
def test_folders_that_could_mean_two_things_are_refused(tmp_path, folders, reason):
    for name in folders:
        save(random_images(1)[0], tmp_path / name / "1.png")
    with pytest.raises(DataError, match=reason):
        _ = open_data_set("folder", tmp_path).num_classes


def test_a_folder_without_images_beside_train_is_left_alone(root):
    (root / "notes").mkdir()
    (root / "notes/read me.txt").touch()
    assert open_data_set("folder", root).num_classes == 3


def test_a_class_of_trains_is_a_class(tmp_path):
    for name in ("Train", "bus"):
        save(random_images(1)[0], tmp_path / name / "1.png")
    assert FolderLayout().class_names(tmp_path) == ("Train", "bus")


@pytest.mark.parametrize(
    ("name", "characters"),
    [
        (b"\xff\xfe", r"U\+DCFF, U\+DCFE"),
        (b" ", ""),
        ("\u200d".encode(), ""),
        (b"a\x1b[31m", r"U\+001B"),
        (b"a\nb", r"U\+000A"),
        ("ant\u200b".encode(), r"U\+200B"),
        ("\ufeffant".encode(), r"U\+FEFF"),
    ],
)
def test_a_class_whose_name_cannot_be_shown_is_refused_before_any_work(root, name, characters):
    for part in ("train", "test"):
        shutil.copytree(os.fsencode(root / part / "ant"), os.fsencode(root / part) + b"/" + name)
    count = len(list((root / "train").iterdir()))
    recipe = DataConfig(name="folder", image_size=8, num_known=count, unknown_settings=(), development="none")
    with pytest.raises(DataError, match=rf"class name .* cannot be shown.*{characters}.*rename"):
        make_task(recipe, root)


def test_folders_of_one_name_in_two_spellings_of_its_accents_are_refused_before_any_work(root):
    for part in ("train", "test"):
        for form in ("NFC", "NFD"):
            shutil.copytree(root / part / "ant", root / part / unicodedata.normalize(form, "K\u00e4fer"))
    count = len(list((root / "train").iterdir()))
    recipe = DataConfig(name="folder", image_size=8, num_known=count, unknown_settings=(), development="none")
    with pytest.raises(DataError, match="need names that differ, in more than how their accents are stored"):
        make_task(recipe, root)


def test_a_folder_behind_a_link_and_two_dots_is_the_systems(tmp_path, monkeypatch):
    for place, shade in (("disk/photos", 200), ("home/photos", 10)):
        for name in ("cat", "dog"):
            (tmp_path / place / name).mkdir(parents=True)
            for number in range(4):
                Image.new("RGB", (8, 8), (shade, shade, shade)).save(tmp_path / place / name / f"{number}.png")
    (tmp_path / "disk/set1").mkdir()
    (tmp_path / "home/link").symlink_to(tmp_path / "disk/set1")
    monkeypatch.chdir(tmp_path / "home")
    images = open_data_set("folder", Path("link/../photos")).load("train", size=8).images
    assert np.unique(images).tolist() == [200]


def test_what_is_drawn_and_fingerprinted_does_not_depend_on_how_the_folder_is_spelt(tmp_path, monkeypatch):
    for number, image in enumerate(random_images(40)):
        save(image, tmp_path / "disk/photos" / ("cat", "dog")[number % 2] / f"{number}.png")
    (tmp_path / "disk/set1").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk/set1")
    monkeypatch.chdir(tmp_path)
    found = [open_data_set("folder", Path(spelt)) for spelt in ("disk/photos", "link/../photos")]
    np.testing.assert_array_equal(*(each.load("test", size=8).images for each in found))
    assert found[0].fingerprints() == found[1].fingerprints()
