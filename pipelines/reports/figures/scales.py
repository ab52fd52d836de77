"""Scale of a field along an axis: linear, in decades (0 to their left), or one step per value."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.ticker import MaxNLocator

from pipelines.reports.sweep_table import is_numeric, number

DECADES = 30.0  # positive values that span this factor are laid out in decades
FEW = 9  # so many different values are all written at an axis
NEAR = 0.06  # of an axis; ticks that are closer to its end would hide what is written there
ZERO = 0.18  # room of a scale in decades for the value 0, left of the smallest positive one


@dataclass(frozen=True)
class Scale:
    """Places in 0..1 for the values of one field, and the ticks to write there."""

    place: Callable[[Any], float]
    ticks: list[tuple[float, str]]

    @classmethod
    def of(cls, values: Sequence[Any]) -> "Scale":
        """A scale on which every one of these values has a place; one alone lies in the middle."""
        distinct = list(dict.fromkeys(values))
        if not is_numeric(distinct):
            return _steps(distinct)
        distinct = sorted(distinct)
        positive = [value for value in distinct if value > 0]
        if distinct[0] >= 0 and positive and positive[-1] >= DECADES * positive[0]:
            return _decades(distinct, positive)
        return _linear(distinct, distinct if len(distinct) <= FEW else _round(distinct[0], distinct[-1]))

    @classmethod
    def measured(cls, values: Sequence[float]) -> "Scale":
        """A linear scale for a metric, with ticks at the least and the largest value and round ones between them; NaN
        has no place on it."""
        finite = [value for value in values if math.isfinite(value)]
        low, high = min(finite, default=0.0), max(finite, default=0.0)
        place = _linear([low, high], []).place
        between = [value for value in _round(low, high) if NEAR < place(value) < 1 - NEAR and high > low]
        ends = [(place(value), f"{value:.1f}") for value in dict.fromkeys((low, high))]
        return cls(place, [*ends, *((place(value), f"{value:.5g}") for value in between)])


def _round(low: float, high: float) -> list[float]:
    """About five round numbers within a range."""
    return [value for value in map(float, MaxNLocator(5).tick_values(low, high)) if low <= value <= high]


def _steps(distinct: list[Any]) -> Scale:
    places = {value: (position + 0.5) / len(distinct) for position, value in enumerate(distinct)}
    return Scale(places.__getitem__, [(place, number(value)) for value, place in places.items()])


def _linear(distinct: list[Any], written: list[Any]) -> Scale:
    low, high = distinct[0], distinct[-1]

    def place(value: Any) -> float:
        return (value - low) / (high - low) if high > low else 0.5

    return Scale(place, [(place(value), number(value)) for value in written])


def _decades(distinct: list[Any], positive: list[Any]) -> Scale:
    start = ZERO if distinct[0] == 0 else 0.0
    low, high = math.log10(positive[0]), math.log10(positive[-1])

    def place(value: Any) -> float:
        return start + (1 - start) * (math.log10(value) - low) / (high - low) if value else 0.0

    powers = [10.0**power for power in range(math.ceil(low), math.floor(high) + 1)]
    written = distinct if len(distinct) <= FEW else [*distinct[: bool(start)], *powers]
    return Scale(place, [(place(value), number(value)) for value in written])
