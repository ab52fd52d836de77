"""A user's images, labelled by their folders (FOLDER/CLASS/*) or not (FOLDER/*), and a model's logits on them."""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pipelines.inference.predictions import read_images
from pipelines.tracking.models import LoadedModel
from proser_core.data.decoding import Failure, read_content
from proser_core.data.readers.image_files import pieces
from proser_core.data.stored import digest_of, numbered
from proser_core.errors import DataError
from proser_core.naming import as_spelt
from proser_core.recognition.logit_tables import LogitTable, joined, select
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.titles import counted

LOOKED_AT = 1_000
"""Images, at most, that are looked up among those of a training: reading all again would take as long as scoring."""


@dataclass(frozen=True)
class FolderLogits:
    """Logits of N images, the names of their folders, and the images that were skipped."""

    logits: LogitTable
    folders: list[str]
    failures: list[Failure]

    def in_folders(self) -> "FolderLogits":
        """Without the images outside the folders of classes; one failure counts them."""
        kept = self.of_folders(set(self.folders) - {""})
        outside = len(self.folders) - len(kept.folders)
        stray = [Failure("", f"{counted(outside, 'image')} in no folder of a class")] if outside else []
        return replace(kept, failures=self.failures + stray)

    def of_folders(self, names: Collection[str]) -> "FolderLogits":
        """The images in these folders."""
        rows = np.flatnonzero([name in names for name in self.folders])
        return replace(self, logits=select(self.logits, rows), folders=[self.folders[row] for row in rows])

    def targets(self, class_names: tuple[str, ...]) -> np.ndarray:
        """int64[N]: the class that a folder is named after, or K, unknown, for any other folder."""
        numbers = {name: number for number, name in enumerate(class_names)}
        return np.array([numbers.get(folder, len(class_names)) for folder in self.folders], np.int64)


def class_folders(folder: Path, class_names: Iterable[str]) -> list[str]:
    """Names of the folders of classes that hold images, spelt as in `class_names`. Raises DataError for a folder that
    does not exist."""
    if not folder.is_dir():
        raise DataError(f"--data got {folder}, which is not a folder; give one with a folder of images for each class")
    inside = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    holding = {path.name for path in inside if next(pieces([str(path)]), None) is not None}
    return sorted({as_spelt(name, class_names) for name in holding})


def known_and_others(folders: list[str], data: Path, model: LoadedModel) -> tuple[list[str], list[str]]:
    """Of the folders with images in `data`, those of classes that the model knows, and the others. Raises DataError
    without one of the first."""
    class_names = model.classifier.class_names
    known = [name for name in folders if name in class_names]
    if not known:
        has = f"images in the folders {', '.join(folders)}" if folders else "no folder of a class with images"
        raise DataError(f"{data} has {has}; need one of a class that {model.title} knows: {', '.join(class_names)}")
    return known, [name for name in folders if name not in known]


def folder_logits(
    classifier: OpenSetClassifier,
    folder: Path,
    device: str,
    report: Callable[[int], None] = lambda done: None,
    *,
    embeddings: bool = False,
) -> FolderLogits:
    """Logits of all images below a folder, and embeddings where they are asked for; `report` gets how many were read.
    Its first level names their classes, spelt as the model has them; "" for images directly in it. Memory holds the
    logits, not the images. Raises DataError where no image can be decoded."""
    compute = classifier.embeddings if embeddings else classifier.logits
    tables, folders, failures = list[LogitTable](), list[str](), list[Failure]()
    for part in read_images([str(folder)], classifier.image_size, report):
        failures += part.failures
        if part.names:
            tables.append(compute(part.images, device))
            inside = [Path(name).relative_to(folder).parts for name in part.names]
            folders += [parts[0] if len(parts) > 1 else "" for parts in inside]
    spelt = {name: as_spelt(name, classifier.class_names) for name in set(folders)}
    return FolderLogits(joined(tables), [spelt[name] for name in folders], failures)


def seen_in_training(classifier: OpenSetClassifier, folder: Path) -> str:
    """A clause for where some, not all, of the images of known classes below a folder are validation images of the
    classifier's training, so that others may have been trained on; else empty. LOOKED_AT of the files are compared with
    the digests that a classifier of a user's own photos alone keeps; images in no folder count where all are."""
    scores = classifier.validation_scores
    if scores is None or scores.contents is None:
        return ""
    digests = []
    photos = (piece for piece in pieces([str(folder)]) if not piece.is_parquet)
    paths = [Path(file) for piece in photos for file in piece.files]
    inside = [path.relative_to(folder).parts[0] for path in paths]
    is_known = {name: as_spelt(name, classifier.class_names) in classifier.class_names for name in set(inside)}
    known = [path for path, name in zip(paths, inside, strict=True) if is_known[name]] or paths
    for path in known[:: -(-len(known) // LOOKED_AT) or 1]:
        with suppress(DataError):  # what cannot be read was skipped
            digests.append(digest_of(read_content(path) or b""))
    count = int(np.isin(numbered(digests), scores.contents[scores.is_known]).sum())
    if not 0 < count < len(digests):  # a folder of validation images alone is as good as one of new images
        return ""
    sample = "" if len(digests) == len(known) else f"{len(digests):,} of "
    found = f"{count:,} of {sample}these images are validation images of the model's training"
    return f"{found}. If it was trained on others of them"
