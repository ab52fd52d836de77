"""What a split drawn image by image, with no regard to groups, would have put into training and test alike."""

import numpy as np


def shared_with_training(groups: np.ndarray, labels: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """float64[K]: of an image of each class that is not trained on, the probability that an image of its group is.

    `groups` and `labels` int64[N] (0..K-1) are of all images that are divided; of each class `trained` int64[K] of them
    are drawn for training, each such set as likely as another. Exact: a class is drawn without replacement, and classes
    are drawn independently. 0 for a class of which all images are trained on.
    """
    counts, expected = np.bincount(labels, minlength=len(trained)), np.zeros(len(trained))
    cells, sizes = np.unique(np.stack([groups, labels]), axis=1, return_counts=True)
    starts = np.flatnonzero(np.diff(cells[0], prepend=cells[0][0] - 1))
    for classes, members in zip(np.split(cells[1], starts[1:]), np.split(sizes, starts[1:]), strict=True):
        if members.sum() == 1:
            continue
        unseen = [_none_drawn(counts[k], trained[k], m) for k, m in zip(classes, members, strict=True)]
        for place, (k, m) in enumerate(zip(classes, members, strict=True)):
            if trained[k] < counts[k]:
                mates = _none_drawn(counts[k] - 1, trained[k], m - 1)  # the image itself is not drawn
                expected[k] += m * (1 - mates * np.prod(np.delete(unseen, place)))
    return expected / np.maximum(counts, 1)


def _none_drawn(count: int, drawn: int, members: int) -> float:
    """Probability that none of `members` is among `drawn` of `count` images: binom(count - members, drawn) /
    binom(count, drawn)."""
    steps = np.arange(members)
    return float(np.prod(np.maximum(count - drawn - steps, 0) / (count - steps)))
