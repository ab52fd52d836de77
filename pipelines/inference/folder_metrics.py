"""Metrics of a model on a user's labelled images; images of other classes than the model's are unknown."""

from dataclasses import dataclass

import numpy as np

from pipelines.inference.labelled_folder import FolderLogits
from proser_core.data.splits.class_split import ClassSplit
from proser_core.recognition.class_report import wilson_interval
from proser_core.recognition.metrics import evaluate_settings
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scoring import score
from proser_core.titles import METRICS


@dataclass(frozen=True)
class FolderMetrics:
    """Fractions; a metric is None where the unknown images that it needs are missing."""

    num_known: int
    num_unknown: int
    metrics: dict[str, float | None]
    classes: dict[str, dict[str, float]]
    """By folder: number of images, share accepted as known, and share classified correctly."""
    target_rate: float
    known_interval: tuple[float, float]
    """The share of known images that the model was calibrated to keep, and the 95 % interval (Wilson) of that kept."""

    @property
    def keeps_too_few(self) -> bool:
        """Whether fewer known images stay known than the calibration promises, beyond doubt."""
        return self.known_interval[1] < self.target_rate


def folder_metrics(classifier: OpenSetClassifier, scored: FolderLogits) -> FolderMetrics:
    """All metrics that the images allow, some of which are of known classes; those in other folders are unknown."""
    names = classifier.class_names
    targets, scores = scored.targets(names), score(scored.logits, classifier.score_function, classifier.calibration)
    is_known = targets < len(names)
    metrics: dict[str, float | None] = dict.fromkeys(METRICS)
    settings = () if is_known.all() else (1,)  # all unknown classes count as one
    split = ClassSplit(tuple(range(len(names))), (len(names),), settings)
    flat = evaluate_settings(scores, targets, targets, split).flat()
    metrics |= {name: flat[key] for key in flat if (name := key.rpartition("/")[2]) in metrics}
    interval = wilson_interval(int(scores.accepted[is_known].sum()), int(is_known.sum()))
    if not is_known.all():
        metrics["unknown_found"] = float((~scores.accepted[~is_known]).mean())
    classes = _by_folder(scored, targets, scores.predictions, len(names))
    target = classifier.calibration.target_rate
    return FolderMetrics(int(is_known.sum()), int((~is_known).sum()), metrics, classes, target, interval)


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
