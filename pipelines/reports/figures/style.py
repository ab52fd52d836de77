"""Colours, marks and files of every figure."""

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from proser_core import titles

matplotlib.use("Agg")
# Okabe and Ito's colours, which differ in lightness too
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
MARKERS = "osD^vPX*"
SELECTED = COLOURS[2]
LINES = (COLOURS[1], *COLOURS[3:7])  # those that mark nothing else
DOTTED, DASHED, DASH_DOTTED = (0, (1, 1.5)), (0, (6, 2)), (0, (6, 2, 1, 2))
CONTROL_STYLES: dict[str, dict[str, Any]] = {
    titles.MSP: {"color": "#000000", "linestyle": DOTTED},
    titles.MAX_LOGIT: {"color": "#000000", "linestyle": DASHED},
    titles.OPENMAX: {"color": "#000000", "linestyle": DASH_DOTTED},
    titles.scored(titles.CONTROL, titles.MSP): {"color": "#888888", "linestyle": DOTTED},
    titles.scored(titles.CONTROL, titles.MAX_LOGIT): {"color": "#888888", "linestyle": DASHED},
    titles.scored(titles.PROSER, titles.P_UNKNOWN): {"color": SELECTED, "linestyle": DOTTED},
    titles.scored(titles.PROSER, titles.MAX_LOGIT): {"color": SELECTED, "linestyle": DASHED},
    titles.scored(titles.PROSER, titles.GAP): {"color": SELECTED, "linestyle": DASH_DOTTED},
}
OTHER_CONTROL: dict[str, Any] = {"color": "#888888", "linestyle": "-."}


def save(figure: Figure, stem: Path) -> None:
    """Write PNG and SVG, free of dates so that equal results give equal files."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "proser"}):
        figure.savefig(stem.with_suffix(".png"), dpi=150, metadata={"Software": None})
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
