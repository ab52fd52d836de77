"""Whether own images may be mirrored, decided on the training images."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from digit_folders import write_digits
from PIL import Image
from sklearn.datasets import load_sample_images
from small_tasks import random_images

from proser_core.config import DataConfig, NetworkConfig, Recipe, from_json, to_json
from proser_core.data import mirroring
from proser_core.data.image_sets import ImageSet
from proser_core.data.mirroring import FLIPS, _independent, _is_one_sided, judge_mirroring, with_flips
from proser_core.data.preparation import make_task
from proser_core.data.readers import digits
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError
from proser_core.jobs.preparing import data_fields
from proser_core.jobs.spec import augmentation
from proser_core.store.store import Artefact

NAMES = tuple(map(str, range(10)))
FOLDER = DataConfig(name="folder", image_size=8, padding=1, num_known=2, unknown_settings=(), development="none")


def crops(count: int, size: int = 24, seed: int = 0) -> ImageSet:
    """Crops of two photos, each at random mirrored: their left and right mean nothing."""
    generator = np.random.default_rng(seed)
    photos = [np.asarray(Image.fromarray(photo).resize((160, 107))) for photo in load_sample_images().images]
    images, labels = [], np.arange(count) % 2
    for label in labels:
        y, x = (generator.integers(0, length - size) for length in photos[label].shape[:2])
        images.append(photos[label][y : y + size, x : x + size, :][:, :: generator.choice([-1, 1])])
    return ImageSet(np.stack(images), labels, ("temple", "flower"))


def mirrored_too(images: ImageSet, label: int) -> ImageSet:
    """And a class more, of the mirror images of one."""
    rows = images.labels == label
    return ImageSet(
        np.concatenate([images.images, images.images[rows][:, :, ::-1]]),
        np.concatenate([images.labels, np.full(rows.sum(), len(images.class_names))]),
        (*images.class_names, "mirrored"),
    )


@pytest.mark.parametrize("seed", range(3))
def test_digits_are_no_longer_themselves_when_mirrored(seed: int) -> None:
    found = judge_mirroring(digits.read("train", 8), NAMES, seed)
    assert not found.harmless
    assert found.reason.startswith("judged harmful: 9")
    assert (
        "% of 1,198 compared images are more like their class than their mirror images; above all those of"
        in found.reason
    )


@pytest.mark.parametrize("seed", range(3))
def test_photos_are(seed: int) -> None:
    images = crops(400, seed=seed)
    found = judge_mirroring(images, images.class_names, seed)
    assert found.harmless
    assert found.reason.startswith("judged harmless: ")


def test_of_two_images_that_are_each_other_s_nearest_the_second_says_nothing_new() -> None:
    """Of eight pairs, seven or more are turned alike in 3.5 % of all draws."""
    images = random_images(8)
    twins = np.concatenate([images[:7], images[7:, :, ::-1]])
    pairs = ImageSet(np.concatenate([images, twins]), np.zeros(16, np.int64), ("noise",))
    assert judge_mirroring(pairs, pairs.class_names, 0).harmless


def test_one_class_that_is_another_when_mirrored_suffices_and_both_are_named() -> None:
    images, threes = crops(400), digits.read("train", 24)
    rows = np.flatnonzero(threes.labels == 3)[:40]
    signs = ImageSet(
        np.concatenate([images.images, threes.images[rows]]),
        np.concatenate([images.labels, np.full(40, 2)]),
        (*images.class_names, "three"),
    )
    both = mirrored_too(signs, 2)
    found = judge_mirroring(both, both.class_names, 0)
    assert not found.harmless
    assert re.search("above all those of (three, mirrored|mirrored, three); mirrored, ", found.reason)
    assert "three looks like mirrored" in found.reason
    assert "mirrored looks like three" in found.reason


def test_frames_of_one_scene_are_one_image() -> None:
    """Of three scenes each frame has others beside it, as its mirror image has not."""
    scenes = crops(6).images
    frames = ImageSet(np.repeat(scenes, 30, axis=0), np.repeat(np.arange(6) % 2, 30), ("temple", "flower"))
    assert not judge_mirroring(frames, frames.class_names, 0).harmless
    grouped = replace(frames, groups=np.repeat(np.arange(6), 30))
    assert judge_mirroring(grouped, frames.class_names, 0).harmless


def test_with_an_image_of_each_class_nothing_speaks_against_flips() -> None:
    found = judge_mirroring(ImageSet(random_images(2), np.arange(2), ("a", "b")), ("a", "b"), 0)
    assert (found.harmless, found.reason[:3]) == (True, "not")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sevens and twos, whose left and right mean something."""
    return write_digits(tmp_path_factory.mktemp("signs"), {"2": 2, "7": 7}, 60)


