import itertools
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proser_core.config import DataConfig
from proser_core.data.catalogue import SOURCES
from proser_core.data.preparation import stratified_rows
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.splits.drawing import draw_split
from proser_core.data.splits.families import FAMILIES, Against, Family, Splits, defect_of, published_lists, trial_seed
from proser_core.errors import ConfigError, DataError

CIFAR100 = DataConfig(name="cifar100")

NAMES = tuple(f"class {index}" for index in range(100))


@given(st.integers(0, 1000))
def test_the_split_is_the_permutation_of_pcg64_cut_into_known_development_and_unknown_classes(split_index):
    order = tuple(np.random.Generator(np.random.PCG64(split_index)).permutation(10).tolist())
    config = DataConfig(num_known=5, unknown_settings=(1, 3), development="held-out-2", split_index=split_index)
    split = draw_split(config, 10)
    assert (split.known, split.development, split.unknown) == (order[:5], order[5:7], order[7:])
    assert [split.unknown_in(setting) for setting in split.settings] == [order[7:8], order[7:]]


def test_classes_beyond_the_widest_setting_have_no_role() -> None:
    order = tuple(np.random.Generator(np.random.PCG64(3)).permutation(10).tolist())
    config = DataConfig(num_known=4, unknown_settings=(1, 2), development="held-out-2", split_index=3)
    split = draw_split(config, 10)
    assert (split.known, split.development, split.unknown) == (order[:4], order[4:6], order[6:8])


def test_too_few_classes_are_refused_with_what_is_needed():
    with pytest.raises(DataError, match=r"99 classes; the recipe needs 100 \(15 known, 0 for development, 85 unknown"):
        draw_split(CIFAR100, 99)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unknown": (2, 3)}, "two roles"),
        ({"development": (1,)}, "two roles"),
        ({"settings": (1, 3)}, "takes 3 unknown classes; the split has 2"),
    ],
)
def test_a_class_with_two_roles_and_a_setting_wider_than_the_split_are_refused(changes, message):
    with pytest.raises(DataError, match=message):
        ClassSplit(**({"known": (1, 2), "unknown": (3, 4), "settings": (1,)} | changes))


@given(st.lists(st.integers(2, 40), min_size=1, max_size=6), st.floats(0.001, 0.999), st.integers(0, 2**32))
def test_validation_takes_its_share_of_every_class_at_least_one_and_never_all(sizes, fraction, seed):
    targets = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    chosen = stratified_rows(targets, NAMES[: len(sizes)], fraction, seed)
    for target, size in enumerate(sizes):
        taken = int(chosen[targets == target].sum())
        assert 1 <= taken <= size - 1
        assert taken == min(max(1, round(fraction * size)), size - 1)


def test_validation_is_the_same_for_the_same_seed_only():
    targets = np.arange(200) % 4
    first = stratified_rows(targets, NAMES[:4], 0.1, seed=5)
    assert (first == stratified_rows(targets, NAMES[:4], 0.1, seed=5)).all()
    assert (first != stratified_rows(targets, NAMES[:4], 0.1, seed=6)).any()


@pytest.mark.parametrize("images", [0, 1])
def test_a_class_with_fewer_than_two_images_is_refused(images):
    targets = np.array([0] * 5 + [1] * images)
    with pytest.raises(DataError, match=rf"known class 'class 1' has {images} training image.*at least 2"):
        stratified_rows(targets, NAMES[:2], 0.1, seed=0)


def published(**changes: Any) -> DataConfig:
    return replace(
        DataConfig(name="cifar10", num_known=6, unknown_settings=(4,), development="cifar100", split_family="arpl"),
        **changes,
    )


def plus(**changes: Any) -> DataConfig:
    """CIFAR+10 and CIFAR+50 from one model."""
    plain = published(num_known=4, unknown_settings=(10, 50), development="held-out-6", unknown="cifar100")
    return replace(plain, **changes)


