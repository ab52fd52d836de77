"""Confusion matrix of a model on test images."""

import numpy as np
from matplotlib.figure import Figure

from pipelines.reports.figures.style import drawable, entitle
from proser_core.recognition.class_report import ClassReport

NAMED = 40
"""Classes up to which the axes have their names."""
WRITTEN = 12
"""Classes up to which the cells have their counts."""
DRAWN = 500
"""Rows up to which each has one class; of more, neighbouring classes are drawn together."""
LONGEST = 24  # characters of a name


def confusion_figure(classes: ClassReport, method: str, title: str) -> Figure:
    """A row for each true class, a column for what its images are called, as shares of the row; unknown comes last. It
    has no row where no image is of an unknown class. `method` is the model's."""
    every = classes.confusion
    counts, block = _in_blocks(every if every[-1].any() else every[:-1])
    sizes = counts.sum(axis=1, keepdims=True)
    shares = np.divide(100 * counts, sizes, out=np.full(counts.shape, np.nan), where=sizes > 0)
    side = 2.2 + 0.3 * min(len(classes.names), NAMED)
    figure = Figure(figsize=(side + 1.0, side), layout="constrained")
    axes = figure.add_subplot()
    drawn = axes.imshow(shares, cmap="viridis", vmin=0, vmax=100)
    figure.colorbar(drawn, ax=axes, label="of the images of a class, %", fraction=0.046)
    if len(classes.names) <= NAMED:
        names = [drawable(name) for name in classes.names]
        names = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
        if len(set(names)) < len(names):
            names = [f"{number} {name}" for number, name in enumerate(names, start=1)]
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
        axes.set_yticks(range(len(counts)), names[: len(counts)], fontsize=7)
    if len(classes.names) <= WRITTEN:
        for (row, column), count in np.ndenumerate(counts):
            if count:
                colour = "white" if shares[row, column] < 50 else "black"
                axes.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=7)
    each = f", in blocks of {block}" if block > 1 else ""
    axes.set(xlabel=f"called{each}", ylabel=f"true class{each}")
    entitle(figure, f"{method}: {title}")
    return figure


def _in_blocks(counts: np.ndarray) -> tuple[np.ndarray, int]:
    """Counts int64[n, m] of DRAWN columns at most, and how many classes one has; unknown may be with the last ones."""
    block = -(-counts.shape[1] // DRAWN)
    rows, columns = (np.arange(0, size, block) for size in counts.shape)
    return np.add.reduceat(np.add.reduceat(counts, rows, axis=0), columns, axis=1), block
