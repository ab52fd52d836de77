"""What a figure over the points of a search space shows."""

from typing import Any

import pytest

from pipelines.reports import figures


def trial(**params: Any) -> dict[str, Any]:
    values = {**dict.fromkeys(figures.AXES, 1), "momentum": 0.9, **params}
    name = str(params)
    return {"key": name, "name": name, "objective": "proser", "params": values, "metrics": {"dev/auroc": 0.5}}


GRID = [{"beta": beta, "gamma": gamma} for beta in (1, 2) for gamma in (0.1, 0.2)]


@pytest.mark.parametrize(
    ("points", "is_map"),
    [
        (GRID, True),
        ([*GRID, {"beta": 1, "gamma": 0.1, "momentum": 0.5}], False),
        ([{"beta": 1}, {"beta": 2}], False),
    ],
)
def test_a_heat_map_is_drawn_where_two_fields_place_every_point(points: list[dict[str, Any]], is_map: bool) -> None:
    figure = figures.over_points([trial(**point) for point in points], "dev/auroc", "none")
    (axes, *_) = figure.axes
    assert bool(axes.images) == is_map
    if not is_map:
        assert len(axes.lines) == len(points)
