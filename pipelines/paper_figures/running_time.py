"""Training time of the methods on a logarithmic axis (supplement, fig. Running time comparison)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from pipelines.figures import COLOURS
from proser_core.errors import ConfigError

HATCHES = ("", "//", "..", "xx", "\\\\", "oo")
FILLS = ("#999999", COLOURS[6], COLOURS[1], COLOURS[5], COLOURS[3], COLOURS[4])
UNITS = ((3600, "h"), (60, "min"), (1, "s"))


def running_time(
    seconds: Mapping[str, float],
    about: str,
    *,
    not_measured: Sequence[str] = (),
    published: Mapping[str, float] | None = None,
) -> Figure:
    """A bar for each method in the order given; above it its time of training, and how many times the first one's.

    `about` says on what was trained. Methods of `not_measured` have a place and no bar; `published` seconds are hollow
    diamonds. Raises ConfigError where there is nothing to draw, or a time that is not above 0.
    """
    published = published or {}
    values = [*seconds.values(), *published.values()]
    if not seconds or not all(np.isfinite(value) and value > 0 for value in values):
        raise ConfigError(f"a figure of training times needs finite seconds above 0 of a method; got {dict(seconds)}")
    names = [*seconds, *(name for name in not_measured if name not in seconds)]
    figure = Figure(figsize=(1.6 + 1.25 * len(names), 3.9), layout="constrained")
    axes = figure.add_subplot()
    low = 10 ** np.floor(np.log10(min(values)) - 0.05)
    axes.set(yscale="log", ylim=(low, 2.6 * max(values)))
    first = next(iter(seconds.values()))
    for position, (name, value) in enumerate(seconds.items()):
        style: dict[str, Any] = {"color": FILLS[position % len(FILLS)], "hatch": HATCHES[position % len(HATCHES)]}
        axes.bar(position, value, 0.62, edgecolor="black", linewidth=0.9, label=name, zorder=2, **style)
        text = shown(value) if position == 0 else f"{shown(value)}\n{value / first:.2f} x {names[0]}"
        axes.annotate(text, (position, value), (0, 4), textcoords="offset points", ha="center", va="bottom", fontsize=9)
    for position, name in enumerate(names):
        if name not in seconds:
            place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "bottom"}
            axes.text(position, 0.04, "not measured", rotation=90, fontsize=9, color="#666666", **place)
    _published(axes, names, published)
    axes.set_xticks(range(len(names)), names)
    for label, name in zip(axes.get_xticklabels(), names, strict=True):
        label.set_color("black" if name in seconds else "#666666")
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylabel("training time, seconds (logarithmic)")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", alpha=0.35, zorder=0)
    axes.set_title(about, fontsize=9)
    return figure


def _published(axes: Axes, names: Sequence[str], published: Mapping[str, float]) -> None:
    places = [names.index(name) for name in published if name in names]
    if places:
        values = [published[names[place]] for place in places]
        axes.plot(places, values, "D", mfc="white", mec="black", ms=7, ls="", zorder=3, label="paper")
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def shown(seconds: float) -> str:
    """Three digits in the largest unit that a time fills: 12.3 s, 3.42 min."""
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= size), UNITS[-1])
    return f"{seconds / size:.3g} {unit}"
