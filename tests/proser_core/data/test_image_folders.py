"""Image folders: classes by name, images of any size, and folders that are not as they should be."""

import os
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_tasks import random_images
from test_tasks import digits_config, loaded_again

from proser_core.config import DataConfig
from proser_core.data.data_sets import open_data_set
from proser_core.data.decoding import to_rgb_square
from proser_core.data.image_sets import ImageSet
from proser_core.data.preparation import make_task
from proser_core.data.readers.image_folders import FolderLayout
from proser_core.data.stored import StoredImages
from proser_core.errors import DataError

FILES = (
    "train/cow/1.png",
    "train/ant/b.png",
    "train/ant/a.PNG",
    "train/bee/deep/down/c.png",
    "train/bee/d é.png",
    "test/ant/1.png",
    "test/bee/1.png",
    "test/cow/1.png",
)
IN_ORDER = {"train": [2, 1, 4, 3, 0], "test": [5, 6, 7]}


def save(image: np.ndarray, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, image in zip(FILES, random_images(len(FILES)), strict=True):
        save(image, tmp_path / "own" / name)
    return tmp_path / "own"


def load(root: Path, part: str = "train", classes: list[int] | None = None) -> ImageSet:
    return open_data_set("folder", root).load(part, size=8, classes=classes)


@pytest.mark.parametrize("part", IN_ORDER)
def test_classes_are_in_the_order_of_their_names_and_images_in_the_order_of_theirs(root, part):
    found = load(root, part)
    assert found.class_names == ("ant", "bee", "cow")
    np.testing.assert_array_equal(found.images, random_images(len(FILES))[IN_ORDER[part]])
    assert found.labels.tolist() == sorted(found.labels.tolist())
    assert np.bincount(found.labels).tolist() == ([2, 2, 1] if part == "train" else [1, 1, 1])


def test_an_empty_file_is_found_before_an_image_is_decoded(root: Path) -> None:
    (root / "train/bee/empty.jpg").touch()
    with pytest.raises(DataError, match=r"bee/empty\.jpg: the image cannot be decoded \(it is empty\); repair"):
        open_data_set("folder", root).fingerprints()


def test_only_the_asked_classes_are_read_and_the_others_are_not_even_decoded(root):
    (root / "train/bee/broken.png").write_bytes(b"of a class that nobody asks for")
    found = load(root, classes=[2, 0])
    assert found.labels.tolist() == [0, 0, 2]
    np.testing.assert_array_equal(found.images, random_images(len(FILES))[[2, 1, 0]])
    assert load(root, classes=[]).images.shape == (0, 8, 8, 3)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P"])
def test_images_of_any_size_and_kind_become_rgb_squares(root, mode):
    image = Image.fromarray(random_images(1, 24)[0]).crop((0, 0, 24, 13)).convert(mode)
    image.save(root / "train/cow/1.png")
    found = load(root, classes=[2])
    np.testing.assert_array_equal(found.images[0], to_rgb_square(image, 8))


def test_what_is_hidden_or_no_image_is_left_out(root):
    before = load(root)
    for name in ("train/ant/.a.png", "train/ant/notes.txt", "train/.cache/x.png", "test/.cache/x.png"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"none")
    np.testing.assert_array_equal(load(root).images, before.images)
    assert open_data_set("folder", root).num_classes == 3


def test_an_image_that_cannot_be_decoded_is_named(root):
    (root / "train/bee/broken.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"train/bee/broken\.jpg: the image cannot be decoded"):
        load(root)


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
        with pytest.raises(DataError, match=r"bee holds 2 images; a class needs 3 or more"):
            load(flat, "test")


@pytest.mark.parametrize(
    ("folders", "reason"),
    [
        (["cat", "dog", "train/steam", "train/diesel"], r"has train/ with classes, and also cat/ with images"),
        (["train/cat", "train/dog", "valid/cat", "valid/dog"], r"also valid/ with images; only val/ and test/"),
        (["train", "test"], r"has a folder test/ and no train/CLASS/"),
        (["val/cat", "test/cat"], r"has a folder test/ and no train/CLASS/"),
        (["Train/cat", "Test/cat"], r"has a folder Test/ and no train/CLASS/"),
        (["cat", "Validation/cat"], r"has a folder Validation/ and no train/CLASS/"),
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


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_what_might_never_end_is_named_and_not_read(root, make):
    make(root / "train/ant/endless.png")
    with pytest.raises(DataError, match=r"ant/endless\.png is no regular file; remove it"):
        load(root)


@pytest.mark.parametrize("name", [b"\xff\xfe", b" ", b"a\x1b[31m", b"a\nb"])
def test_a_class_whose_name_cannot_be_shown_is_refused_before_any_work(root, name):
    for part in ("train", "test"):
        shutil.copytree(os.fsencode(root / part / "ant"), os.fsencode(root / part) + b"/" + name)
    count = len(list((root / "train").iterdir()))
    recipe = DataConfig(name="folder", image_size=8, num_known=count, unknown_settings=(), development="none")
    with pytest.raises(DataError, match=r"class name .* cannot be shown.*rename"):
        make_task(recipe, root)


def test_folders_of_one_name_in_two_spellings_of_its_accents_are_refused_before_any_work(root):
    for part in ("train", "test"):
        for form in ("NFC", "NFD"):
            shutil.copytree(root / part / "ant", root / part / unicodedata.normalize(form, "K\u00e4fer"))
    count = len(list((root / "train").iterdir()))
    recipe = DataConfig(name="folder", image_size=8, num_known=count, unknown_settings=(), development="none")
    with pytest.raises(DataError, match="need names that differ, in more than how their accents are stored"):
        make_task(recipe, root)


@pytest.mark.parametrize(("target", "reason"), [("link.png", "Too many levels"), ("nowhere.png", "No such file")])
def test_a_link_in_a_circle_or_to_nothing_is_named(root, target, reason):
    (root / "train/ant/link.png").symlink_to(target)
    with pytest.raises(DataError, match=rf"ant/link\.png cannot be read \({reason}"):
        load(root)
    assert open_data_set("folder", root).layout.name == "folder"


def test_validation_images_of_their_own_are_taken_as_they_are(root):
    for name, image in zip(("ant", "bee", "cow"), random_images(3, seed=2), strict=True):
        save(image, root / "val" / name / "v.png")
    config = DataConfig(name="folder", image_size=8, padding=1, num_known=3, unknown_settings=(), development="none")
    task = make_task(config, root, seed=0)
    np.testing.assert_array_equal(task.val.images, random_images(3, seed=2))
    assert (task.class_names, task.val.targets.tolist()) == (("ant", "bee", "cow"), [0, 1, 2])
    assert [len(part) for part in (task.train, task.development, task.test)] == [5, 0, 3]
    assert "val/bee" in [name for name, _, _ in open_data_set("folder", root).fingerprints()]


def test_a_changed_added_or_renamed_image_changes_the_fingerprint_of_its_class_alone(root):
    def changed(before: list) -> list[str]:
        return [
            old[0] for old, new in zip(before, open_data_set("folder", root).fingerprints(), strict=True) if old != new
        ]

    first = open_data_set("folder", root).fingerprints()
    assert [name for name, _, _ in first] == [f"{part}/{name}" for part in IN_ORDER for name in ("ant", "bee", "cow")]
    os.utime(root / "train/ant/b.png", ns=(1, 1))
    assert changed(first) == ["train/ant"]
    second = open_data_set("folder", root).fingerprints()
    (root / "train/bee/deep/down/c.png").rename(root / "train/bee/deep/c.png")
    assert changed(second) == ["train/bee"]
    Image.fromarray(random_images(1)[0]).save(root / "test/cow/2.png")
    assert changed(second) == ["train/bee", "test/cow"]


def test_places_come_back_from_disk_as_they_were_without_the_images(root, tmp_path):
    stored = FolderLayout().index(root, "train", size=8).images
    stored.save(tmp_path, "some")
    again = StoredImages.load(tmp_path, "some", 8)
    rows = np.array([4, 0, 0, 2])
    np.testing.assert_array_equal(again.read(rows), stored.read(rows))
    np.testing.assert_array_equal(np.concatenate(list(again.batches(rows, 3))), stored.read(rows))
    with pytest.raises(ValueError, match="read-only"):
        again.places[0] = again.places[1]


@pytest.fixture
def larger_root(tmp_path: Path) -> Path:
    """Ten classes of four training images and two test images each."""
    for part, count in (("train", 4), ("test", 2)):
        for label in range(10):
            for number, image in enumerate(random_images(count, seed=100 * count + label)):
                save(image, tmp_path / "larger" / part / f"class {label}" / f"{number}.png")
    return tmp_path / "larger"


def test_a_task_of_encoded_images_is_the_task_of_their_pixels(larger_root, tmp_path):
    config = digits_config(name="folder")
    in_memory, stored = make_task(config, larger_root, 0), make_task(config, larger_root, 0, unpacked={})
    loaded_again(stored, tmp_path / "task", expected=in_memory)
    assert not list((tmp_path / "task").glob("*_images.npy"))


@pytest.mark.parametrize("unpacked", [None, {}])
@pytest.mark.parametrize("part", ["train", "test"])
def test_every_image_of_a_task_is_decoded_once_before_anything_trains(larger_root, part, unpacked):
    for folder in (larger_root / part).iterdir():
        (folder / "0.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=rf"{part}/class \d/0\.png: the image cannot be decoded"):
        make_task(digits_config(name="folder"), larger_root, 0, unpacked=unpacked)


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
