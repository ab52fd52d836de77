"""All scores of a model on a user's labelled images."""

from dataclasses import dataclass, replace

import numpy as np

from pipelines.inference.folder_metrics import folder_metrics
from pipelines.inference.labelled_folder import FolderLogits
from proser_core.errors import CalibrationError, DataError
from proser_core.recognition.calibration import calibrate
from proser_core.recognition.logit_tables import select
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.score_choice import candidates, fitted
from proser_core.recognition.scores import ScoreFunction

SCORE_METRICS = ("auroc", "macro_f1", "oscr", "fpr95")


@dataclass(frozen=True)
class ScoreComparison:
    """SCORE_METRICS of each score by name, fractions, the model's own first; and why others are missing."""

    own: str
    metrics: dict[str, dict[str, float]]
    missing: dict[str, str]


def compare_scores(classifier: OpenSetClassifier, scored: FolderLogits) -> ScoreComparison:
    """Every score that the model has, each calibrated to accept the model's share of these known images.

    A score is fitted to what the model keeps of its training; one that reads training images is missing where it keeps
    nothing, and one that reads validation images then takes these known images. There are images of unknown classes.
    """
    targets = scored.targets(classifier.class_names)
    known = np.flatnonzero(targets < len(classifier.class_names))
    fitting, own = classifier.fitting, classifier.score_function
    tables = dict(fitting.tables) if fitting else {"val": select(scored.logits, known)}
    metrics, missing = {own.name: _measured(classifier, own, scored, known)}, dict[str, str]()
    for kind in candidates(tables):
        if kind.name == own.name or (classifier.own is not None and kind.needs_dummies):
            continue  # what such a network has in the place of dummy classifiers is for its own score
        try:
            function = fitted(kind, tables, fitting.targets if fitting else targets[:0])
            metrics[kind.name] = _measured(classifier, function, scored, known)
        except (CalibrationError, DataError) as error:  # of scores that are not finite, too
            missing[kind.name] = str(error)
    return ScoreComparison(own.name, metrics, missing)


def _measured(
    classifier: OpenSetClassifier, function: ScoreFunction, scored: FolderLogits, known: np.ndarray
) -> dict[str, float]:
    calibration = calibrate(function(select(scored.logits, known)), classifier.calibration.target_rate)
    found = folder_metrics(replace(classifier, score_function=function, calibration=calibration), scored).metrics
    return {each: value for each in SCORE_METRICS if (value := found[each]) is not None}
