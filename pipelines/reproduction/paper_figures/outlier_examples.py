"""Example images of the known set and of the outlier sets (figs. Dataset example of MNIST, of CIFAR10)."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

COLUMNS = 10
CELL = 0.72  # side of an image, inches


def examples(images: np.ndarray, count: int = COLUMNS) -> np.ndarray:
    """`count` images (all, where there are fewer) of uint8[N, H, W, 3], at equal steps through the set."""
    steps = np.linspace(0, len(images) - 1, min(count, len(images)))
    return images[np.round(steps).astype(int)]


def outlier_examples(sets: Mapping[str, np.ndarray], columns: int = COLUMNS) -> Figure:
    """A row for each set of uint8[N, H, W, 3] images by its name, in their own pixels; the first is the known one, set
    apart from the rest."""
    names = list(sets)
    width = 0.085 * max(len(line) for name in names for line in name.splitlines()) + 0.3  # of the names, inches
    heights = [1.0, 0.16, *[1.0] * (len(names) - 1)]
    figure = Figure(figsize=(width + CELL * columns + 0.1, CELL * sum(heights) + 0.1))
    left, edge = width / figure.get_figwidth(), 0.05 / figure.get_figheight()
    room = {"left": left, "right": 0.995, "bottom": edge, "top": 1 - edge, "wspace": 0.06, "hspace": 0.06}
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights, **room)
    for position, name in enumerate(names):
        row = position + (position > 0)
        for column, image in enumerate(examples(sets[name], columns)):
            axes = figure.add_subplot(grid[row, column])
            axes.imshow(image, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(color="#888888", linewidth=0.6)
            if column == 0:
                label = name if position else f"{name}\n(known)"
                axes.set_ylabel(label, rotation=0, ha="right", va="center", labelpad=8)
    return figure
