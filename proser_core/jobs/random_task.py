"""A task of random images, on which probes measure what work costs."""

from collections.abc import Mapping

import numpy as np

from proser_core.config import Recipe
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.tasks import TASK_PARTS, Labelled, OpenSetTask
from proser_core.jobs.probe import NORMALISATION


def random_task(recipe: Recipe, counts: Mapping[str, int], image_size: int) -> OpenSetTask:
    """So many images of each part, as many of each known class as of any other; in the test part, where the recipe has
    unknown classes, every other image is of one of these."""
    known, settings = recipe.data.num_known, recipe.data.settings
    unknown = len(recipe.data.outliers) or max(recipe.data.unknown_settings, default=0)
    split = ClassSplit(tuple(range(known)), tuple(range(known, known + unknown)), settings)
    targets = {part: np.arange(counts[part]) % known for part in TASK_PARTS}
    targets["development"][:] = known
    test_classes = targets["test"].copy()
    if unknown:
        test_classes[1::2] = known + np.arange(len(test_classes) // 2) % unknown
        targets["test"] = np.minimum(test_classes, known)
    rng, shape = np.random.default_rng(0), (image_size, image_size, 3)
    train, val, development, test = (
        Labelled(rng.integers(0, 256, (counts[part], *shape), np.uint8), targets[part]) for part in TASK_PARTS
    )
    names = tuple(map(str, range(known)))
    return OpenSetTask(split, names, train, val, development, test, test_classes, *NORMALISATION)
