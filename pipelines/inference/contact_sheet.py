"""The most unknown images of many on one picture: candidates for new classes."""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from pipelines.console import shown
from pipelines.inference.predictions import PredictedPart
from pipelines.output_files import write_picture
from pipelines.reports.figures.style import VERMILLION, drawable
from proser_core.naming import UNKNOWN
from proser_core.titles import counted

NUM_IMAGES = 40
COLUMNS = 8
MAX_NAME = 22  # characters of a class or of a file's name


@dataclass(frozen=True)
class _Image:
    score: float
    label: str
    nearest: str
    name: str
    pixels: np.ndarray


class ContactSheet:
    """Collects the `size` most unknown images; without a path that is 0."""

    def __init__(self, path: Path | None, class_names: Sequence[str]) -> None:
        self._path, self._class_names = path, class_names
        self._total = self._unknown = 0
        self.size = 0 if path is None else NUM_IMAGES
        self._kept: list[_Image] = []  # most unknown first

    def add(self, part: PredictedPart) -> None:
        """Take the images of another part that are among the most unknown so far."""
        found = part.predictions
        self._total += len(part.names)
        self._unknown += found.labels.count(UNKNOWN)
        for row, pixels in zip(part.most_unknown, part.pixels, strict=True):
            nearest = self._class_names[found.known_predictions[row]]
            score, label, name = float(found.unknown_scores[row]), found.labels[row], part.names[row]
            self._kept.append(_Image(score, label, nearest, name, pixels.copy()))  # a view would keep the part's
        self._kept = heapq.nlargest(self.size, self._kept, key=lambda each: each.score)

    def save(self) -> bool:
        """Draw the collected images, most unknown first; False where there is none, and so no file."""
        if self._path is None or not self._kept:
            return False
        rows = -(-len(self._kept) // COLUMNS)
        figure = Figure(figsize=(1.5 * COLUMNS, 2.0 * rows + 0.5), layout="constrained")
        kept = f"{len(self._kept)} of " if len(self._kept) < self._total else ""
        order = "most unknown first, with their scores: above 0 is unknown"
        counts = f"{kept}{counted(self._total, 'image')}, {self._unknown:,} unknown (framed)"
        figure.suptitle(f"{counts}; {order}", fontsize=11)
        bare = {"xticks": [], "yticks": [], "frame_on": False}
        axes = figure.subplots(rows, COLUMNS, squeeze=False, subplot_kw=bare).ravel()
        names = unique_endings([image.name for image in self._kept])
        for axis, image, name in zip(axes, self._kept, names, strict=False):
            axis.imshow(image.pixels, interpolation="nearest")
            if image.label == UNKNOWN:
                axis.set_frame_on(True)
                axis.spines[:].set(color=VERMILLION, linewidth=3)
            axis.set_xlabel("\n".join([*_called(image), *_lines(name)]), fontsize=7, parse_math=False)
        write_picture(figure, self._path)
        return True


def unique_endings(paths: Sequence[str]) -> list[str]:
    """The shortest ending of each path, in whole names of folders, that no other path has."""
    parts = [path.split("/") for path in paths]
    counts = Counter(tuple(each[-count:]) for each in set(map(tuple, parts)) for count in range(1, len(each) + 1))
    shortest = (next((n for n in range(1, len(p)) if counts[tuple(p[-n:])] == 1), len(p)) for p in parts)
    return ["/".join(each[-count:]) for each, count in zip(parts, shortest, strict=True)]


def _called(image: _Image) -> list[str]:
    """What an image was called, and its score; an unknown one with its nearest class."""
    called = [f"{_drawn(image.label)}, {image.score:.2f}"]
    return [*called, f"most like {_drawn(image.nearest)}"] if image.label == UNKNOWN else called


def _lines(name: str) -> list[str]:
    """An ending of a path on one line, or a line for each of its folders where it is long."""
    *folders, last = name.split("/") if len(name) > MAX_NAME else [name]
    return [*(f"{_drawn(folder)}/" for folder in folders), _drawn(last)]


def _drawn(name: str) -> str:
    """A name's end, where it is long."""
    name = drawable(shown(name))
    return name if len(name) <= MAX_NAME else f"...{name[3 - MAX_NAME :]}"