@pytest.fixture
def task(root: Path, tmp_path: Path) -> OpenSetTask:
    config = replace(FOLDER, group_near_duplicates=False)
    make_task(config, root).save(tmp_path)
    return OpenSetTask.load(tmp_path)


def test_a_task_keeps_the_decision_and_says_why(task: OpenSetTask) -> None:
    assert not task.flip
    assert task.notes[FLIPS].startswith("judged harmful: ")


def test_auto_is_what_the_images_say_and_a_word_overrules_them(task: OpenSetTask, tmp_path: Path) -> None:
    flips = {flip: task.augmented(replace(FOLDER, flip=flip)).flips for flip in ("auto", True, False)}
    assert flips == {"auto": False, True: True, False: False}
    artefact = Artefact(tmp_path, "")
    keys = {flip: augmentation(Recipe(data=replace(FOLDER, flip=flip), space=""), artefact)[0] for flip in flips}
    assert keys == flips


@pytest.mark.parametrize(
    ("options", "features", "done"),
    [
        ({"flip": "auto"}, "trained", "off"),
        ({"flip": True}, "trained", "on"),
        ({"flip": True, "augmentation": "none"}, "trained", "off"),
        ({"flip": True}, "head-first", "on"),
        ({"flip": True}, "frozen", "none of frozen features"),
    ],
)
def test_a_note_says_what_is_done_beside_what_was_judged(
    options: dict[str, Any], features: str, done: str, task: OpenSetTask
) -> None:
    network = NetworkConfig(backbone="torchvision:efficientnet_b0", features=features)
    recipe = Recipe(data=replace(FOLDER, **options), network=network, space="")
    assert with_flips(task.notes, recipe, flip=task.flip)[FLIPS] == f"{done}, {task.notes[FLIPS]}"
    assert with_flips({"Score": "gap"}, recipe, flip=task.flip) == {"Score": "gap"}


def test_encoded_images_decide_alike(root: Path) -> None:
    config = replace(FOLDER, group_near_duplicates=False)
    decoded, stored = make_task(config, root), make_task(config, root, unpacked={})
    assert decoded.notes[FLIPS] == stored.notes[FLIPS]


def test_named_data_sets_are_not_asked_and_keep_their_switch() -> None:
    assert (
        FLIPS
        not in make_task(
            DataConfig(name="digits", image_size=8, num_known=8, unknown_settings=(1,), development="none", flip=False)
        ).notes
    )
    with pytest.raises(ConfigError, match=r"data\.flip is 'auto'; it must be on or off for a data set with"):
        DataConfig(name="digits", flip="auto")
    with pytest.raises(ConfigError, match=r"no choice for data\.flip is called 'yes'"):
        from_json(DataConfig, {"flip": "yes"})


def test_the_word_is_in_no_key_of_a_task() -> None:
    assert "flip" not in data_fields(Recipe(data=FOLDER, space=""))
    assert to_json(DataConfig(flip=True))["flip"] is True


def test_images_that_are_a_group_each_are_compared_in_the_order_in_which_they_are_drawn() -> None:
    """Of more than can be compared, the first are: those of all classes."""
    images = crops(40)
    grouped = replace(images, labels=np.repeat([0, 1], 20), groups=np.arange(40))
    np.testing.assert_array_equal(_independent(grouped, 3), _independent(images, 3))


@pytest.mark.parametrize(
    ("nearer", "size", "harmless"),
    [
        ([28] * 10, 40, False),  # 70 % of all
        ([24] * 10, 40, True),
        ([36, *[20] * 9], 40, False),  # 90 % of one class, 54 % of all
        ([56, *[40] * 9], 80, True),
        ([16, *[10] * 9], 20, True),  # 80 % of one class, as one in ten classes may have by chance
    ],
)
def test_flips_are_harmful_by_the_share_of_all_images_or_of_those_of_one_class(
    nearer: list[int], size: int, harmless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def similarities(patterns: np.ndarray, others: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """So many images of each class are nearer to it than their mirror images."""
        own = np.zeros(len(labels))
        for label, count in enumerate(nearer):
            own[np.flatnonzero(labels == label)[:count]] = 1.0
        return own if patterns is others else np.full(len(labels), 0.5), np.arange(len(labels))

    monkeypatch.setattr(mirroring, "_nearest", similarities)
    images = ImageSet(random_images(10 * size), np.repeat(np.arange(10), size), NAMES)
    assert judge_mirroring(images, NAMES, 0).harmless == harmless


def test_of_many_classes_one_is_one_sided_by_chance() -> None:
    nearer = np.arange(40) < 32  # of half of them, p = 0.006
    assert _is_one_sided(nearer, 0.75, 1)
    assert not _is_one_sided(nearer, 0.75, 10)
    assert not _is_one_sided(nearer[:1], 0.75, 1)
