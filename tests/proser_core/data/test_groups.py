"""Groups of own images: what belongs together, and splits that never divide it."""

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance
from scenes import as_jpeg, scene

from proser_core.config import DataConfig, Recipe, digest_of
from proser_core.data.data_sets import open_data_set
from proser_core.data.group_notes import GROUPS, KnownGroups
from proser_core.data.grouping import Grouping
from proser_core.data.near_duplicates import (
    LEAST_CORRELATION,
    MOST_BITS,
    SIZE,
    Looks,
    components,
    links_by_looks,
    looks_of,
)
from proser_core.data.preparation import make_task, stratified_rows
from proser_core.data.splits.class_split import draw_split
from proser_core.data.splits.grouped_draw import draw_rows
from proser_core.data.splits.random_split import shared_with_training
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError, DataError
from proser_core.jobs.preparing import prepare_inputs

CONFIG = DataConfig(name="folder", image_size=16, padding=1, num_known=2, unknown_settings=(), development="none")
FRAMES = 4


def looks(*images: Image.Image):
    return looks_of(np.stack([np.asarray(image.convert("RGB").resize((SIZE, SIZE))) for image in images]))


def write_scenes(root: Path, name: str = "scene{scene}-{frame}.png", scenes: int = 8) -> Path:
    """Two classes, temples and flowers, in bursts of four frames a scene."""
    for number in range(2 * scenes):
        for frame in range(FRAMES):
            path = root / ("temple", "flower")[number % 2] / name.format(scene=number, frame=frame)
            path.parent.mkdir(parents=True, exist_ok=True)
            scene(number, frame).save(path)
    return root


