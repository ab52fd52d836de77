"""Colours, marks and files of every figure."""

import itertools
import math
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.text import Text

from proser_core import titles
from proser_core.titles import scored

# Okabe and Ito's colours, which differ in lightness too
BLACK, BLUE, VERMILLION, GREEN = "#000000", "#0072B2", "#D55E00", "#009E73"
PINK, ORANGE, SKY, SILVER = "#CC79A7", "#E69F00", "#56B4E9", "#999999"
GREY, MAROON, INDIGO = "#5E5E5E", "#661100", "#332288"
OLIVE, TEAL, ROSE = "#999933", "#44AA99", "#CC6677"
SELECTED = VERMILLION
Style = dict[str, Any]


def _dashed(color: str, dash: tuple[float, ...], marker: str, ms: float = 5) -> Style:
    return {"color": color, "linestyle": (0, dash), "marker": marker, "ms": ms, "lw": 1.4, "zorder": 3}


METHOD_STYLES: dict[str, Style] = {
    titles.MSP: _dashed(BLACK, (1, 1.5), "o"),
    titles.MAX_LOGIT: _dashed(BLUE, (6, 2), "s"),
    titles.OPENMAX: _dashed(GREEN, (6, 2, 1, 2), "X", 6),
    scored(titles.CONTROL, titles.MSP): _dashed(GREY, (2, 2), "P", 6),
    scored(titles.CONTROL, titles.MAX_LOGIT): _dashed(SKY, (3, 1, 1, 1), "*", 8),
    scored(f"{titles.CONTROL}, tuned", titles.MAX_LOGIT): _dashed(GREY, (5, 3), "H", 6),
    "Mixup": _dashed(INDIGO, (8, 2, 1, 2), "h", 6),
    "Dummy": _dashed(MAROON, (3, 3), "8"),
    scored(titles.PROSER, titles.P_UNKNOWN): _dashed(PINK, (1, 1), "v"),
    scored(titles.PROSER, titles.MAX_LOGIT): _dashed(MAROON, (4, 1.5), "<"),
    scored(titles.PROSER, titles.GAP): _dashed(MAROON, (6, 1, 1, 1, 1, 1), "d"),
    scored(titles.PROSER, "tuned"): _dashed(ORANGE, (10, 2), ">"),
    scored(titles.PROSER, "released form"): _dashed(PINK, (4, 4), "p", 6),
    titles.OWN_POINT: _dashed(ORANGE, (7, 1.5), "^", 6),
    titles.PROSER: {"color": SELECTED, "linestyle": "-", "marker": "D", "ms": 7, "lw": 2.8, "zorder": 5},
}
"""The style of each method, in every figure: no two share a marker, nor two of one table a colour. PROSER leads,
on top."""
POINT_STYLES: tuple[Style, ...] = tuple(
    {"color": color, "linestyle": "-", "marker": marker, "mfc": "white", "ms": 5, "lw": 1.2, "zorder": 4}
    for color, marker in ((INDIGO, "o"), (TEAL, "s"), (OLIVE, "^"), (ROSE, "v"), (BLUE, "p"))
)
"""Styles of what is no method: solid, thin and hollow."""
MARKERS = "os^vpDh<>*d"
"""Markers for more of them: with the colours they give 55 different styles."""


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """The style of each method; any other name, such as a point, a score of your own or a network of a method's own,
    has one of `POINT_STYLES`, with a further marker where these do not suffice."""
    others = itertools.count()
    return {name: METHOD_STYLES.get(name) or _other(next(others)) for name in names}


def _other(number: int) -> Style:
    return {**POINT_STYLES[number % len(POINT_STYLES)], "marker": MARKERS[number % len(MARKERS)]}


def entitle(figure: Figure, title: str) -> None:
    """Say above the panels what was drawn: data set, class splits and seed."""
    width = int(figure.get_figwidth() * 13)  # characters of this size in an inch
    figure.suptitle(textwrap.fill(title, width), x=0.01, ha="left", fontsize=9, parse_math=False)


def add_caption(figure: Figure, text: str) -> None:
    """Say below the panels how to read them."""
    width = int(figure.get_figwidth() * 15.5)  # characters of this size in an inch
    figure.supxlabel(textwrap.fill(text, width), fontsize=8, x=0.01, ha="left")


def drawable(name: str) -> str:
    r"""A name with letters that the font lacks as \uXXXX, which tells names apart."""
    letters = get_font(findfont(FontProperties())).get_charmap()
    return "".join(each if ord(each) in letters else f"\\u{ord(each):04x}" for each in name)


def save(figure: Figure, stem: Path) -> None:
    """Write PNG and SVG, free of dates so that equal results give equal files. No text is a formula: names may have
    dollar signs."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    with matplotlib.rc_context({"svg.hashsalt": "proser"}):
        figure.savefig(stem.with_suffix(".png"), dpi=150, metadata={"Software": None})
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})


def num_bins(counts: Iterable[int]) -> int:
    """Bins of a histogram that compares sets of so many images: few images in many bins are spikes and gaps."""
    return min(60, max(8, round(2 * math.sqrt(min(counts)))))


def bin_edges(low: float, high: float, count: int, threshold: float) -> list[float]:
    """Edges of about `count` equal bins from `low` to `high`, one of them just above the threshold, which is itself
    known: no bin has both sides of it."""
    width = (high - low) / count or 1.0
    above = float(np.nextafter(threshold, np.inf))
    begin, end = math.floor((low - above) / width), math.ceil((high - above) / width)
    first, *edges = (above + width * number for number in range(begin, max(end, begin + 1) + 1))
    return [min(first, low), *edges[:-1], max(edges[-1], high)]  # scores at the ends are inside, whatever is rounded
