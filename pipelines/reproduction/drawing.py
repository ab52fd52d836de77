"""Figures of a reproduction: measured beside published, and a metric against openness."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from pipelines.reports.figures.style import COLOURS, MARKERS
from pipelines.reproduction.paper_figures.running_time import running_time
from pipelines.reproduction.paper_figures.training_times import GENERATIVE
from pipelines.reproduction.protocols import PROTOCOLS, STUDIES
from pipelines.reproduction.published import UNKNOWN
from pipelines.reproduction.results import Block
from proser_core.data.splits.class_split import openness

MEASURED, PUBLISHED, OTHER = COLOURS[1], COLOURS[2], COLOURS[3]


def figures_of(name: str, blocks: Sequence[Block]) -> dict[str, Figure]:
    """The figures of a protocol by name: dots for its columns, and a curve where they are one metric over openness;
    none where nothing was measured."""
    if not any(block.splits for block in blocks):
        return {}
    if any(block.column.is_time for block in blocks):
        return {"running_time": _times(blocks[0])}
    drawn = {"methods": dots(blocks)}
    if name == "cifar100-openness":
        drawn["against_openness"] = against_openness(name, blocks)
    return drawn


def _times(block: Block) -> Figure:
    seconds = {line.method: line.mean for line in block.lines if line.values}
    about = f"{block.column.title}, the pretraining among it"
    return running_time(seconds, about, not_measured=GENERATIVE)


def dots(blocks: Sequence[Block]) -> Figure:
    """A panel a column: filled dots for what was measured, with its deviation over class splits; for what was published
    hollow diamonds, and crosses where its class lists are unknown or others."""
    methods = list(dict.fromkeys(line.method for block in blocks for line in block.lines))
    figure = Figure(figsize=(2.2 + 2.6 * len(blocks), 1.3 + 0.3 * len(methods)), layout="constrained")
    panels = figure.subplots(1, len(blocks), sharey=True, squeeze=False)[0]
    for axes, block in zip(panels, blocks, strict=True):
        for line in block.lines:
            place = methods.index(line.method)
            if line.values:
                deviation = 0.0 if math.isnan(line.std) else line.std
                axes.errorbar(line.mean, place, xerr=deviation, fmt="o", color=MEASURED, capsize=3)
            for each in line.quoted:
                axes.plot(each.mean, place, **_mark(each.family))
        axes.set_title(f"{block.column.title}: {block.column.unit}", fontsize=9)
        axes.grid(alpha=0.3)
    panels[0].set_yticks(range(len(methods)), methods, fontsize=8)
    panels[0].set_ylim(len(methods) - 0.5, -0.5)
    marks = [*panels[0].plot([], [], "o", color=MEASURED, label="measured here")]
    families = dict.fromkeys(each.family for block in blocks for line in block.lines for each in line.quoted)
    for family in sorted(families, key=lambda family: family == UNKNOWN):
        label = "published, of other class lists" if family == UNKNOWN else "published"
        marks += panels[0].plot([], [], **_mark(family), label=label)
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=8)
    return figure


def _mark(family: str) -> dict[str, Any]:
    """How a published number is drawn."""
    if family == UNKNOWN:
        return {"marker": "x", "color": OTHER, "ms": 6, "linestyle": "none"}
    return {"marker": "D", "mfc": "none", "color": PUBLISHED, "ms": 6, "linestyle": "none"}


def against_openness(name: str, blocks: Sequence[Block]) -> Figure:
    """A line a method over the columns of a protocol, whose settings differ in their openness alone."""
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    openness = openness_of(name)
    methods = dict.fromkeys(line.method for block in blocks for line in block.lines if line.values)
    for place, method in enumerate(methods):
        lines = [next(line for line in block.lines if line.method == method) for block in blocks]
        axes.errorbar(
            [100 * each for each in openness],
            [line.mean for line in lines],
            yerr=[0.0 if math.isnan(line.std) else line.std for line in lines],
            marker=MARKERS[place % len(MARKERS)],
            color=COLOURS[place % len(COLOURS)],
            linestyle="-" if place < len(COLOURS) else "--",
            capsize=2,
            label=method,
        )
    axes.set(xlabel="openness, %", ylabel=f"{blocks[0].column.unit}, test images")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure


def openness_of(name: str) -> list[float]:
    """Openness of each column of a protocol whose settings are numbers of unknown classes, fractions."""
    data = STUDIES[PROTOCOLS[name].studies[0]].data
    return [openness(data.num_known, data.num_known + unknown) for unknown in data.unknown_settings]
