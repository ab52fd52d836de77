"""Protocols as data: metrics that their studies measure, and class lists of each family."""

import pytest

from pipelines.reproduction.protocols import PERMUTED, PROTOCOLS, STUDIES
from proser_core.data.splits.class_split import where
from proser_core.data.splits.drawing import draw_split
from proser_core.data.splits.families import FAMILIES
from proser_core.errors import ConfigError

NUM_CLASSES = {"svhn": (10,), "cifar10": (10,), "cifar-plus": (10, 100), "tiny-imagenet": (200,)}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_column_reads_a_metric_that_its_study_measures(name: str) -> None:
    for column in PROTOCOLS[name].columns:
        place, _, metric = column.metric.rpartition("/")
        if metric in ("auroc", "macro_f1"):
            assert place in map(where, STUDIES[column.study].data.settings)
        else:
            assert column.metric in ("test/closed_set_accuracy", "seconds")


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_its_own_class_lists_for_each_trial(name: str) -> None:
    study = STUDIES[name]
    assert study.family in ("", *study.families())
    for family in study.families():
        for split in study.splits_of(family):
            known = draw_split(study.data_of(family, split), *NUM_CLASSES[name]).known
            lists = FAMILIES[family].against["cifar10", "cifar100"] if name == "cifar-plus" else FAMILIES[family]
            assert known == (lists.known[split] if name == "cifar-plus" else lists.known[study.data.name][split])
    assert study.splits_of(PERMUTED) == study.splits
    assert study.data_of(PERMUTED, 3).split_family == ""


def test_the_released_run_is_one_class_split() -> None:
    assert STUDIES["cifar10"].splits_of("proser") == (0,)
    assert STUDIES["cifar10"].splits_of("arpl") == (0, 1, 2, 3, 4)


def test_a_family_without_lists_for_a_data_set_is_refused_with_those_that_have() -> None:
    with pytest.raises(ConfigError, match="'cac', and SVHN takes one of neal, arpl, gcm, cssr, permuted"):
        STUDIES["svhn"].check_family("cac")
    with pytest.raises(ConfigError, match="MNIST takes nothing"):
        STUDIES["mnist-outliers"].check_family("neal")


def test_a_family_that_has_one_of_two_settings_is_measured_in_that_one() -> None:
    study = STUDIES["cifar-plus"]
    (ten,), (fifty,) = PROTOCOLS["cifar+10"].columns, PROTOCOLS["cifar+50"].columns
    assert study.data_of("cvaecap", 0).unknown_settings == (50,)
    assert study.data_of("neal", 0).unknown_settings == study.data_of(PERMUTED, 0).unknown_settings == (10, 50)
    study.check_column(fifty, "cvaecap")
    with pytest.raises(
        ConfigError, match=r"cvaecap has no lists for CIFAR\+10, only for CIFAR\+50; omit that protocol, or"
    ):
        study.check_column(ten, "cvaecap")
    for family in ("neal", PERMUTED):
        study.check_column(ten, family)
