"""Figures of a model's scores: the histogram, and what each known rate costs."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from small_tasks import small_task

from pipelines.reports.figures.scores import known_rate_curve, score_histogram
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
