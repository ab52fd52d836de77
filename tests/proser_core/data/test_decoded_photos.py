"""A user's own photos: decoded once for all tasks, which are those of the photos themselves."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scenes import scene

from proser_core.config import DataConfig, FinetuneConfig, PretrainConfig, Recipe
from proser_core.data import photos
from proser_core.data.data_sets import open_data_set
from proser_core.data.decoded_photos import DecodedPhotos
from proser_core.data.decoding import to_rgb_square
from proser_core.data.grouping import Grouping
from proser_core.data.near_duplicates import SIZE
from proser_core.data.photos import save_photos
from proser_core.data.preparation import make_task
from proser_core.data.stored import digest_of
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import DataError
from proser_core.jobs.preparing import PHOTOS, prepare_inputs, prepare_task, save_task
from proser_core.store.store import Artefact, Store

DATA = DataConfig(name="folder", image_size=16, padding=2, num_known=4, unknown_settings=(), development="none")
PROXY = replace(DATA, num_known=2, unknown_settings=(1,), development="held-out-1")


def recipe_of(data: DataConfig) -> Recipe:
    return Recipe(space="", data=data, pretrain=PretrainConfig(batch_size=4), finetune=FinetuneConfig(batch_size=4))


def prepared(data: DataConfig, root: Path, store: Store) -> Artefact:
    recipe = recipe_of(data)
    return prepare_task(recipe, prepare_inputs(recipe, root), root, store)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four classes of five scenes, in colour and grey, two of them also as a copy in another format."""
    for number in range(20):
        folder = tmp_path / "images" / f"class {number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        image = scene(number).resize((60 + number, 80))
        (image.convert("L") if number % 3 == 0 else image).save(folder / f"{number}.png")
        if number < 2:
            image.save(folder / f"{number}.jpg", quality=80)
    return tmp_path / "images"


@pytest.mark.parametrize(
    ("config", "size"),
    [(DATA, 16), (DATA, SIZE), (PROXY, 40), (replace(DATA, group_near_duplicates=False), 40)],
    ids=["small", "of the size of looks", "a proxy", "without looks"],
)
def test_a_prepared_task_is_byte_for_byte_that_of_the_photos_themselves(
    config: DataConfig, size: int, root: Path, tmp_path: Path
) -> None:
    config = replace(config, image_size=size)
    make_task(config, root, 0).save(tmp_path / "expected")
    found = prepared(config, root, Store(tmp_path / "store")).path
    for expected in (tmp_path / "expected").iterdir():
        assert (found / expected.name).read_bytes() == expected.read_bytes()


def test_a_photo_has_the_same_digest_at_every_size_and_in_every_class(root: Path, tmp_path: Path) -> None:
    tasks = [
        OpenSetTask.load(prepared(replace(PROXY, image_size=size), root, Store(tmp_path / "store")).path)
        for size in (16, 40)
    ]
    assert tasks[0].contents is not None
    np.testing.assert_array_equal(tasks[0].contents, tasks[1].contents)
    paths = list(root.rglob("*.*"))
    files = {to_rgb_square(Image.open(path), 40).tobytes(): digest_of(path.read_bytes())[:8] for path in paths}
    images = [image for part in (tasks[1].val, tasks[1].development) for image in np.asarray(part.images)]
    assert [each.tobytes() for each in np.array(tasks[1].contents)] == [files[image.tobytes()] for image in images]


def test_photos_that_stay_encoded_have_the_same_digests_and_are_not_read_for_them_before_they_have_a_role(
    root: Path,
) -> None:
    decoded, encoded = make_task(PROXY, root, 0), make_task(PROXY, root, 0, unpacked={})
    assert decoded.contents is not None
    np.testing.assert_array_equal(encoded.contents, decoded.contents)
    assert len(decoded.contents) == len(decoded.val) + len(decoded.development)
    training = open_data_set("folder", root, grouping=Grouping(by_looks=False)).index("train", size=16)
    assert training.contents is None


def test_another_task_of_the_same_photos_decodes_none_of_them(root: Path, tmp_path: Path) -> None:
    make_task(PROXY, root, 0).save(tmp_path / "expected")
    store = Store(tmp_path / "store")
    prepared(DATA, root, store)
    for path in root.rglob("*.*"):  # of the same size and time of change
        about = path.stat()
        path.write_bytes(bytes(about.st_size))
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    found = prepared(PROXY, root, store).path
    for part in ("train", "development", "test"):
        np.testing.assert_array_equal(
            *(np.load(folder / f"{part}_images.npy") for folder in (found, tmp_path / "expected"))
        )


def test_a_changed_photo_and_another_size_are_decoded_again(root: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    first = prepared(DATA, root, store)
    Image.new("RGB", (20, 20), "red").save(root / "class 0/0.png")
    assert prepared(DATA, root, store).digest != first.digest
    prepared(replace(DATA, image_size=24), root, store)
    assert len(list((store.root / PHOTOS).iterdir())) == 3


def test_bad_photos_are_counted_and_nothing_is_kept_for_finished(root: Path, tmp_path: Path) -> None:
    for number in (4, 8, 12):
        (root / f"class 0/{number}.png").write_bytes(b"no image")
    store = Store(tmp_path / "store")
    with pytest.raises(DataError, match=r"class 0/12\.png: the image cannot be decoded .*; 2 more cannot be read$"):
        prepared(DATA, root, store)
    for number in (4, 8, 12):
        scene(number).save(root / f"class 0/{number}.png")
    assert prepared(DATA, root, store).path.is_dir()


def test_without_a_storage_the_task_is_the_same(root: Path, tmp_path: Path) -> None:
    save_task(recipe_of(DATA), root, tmp_path / "task")
    np.testing.assert_array_equal(
        np.load(tmp_path / "task/train_images.npy"),
        np.load(prepared(DATA, root, Store(tmp_path / "store")).path / "train_images.npy"),
    )


def test_more_photos_than_are_in_memory_keep_their_order(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(photos, "AT_ONCE", 3)
    paths, seen = sorted(map(str, root.rglob("*.*"))), list[int]()
    save_photos(paths, 24, tmp_path, seen.append)
    expected = [to_rgb_square(Image.open(path), 24) for path in paths]
    np.testing.assert_array_equal(DecodedPhotos.of(tmp_path, 24).read(np.arange(len(paths))), np.stack(expected))
    assert seen[-1] == len(paths)