@pytest.fixture(scope="module")
def bursts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scenes(tmp_path_factory.mktemp("bursts"))


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, and a third class of ten images of one scene."""
    root = write_scenes(tmp_path_factory.mktemp("lone"))
    (root / "lone").mkdir()
    for frame in range(10):
        scene(100, frame // 2).save(root / "lone" / f"{frame}.png")
    return root


@pytest.mark.parametrize(
    "changed",
    [
        as_jpeg,
        lambda image: image.resize((50, 70)),
        lambda image: ImageEnhance.Brightness(image).enhance(1.2),
        lambda image: image.rotate(1, Image.Resampling.BICUBIC),
        lambda image: image.crop((1, 1, 119, 119)),
    ],
    ids=["jpeg", "resized", "brighter", "turned", "cropped"],
)
def test_a_changed_copy_is_a_near_duplicate(changed: Callable[[Image.Image], Image.Image]) -> None:
    originals = [scene(number) for number in range(6)]
    pairs = links_by_looks(looks(*originals, *map(changed, originals)))
    assert pairs.tolist() == [[number, number + 6] for number in range(6)]


def test_images_without_contrast_are_near_duplicates_where_they_are_equal() -> None:
    black, white = (Image.new("RGB", (SIZE, SIZE), color) for color in ("black", "white"))
    assert links_by_looks(looks(white, black, white)).tolist() == [[0, 2]]


def test_own_images_may_have_development_unknowns_of_another_data_set(bursts: Path) -> None:
    task = make_task(replace(CONFIG, development="digits"), bursts)
    assert len(task.development) == len(task.val) > 0
    assert task.contents is None, "nobody knows those of the others"


def test_different_scenes_are_no_near_duplicates() -> None:
    assert not len(links_by_looks(looks(*(scene(number) for number in range(16)))))


def test_images_without_contrast_are_compared_without_a_warning() -> None:
    assert not len(links_by_looks(looks(*(Image.new("RGB", (9, 9), shade) for shade in ("black", "white", "red")))))


def every_pair(found: Looks) -> list[tuple[int, int]]:
    """The definition, pair by pair."""

    def near(first: int, second: int) -> bool:
        bits = bin(int(found.hashes[first]) ^ int(found.hashes[second])).count("1")
        return bits <= MOST_BITS and np.corrcoef(found.patterns[[first, second]])[0, 1] >= LEAST_CORRELATION

    return [pair for pair in itertools.combinations(range(len(found.hashes)), 2) if near(*pair)]


@pytest.mark.parametrize("copies", [1, 5, 40])
def test_links_form_the_groups_of_all_pairs_and_are_fewer_than_images(copies: int, monkeypatch) -> None:
    monkeypatch.setattr("proser_core.data.near_duplicates.AT_ONCE", 100)
    frames = [scene(number % (80 // copies), number % 4) for number in range(80)]
    found = looks(*frames)
    pairs, links = every_pair(found), links_by_looks(found)
    np.testing.assert_array_equal(components(links, 80), components(np.array(pairs).reshape(-1, 2), 80))
    assert len(links) == 80 - len(np.unique(components(links, 80)))
    assert set(map(tuple, links.tolist())) <= set(pairs)
    of_kinds = links_by_looks(found, lambda pairs: pairs.sum(axis=1) % 2)
    for kind in (0, 1):
        linked = of_kinds[of_kinds.sum(axis=1) % 2 == kind]
        alone = np.array([pair for pair in pairs if sum(pair) % 2 == kind]).reshape(-1, 2)
        np.testing.assert_array_equal(components(linked, 80), components(alone, 80))


class TestDraw:
    @given(st.lists(st.integers(0, 2), min_size=12, max_size=40), st.integers(0, 99), st.sampled_from([1, 2]))
    def test_images_that_are_a_group_each_are_drawn_by_their_ranks(self, extra: list[int], seed: int, left: int):
        targets = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, *extra])
        ranks = np.random.default_rng(seed).permutation(len(targets))
        quotas = np.maximum(1, np.bincount(targets) // 5)
        drawn = draw_rows(targets, np.arange(len(targets)), ranks, quotas, left=left)
        for target, quota in enumerate(quotas):
            own = np.flatnonzero(targets == target)
            assert set(own[drawn[own]]) == set(own[np.argsort(ranks[own])[:quota]])

    @given(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=8, max_size=60),
        st.integers(0, 99),
        st.sampled_from([1, 2]),
    )
    def test_no_group_is_divided_and_each_class_keeps_groups_of_its_own(self, images, seed: int, left: int) -> None:
        targets, groups = np.array([(0, 100), (0, 101), (0, 102), (1, 103), (2, 104), *images]).T
        ranks = np.random.default_rng(seed).permutation(len(targets))
        drawn = draw_rows(targets, groups, ranks, np.maximum(1, np.bincount(targets) // 5), left=left)
        assert not set(groups[drawn]) & set(groups[~drawn])
        for target in range(3):
            all_groups, kept = (set(groups[rows & (targets == target)]) for rows in (groups >= 0, ~drawn))
            assert len(kept) >= min(left, len(all_groups))

    def test_the_share_of_a_class_is_met_as_nearly_as_its_groups_allow(self) -> None:
        groups = np.arange(2000) // 10
        drawn = draw_rows(groups % 2, groups, np.random.default_rng(0).permutation(2000), np.array([200, 200]), left=2)
        assert np.bincount(groups[drawn] % 2).tolist() == [200, 200]

    def test_a_class_whose_groups_are_all_large_gives_its_smallest(self) -> None:
        groups = np.repeat(np.arange(3), [40, 50, 60])
        drawn = draw_rows(np.zeros(150, int), groups, np.arange(150)[::-1], np.array([15]), left=2)
        assert set(groups[drawn]) == {0}

    def test_a_further_class_leaves_the_validation_images_of_the_others(self) -> None:
        targets = np.random.default_rng(0).integers(0, 3, 200)
        drawn = stratified_rows(targets, ("a", "b", "c"), 0.1, 5, np.arange(200))
        others = targets != 1
        alone = stratified_rows(targets[others] // 2, ("a", "c"), 0.1, 5, np.arange(200)[others])
        np.testing.assert_array_equal(drawn[others], alone)
        sizes = np.bincount(targets)
        assert np.bincount(targets[drawn]).tolist() == [round(0.1 * size) for size in sizes]


def scenes_of(task: OpenSetTask, root: Path) -> dict[str, set[str]]:
    """Scenes by part, found by their pixels."""
    known = {}
    for path in root.rglob("*.png"):
        pixels = np.asarray(Image.open(path).resize((16, 16), Image.Resampling.BICUBIC)).tobytes()
        known[pixels] = path.stem.partition("-")[0]
    parts = {"train": task.train, "val": task.val, "test": task.test}
    return {name: {known[image.tobytes()] for image in part.images} for name, part in parts.items()}


def disjoint(parts: dict[str, set[str]]) -> bool:
    return sum(map(len, parts.values())) == len(set().union(*parts.values()))


class TestTask:
    def test_frames_of_a_burst_are_in_one_part(self, bursts: Path) -> None:
        for seed in range(3):
            task = make_task(CONFIG, bursts, seed)
            parts = scenes_of(task, bursts)
            assert disjoint(parts)
            assert all(parts.values())
            assert sum(map(len, (task.train, task.val, task.test))) == 2 * 8 * FRAMES

    def test_without_groups_they_are_in_several(self, bursts: Path) -> None:
        task = make_task(replace(CONFIG, group_near_duplicates=False), bursts, 0)
        assert not disjoint(scenes_of(task, bursts))

    def test_the_draw_is_that_of_the_seed(self, bursts: Path) -> None:
        first, again, other = (scenes_of(make_task(CONFIG, bursts, seed), bursts) for seed in (0, 0, 1))
        assert first == again != other
        assert first["test"] == other["test"]

    def test_the_note_has_the_groups_of_each_part_and_stays_when_saved(self, bursts: Path, tmp_path: Path) -> None:
        make_task(CONFIG, bursts, 0).save(tmp_path)
        task = OpenSetTask.load(tmp_path)
        assert task.groups == {name: len(found) for name, found in scenes_of(task, bursts).items()}
        assert task.notes[GROUPS].startswith("64 images of known classes form 16, the largest of 4: ")
        assert "too narrow" in task.notes[GROUPS]

    def test_the_note_says_what_a_random_split_would_have_shared_with_the_training(self, bursts: Path) -> None:
        """Four frames a scene, so that of three mates one is trained on almost surely."""
        note = make_task(CONFIG, bursts, 0).notes[GROUPS]
        found = re.search(
            r"a random split would have put an image of the same group into training for (\S+) % of the validation "
            r"images and (\S+) % of the test images;",
            note,
        )
        assert found is not None, note
        assert all(95 < float(share) < 100 for share in found.groups())

    def test_the_project_s_own_draw_without_groups_shares_as_much_in_the_mean(self, bursts: Path) -> None:
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

    def test_where_each_image_is_a_group_nothing_is_said_of_a_random_split(self, tmp_path: Path) -> None:
        note = make_task(CONFIG, write_scenes(tmp_path, name="{scene}.png"), 0).notes[GROUPS]
        assert note.startswith("16 images of known classes form 16, the largest of 1: ")
        assert "random split" not in note

    def test_encoded_images_are_divided_alike(self, bursts: Path) -> None:
        decoded, stored = make_task(CONFIG, bursts, 0), make_task(CONFIG, bursts, 0, unpacked={})
        for name in ("train", "val", "test"):
            images = getattr(stored, name).images
            np.testing.assert_array_equal(images.read(np.arange(len(images))), getattr(decoded, name).images)

    def test_a_class_of_one_scene_is_trained_on_alone_and_named(self, lone: Path) -> None:
        task = make_task(replace(CONFIG, num_known=3), lone, 0)
        target = task.class_names.index("lone")
        assert [int((part.targets == target).sum()) for part in (task.train, task.val, task.test)] == [10, 0, 0]
        assert (
            "one group alone: lone; no group left for validation: lone; no group left for test: lone"
            in (task.notes[GROUPS])
        )

    def test_of_many_classes_of_one_scene_the_first_are_named(self) -> None:
        classes = {number: f"class {number}" for number in range(10_000)}
        rows = np.arange(10_000)
        note = KnownGroups(classes, {"train": rows}, {"train": rows}, ()).notes()[GROUPS]
        assert "one group alone: class 0, class 1, " in note
        assert note.endswith("class 11 and 9,988 more")

    def test_an_unknown_class_of_one_scene_is_tested_with_all_of_its_images(self, lone: Path) -> None:
        config = replace(CONFIG, unknown_settings=(1,))
        splits = (replace(config, split_index=index) for index in range(99))
        config = next(each for each in splits if draw_split(each, 3).unknown == (1,))  # flower, lone, temple
        for unpacked in (None, {}):
            task = make_task(config, lone, 0, unpacked)
            assert int((task.test.targets == 2).sum()) == 10

    def test_where_every_class_is_one_group_it_is_refused_with_what_to_do(self, bursts: Path) -> None:
        with pytest.raises(DataError, match=r"no class has the 3 groups .* --data\.no-group-near-duplicates"):
            make_task(replace(CONFIG, group_by="scene"), bursts, 0)

    def test_folders_of_their_own_are_taken_as_they_are_and_what_they_divide_is_counted(self, tmp_path: Path) -> None:
        for number in range(8):
            for frame, part in enumerate(("train", "train", "train", "test")):
                path = tmp_path / part / ("temple", "flower")[number % 2] / f"{number}-{frame}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                scene(number, frame).save(path)
        task = make_task(CONFIG, tmp_path, 0)
        assert [len(task.test), task.groups["test"]] == [8, 8]
        assert "8 counted twice, because the folders train/, val/ and test/ divide them" in task.notes[GROUPS]
        assert re.search(r"into training for \S+ % of the validation images;", task.notes[GROUPS])  # test/ is not drawn


class TestRules:
    """`data.group_by`, beside near duplicates or without them."""

    def groups(self, root: Path, rule: str) -> dict[str, int]:
        data = open_data_set("folder", root, grouping=Grouping(rule, by_looks=False))
        sizes = [np.unique(data.index(part, size=8).groups, return_counts=True)[1] for part in ("train", "test")]
        return {"groups": sum(map(len, sizes)), "largest": max(map(max, sizes))}

    def test_a_regular_expression_finds_the_name_of_the_group(self, bursts: Path) -> None:
        assert self.groups(bursts, r"^(scene\d+)-") == {"groups": 16, "largest": 4}
        assert self.groups(bursts, r"scene\d+") == {"groups": 16, "largest": 4}
        assert self.groups(bursts, r"(scene)(\d)") == {"groups": 10, "largest": 28}  # 1, 10, 11, ... are one
        assert self.groups(bursts, r"^(scene1\d)?") == {"groups": 6 + 10 * 4, "largest": 4}  # the others have no group

    def test_a_folder_below_the_class_is_a_group_in_every_class(self, tmp_path: Path) -> None:
        root = write_scenes(tmp_path, "camera {scene}/{frame}.png")
        for name in ("temple", "flower"):
            scene(50).save(root / name / "loose.png")
        assert self.groups(root, "1") == {"groups": 18, "largest": 4}
        with pytest.raises(DataError, match=r"group_by is 2, and no image lies 2 folders below that of its class"):
            self.groups(root, "2")

    @pytest.mark.parametrize("ending", [".csv", ".parquet"])
    def test_a_table_says_the_group_of_each_path(self, bursts: Path, tmp_path: Path, ending: str) -> None:
        paths = sorted(path.relative_to(bursts).as_posix() for path in bursts.rglob("*.png"))
        names = [path.partition("-")[0] for path in paths]
        table, lacking = tmp_path / f"groups{ending}", tmp_path / f"lacking{ending}"
        for rows, file in ((len(paths), table), (len(paths) - 1, lacking)):
            written = pa.table({"path": paths[:rows], "group": names[:rows]})
            if ending == ".csv":
                written.to_pandas().to_csv(file, index=False)
            else:
                pq.write_table(written, file)
        assert self.groups(bursts, str(table)) == {"groups": 16, "largest": 4}
        with pytest.raises(DataError, match=rf"has no row for {paths[-1]}, one of 1 images without one"):
            self.groups(bursts, str(lacking))

    @pytest.mark.parametrize("ending", [".csv", ".parquet"])
    def test_an_empty_cell_of_a_table_is_no_group(self, bursts: Path, tmp_path: Path, ending: str) -> None:
        paths = [path.relative_to(bursts).as_posix() for path in bursts.rglob("*.png")]
        table = tmp_path / f"groups{ending}"
        written = pa.table({"path": paths, "group": pa.array([None] * len(paths), pa.string())})
        if ending == ".csv":
            written.to_pandas().to_csv(table, index=False)
        else:
            pq.write_table(written, table)
        assert self.groups(bursts, str(table))["groups"] == len(paths)

    @pytest.mark.parametrize("ending", [".csv", ".parquet"])
    def test_a_table_with_a_path_in_two_groups_is_refused_and_spaces_around_a_name_are_none(
        self, bursts: Path, tmp_path: Path, ending: str
    ) -> None:
        paths = [path.relative_to(bursts).as_posix() for path in bursts.rglob("*.png")]
        for again, file in (("A", tmp_path / f"once{ending}"), ("B", tmp_path / f"twice{ending}")):
            written = pa.table({"path": [*paths, paths[0]], "group": [*["A", " A"] * (len(paths) // 2), again]})
            if ending == ".csv":
                written.to_pandas().to_csv(file, index=False)
            else:
                pq.write_table(written, file)
        with pytest.raises(DataError, match=rf"has {paths[0]} in two groups, A and B; give each path one"):
            self.groups(bursts, str(tmp_path / f"twice{ending}"))
        with pytest.raises(DataError, match="no class has the 3 groups"):
            self.groups(bursts, str(tmp_path / f"once{ending}"))

    @pytest.mark.parametrize("ending", [".csv", ".parquet"])
    def test_a_table_without_its_columns_is_refused(self, bursts: Path, tmp_path: Path, ending: str) -> None:
        table = tmp_path / f"groups{ending}"
        table.write_text("path,scene\n") if ending == ".csv" else pq.write_table(pa.table({"path": ["a"]}), table)
        with pytest.raises(DataError, match=r"has no column group; need path and group"):
            self.groups(bursts, str(table))

    def test_an_expression_that_finds_nothing_is_refused_with_a_name_that_it_saw(self, bursts: Path) -> None:
        with pytest.raises(DataError, match=r"'session' is found in no name of an image, such as 'scene"):
            self.groups(bursts, "session")

    @pytest.mark.parametrize(
        ("values", "need"),
        [
            ({"name": "cifar100", "group_by": "1"}, "empty for a data set with published parts"),
            ({"group_by": "0"}, "1 or more for a folder level"),
            ({"group_by": "(scene"}, "a valid regular expression"),
        ],
    )
    def test_a_rule_that_cannot_be_one_is_refused_before_any_work(self, values: dict[str, str], need: str) -> None:
        with pytest.raises(ConfigError, match=rf"data\.group_by is .*{need}"):
            replace(CONFIG, **values)


def test_fields_of_groups_are_in_a_key_only_where_they_are_set(bursts: Path, tmp_path: Path) -> None:
    def key(**values) -> dict:
        return prepare_inputs(Recipe(data=replace(CONFIG, **values), space=""), bursts)

    assert not {"group_by", "group_near_duplicates"} & key()["data"].keys()
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
    training = pool.select(np.isin(pool.labels, split.known))
    assert training.groups is not None
    groups = {image.tobytes(): group for image, group in zip(pool.images, pool.groups, strict=True)}
    found = make_task(config, tmp_path).development.images
    assert len(found)
    assert not {groups[image.tobytes()] for image in found} & set(training.groups.tolist())