class TestPublishedFamilies:
    @pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
    def test_every_list_has_five_trials_of_different_classes_that_exist(self, family: Family) -> None:
        for data_set, lists in family.known.items():
            count, known = (200, 20) if data_set == "tiny-imagenet" else (10, 6)
            assert [len(set(classes)) for classes in lists] == [len(classes) for classes in lists]
            assert {len(classes) for classes in lists} == {known}
            assert len(lists) == (1 if family.name == "proser" else 5)
            assert {number for classes in lists for number in classes} <= set(range(count))

    @pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
    def test_no_list_has_a_class_that_its_data_set_lacks_or_has_in_another_role(self, family: Family) -> None:
        classes = {name: source.num_classes for name, source in SOURCES.items()}
        for data_set, unknown in (*((name, "") for name in family.known), *family.against):
            config = DataConfig(name=data_set, unknown=unknown, split_family=family.name, development="none")
            known, foreign = published_lists(config, classes[data_set], classes.get(unknown, 0))
            assert known
            assert bool(foreign) == bool(unknown)

    @pytest.mark.parametrize(
        ("lists", "trial", "reason"),
        [
            (((0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 3, 5)), 1, r"made, trial 1: class 3 of cifar10 is known twice; correct"),
            (((0, 1, 2, 3, 4, 10),), 0, r"made, trial 0: class 10 is known, and cifar10 has the classes 0 to 9"),
            (((0, 1, 2, 3, 4, -1),), 0, r"made, trial 0: class -1 is known, and cifar10 has the classes 0 to 9"),
            (((0, 1, 2, 3, 4, 5), (0, 1, 2, 2)), 0, r"made, trial 1: class 2 of cifar10 is known twice"),
        ],
    )
    def test_a_class_that_is_repeated_or_none_of_the_data_sets_is_named(
        self, monkeypatch: pytest.MonkeyPatch, lists: Splits, trial: int, reason: str
    ) -> None:
        monkeypatch.setitem(FAMILIES, "made", Family("made", "a test", {"cifar10": lists}))
        with pytest.raises(DataError, match=reason):
            draw_split(published(split_family="made", split_index=trial), 10)

    @pytest.mark.parametrize(
        ("known", "unknown", "reason"),
        [
            ((0, 1, 8, 8), range(50), r"made, trial 0: class 8 of cifar10 is known twice"),
            ((0, 1, 8, 10), range(50), r"made, trial 0: class 10 is known, and cifar10 has the classes 0 to 9"),
            ((0, 1, 8, 9), (*range(49), 100), r"trial 0: class 100 is unknown, and cifar100 has the classes 0 to 99"),
            ((0, 1, 8, 9), (*range(49), 7), r"made, trial 0: class 7 of cifar100 is unknown twice"),
        ],
    )
    def test_a_class_of_another_data_set_is_named_likewise(
        self, monkeypatch: pytest.MonkeyPatch, known: tuple[int, ...], unknown: Iterable[int], reason: str
    ) -> None:
        lists = {("cifar10", "cifar100"): Against((known,), (tuple(unknown),))}
        monkeypatch.setitem(FAMILIES, "made", Family("made", "a test", {}, lists))
        with pytest.raises(DataError, match=reason):
            draw_split(plus(split_family="made"), 10, 100)

    def test_a_trial_without_unknown_classes_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lists = {("cifar10", "cifar100"): Against(((0, 1), (2, 3)), ((4, 5),))}
        monkeypatch.setitem(FAMILIES, "made", Family("made", "a test", {}, lists))
        with pytest.raises(DataError, match=r"made has 2 trials of known classes .* and 1 of unknown ones"):
            published_lists(plus(split_family="made"), 10, 100)

    def test_gcms_lists_are_the_draws_that_its_authors_publish(self) -> None:
        """random.seed(s), random.sample(range(0, 10), 6) of gcm-cf's dataloader."""
        seeds = (777, 1234, 2731, 3925, 5432)
        assert [list(each) for each in FAMILIES["gcm"].known["cifar10"]] == [
            random.Random(seed).sample(range(10), 6) for seed in seeds
        ]

    def test_gcms_unknown_classes_are_drawn_likewise_with_a_house_among_its_animals(self) -> None:
        """The same seeds, random.sample(animal_classes, 10 or 50), where its 51 animals have class 37 (house)."""
        lists = FAMILIES["gcm"].against["cifar10", "cifar100"]
        pool = sorted([*FAMILIES["neal"].against["cifar10", "cifar100"].unknown[0], 37])
        for number, seed in enumerate((777, 1234, 2731, 3925, 5432)):
            for count in (10, 50):
                assert list(lists.unknown[number][:count]) == random.Random(seed).sample(pool, count)
        with_house = [number for number, unknown in enumerate(lists.unknown) if 37 in unknown]
        assert with_house == [0, 1, 3, 4]
        assert not any(37 in unknown[:10] for unknown in lists.unknown)

    def test_neals_own_ten_are_the_first_animals_by_name(self) -> None:
        """download_cifar100.py of counterfactual-open-set, which takes them in the order of the alphabet."""
        (unknown,) = FAMILIES["osrci"].against["cifar10", "cifar100"].unknown
        assert unknown[:10] == (1, 2, 3, 4, 6, 7, 11, 14, 15, 18)
        assert set(unknown) == set(FAMILIES["neal"].against["cifar10", "cifar100"].unknown[0])

    def test_the_fifty_of_cvaecap_are_half_animals_and_lack_the_ten_that_go_with_them(self) -> None:
        neal = FAMILIES["neal"].against["cifar10", "cifar100"].unknown
        fifty = FAMILIES["cvaecap"].against["cifar10", "cifar100"].unknown
        assert [len(set(unknown) & set(neal[0])) for unknown in fifty] == [28, 26, 27, 25, 25]
        assert not any(set(ten[:10]) <= set(unknown) for ten, unknown in zip(neal, fifty, strict=True))
        assert "22 to 25 of the 50" in defect_of("cvaecap", "cifar10", "cifar100")

    def test_the_released_run_of_proser_knows_what_its_seed_draws(self) -> None:
        """np.random.seed(9), np.random.shuffle of the ten ids, in cifar10_relabel.py."""
        assert list(FAMILIES["proser"].known["cifar10"][0]) == np.random.RandomState(9).permutation(10)[:6].tolist()

    @pytest.mark.parametrize(("family", "data_set"), [("arpl", "svhn"), ("arpl", "cifar10")])
    def test_equal_trials_are_told(self, family: str, data_set: str) -> None:
        lists = FAMILIES[family].known[data_set]
        assert set(lists[0]) == set(lists[1])
        assert "trials 0 and 1 know the same six classes" in defect_of(family, data_set)
        for name, other in FAMILIES.items():
            for where, known in other.known.items():
                has_equal = len({frozenset(classes) for classes in known}) < len(known)
                assert has_equal == ("same six classes" in defect_of(name, where)), (name, where)

    def test_known_are_the_list_in_its_order_and_unknown_all_others(self) -> None:
        split = draw_split(published(split_index=4), 10)
        assert split.known == (2, 4, 1, 7, 9, 6)
        assert split.unknown == (0, 3, 5, 8)
        assert (split.settings, split.development) == ((4,), ())

    @pytest.mark.parametrize(
        ("family", "trial"), [*itertools.product(("neal", "arpl", "gcm", "cvaecap"), range(5)), ("osrci", 0)]
    )
    def test_of_another_data_set_ten_are_among_the_fifty_and_six_are_left_to_choose_by(
        self, family: str, trial: int
    ) -> None:
        split = draw_split(plus(split_family=family, split_index=trial), 10, 100)
        assert split.known == FAMILIES[family].against["cifar10", "cifar100"].known[trial]
        assert set(split.known) | set(split.development) == set(range(10))
        assert len(split.unknown) == len(set(split.unknown)) == 50
        assert set(split.unknown) <= set(range(10, 110))
        assert split.unknown_in(10) == split.unknown[:10]

    def test_neals_fifty_are_the_animals_of_cifar100_and_its_known_ones_none(self) -> None:
        """CIFAR100's superclasses of animals, people among them, by their fine labels."""
        lists = FAMILIES["neal"].against["cifar10", "cifar100"]
        assert len({frozenset(unknown) for unknown in lists.unknown}) == 1
        named = {"bear": 3, "bee": 6, "boy": 11, "crab": 26, "dolphin": 30, "fox": 34, "shark": 73, "wolf": 97}
        machines = {"bicycle": 8, "bus": 13, "castle": 17, "chair": 20, "rocket": 69, "tank": 85}
        assert set(named.values()) <= set(lists.unknown[0])
        assert not set(machines.values()) & set(lists.unknown[0])

    def test_without_a_family_both_data_sets_are_permuted(self) -> None:
        splits = [draw_split(plus(split_family="", split_index=index), 10, 100) for index in (0, 1)]
        for split in splits:
            assert len(split.known) == 4
            assert min(split.unknown) >= 10
        assert splits[0].unknown != splits[1].unknown
        with pytest.raises(DataError, match=r"cifar100 has 20 classes, and data\.unknown_settings asks for 50"):
            draw_split(plus(split_family=""), 10, 20)

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"development": "cifar100"}, "a data set that is not tested on"),
            ({"unknown": "cifar10"}, r"data\.unknown is 'cifar10'"),
            ({"streaming": True}, "images of one data set are streamed"),
        ],
    )
    def test_test_unknowns_never_choose_and_are_never_streamed(self, changes: dict[str, Any], reason: str) -> None:
        with pytest.raises(ConfigError, match=reason):
            plus(**changes)

    def test_more_than_the_lists_hold_is_refused(self) -> None:
        for changes in ({"unknown_settings": (10, 51)}, {"num_known": 6}):
            with pytest.raises(ConfigError, match="Set them to 4 and at most 50"):
                draw_split(plus(**changes), 10, 100)
        with pytest.raises(ConfigError, match="leaves 6 classes of cifar10"):
            draw_split(plus(development="held-out-7"), 10, 100)

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"split_family": "arpI"}, "did you mean 'arpl'"),
            ({"split_family": "proser", "split_index": 1}, r"has only trial 0 of cifar10, and no class split 1"),
            ({"split_index": 5}, r"has trials 0 to 4 of cifar10, and no class split 5; .* --split-indices of"),
            ({"name": "cifar100", "development": "cifar10"}, "has no lists for cifar100; it has mnist, svhn, cifar10"),
            ({"unknown": "mnist"}, "has no lists for cifar10 against mnist; it has .*cifar10 against cifar100"),
            ({"num_known": 5}, "knows 6 classes of cifar10; .* Set them to 6 and 4"),
            ({"unknown_settings": (2, 4)}, "Set them to 6 and 4"),
            ({"development": "held-out-1"}, "leaves 0 classes of cifar10 for it"),
        ],
    )
    def test_what_does_not_fit_the_lists_is_refused(self, changes: dict[str, Any], reason: str) -> None:
        with pytest.raises(ConfigError, match=reason):
            draw_split(published(**changes), 10)


def test_no_two_trials_of_a_family_are_the_same_training() -> None:
    for family in FAMILIES.values():
        pairs = [((name, ""), known) for name, known in family.known.items()]
        for (name, unknown), trials in pairs + [(pair, against.known) for pair, against in family.against.items()]:
            config = {"name": name, "unknown": unknown, "split_family": family.name, "development": "none"}
            settings = {"num_known": len(trials[0]), "unknown_settings": (1,)}
            data = [DataConfig(**config, **settings, split_index=index) for index in range(len(trials))]
            seeds = [trial_seed(each, 3) for each in data]
            assert seeds[0] == 3
            assert len(set(zip(trials, seeds, strict=True))) == len(trials)
    assert trial_seed(replace(CIFAR100, split_index=7), 3) == 3
    assert trial_seed(replace(data[0], split_index=99), 3) == 3
