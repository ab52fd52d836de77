"""`EvaluationReport`: one method, calibrated on validation images and scored on everything else."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from proser_core.data.tasks import OpenSetTask
from proser_core.errors import DataError
from proser_core.recognition.calibration import Calibration, calibrate
from proser_core.recognition.logit_tables import SCORED_PARTS, LogitTable, select
from proser_core.recognition.metrics import TestMetrics, auroc, balanced_accuracy, evaluate_settings, open_set_macro_f1
from proser_core.recognition.scores import ScoreFunction
from proser_core.recognition.scoring import OpenSetScores, decide

Parts = Mapping[str, OpenSetScores]
"""Decisions on the images of a task, by its SCORED_PARTS."""


@dataclass(frozen=True)
class DevelopmentMetrics:
    """Metrics on validation images and development unknowns: the only ones that may choose.

    Without such unknowns the accuracies are all that there is.
    """

    auroc: float | None
    macro_f1: float | None
    closed_set_accuracy: float
    balanced_accuracy: float


@dataclass(frozen=True)
class EvaluationReport:
    """Everything that is known about one method on one task; `test` is None without test images."""

    calibration: Calibration
    development: DevelopmentMetrics
    test: TestMetrics | None

    def flat(self) -> dict[str, float]:
        """Metrics by name, as they are tracked: `dev/auroc`, `test/unknown_15/macro_f1`, ..."""
        flat = {"calibration/bias": self.calibration.bias, "val/known_rate": self.calibration.known_rate}
        flat |= {f"dev/{name}": value for name, value in vars(self.development).items() if value is not None}
        return flat | {f"test/{name}": value for name, value in (self.test.flat() if self.test else {}).items()}


def evaluate(
    logits: Mapping[str, LogitTable], score_function: ScoreFunction, task: OpenSetTask, target_rate: float
) -> EvaluationReport:
    """Calibrate `score_function` on the validation logits, then score development and test logits.

    The same rule for every method, so that all are compared at the same known rate. `logits` are by part: val,
    development and test, of which one without images may be left out. Raises CalibrationError as `calibrate` does,
    DataError for logits of another number of images or known classes than the task has, for a test setting without
    images, for test scores that are not finite and for development scores that are NaN.
    """
    return evaluate_parts(logits, score_function, task, target_rate)[0]


def evaluate_parts(
    logits: Mapping[str, LogitTable], score_function: ScoreFunction, task: OpenSetTask, target_rate: float
) -> tuple[EvaluationReport, Parts]:
    """As `evaluate`, with the decisions by part. Each image is scored once."""
    val = logits.get("val", LogitTable(np.zeros((0, task.num_known), np.float32), np.zeros((0, 0), np.float32)))
    logits = {part: logits.get(part, select(val, slice(0))) for part in SCORED_PARTS}
    for part, table in logits.items():
        need, columns = len(getattr(task, part)), table.known.shape[1]
        if len(table) != need:
            raise DataError(
                f"there are logits of {len(table) or 'no'} {part} images, and the task has {need}; give those of val, "
                "development and test, of all images in the task's order"
            )
        if columns != task.num_known:
            raise DataError(
                f"known logits of {part} have {columns} columns, and the task has {task.num_known} known classes; give "
                "one column for each, in the order of class_names"
            )
    scores = {part: score_function(table) for part, table in logits.items()}
    calibration = calibrate(scores["val"], target_rate)
    parts = {part: decide(logits[part], scores[part], calibration) for part in SCORED_PARTS}
    targets = np.asarray(task.test.targets)
    report = EvaluationReport(
        calibration=calibration,
        development=development_metrics(parts["val"], np.asarray(task.val.targets), parts["development"]),
        test=evaluate_settings(parts["test"], targets, task.test_classes, task.split) if len(targets) else None,
    )
    return report, parts


def development_metrics(val: OpenSetScores, targets: np.ndarray, unknown: OpenSetScores) -> DevelopmentMetrics:
    """The metrics of N validation images with their targets int64[N], and of any number of unknown ones."""
    predictions = np.concatenate([val.predictions, unknown.predictions])
    every = np.concatenate([targets, np.full(len(unknown.scores), val.num_known)])
    has_unknown, right = len(unknown.scores) > 0, val.known_predictions == targets
    return DevelopmentMetrics(
        auroc=auroc(val.scores, unknown.scores) if has_unknown else None,
        macro_f1=open_set_macro_f1(predictions, every, val.num_known) if has_unknown else None,
        closed_set_accuracy=float(right.mean()),
        balanced_accuracy=balanced_accuracy(right, targets),
    )
