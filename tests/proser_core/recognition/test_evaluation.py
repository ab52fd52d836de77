"""One report from calibration to metrics."""

import dataclasses
import math

import numpy as np
import pytest
from random_tables import table
from sklearn.metrics import f1_score, roc_auc_score
from small_tasks import small_task

from proser_core.data.tasks import Labelled
from proser_core.errors import CalibrationError, DataError
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.scores import MaxLogit, MaxSoftmaxProbability, PlaceholderGap

GAP, MSP, MAX_LOGIT = PlaceholderGap(), MaxSoftmaxProbability(), MaxLogit()


@pytest.mark.parametrize("score_function", [GAP, MSP, MAX_LOGIT])
def test_a_report_calibrates_on_validation_images_only(score_function):
    task = small_task()
    logits = {"val": table(6, seed=1), "development": table(6, seed=2), "test": table(12, seed=3)}
    report = evaluate(logits, score_function, task, target_rate=0.8)
    val = score_function(logits["val"])
    threshold = sorted(val)[4]
    assert report.calibration.bias == -threshold
    assert report.calibration.known_rate == 5 / 6
    other = evaluate(logits | {"test": table(12, seed=8), "development": table(6, seed=9)}, score_function, task, 0.8)
    assert other.calibration == report.calibration

    development = score_function(logits["development"])
    guesses = logits["val"].known.argmax(1)
    others = logits["development"].known.argmax(1)
    predictions = np.concatenate(
        [np.where(val <= threshold, guesses, 2), np.where(development <= threshold, others, 2)]
    )
    targets = np.concatenate([task.val.targets, np.full(6, 2)])
    assert report.development.macro_f1 == pytest.approx(f1_score(targets, predictions, average="macro"))
    assert report.development.auroc == pytest.approx(roc_auc_score(targets == 2, np.concatenate([val, development])))
    assert report.development.closed_set_accuracy == np.mean(guesses == task.val.targets)


@pytest.mark.parametrize(
    ("part", "value", "error", "message"),
    [
        ("val", np.nan, CalibrationError, "1 of 6 validation scores are not finite"),
        ("development", np.nan, DataError, "1 of 12 scores are NaN"),
        ("test", np.nan, DataError, "1 of 12 test scores are not finite"),
        ("test", np.inf, DataError, "1 of 12 test scores are not finite"),
    ],
)
def test_logits_that_are_not_finite_are_refused_by_part(part, value, error, message):
    logits = {"val": table(6, seed=1), "development": table(6, seed=2), "test": table(12, seed=3)}
    logits[part].known[2] = value
    with pytest.raises(error, match=message):
        evaluate(logits, GAP, small_task(), 0.8)


def test_a_part_without_images_needs_no_logits():
    task = small_task()
    task = dataclasses.replace(task, development=Labelled(task.development.images[:0], np.zeros(0, int)))
    logits = {"val": table(6, seed=1), "test": table(12, seed=3)}
    assert evaluate(logits, GAP, task, 0.8) == evaluate(logits | {"development": table(0)}, GAP, task, 0.8)


def test_a_flat_report_names_its_metrics_by_part():
    task = small_task()
    logits = {"val": table(6, seed=1), "development": table(6, seed=2), "test": table(12, seed=3)}
    report = evaluate(logits, GAP, task, 0.8)
    flat = report.flat()
    assert flat["calibration/bias"] == report.calibration.bias
    assert flat["val/known_rate"] == 5 / 6
    assert flat["dev/macro_f1"] == report.development.macro_f1
    assert flat["test/unknown_2/auroc"] == report.test.settings[2].auroc
    assert flat["test/unknown_2/openness"] == pytest.approx(1 - math.sqrt(1 / 2))
