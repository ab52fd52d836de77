"""Predictions in a response: numbers rounded for JSON, and a row per image."""

from typing import Any

from proser_core.naming import UNKNOWN
from proser_core.recognition.open_set_classifier import Predictions

DIGITS = 6


def rounded(predictions: Predictions) -> tuple[list[float], list[list[float]]]:
    """Unknown scores to DIGITS significant digits, and probabilities to as many decimals. A score keeps its sign, which
    is the decision, and the order of either stays; what is rounded away is less than another batch changes."""
    scores = [float(f"{score:.{DIGITS}g}") for score in predictions.unknown_scores.tolist()]
    return scores, predictions.probabilities.round(DIGITS).tolist()


def rows_of(predictions: Predictions, class_names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The predictions as rows for JSON."""
    names = (*class_names, UNKNOWN)
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
            *rounded(predictions),
            strict=True,
        )
    ]
