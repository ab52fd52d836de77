"""Intervals by the bootstrap: how wide they are, and that few images have none."""

import dataclasses

import numpy as np
import pytest
from compared_scores import KNOWN, scored
from small_tasks import make_classifier

from pipelines.reports.promotion_report import _deciding, metrics_of
from proser_core.recognition.bootstrap import LEAST, intervals
from proser_core.recognition.calibration import calibrate
from proser_core.recognition.comparison import compare
from proser_core.recognition.model_card import model_card
from proser_core.recognition.validation_scores import Proxy

FEW = pytest.mark.parametrize(
    ("known", "unknown", "enough"), [(LEAST, LEAST, True), (LEAST - 1, 200, False), (300, LEAST - 1, False)]
)


def test_each_metric_at_the_bias_lies_in_an_interval_of_two_standard_errors_to_either_side() -> None:
    held = scored(1.0)
    bias = calibrate(held.known_scores).bias
    found, metrics, generator = intervals(held, bias), held.metrics(bias), np.random.default_rng(3)
    groups = np.flatnonzero(held.is_known), np.flatnonzero(~held.is_known)
    drawn = [
        held.select(np.concatenate([generator.choice(group, len(group)) for group in groups])).metrics(bias)
        for _ in range(500)
    ]
    assert found.keys() == metrics.keys()
    for name, (low, high) in found.items():
        assert low < metrics[name] < high
        assert high - low == pytest.approx(2 * 1.96 * np.std([each[name] for each in drawn]), rel=0.15)


@pytest.mark.usefixtures("few_resamples")
@FEW
def test_a_candidate_is_not_promoted_by_an_interval_of_few_images(known: int, unknown: int, enough: bool) -> None:
    """The bootstrap of a few images that are separated perfectly has no width."""
    held = scored(9.0).select(np.r_[:known, KNOWN : KNOWN + unknown])
    found = compare(held, calibrate(held.known_scores), held, 0.0, tolerance=0.02)
    reason = (
        f"macro-F1 and AUROC: {known} known images and {unknown} unknown are too few for an interval, which needs 20"
    )
    assert any(each.startswith(reason) for each in found.objections) != enough
    assert ("difference/auroc_low" in metrics_of(found)) == enough
    (cells,) = [row for row in _deciding(found) if row[0] == "AUROC"]
    assert cells[-2:] == (["+0.0 to +0.0", "holds"] if enough else ["too few images", "objection"])


@pytest.mark.usefixtures("few_resamples")
@FEW
def test_a_card_says_so_in_place_of_the_interval(known: int, unknown: int, enough: bool) -> None:
    held = scored(9.0).select(np.r_[:known, KNOWN : KNOWN + unknown])
    proxy = Proxy(held, calibrate(held.known_scores).bias, {}, ("ant",), ())
    card = model_card(dataclasses.replace(make_classifier(), proxy=proxy))
    assert ("(too few images for an interval)" in card) != enough
    assert ("(95 % interval " in card) == enough
