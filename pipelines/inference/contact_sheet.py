"""The most unknown images of many, drawn together: what a model should perhaps be taught next."""

import heapq
import io
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipelines.console import utf8_text
from pipelines.inference.predictions import LOOKED_AT, Answer
from pipelines.output_files import check_output, write_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 8
ENDINGS = (".png", ".pdf", ".svg", ".jpg")


def check_picture(path: Path | None, option: str) -> None:
    """Raises ConfigError for a path that no picture can be written to."""
    check_output(path, option, ENDINGS)


def write_picture(figure: "Figure", path: Path) -> None:
    """Write a figure in the format of the path's ending. Raises StorageError where the disk is full."""
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.removeprefix("."), dpi=150)
    write_output(path, content.getvalue())


class ContactSheet:
    """Keeps the LOOKED_AT most unknown images that it is shown; does nothing without a path."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._number = path, itertools.count()
        self._kept: list[tuple[float, int, str, np.ndarray]] = []

    def add(self, part: Answer) -> None:
        """Look at another part."""
        if self._path is None:
            return
        for row, pixels in zip(part.outliers, part.pixels, strict=True):
            found = (float(part.predictions.unknown_scores[row]), -next(self._number), part.names[row], pixels)
            (heapq.heappush if len(self._kept) < LOOKED_AT else heapq.heappushpop)(self._kept, found)

    def save(self) -> bool:
        """Draw what was kept, most unknown first; False where there is nothing to draw, and no file."""
        if self._path is None or not self._kept:
            return False
        from matplotlib.figure import Figure

        kept = sorted(self._kept, key=lambda each: each[:2], reverse=True)
        rows = -(-len(kept) // COLUMNS)
        figure = Figure(figsize=(1.5 * COLUMNS, 1.85 * rows + 0.5), layout="constrained")
        figure.suptitle("most unknown first; below each image its unknown score, in logits")
        axes = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
        for axis in axes:
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_frame_on(False)
        for axis, (score, _, name, pixels) in zip(axes, kept, strict=False):
            axis.imshow(pixels, interpolation="nearest")
            axis.set_xlabel(f"{_short(name)}\n{score:.1f}", fontsize=7, parse_math=False)
        write_picture(figure, self._path)
        return True


def _short(name: str, length: int = 22) -> str:
    name = utf8_text(name.rsplit("/", 1)[-1])
    return name if len(name) <= length else f"...{name[3 - length :]}"
