"""Scores of one classifier of any skill, on the same 500 images as those of every other."""

import numpy as np

from proser_core.recognition.validation_scores import ValidationScores

KNOWN, CLASSES = 300, 4


def scored(skill: float, seed: int = 0, noise: int = 1) -> ValidationScores:
    """300 known and 200 unknown images; with more skill, known ones have smaller scores and are named correctly."""
    images = np.random.default_rng(seed)
    targets = np.concatenate([images.integers(CLASSES, size=KNOWN), np.full(200, CLASSES)])
    difficulty = images.normal(size=len(targets))
    own = np.random.default_rng(noise)
    scores = skill * (targets == CLASSES) - difficulty - 0.1 * own.normal(size=len(targets))
    right = difficulty + 0.1 * own.normal(size=len(targets)) < skill
    predictions = np.where(right, targets % CLASSES, (targets + 1) % CLASSES)
    return ValidationScores(scores, predictions, targets, CLASSES, "these images")
