"""Images of a user, labelled by their folders: FOLDER/CLASS/*, or FOLDER/* where nothing is said of their classes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proser_core.data.readers.image_files import Failure, check_paths, decoded, pieces
from proser_core.errors import ConfigError, DataError
from proser_core.recognition.logits import LogitTable
from proser_core.recognition.open_set_classifier import OpenSetClassifier

SHOWN = 10  # images that were left out which the terminal names


@dataclass(frozen=True)
class Scored:
    """Logits of N images, the names of their folders, and the images that were left out."""

    logits: LogitTable
    folders: list[str]
    failures: list[Failure]

    def in_folders(self) -> "Scored":
        """Without the images that lie in no folder of a class, which are left out by number."""
        rows = np.flatnonzero([bool(name) for name in self.folders])
        logits = LogitTable(self.logits.known[rows], self.logits.dummies[rows])
        stray = [Failure("", f"{len(self.folders) - len(rows)} images that lie in no folder of a class")]
        failures = self.failures + (stray if len(rows) < len(self.folders) else [])
        return Scored(logits, [self.folders[row] for row in rows], failures)

    def targets(self, class_names: tuple[str, ...]) -> np.ndarray:
        """int64[N]: the class that a folder is named after, or K, unknown, for any other folder."""
        numbers = {name: number for number, name in enumerate(class_names)}
        return np.array([numbers.get(folder, len(class_names)) for folder in self.folders], np.int64)


def class_folders(folder: Path) -> list[str]:
    """Names of the folders of classes. Raises DataError where the folder is not there."""
    if not folder.is_dir():
        raise DataError(f"--data got {folder}, which is no folder; give one with a folder of images for each class")
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def score_folder(classifier: OpenSetClassifier, folder: Path, device: str) -> Scored:
    """Logits of all images below a folder, whose first level names their classes; "" for those right in it.

    Memory holds the logits, not the images. Raises DataError where there is no image that can be decoded.
    """
    check_device(device)
    check_paths([str(folder)])
    known, dummies, folders, failures = [], [], [], []
    with ThreadPoolExecutor() as pool:
        for piece in pieces([str(folder)]):
            for part in decoded(piece, classifier.image_size, pool):
                failures += part.failures
                if part.names:
                    logits = classifier.logits(part.images, device)
                    known.append(logits.known)
                    dummies.append(logits.dummies)
                    folders += [_class_of(Path(name), folder) for name in part.names]
    if not known:
        reason = failures[0].reason if failures else "its Parquet files have no row"
        raise DataError(f"none of the {len(failures)} images below {folder} can be decoded; {reason}")
    return Scored(LogitTable(np.concatenate(known), np.concatenate(dummies)), folders, failures)


def _class_of(path: Path, folder: Path) -> str:
    inside = path.relative_to(folder).parts
    return inside[0] if len(inside) > 1 else ""


def told(failures: list[Failure], count: int | None = None) -> Iterator[str]:
    """Lines on the first of `count` images that were left out."""
    for failure in failures[:SHOWN]:
        yield f"left out: {failure.reason}"
    rest = (len(failures) if count is None else count) - SHOWN
    if rest > 0:
        yield f"left out: {rest} more"


def check_device(device: str) -> None:
    """Raises ConfigError for a GPU that is not here."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device got cuda, and torch finds no GPU here; leave the option out, or mend the driver")
