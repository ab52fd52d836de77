"""Images that a model calls unknown, in groups that look alike to it: candidates for new classes."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.decomposition import PCA

from pipelines.inference.predictions import read_images
from pipelines.reports.page import thumbnail
from proser_core.data.decoding import Failure
from proser_core.data.readers.image_files import Decoded, Found
from proser_core.errors import DataError
from proser_core.recognition.embedding_table import check_embeds
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scores.embedding_score import unit
from proser_core.recognition.scoring import score
from proser_core.store.files import absolute

MOST = 10_000  # unknown images that are grouped: the distances of more would take minutes
COMPONENTS = 32  # principal ones: density says little in more dimensions


@dataclass(frozen=True)
class UnknownImage:
    """An image that was called unknown: its absolute path, its score, which is above 0, the known class with the
    largest logit, and a picture for a page. `p_value` is the share of known images that score as high, among the
    validation images and this one; NaN where the model has no scores of these."""

    path: str
    score: float
    p_value: float
    nearest_class: str
    picture: str


@dataclass
class Reviewed:
    """What a model says of `total` images: the unknown ones with their embeddings float32[d], how many further unknown
    ones were left out because there are too many, how many are copies of another one, and the images that were
    skipped."""

    total: int = 0
    unknown: list[UnknownImage] = field(default_factory=list)
    embeddings: list[np.ndarray] = field(default_factory=list)
    left_out: int = 0
    copies: int = 0
    failures: list[Failure] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)
    """Digests of the pixels of all unknown images so far."""

    @property
    def num_unknown(self) -> int:
        """With those left out and the copies."""
        return len(self.unknown) + self.left_out + self.copies


def review_images(
    classifier: OpenSetClassifier, paths: Sequence[str], found: Found, device: str, report: Callable[[int], None]
) -> Reviewed:
    """Classify all images, which were `found` below the paths, and keep up to MOST unknown ones; `report` gets how many
    were read. Raises ConfigError for a network of a method's own, which has no embedding, DataError for Parquet files,
    whose rows cannot be copied, and where no image can be decoded."""
    check_embeds(classifier.net)
    if found.has_parquet:
        raise DataError("a Parquet file was given, and named images are copied as files; give folders of image files")
    reviewed = Reviewed()
    for part in read_images(paths, classifier.image_size, report):
        reviewed.failures += part.failures
        reviewed.total += len(part.names)
        if part.names:
            _add(reviewed, classifier, part, device)
    return reviewed


def _add(reviewed: Reviewed, classifier: OpenSetClassifier, part: Decoded, device: str) -> None:
    table = classifier.embeddings(part.images, device)
    scores = score(table, classifier.score_function, classifier.calibration)
    validation = classifier.validation_scores
    p_values = np.full(len(part.names), np.nan) if validation is None else validation.p_values(scores.scores)
    for row in np.flatnonzero(~scores.accepted):
        pixels = hashlib.blake2b(part.images[row], digest_size=16).digest()
        if pixels in reviewed.seen:
            reviewed.copies += 1
            continue
        reviewed.seen.add(pixels)
        if len(reviewed.unknown) == MOST:
            reviewed.left_out += 1
            continue
        image = UnknownImage(
            path=absolute(part.names[row]),
            score=float(scores.unknown_scores[row]),
            p_value=float(p_values[row]),
            nearest_class=classifier.class_names[scores.known_predictions[row]],
            picture=thumbnail(part.images[row]),
        )
        reviewed.unknown.append(image)
        reviewed.embeddings.append(table.embeddings[row].copy())  # a view would keep the whole part's


@dataclass(frozen=True)
class Group:
    """Rows int64[n] of images that look alike, the most typical first, and of `further` ones that are nearest to them
    and yet apart."""

    rows: np.ndarray
    further: np.ndarray


def grouped(embeddings: Sequence[np.ndarray], least: int) -> list[Group]:
    """Groups of at least `least` images by their embeddings float[d], the largest first; none of fewer images.

    HDBSCAN (Campello et al. 2013) on the directions of the embeddings, in their principal components, with its leaves
    as groups: a person can merge groups, and hardly divide one. It finds two groups or more, or none, as where all
    images are of one new class. Then all of them are one group, in which strays come last: a person leaves them out.
    """
    if len(embeddings) < max(least, 2):
        return []
    directions = unit(np.stack(embeddings))
    with np.errstate(invalid="ignore"):  # the share of variance, 0 / 0 where all are the same; it is not used
        points = PCA(min(COMPONENTS, *directions.shape), random_state=0).fit_transform(directions)
    labels = HDBSCAN(min_cluster_size=max(least, 2), cluster_selection_method="leaf", copy=True).fit_predict(points)
    if (labels < 0).all():
        labels = np.zeros_like(labels)
    means = unit(np.stack([directions[labels == each].mean(axis=0) for each in range(labels.max() + 1)]))
    nearness = directions @ means.T
    nearest = np.where(labels >= 0, labels, nearness.argmax(axis=1))
    groups = []
    for each in range(len(means)):
        rows = np.argsort(-nearness[:, each], kind="stable")
        mine = rows[nearest[rows] == each]
        groups.append(Group(mine[labels[mine] >= 0], mine[labels[mine] < 0]))
    return sorted(groups, key=lambda group: -len(group.rows))
