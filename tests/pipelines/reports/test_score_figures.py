"""Figures of a model's scores: the histogram, and what each known rate costs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.cbook import STEP_LOOKUP_MAP
from matplotlib.figure import Figure
from sklearn.metrics import f1_score
from small_tasks import random_images, small_task

from pipelines.reports.figures.scores import known_rate_curve, over_known_rate, score_histogram
from pipelines.reports.figures.style import bin_edges, num_bins
from proser_core.data.tasks import Labelled
from proser_core.recognition.known_rates import KnownRates
from proser_core.recognition.scoring import OpenSetScores
from proser_core.recognition.validation_scores import ValidationScores


def histogram(scores: np.ndarray, bias: float = 0.5) -> Figure:
    """Of as many of the small task's test images."""
    task, count = small_task(), len(scores)
    test = Labelled(task.test.images[:count], task.test.targets[:count])
    task = replace(task, test=test, test_classes=task.test_classes[:count])
    return score_histogram(OpenSetScores(np.zeros(count, int), scores, 2, bias), "gap", task, "PROSER", "made")


def test_an_image_far_from_all_others_does_not_stretch_the_axis_and_is_counted() -> None:
    spread = np.linspace(-3.0, 0.0, 12)
    usual, stretched = histogram(spread), histogram(np.concatenate([[-30.0], spread[1:]]))
    assert usual.get_supxlabel() == ""
    assert stretched.get_supxlabel() == "Not drawn: 1 image far out."
    assert stretched.axes[0].get_xlim()[0] == pytest.approx(usual.axes[0].get_xlim()[0], abs=0.5)


def test_all_of_three_images_are_drawn_with_a_threshold_of_zero() -> None:
    axes = histogram(np.array([-1.0, -0.5, 2.0]), 0.0).axes[0]
    assert axes.figure.get_supxlabel() == ""
    assert axes.lines[0].get_label() == "threshold 0.00: known to the left"


def test_few_images_are_in_few_bins() -> None:
    assert [num_bins(counts) for counts in ([3, 900], [100, 225], [5000, 10_000])] == [8, 20, 60]
    assert len(histogram(np.linspace(-3.0, 0.0, 12)).axes[0].patches) == 2 * 9, "of known and of unknown images"


@given(
    st.integers(-100, 100).map(float),
    st.integers(0, 50).map(float),
    st.integers(1, 60),
    st.integers(-90, 90).map(float),
)
def test_bins_cover_all_scores_and_none_has_both_sides_of_the_threshold(
    low: float, width: float, count: int, threshold: float
) -> None:
    edges = np.array(bin_edges(low, low + width, count, threshold))
    assert edges[0] <= low
    assert low + width <= edges[-1]
    assert len(edges) <= count + 3
    inside = edges[(edges > threshold - 1e-9) & (edges < threshold + 1e-9)]
    assert edges[0] > threshold or threshold > edges[-1] or (len(inside) == 1 and inside[0] > threshold)


def test_the_threshold_stands_where_scores_are_no_longer_known() -> None:
    (line,) = histogram(np.linspace(-3.0, 0.0, 12)).axes[0].lines
    assert set(line.get_xdata()) == {-0.5}  # the bias is 0.5


def test_the_macro_f1_of_each_setting_is_scikit_learns_at_the_share_that_a_threshold_keeps() -> None:
    classes = np.array([4, 1] * 12 + [4] + [3, 0] * 6)
    targets = np.select([classes == 4, classes == 1], [0, 1], 2)
    task = replace(small_task(), test=Labelled(random_images(37), targets), test_classes=classes)
    generator = np.random.default_rng(0)
    values, guesses = generator.integers(0, 40, 37) / 2, generator.integers(0, 2, 37)
    figure = over_known_rate(OpenSetScores(guesses, values, 2, -9.0), task, "PROSER", "made")
    known = np.sort(values[targets < 2])
    kept = 100 * np.unique((known[:, None] <= known).mean(axis=0))
    assert len(kept) < len(known), "some are level"
    *curves, own = figure.axes[0].lines
    assert own.get_label() == "threshold 9.00"  # of the score, as the histogram has it
    for setting, line in zip((1, 2), curves, strict=True):
        rows = (targets < 2) | np.isin(task.test_classes, task.split.unknown_in(setting))
        shares = [float(share) for share in line.get_xdata()]
        assert shares == pytest.approx([share for share in kept if share >= 50])
        for share, macro_f1 in line.get_xydata():
            threshold = known[round(share * len(known) / 100) - 1]
            called = np.where(values <= threshold, guesses, 2)[rows]
            assert macro_f1 == pytest.approx(100 * f1_score(targets[rows], called, average="macro"))


def test_every_rate_of_the_table_is_named_also_where_two_are_one_point() -> None:
    targets = np.array([0] * 15 + [1] * 5)
    scores = ValidationScores(np.linspace(0.0, 1.0, 20), np.zeros_like(targets), targets, 1, "")
    rates = KnownRates.of(scores)
    assert rates is not None
    axes = known_rate_curve(rates, 0.96, "PROSER", "made").axes[0]
    assert [text.get_text() for text in axes.texts] == ["99, 95 %", "90 %", "80 %"]
    legend = axes.get_legend()
    assert legend is not None
    named = [text.get_text() for text in legend.get_texts()]
    assert named == ["target rates", "threshold of the model: keeps 96.0 %"]
    of_proxy = known_rate_curve(replace(rates, of_proxy=True), 0.96, "PROSER", "made").axes[0]
    assert len(of_proxy.lines) == len(axes.lines) - 1, "the model's threshold is not that of its proxy"


def test_the_drawn_line_is_what_is_found_where_at_least_so_many_are_kept() -> None:
    generator = np.random.default_rng(0)
    targets = np.array([0] * 12 + [1] * 9)
    rates = KnownRates.of(ValidationScores(generator.normal(targets, 1), np.zeros_like(targets), targets, 1, ""))
    assert rates is not None
    line = known_rate_curve(rates, 0.96, "PROSER", "made").axes[0].lines[0]
    stairs = STEP_LOOKUP_MAP[line.get_drawstyle()](*line.get_data())
    for rate in np.linspace(0.01, 0.99, 57):
        assert np.interp(100 * rate, *stairs) == pytest.approx(100 * rates.found_at(rate))
