"""The proxy of a refit: which classes it holds out, what it chooses, and what all classes are then trained with."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.recipes import folder
from pipelines.workflow.refit import proxy_of, refit_of, with_batches, with_chosen
from proser_core.config import CalibrationConfig, ClusterConfig
from proser_core.data.splits.drawing import draw_split
from proser_core.errors import ConfigError, DataError
from proser_core.jobs.trials import check_recipe

EQUAL = np.full(10, 80)


def test_the_proxy_chooses_the_score_and_all_classes_are_trained_for_it() -> None:
    calibration = CalibrationConfig(score="auto", development=("noise",), mirror=True)
    recipe = replace(folder(), calibration=calibration)
    proxy, refit = proxy_of(recipe, EQUAL), refit_of(recipe, 10)
    check_recipe(proxy)
    check_recipe(refit)
    assert proxy.calibration == calibration
    assert refit.calibration == CalibrationConfig(mirror=True)
    assert with_chosen(calibration, "KNN", False) == CalibrationConfig(score="KNN", mirror=True)
    assert with_chosen(CalibrationConfig(dummy_weight=0.5), "gap", False) == CalibrationConfig(dummy_weight=0.5)


def test_the_proxy_chooses_the_network_and_all_classes_get_it() -> None:
    recipe = replace(folder(), calibration=CalibrationConfig(network="auto"))
    check_recipe(proxy_of(recipe, EQUAL))
    check_recipe(refit_of(recipe, 10))
    assert refit_of(recipe, 2).calibration == CalibrationConfig()
    assert with_chosen(recipe.calibration, "MaxLogit", True) == CalibrationConfig(network="control")
    assert with_chosen(recipe.calibration, "gap", False) == CalibrationConfig()


class TestProxy:
    @pytest.mark.parametrize(
        ("classes", "known", "development", "reported"),
        [
            (3, 2, "held-out-1", ()),
            (4, 2, "held-out-1", (1,)),
            (6, 4, "held-out-1", (1,)),
            (100, 60, "held-out-20", (20,)),
        ],
    )
    def test_a_fifth_chooses_and_a_fifth_reports(
        self, classes: int, known: int, development: str, reported: tuple[int, ...]
    ) -> None:
        data = proxy_of(folder(), np.full(classes, 80)).data
        assert (data.num_known, data.development, data.unknown_settings) == (known, development, reported)

    def test_of_two_classes_none_is_held_out_and_one_is_refused(self) -> None:
        assert proxy_of(folder(), np.array([80, 80])) is None
        with pytest.raises(DataError, match="has 1 class"):
            refit_of(folder(), 1)

    @given(st.lists(st.sampled_from([3, 20, 80, 500]), min_size=4, max_size=12))
    def test_no_class_of_few_images_is_held_out_where_a_draw_avoids_it(self, sizes: list[int]) -> None:
        counts = np.array(sizes)
        data = proxy_of(folder(), counts).data
        split = draw_split(data, len(counts))
        held_out = [*split.development, *split.unknown]
        few = counts < np.median(counts) / 4
        assert few[held_out].any() == (len(counts) - few.sum() < len(held_out))
        earlier = [draw_split(replace(data, split_index=number), len(counts)) for number in range(data.split_index)]
        assert all(few[[*each.development, *each.unknown]].any() for each in earlier)

    def test_classes_of_like_size_leave_the_recipes_own_split(self) -> None:
        recipe = replace(folder(), data=replace(folder().data, split_index=5))
        assert proxy_of(recipe, np.array([60, 80, 100, 120, 70, 90])).data.split_index == 5

    def test_the_refit_knows_all_and_tries_one_point(self) -> None:
        made = refit_of(folder(), 7)
        assert (made.data.num_known, made.space, made.data.has_development) == (7, "", False)
        assert not refit_of(replace(folder(), stop_early=True), 7).stop_early

    def test_few_images_make_smaller_batches(self) -> None:
        made = with_batches(folder(), 29)
        assert (made.pretrain.batch_size, made.finetune.batch_size) == (28, 28)
        assert with_batches(folder(), 500) == folder()
        shared = with_batches(replace(folder(), cluster=ClusterConfig(num_workers=4)), 29)
        assert (shared.pretrain.batch_size, shared.finetune.batch_size) == (24, 24)
        elastic = replace(folder(), finetune=replace(folder().finetune, batch_size=96))
        elastic = replace(elastic, cluster=ClusterConfig(num_workers=4, min_workers=2))
        assert with_batches(elastic, 90).finetune.batch_size == 72, "for 2, 3 and 4 workers"
        pretrained = replace(folder(), pretrain=replace(folder().pretrain, batch_size=30))
        pretrained = replace(pretrained, cluster=ClusterConfig(pretrain_workers=5))
        assert with_batches(pretrained, 28).pretrain.batch_size == 20, "for 5 workers"
        with pytest.raises(ConfigError, match="has 6 training images, and its workers need 8 for a batch"):
            with_batches(replace(folder(), cluster=ClusterConfig(num_workers=4)), 6)
