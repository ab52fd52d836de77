"""The most unknown images of many on one picture: candidates for new classes."""

import heapq
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from pipelines.console import shown
from pipelines.inference.predictions import PredictedPart
from pipelines.output_files import write_picture
from pipelines.reports.figures.style import VERMILLION
from proser_core.naming import UNKNOWN

NUM_IMAGES = 40
COLUMNS = 8
MAX_NAME = 22  # characters of a class or of a file's name


class ContactSheet:
    """Collects the `size` most unknown images; without a path that is 0."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.size = 0 if path is None else NUM_IMAGES
        self._kept: list[tuple[float, str, str, np.ndarray]] = []  # most unknown first

    def add(self, part: PredictedPart) -> None:
        """Take the images of another part that are among the most unknown so far."""
        found = [
            (float(part.predictions.unknown_scores[row]), part.predictions.labels[row], part.names[row], pixels)
            for row, pixels in zip(part.most_unknown, part.pixels, strict=True)
        ]
        self._kept = heapq.nlargest(self.size, [*self._kept, *found], key=lambda each: each[0])

    def save(self) -> bool:
        """Draw the collected images, most unknown first; False where there is none, and so no file."""
        if self._path is None or not self._kept:
            return False
        rows = -(-len(self._kept) // COLUMNS)
        figure = Figure(figsize=(1.5 * COLUMNS, 2.0 * rows + 0.5), layout="constrained")
        figure.suptitle(
            "most unknown first; below each image what it was called, and its score: unknown (framed) above 0",
            fontsize=11,
        )
        bare = {"xticks": [], "yticks": [], "frame_on": False}
        axes = figure.subplots(rows, COLUMNS, squeeze=False, subplot_kw=bare).ravel()
        for axis, (score, label, name, pixels) in zip(axes, self._kept, strict=False):
            axis.imshow(pixels, interpolation="nearest")
            if label == UNKNOWN:
                axis.set_frame_on(True)
                axis.spines[:].set(color=VERMILLION, linewidth=3)
            against = f"{score:.2f} {'>' if label == UNKNOWN else '≤'} 0"
            lines = [_drawn(label), against, _drawn(name.rsplit("/", 1)[-1])]
            axis.set_xlabel("\n".join(lines), fontsize=7, parse_math=False)
        write_picture(figure, self._path)
        return True


def _drawn(name: str) -> str:
    r"""A name's end, where it is long, with letters that the font lacks as \uXXXX, which tells names apart."""
    letters = get_font(findfont(FontProperties())).get_charmap()
    name = "".join(each if ord(each) in letters else f"\\u{ord(each):04x}" for each in shown(name))
    return name if len(name) <= MAX_NAME else f"...{name[3 - MAX_NAME :]}"
