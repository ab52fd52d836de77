"""A method that trains a network of its own, as the generative ones do, in a second."""

from pathlib import Path

import numpy as np

from proser_core.baselines import Method
from proser_core.config import Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs.spec import LOGITS
from proser_core.recognition.logits import PARTS, LogitTable, save_logits
from proser_core.recognition.scores import MaxLogit


def nearest_means(task: OpenSetTask, recipe: Recipe, folder: Path) -> None:
    """Minus the distance of an image's pixels to the mean of each class, as logits."""
    images, targets = np.asarray(task.train.images, np.float32), np.asarray(task.train.targets)
    means = np.stack([images[targets == k].mean(axis=0).ravel() for k in range(task.num_known)])

    def table(part: str) -> LogitTable:
        pixels = np.asarray(getattr(task, part).images, np.float32).reshape(-1, means.shape[1])
        distances = np.linalg.norm(pixels[:, None] - means, axis=2)
        return LogitTable(-distances / 100, np.zeros((len(pixels), 0), np.float32))

    save_logits({part: table(part) for part in PARTS}, folder / LOGITS)


NEAREST = Method("Nearest mean", "here", MaxLogit(), train=nearest_means)
