"""Figures of a model's scores: the histogram, and what each known rate costs."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.metrics import f1_score
from small_tasks import small_task

from pipelines.reports.figures.scores import known_rate_curve, over_known_rate, score_histogram
from proser_core.recognition.known_rates import KnownRates
from proser_core.recognition.scoring import OpenSetScores
from proser_core.recognition.validation_scores import ValidationScores


def histogram(scores: np.ndarray) -> Figure:
    return score_histogram(
        OpenSetScores(np.zeros(len(scores), int), scores, 2, 0.5), "gap", small_task(), "PROSER", "made"
    )


def test_an_image_far_from_all_others_does_not_stretch_the_axis_and_is_counted() -> None:
    spread = np.linspace(-3.0, 0.0, 12)
    usual, stretched = histogram(spread), histogram(np.concatenate([[-30.0], spread[1:]]))
    assert usual.get_supxlabel() == ""
    assert stretched.get_supxlabel() == "Not drawn: 1 image far out."
    assert stretched.axes[0].get_xlim()[0] == pytest.approx(usual.axes[0].get_xlim()[0], abs=0.5)


def test_the_macro_f1_of_each_setting_and_rate_is_scikit_learns() -> None:
    task, generator = small_task(), np.random.default_rng(0)
    targets, values = np.asarray(task.test.targets), generator.integers(0, 6, 12) / 2
    guesses = generator.integers(0, 2, 12)
    figure = over_known_rate(OpenSetScores(guesses, values, 2, 0.0), task, "PROSER", "made")
    known = np.sort(values[targets < 2])
    *curves, _ = figure.axes[0].lines  # the last is the model's own rate
    for setting, line in zip((1, 2), curves, strict=True):
        rows = (targets < 2) | np.isin(task.test_classes, task.split.unknown_in(setting))
        for rate, macro_f1 in line.get_xydata():
            threshold = known[int(np.ceil(rate / 100 * len(known))) - 1]
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
