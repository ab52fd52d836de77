"""Scores of networks that were trained with images of a further class, against slow twins."""

import math

import numpy as np
import pytest

from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.scores import FinishedScore, ZeroLogitGap

LOGITS = np.random.default_rng(0).normal(0, 4, (30, 3)).astype(np.float32)
NOTHING = np.zeros((30, 1), np.float32)


def test_the_gap_is_that_of_a_softmax_with_a_logit_of_0_image_by_image():
    scores = ZeroLogitGap()(LogitTable(LOGITS, NOTHING))
    for row, score in zip(LOGITS.astype(float), scores, strict=True):
        exponentials = [math.exp(value) for value in [*row, 0.0]]
        probabilities = [value / sum(exponentials) for value in exponentials]
        assert score == pytest.approx(probabilities[-1] - max(probabilities[:-1]))
        best = max(row)
        closed = (1 - math.exp(best)) / (1 + sum(math.exp(value) for value in row))
        assert score == pytest.approx(closed)


def test_the_gap_of_large_logits_is_finite_and_is_above_0_where_unknown_is_likeliest():
    logits = np.array([[900.0, 0.0], [-900.0, -900.0], [-0.1, -3.0], [0.1, -3.0]], np.float32)
    scores = ZeroLogitGap()(LogitTable(logits, NOTHING[:4]))
    assert np.isfinite(scores).all()
    assert (scores > 0).tolist() == [False, True, True, False]


def test_the_dummy_of_a_network_that_scores_images_itself_is_its_score():
    dummies = np.arange(30, dtype=np.float32)[:, None]
    assert np.array_equal(FinishedScore()(LogitTable(LOGITS, dummies)), dummies[:, 0])
    assert FinishedScore().is_exportable
