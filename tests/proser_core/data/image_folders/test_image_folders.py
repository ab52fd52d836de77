"""Images of folders: their order, sizes and kinds, what cannot be read, and the tasks that are made of them."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_folders import FILES, load, save
from small_tasks import digits_config, loaded_again, random_images

from proser_core.config import DataConfig
from proser_core.data.data_sets import listed_once, open_data_set
from proser_core.data.decoding import to_rgb_square
from proser_core.data.preparation import make_task
from proser_core.data.readers.image_folders import FolderLayout
from proser_core.data.stored import StoredImages
from proser_core.errors import DataError

IN_ORDER = {"train": [2, 1, 4, 3, 0], "test": [5, 6, 7]}  # places in FILES


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


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_what_might_never_end_is_named_and_not_read(root, make):
    make(root / "train/ant/endless.png")
    with pytest.raises(DataError, match=r"ant/endless\.png is no regular file; remove it"):
        load(root)


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
    np.testing.assert_array_equal(make_task(config, str(root), seed=0).train.images, task.train.images)
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


def test_what_is_handed_a_listed_folder_sees_it_as_it_was_and_a_path_as_it_is(root):
    listed = listed_once(root)
    first = open_data_set("folder", listed)
    files, counts = first.fingerprints(), first.class_counts().tolist()
    save(random_images(1)[0], root / "train/cow/2.png")
    again, now = open_data_set("folder", listed), open_data_set("folder", root)
    assert (again.fingerprints(), again.class_counts().tolist()) == (files, counts)
    assert now.fingerprints() != files
    assert now.class_counts().sum() == sum(counts) + 1


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
