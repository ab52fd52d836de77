"""Test settings that are outlier sets: one class without a name each, beside settings that are class counts."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from proser_core.config import DataConfig, from_json, to_json
from proser_core.data.splits.class_split import ClassSplit, in_words, setting_at, setting_name, where
from proser_core.data.splits.drawing import draw_split
from proser_core.errors import ConfigError, DataError
from proser_core.recognition.metrics import evaluate_settings
from proser_core.recognition.scoring import OpenSetScores

SPLIT = ClassSplit(known=(3, 0, 1), unknown=(4, 5), settings=("omniglot", "noise"))


def outlier_config(**changes: Any) -> DataConfig:
    values: dict[str, Any] = {
        "name": "mnist",
        "num_known": 10,
        "unknown_settings": (),
        "outliers": ("omniglot", "noise"),
    }
    return DataConfig(**(values | changes))


def test_all_classes_may_be_known_and_outlier_sets_follow_with_ids_of_their_own() -> None:
    split = draw_split(outlier_config(), 10)
    assert split == ClassSplit(known=tuple(range(10)), unknown=(10, 11), settings=("omniglot", "noise"))
    assert [split.unknown_in(name) for name in split.settings] == [(10,), (11,)]
    assert from_json(ClassSplit, to_json(split)) == split


def test_some_classes_may_be_known_and_others_choose() -> None:
    split = draw_split(outlier_config(num_known=6, development="held-out-2"), 10)
    order = np.random.Generator(np.random.PCG64(0)).permutation(10).tolist()
    assert (split.known, split.development) == (tuple(order[:6]), tuple(order[6:8]))
    assert split.unknown == (10, 11)


def test_an_outlier_set_has_no_openness_and_metrics_by_its_name() -> None:
    assert not SPLIT.has_openness
    assert SPLIT.openness("noise") is None
    assert [setting_name(each) for each in (15, "noise")] == ["unknown_15", "noise"]
    assert [where(each) for each in (15, "noise")] == ["test/unknown_15", "test/noise"]
    assert [setting_at(where(each)) for each in (15, "mnist-noise")] == [15, "mnist-noise"]
    assert [in_words(each, "classes") for each in (15, "noise")] == ["15 unknown classes", "noise"]


@pytest.mark.parametrize(("unknown", "settings"), [((4,), ("omniglot", "noise")), ((4, 5), ("noise", 1))])
def test_a_split_in_which_an_outlier_set_has_no_place_is_refused(unknown: tuple[int], settings: tuple[Any]) -> None:
    with pytest.raises(DataError, match="of outlier sets each is one class"):
        ClassSplit(known=(0, 1), unknown=unknown, settings=settings)


def test_metrics_of_an_outlier_set_are_scikit_learns_on_known_images_and_its_own() -> None:
    generator = np.random.default_rng(0)
    class_ids = generator.permutation(np.repeat(np.arange(6), [30, 30, 0, 30, 90, 90]))
    targets = np.array([SPLIT.known.index(each) if each in SPLIT.known else 3 for each in class_ids.tolist()])
    values = np.round(generator.standard_normal(len(targets)) - (targets < 3), 1)
    guesses = np.where(generator.random(len(targets)) < 0.7, targets % 3, generator.integers(0, 3, len(targets)))
    scores = OpenSetScores(guesses, values, 3, bias=0.2)
    report = evaluate_settings(scores, targets, class_ids, SPLIT)
    for name, class_id in (("omniglot", 4), ("noise", 5)):
        rows = (targets < 3) | (class_ids == class_id)
        is_unknown, predicted = targets[rows] == 3, np.where(values <= -0.2, guesses, 3)[rows]
        found = report.settings[name]
        assert found.auroc == pytest.approx(roc_auc_score(is_unknown, values[rows]), abs=1e-9)
        assert found.aupr == pytest.approx(average_precision_score(is_unknown, values[rows]), abs=1e-9)
        expected = f1_score(targets[rows], predicted, average="macro")
        assert found.macro_f1 == pytest.approx(expected, abs=1e-9)
    flat = report.flat()
    assert flat["omniglot/auroc"] == report.settings["omniglot"].auroc
    assert "omniglot/openness" not in flat


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unknown_settings": (1,)}, r"data\.unknown_settings is \(1,\); it must be empty if data\.outliers"),
        ({"unknown": "cifar10"}, r"data\.unknown is 'cifar10'; it must be empty if data\.outliers"),
        ({"split_family": "neal"}, r"data\.split_family is 'neal'; it must be empty if data\.outliers"),
        ({"outliers": ("noise", "noise")}, r"data\.outliers is .*different outlier sets"),
        ({"num_known": 0, "development": "none"}, r"data\.num_known is 0; .* 0 asks for a proxy"),
        ({"development": "omniglot"}, r"data\.development is 'omniglot'.*test unknowns would choose"),
        ({"streaming": True}, r"data\.outliers is .*empty if data\.streaming is on"),
    ],
)
def test_what_does_not_go_with_outlier_sets_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        outlier_config(**changes)
