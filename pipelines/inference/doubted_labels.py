"""Labels of a folder of images that a model's embeddings speak against."""

from collections.abc import Callable

import numpy as np

from proser_core.data.findings import Finding, doubted
from proser_core.data.inspection import Inspection
from proser_core.data.stored import StoredImages
from proser_core.recognition.label_doubts import label_doubts
from proser_core.recognition.open_set_classifier import OpenSetClassifier

AT_ONCE = 64
"""Images that are in memory at a time, of the network's size."""


def doubted_labels(
    classifier: OpenSetClassifier,
    title: str,
    inspection: Inspection,
    device: str,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Finding, list[str]]:
    """The finding, and the names of classes with too few images or groups to be judged. The folder's classes
    need not be those of the model. Raises ConfigError for a network without an embedding."""
    images = StoredImages.of_files([file.path for file in inspection.files], classifier.image_size)
    tables = []
    for batch in images.batches(np.arange(len(images)), AT_ONCE):
        tables.append(classifier.embeddings(batch, device).embeddings)
        progress(sum(map(len, tables)))
    names = inspection.listing.class_names
    doubts = label_doubts(np.concatenate(tables), inspection.labels, inspection.groups, len(names))
    others = [names[number] for number in doubts.others]
    return doubted(doubts.rows, others, doubts.shares, title), [names[number] for number in doubts.unjudged]
