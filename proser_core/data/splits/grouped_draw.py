"""A stratified draw of whole groups: what is held out of a set whose groups must not be divided."""

import numpy as np

from proser_core.errors import DataError


def draw_rows(
    targets: np.ndarray, groups: np.ndarray, ranks: np.ndarray, quotas: np.ndarray, *, left: int
) -> np.ndarray:
    """bool[N]: a draw of about `quotas` int64[K] images of each class 0..K-1, by whole groups.

    The group of the image with the smallest rank comes first; it is drawn where that brings each of its classes closer
    to its quota. A class that got none gets its smallest group. A class always keeps `left` groups that are not drawn,
    so that one of few groups may have none. Where each image is a group, these are the images of the smallest ranks.
    scikit-learn's StratifiedGroupKFold promises neither a group for each class nor one that is left. Raises DataError
    where nothing can be drawn.
    """
    targets, numbers = np.asarray(targets), np.unique(groups, return_inverse=True)[1]
    rows_of = np.split(np.argsort(numbers, kind="stable"), np.cumsum(np.bincount(numbers))[:-1])
    members = [np.unique(targets[rows], return_counts=True) for rows in rows_of]
    order = sorted(range(len(rows_of)), key=lambda number: (ranks[rows_of[number]].min(), number))
    taken, remaining = np.zeros(len(quotas), np.int64), np.zeros(len(quotas), np.int64)
    for classes, _ in members:
        remaining[classes] += 1
    drawn = np.zeros(len(rows_of), bool)

    def draw(number: int) -> None:
        classes, counts = members[number]
        drawn[number] = True
        taken[classes] += counts
        remaining[classes] -= 1

    for number in order:
        classes, counts = members[number]
        if (remaining[classes] > left).all() and (counts < 2 * (quotas - taken)[classes]).all():
            draw(number)
    for number in sorted(order, key=lambda number: len(rows_of[number])):
        classes, _ = members[number]
        if (remaining[classes] > left).all() and (taken[classes] == 0).any():
            draw(number)
    if not drawn.any():
        raise DataError(
            f"no class has the {left + 1} groups of images that make it possible to draw some for validation and test; "
            "add images of other scenes, or see --data.group-by and --data.no-group-near-duplicates"
        )
    return drawn[numbers]
