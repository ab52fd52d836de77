"""Predictions as text: numbers rounded, and a row per image for JSON."""

from dataclasses import replace
from typing import Any

import numpy as np

from proser_core.naming import UNKNOWN
from proser_core.recognition.open_set_classifier import Predictions

DIGITS = 6


def rounded(predictions: Predictions) -> Predictions:
    """The same with unknown scores to DIGITS significant digits, and probabilities to as many decimals. A score keeps
    its sign, which is the decision, and the order of either stays; what is rounded away is less than another batch
    changes."""
    scores = np.array([float(f"{score:.{DIGITS}g}") for score in predictions.unknown_scores.tolist()])
    return replace(predictions, unknown_scores=scores, probabilities=predictions.probabilities.round(DIGITS))


def rows_of(predictions: Predictions, class_names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The predictions as rows for JSON."""
    names, shown = (*class_names, UNKNOWN), rounded(predictions)
    return [
        {
            "label": label,
            "unknown": index == len(class_names),
            "unknown_score": score,
            "nearest_class": class_names[nearest],
            "probabilities": dict(zip(names, row, strict=True)),
        }
        for label, index, nearest, score, row in zip(
            predictions.labels,
            predictions.indices.tolist(),
            predictions.known_predictions.tolist(),
            shown.unknown_scores.tolist(),
            shown.probabilities.tolist(),
            strict=True,
        )
    ]
