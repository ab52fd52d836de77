"""Epochs that show equally many images of each class, however many there are."""

import numpy as np


def balanced_order(targets: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """int64[N]: rows of N = len(targets) images, in random order; class counts differ by at most one.

    So do the counts of the images of one class.
    """
    classes = generator.permutation(np.unique(targets))
    shares = np.full(len(classes), len(targets) // len(classes))
    shares[: len(targets) % len(classes)] += 1
    drawn = []
    for target, share in zip(classes, shares, strict=True):
        rows = np.flatnonzero(targets == target)
        drawn += [generator.permutation(rows) for _ in range(share // len(rows))]
        drawn.append(generator.permutation(rows)[: share % len(rows)])
    return generator.permutation(np.concatenate(drawn))
