"""Tasks of own images in groups: no part divides one, and the note says what there is."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scenes import CONFIG, FRAMES, as_jpeg, scene, write_scenes
from small_tasks import random_images

from proser_core.config import DataConfig, Recipe, digest_of
from proser_core.data.data_sets import open_data_set
from proser_core.data.group_notes import GROUPS, KnownGroups, shared_with_training
from proser_core.data.grouping import Grouping
from proser_core.data.preparation import make_task, stratified_rows
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.splits.drawing import draw_split
from proser_core.data.tasks import Labelled, OpenSetTask
from proser_core.errors import DataError
from proser_core.jobs.preparing import prepare_inputs


def write_lone(root: Path) -> Path:
    """Bursts, and a third class of ten images of one scene."""
    write_scenes(root)
    (root / "lone").mkdir()
    for frame in range(10):
        scene(100, frame // 2).save(root / "lone" / f"{frame}.png")
    return root


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lone(tmp_path_factory.mktemp("lone"))


def config_in_which(classes: int, fits: Callable[[ClassSplit], bool], **values: Any) -> DataConfig:
    """The first class split of so many classes that fits, of one unknown class."""
    splits = (replace(CONFIG, unknown_settings=(1,), split_index=index, **values) for index in range(99))
    return next(config for config in splits if fits(draw_split(config, classes)))


def scenes_of(task: OpenSetTask, root: Path) -> dict[str, set[str]]:
    """Scenes by part, found by their pixels."""
    known = {}
    for path in root.rglob("*.png"):
        pixels = np.asarray(Image.open(path).resize((16, 16), Image.Resampling.BICUBIC)).tobytes()
        known[pixels] = path.stem.partition("-")[0]
    parts = {"train": task.train, "val": task.val, "test": task.test}
    return {name: {known[image.tobytes()] for image in part.images} for name, part in parts.items()}


def with_test(task: OpenSetTask, part: Labelled) -> OpenSetTask:
    return replace(task, test=part, test_classes=part.targets)


def disjoint(parts: dict[str, set[str]]) -> bool:
    return sum(map(len, parts.values())) == len(set().union(*parts.values()))


def test_frames_of_a_burst_are_in_one_part(bursts: Path) -> None:
    for seed in range(3):
        task = make_task(CONFIG, bursts, seed)
        parts = scenes_of(task, bursts)
        assert disjoint(parts)
        assert all(parts.values())
        assert sum(map(len, (task.train, task.val, task.test))) == 2 * 8 * FRAMES


def test_without_groups_they_are_in_several(bursts: Path) -> None:
    task = make_task(replace(CONFIG, group_near_duplicates=False), bursts, 0)
    assert not disjoint(scenes_of(task, bursts))


def test_the_draw_is_that_of_the_seed(bursts: Path) -> None:
    first, again, other = (scenes_of(make_task(CONFIG, bursts, seed), bursts) for seed in (0, 0, 1))
    assert first == again != other
    assert first["test"] == other["test"]


def test_the_note_has_the_groups_of_each_part_and_stays_when_saved(bursts: Path, tmp_path: Path) -> None:
    make_task(CONFIG, bursts, 0).save(tmp_path)
    task = OpenSetTask.load(tmp_path)
    assert task.groups == {name: len(found) for name, found in scenes_of(task, bursts).items()}
    assert task.notes[GROUPS].startswith("64 images of known classes form 16, the largest of 4: ")
    assert "too narrow" in task.notes[GROUPS]


def test_the_note_says_what_a_random_split_would_have_shared_with_the_training(bursts: Path) -> None:
    """Four frames a scene, so that of three mates one is trained on almost surely."""
    note = make_task(CONFIG, bursts, 0).notes[GROUPS]
    found = re.search(
        r"a random split would have put an image of the same group into training for (\S+) % of the validation "
        r"images and (\S+) % of the test images;",
        note,
    )
    assert found is not None, note
    assert all(95 < float(share) < 100 for share in found.groups())


def test_the_project_s_own_draw_without_groups_shares_as_much_in_the_mean(bursts: Path) -> None:
    task = make_task(CONFIG, bursts, 0)
    data = open_data_set("folder", bursts, grouping=Grouping())
    pool, tested = (data.index(part, size=8) for part in ("train", "test"))
    everything = pool.joined(tested)
    groups, labels, shared = everything.groups, everything.labels, []
    assert groups is not None
    for seed in range(200):
        drawn = stratified_rows(labels, task.class_names, 0.5, seed)
        shared.append(np.isin(groups[drawn], groups[~drawn]).mean())
    expected = shared_with_training(groups, labels, np.bincount(labels) // 2)
    assert np.mean(shared) == pytest.approx(expected.mean(), abs=0.01)


def test_where_each_image_is_a_group_nothing_is_said_of_a_random_split(tmp_path: Path) -> None:
    note = make_task(CONFIG, write_scenes(tmp_path, name="{scene}.png"), 0).notes[GROUPS]
    assert note.startswith("16 images of known classes form 16, the largest of 1: ")
    assert "random split" not in note


def test_encoded_images_are_divided_alike(bursts: Path) -> None:
    decoded, stored = make_task(CONFIG, bursts, 0), make_task(CONFIG, bursts, 0, unpacked={})
    for name in ("train", "val", "test"):
        images = getattr(stored, name).images
        np.testing.assert_array_equal(images.read(np.arange(len(images))), getattr(decoded, name).images)


def test_a_class_of_one_scene_is_trained_on_alone_and_named(lone: Path) -> None:
    task = make_task(replace(CONFIG, num_known=3), lone, 0)
    target = task.class_names.index("lone")
    assert [int((part.targets == target).sum()) for part in (task.train, task.val, task.test)] == [10, 0, 0]
    assert (
        "one group alone: lone; no group left for validation: lone; no group left for test: lone"
        in (task.notes[GROUPS])
    )


def test_of_many_classes_of_one_scene_the_first_are_named() -> None:
    classes = {number: f"class {number}" for number in range(10_000)}
    rows = np.arange(10_000)
    note = KnownGroups(classes, {"train": rows}, {"train": rows}, ()).notes()[GROUPS]
    assert "one group alone: class 0, class 1, " in note
    assert note.endswith("class 11 and 9,988 more")


def test_an_unknown_class_of_one_scene_is_tested_with_all_of_its_images(lone: Path) -> None:
    config = config_in_which(3, lambda split: split.unknown == (1,))  # flower, lone, temple
    for unpacked in (None, {}):
        task = make_task(config, lone, 0, unpacked)
        assert int((task.test.targets == 2).sum()) == 10


def test_an_unknown_class_is_not_tested_with_an_image_that_belongs_to_a_training_image(tmp_path: Path) -> None:
    """It has two groups, too few for a test of its own: one scene, and a copy of a scene of a known class."""
    root = write_lone(tmp_path)
    as_jpeg(scene(1)).save(root / "lone" / "copy.png")
    task = make_task(config_in_which(3, lambda split: split.unknown == (1,)), root, 0)
    assert "scene1" in scenes_of(with_test(task, task.val), root)["train"]
    assert int((task.test.targets == 2).sum()) == 10


def test_where_every_class_is_one_group_it_is_refused_with_what_to_do(bursts: Path) -> None:
    with pytest.raises(DataError, match=r"no class has the 3 groups .* --data\.group-by and --data\.no-group"):
        make_task(replace(CONFIG, group_by="scene"), bursts, 0)


def test_folders_of_their_own_are_taken_as_they_are_and_what_they_divide_is_counted(tmp_path: Path) -> None:
    for number in range(8):
        for frame, part in enumerate(("train", "train", "train", "test")):
            path = tmp_path / part / ("temple", "flower")[number % 2] / f"{number}-{frame}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            scene(number, frame).save(path)
    task = make_task(CONFIG, tmp_path, 0)
    assert [len(task.test), task.groups["test"]] == [8, 8]
    assert "8 counted twice, because the folders train/, val/ and test/ divide them" in task.notes[GROUPS]
    assert re.search(r"into training for \S+ % of the validation images;", task.notes[GROUPS])  # test/ is not drawn


def test_own_images_may_have_development_unknowns_of_another_data_set(bursts: Path) -> None:
    task = make_task(replace(CONFIG, development="digits"), bursts)
    assert len(task.development) == len(task.val) > 0
    assert task.contents is None, "nobody knows those of the others"


def test_each_rule_of_groups_and_each_table_has_a_key_of_its_own(bursts: Path, tmp_path: Path) -> None:
    def key(**values) -> dict:
        return prepare_inputs(Recipe(data=replace(CONFIG, **values), space=""), bursts)

    table = tmp_path / "groups.csv"
    table.write_text("path,group\n")
    changes = [key(), key(group_by="1"), key(group_near_duplicates=False), key(group_by=str(table))]
    table.write_text("path,group\ntemple/1.png,a\n")
    assert len({*map(digest_of, [*changes, key(group_by=str(table))])}) == 5


def test_a_held_out_image_that_belongs_to_a_training_image_does_not_choose(tmp_path: Path) -> None:
    """As where its label is wrong: called known it would be right, and no sign of a bad network."""
    names = [(name, number) for name in ("a", "b", "c") for number in range(10)]
    for number, (name, row) in enumerate(names):
        (tmp_path / name).mkdir(exist_ok=True)
        scene(number).save(tmp_path / name / f"{row}.png")
    config = replace(CONFIG, development="held-out-1", val_fraction=0.9)
    split = draw_split(config, 3)
    held_out, known = ("abc"[number] for number in (split.development[0], split.known[0]))
    for copy in sorted((tmp_path / known).iterdir()):
        as_jpeg(Image.open(copy)).save(tmp_path / held_out / f"copy of {copy.stem}.png")
    pool = open_data_set("folder", tmp_path, grouping=Grouping()).load("train", size=16)
    groups = {image.tobytes(): group for image, group in zip(pool.images, pool.groups, strict=True)}
    task = make_task(config, tmp_path)
    parts = (task.development.images, task.train.images)
    chosen_by, trained = ({groups[image.tobytes()] for image in part} for part in parts)
    assert chosen_by
    assert chosen_by.isdisjoint(trained)


def test_where_each_scene_is_in_every_class_images_of_validated_scenes_choose(tmp_path: Path) -> None:
    images = iter(random_images(60))
    for name, day in product("abcdef", range(10)):
        (tmp_path / name / f"day {day}").mkdir(parents=True)
        Image.fromarray(next(images)).save(tmp_path / name / f"day {day}" / f"day{day}-{name}.png")
    proxy = {"num_known": 4, "unknown_settings": (1,), "development": "held-out-1", "group_by": "1"}
    task = make_task(replace(CONFIG, **proxy), tmp_path)
    parts = scenes_of(task, tmp_path)
    assert disjoint(parts)
    assert scenes_of(with_test(task, task.development), tmp_path)["test"] == parts["val"]


def test_nor_does_one_that_belongs_to_an_image_of_an_unknown_class_of_one_scene(tmp_path: Path) -> None:
    """All images of that class are tested on."""
    write_scenes(tmp_path)
    for name, frames in (("held", (5, 6, 7, 8, 9)), ("lone", (0, 1, 2, 3, 4))):
        (tmp_path / name).mkdir()
        for frame in frames:
            scene(100, frame).save(tmp_path / name / f"shared-{frame}.png")
    for number in range(200, 204):
        scene(number).save(tmp_path / "held" / f"own-{number}.png")
    roles = {"development": "held-out-1", "val_fraction": 0.5}
    config = config_in_which(4, lambda split: (split.development, split.unknown) == ((1,), (2,)), **roles)
    task = make_task(config, tmp_path)
    assert "shared" in scenes_of(task, tmp_path)["test"]
    assert scenes_of(with_test(task, task.development), tmp_path)["test"] == {"own"}


def test_nor_does_one_that_belongs_to_a_test_image_where_an_outlier_set_is_unknown(tmp_path: Path) -> None:
    """Its images are in no group, those of the known classes stay in theirs, also in the note."""
    config = replace(CONFIG, development="held-out-1", outliers=("noise",))
    split = draw_split(config, 3)
    held_out, known = ("abc"[number] for number in (split.development[0], split.known[0]))
    shared = [(f"train/{held_out}", f"test/{known}")] * 5
    for number, folders in enumerate([*((f"train/{name}", f"test/{name}") for name in "abc" * 5), *shared]):
        for frame, folder in enumerate(folders):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            scene(number, frame).save(tmp_path / folder / f"scene{number}-{frame}.png")
    task = make_task(config, tmp_path)
    known_rows = task.test.targets < 2
    tested = Labelled(task.test.images[known_rows], task.test.targets[known_rows])
    chosen_by, found = (scenes_of(with_test(task, part), tmp_path)["test"] for part in (task.development, tested))
    assert chosen_by
    assert chosen_by.isdisjoint(found)
    assert re.search("15 for test; 10 counted twice", task.notes[GROUPS])
