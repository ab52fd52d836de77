"""How long each method takes to train, and the figure of it (supplement, fig. Running time comparison)."""

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from pipelines.reports.figures.style import GREY, entitle, styles_of
from proser_core.baselines import METHODS
from proser_core.baselines.controls import fit_score
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet
from proser_core.recognition.logit_tables import TRAIN
from proser_core.recognition.logits import compute_logits
from proser_core.store.files import read_json
from proser_core.store.store import MANIFEST
from proser_core.titles import MSP, PROSER

UNITS = ((3600, "hours"), (60, "minutes"), (1, "seconds"))
TIME, RATIO = 52, 122  # right edges of the columns beside the axes, points
GENERATIVE = ("OSRCI", "GFROSR")
"""Methods of the paper's figure that train a network of their own: a place without a dot where none was timed."""


def training_seconds(
    pretrained: Path, finetuned: Path, net: ClosedSetNet | PlaceholderNet, task: OpenSetTask
) -> dict[str, float]:
    """Wall-clock seconds by method: MSP is the pretraining, PROSER that and its fine-tune. A method that is fitted to
    the training images is the pretraining, a pass of `net` over them, and the fit, both timed now. One with a network
    of its own is timed by `proser reproduce running-time`."""
    base, tuning = (float(read_json(training / MANIFEST)["seconds"]) for training in (pretrained, finetuned))
    fitted = {}
    for method in METHODS.values():
        if method.scores_pretrained and method.score.reads_training:
            started = time.monotonic()
            logits = compute_logits(net, task.train.images, (task.mean, task.std), torch.device("cpu"))
            fit_score(method, {TRAIN: logits}, task.train.targets)
            fitted[method.name] = base + time.monotonic() - started
    return {MSP: base, **fitted, PROSER: base + tuning}


def running_time(seconds: Mapping[str, float], about: str) -> Figure:
    """A dot for each method, with its time of training and how many times the first one's; a bar would have no zero to
    begin at on a logarithmic axis. `about` says on what was trained. Methods of GENERATIVE without a time have a place
    and no dot. Raises ConfigError where there is nothing to draw, or a time that is not above 0."""
    if not seconds or not all(np.isfinite(value) and value > 0 for value in seconds.values()):
        raise ConfigError(f"a figure of training times needs finite seconds above 0 of a method; got {dict(seconds)}")
    names = [*seconds, *(name for name in GENERATIVE if name not in seconds)]
    figure = Figure(figsize=(7.6, 1.1 + 0.34 * len(names)), layout="constrained")
    entitle(figure, about)
    lines = len(figure.get_suptitle().splitlines())
    figure.set_figheight(figure.get_figheight() + 0.15 * lines)
    axes = figure.add_subplot()
    size, unit = unit_of(min(seconds.values()))
    _logarithmic(axes, min(seconds.values()) / size, max(seconds.values()) / size, unit)
    first = next(iter(seconds.values()))
    styles = styles_of(seconds)
    for position, (name, value) in enumerate(seconds.items()):
        axes.plot(value / size, position, **styles[name], label=name)
        _beside(axes, position, TIME, three_digits(value / size))
        _beside(axes, position, RATIO, f"{value / first:.2f}")
    for position in range(len(seconds), len(names)):
        axes.annotate(
            "not measured", (0, position), (6, 0), ("axes fraction", "data"), "offset points", va="center", fontsize=9,
            style="italic", color=GREY, bbox={"fc": "white", "ec": "none", "pad": 1},
        )  # fmt: skip
    _beside(axes, -1, TIME, unit)
    _beside(axes, -1, RATIO, f"x {names[0]}")
    axes.set_yticks(range(len(names)), names)
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        label.set_color("black" if name in seconds else GREY)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _logarithmic(axes: Axes, low: float, high: float, unit: str) -> None:
    """From a little below the least time to a little above the longest."""
    axes.set(xscale="log", xlim=(low / 1.2, 1.2 * high))
    axes.set_xlabel(f"training time, {unit} (logarithmic)")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.35)


def _beside(axes: Axes, position: float, right: float, text: str) -> None:
    """A cell of the columns beside the axes; above the first dot stand their heads."""
    place = (("axes fraction", "data"), "offset points")
    axes.annotate(text, (1, position), (right, 0), *place, ha="right", va="center", fontsize=9, annotation_clip=False)


def unit_of(seconds: float) -> tuple[int, str]:
    """The largest unit that a time fills: its seconds and its name."""
    return next(((size, unit) for size, unit in UNITS if seconds >= size), UNITS[-1])


def three_digits(value: float) -> str:
    """At least three digits: 0.510, 12.3, 7,500."""
    return f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:,.0f}"
