"""Metrics of a model on a user's labelled images; images of other classes than the model's are unknown."""

from dataclasses import dataclass

import numpy as np

from pipelines.inference.labelled_folder import FolderLogits
from proser_core.recognition.metrics import KnownRanks, aupr, fpr_at_positive_rate, open_set_macro_f1
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scoring import score
from proser_core.titles import METRICS


@dataclass(frozen=True)
class FolderMetrics:
    """Fractions; a metric is None where the known or unknown images that it needs are missing."""

    num_known: int
    num_unknown: int
    metrics: dict[str, float | None]
    classes: dict[str, dict[str, float]]
    """By folder: number of images, share accepted as known, and share classified correctly."""


def folder_metrics(classifier: OpenSetClassifier, scored: FolderLogits) -> FolderMetrics:
    """All metrics that the images allow. Images outside the folder of a known class are unknown."""
    names = classifier.class_names
    targets, scores = scored.targets(names), score(scored.logits, classifier.score_function, classifier.calibration)
    is_known = targets < len(names)
    predictions = scores.predictions
    metrics: dict[str, float | None] = dict.fromkeys(METRICS)
    if is_known.any():
        correct = scores.known_predictions[is_known] == targets[is_known]
        metrics |= {
            "closed_set_accuracy": float(correct.mean()),
            "known_rate": float(scores.accepted[is_known].mean()),
            "known_accuracy": float((predictions[is_known] == targets[is_known]).mean()),
        }
    if not is_known.all():
        metrics["unknown_found"] = float((~scores.accepted[~is_known]).mean())
    if is_known.any() and not is_known.all():
        known, unknown = scores.scores[is_known], scores.scores[~is_known]
        ranks = KnownRanks.of(known, correct)
        metrics |= {
            "auroc": ranks.auroc(unknown),
            "aupr": aupr(known, unknown),
            "fpr95": fpr_at_positive_rate(known, unknown),
            "oscr": ranks.oscr(unknown),
            "macro_f1": open_set_macro_f1(predictions, targets, len(names)),
        }
    classes = _by_folder(scored, targets, predictions, len(names))
    return FolderMetrics(int(is_known.sum()), int((~is_known).sum()), metrics, classes)


def _by_folder(
    scored: FolderLogits, targets: np.ndarray, predictions: np.ndarray, num_known: int
) -> dict[str, dict[str, float]]:
    folders = np.array(scored.folders)
    found = {}
    for folder in dict.fromkeys(scored.folders):
        rows = folders == folder
        found[folder] = {
            "images": int(rows.sum()),
            "stays_known": float((predictions[rows] < num_known).mean()),
            "right": float((predictions[rows] == targets[rows]).mean()),
        }
    return found
