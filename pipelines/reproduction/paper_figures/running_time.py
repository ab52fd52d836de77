"""Training time of the methods on a logarithmic axis (supplement, fig. Running time comparison)."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from pipelines.reports.figures.style import COLOURS
from proser_core.errors import ConfigError

FIRST, OTHERS, MISSING = COLOURS[7], COLOURS[1], "#666666"
TITLE_WIDTH = 105  # letters
UNITS = ((3600, "h"), (60, "min"), (1, "s"))
TIME, RATIO = 52, 122  # right edges of the columns beside the axes, points


def running_time(seconds: Mapping[str, float], about: str, *, not_measured: Sequence[str] = ()) -> Figure:
    """A bar for each method, from the top in the order given; beside it its time of training, and how many times the
    first one's.

    `about` says on what was trained. Methods of `not_measured` have a place and no bar. Raises ConfigError where there
    is nothing to draw, or a time that is not above 0.
    """
    if not seconds or not all(np.isfinite(value) and value > 0 for value in seconds.values()):
        raise ConfigError(f"a figure of training times needs finite seconds above 0 of a method; got {dict(seconds)}")
    names = [*seconds, *(name for name in not_measured if name not in seconds)]
    title = fill(about, TITLE_WIDTH)
    figure = Figure(figsize=(7.6, 1.1 + 0.15 * len(title.splitlines()) + 0.34 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    _logarithmic(axes, min(seconds.values()), max(seconds.values()))
    first = next(iter(seconds.values()))
    for position, (name, value) in enumerate(seconds.items()):
        colour = FIRST if position == 0 else OTHERS
        axes.barh(position, value, 0.66, color=colour, edgecolor="black", linewidth=0.8, label=name, zorder=2)
        _beside(axes, position, TIME, shown(value))
        _beside(axes, position, RATIO, f"{value / first:.2f}")
    for position in range(len(seconds), len(names)):
        axes.annotate(
            "not measured", (0, position), (6, 0), ("axes fraction", "data"), "offset points", va="center", fontsize=9,
            style="italic", color=MISSING, bbox={"fc": "white", "ec": "none", "pad": 1},
        )  # fmt: skip
    _beside(axes, -1, TIME, "time")
    _beside(axes, -1, RATIO, f"x {names[0]}")
    axes.set_yticks(range(len(names)), names)
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        label.set_color("black" if name in seconds else MISSING)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    return figure


def _logarithmic(axes: Axes, low: float, high: float) -> None:
    """From a round number below the least time, so that its bar is seen too, to a little above the longest."""
    axes.set(xscale="log", xlim=(10 ** np.floor(np.log10(low) - 0.05), 1.15 * high))
    axes.set_xlabel("training time, seconds (logarithmic)")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", alpha=0.35, zorder=0)


def _beside(axes: Axes, position: float, right: float, text: str) -> None:
    """A cell of the columns beside the axes; above the first bar stand their heads."""
    place = (("axes fraction", "data"), "offset points")
    axes.annotate(text, (1, position), (right, 0), *place, ha="right", va="center", fontsize=9, annotation_clip=False)


def shown(seconds: float) -> str:
    """Three digits in the largest unit that a time fills: 12.3 s, 3.40 min."""
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= size), UNITS[-1])
    return f"{seconds / size:#.3g}".rstrip(".") + f" {unit}"
