"""Images whose neighbours doubt their label: most of the nearest images are of one other class."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from proser_core.recognition.scores.embedding_score import unit
from proser_core.recognition.scores.neighbours import NEIGHBOUR

LEAST = NEIGHBOUR + 1
"""Images of a class whose labels are judged."""
LEAST_OUTSIDE = NEIGHBOUR // 2
"""Of these, outside of an image's own group: of fewer, it lies among strangers in any case."""
AT_ONCE = 1 << 23  # similarities that are in memory at once


@dataclass(frozen=True)
class LabelDoubts:
    """D images, most doubtful first, as rows int64[D]; the class that most of their neighbours have, int64[D], and the
    share of these, float64[D]. `unjudged` are classes with too few images, or in too few groups, to judge any label."""

    rows: np.ndarray
    others: np.ndarray
    shares: np.ndarray
    unjudged: tuple[int, ...]


def label_doubts(embeddings: np.ndarray, labels: np.ndarray, groups: np.ndarray, num_classes: int) -> LabelDoubts:
    """Doubts about labels of N images by their embeddings float[N, d], compared by direction as the KNN score does.

    An image is not among its own neighbours, nor is one of its group: frames of one scene that share a wrong label
    would confirm each other.
    """
    votes = np.concatenate([np.zeros((0, num_classes), np.int64), *_votes(embeddings, labels, groups, num_classes)])
    others, counts = votes.argmax(axis=1), votes.max(axis=1)
    sizes = np.bincount(labels, minlength=num_classes)
    _, alike, images_alike = np.unique(np.stack([labels, groups]), axis=1, return_inverse=True, return_counts=True)
    outside = sizes[labels] - images_alike[alike]
    is_judged = (sizes[labels] >= LEAST) & (outside >= LEAST_OUTSIDE)
    is_doubted = is_judged & (others != labels) & (2 * counts > votes.sum(axis=1))
    rows = np.flatnonzero(is_doubted)
    agreeing = votes[rows, labels[rows]]
    rows = rows[np.lexsort([agreeing, -counts[rows]])]
    unjudged = tuple(np.setdiff1d(labels, labels[is_judged]).tolist())
    return LabelDoubts(rows, others[rows], counts[rows] / votes[rows].sum(axis=1), unjudged)


def _votes(embeddings: np.ndarray, labels: np.ndarray, groups: np.ndarray, num_classes: int) -> Iterator[np.ndarray]:
    """int64[n, K]: how many of the nearest images have each class."""
    directions = unit(embeddings).astype(np.float32)
    count = min(NEIGHBOUR, len(labels))
    at_once = max(1, AT_ONCE // max(1, len(labels)))
    for start in range(0, len(labels), at_once):
        rows = slice(start, start + at_once)
        similarity = directions[rows] @ directions.T
        similarity[groups[rows, None] == groups] = -np.inf
        nearest = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
        is_other = np.isfinite(np.take_along_axis(similarity, nearest, axis=1))
        votes = np.zeros((len(nearest), num_classes), np.int64)
        at, which = np.nonzero(is_other)
        np.add.at(votes, (at, labels[nearest[at, which]]), 1)
        yield votes
