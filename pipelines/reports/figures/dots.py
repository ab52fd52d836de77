"""One row per point, for spaces whose fields do not fit on one or two axes."""

import math

from matplotlib.axes import Axes

from pipelines.reports.figures.parts import control_lines, percents
from pipelines.reports.figures.style import GREY, SELECTED
from pipelines.reports.spaces import Space
from pipelines.reports.sweep_table import Point

SPREAD = "bars: standard deviation; small dots: each split"
CAPTION = "Diamond: selected."
MOST = 30  # points that are drawn; the best on development, where there are more


def size(space: Space) -> tuple[float, float]:
    """Width and height of a panel, inches."""
    return 3.1, 0.8 + 0.26 * min(len(space.points), MOST)


def room_for_labels(space: Space) -> float:
    """Width of the longest name of a point, inches."""
    return 0.075 * max(len(point.label) for point in shown(space))


def panel(axes: Axes, space: Space, metric: str) -> None:
    """Mean and standard deviation of each point; the controls as lines from top to bottom."""
    points = shown(space)
    control_lines(axes, space, metric, vertical=True)
    for position, point in enumerate(points):
        middle, spread = percents(point, metric)
        chosen = point is space.selected
        colour = SELECTED if chosen else GREY
        if math.isnan(middle):
            reached = point.last(metric)
            outcome = f"x {point.status}" + ("" if math.isnan(reached) else f" at {100 * reached:.1f}")
            axes.text(0.02, position, outcome, transform=axes.get_yaxis_transform(), va="center", fontsize=8)
            continue
        each = [100 * value for value in point.values(metric).values()]
        axes.plot(each, [position] * len(each), ".", ms=4, color=colour, alpha=0.6)
        axes.errorbar(middle, position, xerr=0 if math.isnan(spread) else spread, color=colour, elinewidth=1.2)
        axes.plot(middle, position, "D" if chosen else "o", color=colour, ms=7 if chosen else 5)
    axes.set_yticks(range(len(points)), [point.label for point in points], fontsize=8)
    axes.set_ylim(len(points) - 0.5, -0.5)
    axes.grid(alpha=0.3)


def shown(space: Space) -> list[Point]:
    """All points in the order of the space; of more than fit, those best on development."""
    if len(space.points) <= MOST:
        return space.points
    lost = [point for point in space.points if not point.num_finished]
    return [*space.ranked, *lost][:MOST]


def left_out(space: Space) -> str:
    """For a caption, where not all points are shown."""
    return f"The best {MOST} of {len(space.points)} on development data." if len(space.points) > MOST else ""
