"""What is drawn of a finished sweep: the data in its figures."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_tables import (
    ALPHAS,
    AT_15,
    COUNTS,
    GRID,
    PARTS,
    SETTINGS,
    SPLIT,
    by_alpha,
    by_count,
    by_order,
    by_weights,
    drawn,
    lacking,
    losing,
    table,
    texts,
    trade_off,
)

from pipelines.reports.figures.dots import shown
from pipelines.reports.figures.openness import against_openness, chosen_points
from pipelines.reports.figures.over_points import kind
from pipelines.reports.figures.parallel import parallel_coordinates
from pipelines.reports.figures.scales import Scale
from pipelines.reports.report_files import figures_of
from pipelines.reports.results_page import results_page
from pipelines.reports.spaces import spaces_of
from pipelines.reports.sweep_table import SweepTable, mean
from tune_spaces import SpaceInfo


def values_of(curve: Any) -> np.ndarray:
    """Heights of a curve with error bars."""
    return np.asarray(curve.lines[0].get_ydata(), float)


@pytest.mark.parametrize(
    ("space", "points", "expected"),
    [
        ("trade_off", GRID, "heat_map"),
        ("num_dummies", COUNTS, "curve"),
        ("mixup_alpha", ALPHAS, "grouped"),
        ("ablation", PARTS, "dots"),
        ("searched", [{"beta": 0.1 * step, "gamma": 0.3 * step} for step in range(9)], "dots"),
        ("single", [{"beta": 1.0}], "dots"),
        ("words", [{"mixup": "manifold"}, {"mixup": "vanilla"}], "dots"),
    ],
)
def test_the_figure_follows_from_what_varies(space: str, points: list[dict[str, Any]], expected: str) -> None:
    made = table(space, points, range(1), lambda point, split: 0.5)
    assert kind(spaces_of(made)[0]) == expected
    assert len(figures_of(spaces_of(made)[0])) == 7


def measured(made: SweepTable, places: str) -> SweepTable:
    """The same of which nothing else was measured than what begins so."""
    rows, controls = (
        [{**row, "metrics": {k: v for k, v in row["metrics"].items() if k.startswith(places)}} for row in listed]
        for listed in (made.rows, made.controls)
    )
    settings = SETTINGS if places == "test" else ()
    return replace(made, rows=rows, controls=controls, splits={0: replace(SPLIT, settings=settings)})


def test_of_many_points_the_best_are_drawn_and_the_figure_says_so() -> None:
    points = [{"beta": 0.1 * step, "gamma": 0.2 * step, "alpha": 1 + step / 100} for step in range(40)]
    made = table("searched", points, range(1), lambda point, split: 0.5 + point["beta"] / 100)
    (space,) = spaces_of(made)
    figure = drawn(made, place="dev")
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [point.label for point in space.ranked[:30]]
    assert "The best 30 of 40 on development data." in texts(figure)
    assert "The best" not in texts(drawn(table("searched", points[:30], range(1), lambda point, split: 0.5)))


def test_of_many_points_those_that_failed_are_drawn_last_where_there_is_room() -> None:
    named = {f"epochs {step}": {"epochs": step} for step in range(1, 41)}
    made = table("searched", named.values(), range(1), lambda point, split: point["epochs"] / 100)
    made = replace(made, spaces={"searched": SpaceInfo(points=named)})  # as its module lists them
    for step in range(1, 21):
        made = losing(made, {"epochs": step}, 0)
    names = [point.label for point in shown(spaces_of(made)[0])]
    assert names == [f"epochs {step}" for step in [*range(40, 20, -1), *range(1, 11)]]


def test_what_was_not_measured_is_not_drawn() -> None:
    made, metrics = trade_off(range(1)), ("macro_f1", "auroc")
    names = {
        places: set(figures_of(spaces_of(kept)[0]))
        for places in ("dev", "test", "val")
        if (kept := measured(made, places))
    }
    assert names["dev"] == {*metrics, "parallel_coordinates"}
    assert names["test"] == {f"{metric}{kind}" for metric in metrics for kind in ("", "_settings", "_against_openness")}
    assert names["val"] == set()
    assert "development" not in results_page(measured(made, "test"))
    assert " unknown |" not in results_page(measured(made, "dev"))


def test_a_heat_map_shows_the_mean_with_its_deviation_beneath() -> None:
    figure = drawn(trade_off(), place="dev")
    (image,) = figure.axes[0].images
    values = [100 * mean(by_weights(point, split) for split in range(2)) for point in GRID]
    np.testing.assert_allclose(np.sort(image.get_array().ravel()), np.sort(values))
    assert texts(figure).count("± 0.7") == 25
    assert "±" not in texts(drawn(trade_off(range(1))))


def test_a_heat_map_has_the_order_of_the_table() -> None:
    made = trade_off()
    axes = drawn(made, place="dev").axes[0]
    page = results_page(made)
    rows = page[page.index("| beta \\ gamma |") :].splitlines()[2:7]
    assert axes.yaxis_inverted()
    assert [label.get_text() for label in axes.get_yticklabels()] == [row.split("|")[1].strip() for row in rows]


def test_a_title_keeps_to_the_rows_that_it_stands_beside() -> None:
    few = [{"beta": beta, "gamma": gamma} for beta in (0.0, 1.0) for gamma in (0.0, 0.1, 1.0)]
    figure = drawn(table("own_images", few, range(1), by_weights), place="dev")
    figure.draw_without_rendering()  # lays it out
    axes = figure.axes[0]
    beside, panel = axes.yaxis.label.get_window_extent(), axes.get_window_extent()
    assert panel.y0 <= beside.y0 < beside.y1 <= panel.y1


def test_a_heat_map_names_what_failed_and_what_lacks_a_split() -> None:
    made = losing(trade_off(), {"beta": 10.0, "gamma": 10.0}, 0)
    made = losing(losing(made, {"beta": 0.1, "gamma": 1.0}, 0), {"beta": 0.1, "gamma": 1.0}, 1)
    figure = drawn(lacking(made, {"beta": 0.0, "gamma": 0.0}, 1))
    written = [text.get_text() for text in figure.axes[0].texts]
    assert written.count("failed") == 1
    assert written.count("1 of 2") == 2
    assert "1 of 2 splits: beta 0, gamma 0; beta 10, gamma 10." in texts(figure)
    assert "Failed on every split: beta 0.1, gamma 1." in texts(figure)


def test_the_papers_best_is_marked_on_its_own_metric_and_setting_alone() -> None:
    def frames(metric: str, place: str) -> int:
        return len(drawn(trade_off(), metric, place).axes[0].patches)

    assert frames("macro_f1", AT_15) == 2
    assert frames("macro_f1", "dev") == frames("macro_f1", "test/unknown_30") == frames("auroc", AT_15) == 1


def test_a_curve_has_the_mean_the_band_each_split_and_the_controls() -> None:
    figure = drawn(table("num_dummies", COUNTS, range(3), by_count), place="dev")
    lines = {line.get_label(): np.asarray(line.get_ydata(), float) for line in figure.axes[0].lines}
    means = [100 * mean(by_count(point, split) for split in range(3)) for point in COUNTS]
    np.testing.assert_allclose(lines["PROSER, mean over splits"], means)
    np.testing.assert_allclose(lines["each split"], [100 * by_count(point, 2) for point in COUNTS])
    np.testing.assert_allclose(lines["MaxLogit"], 67.0)
    (band,) = [each for each in figure.axes[0].collections if type(each).__name__ == "FillBetweenPolyCollection"]
    heights = band.get_paths()[0].get_extents()
    assert (heights.ymin, heights.ymax) == pytest.approx((means[0] - 2, means[-1] + 2))


def test_a_curve_breaks_where_a_point_failed() -> None:
    made = losing(table("num_dummies", COUNTS, range(1), by_count), {"num_dummies": 13}, 0)
    figure = drawn(made)
    (line,) = [line for line in figure.axes[0].lines if line.get_label() == "PROSER"]
    assert np.isnan(np.asarray(line.get_ydata(), float)).tolist() == [False] * 6 + [True, False]
    assert "x failed" in texts(figure)
    assert "declines when C > 11" in texts(figure)


def test_published_values_stand_beside_the_measured_ones() -> None:
    figure = drawn(table("mixup_alpha", ALPHAS, range(2), by_alpha))
    printed = {line.get_label(): line for line in figure.axes[0].lines}
    np.testing.assert_allclose(printed["manifold, paper"].get_ydata(), [63.0, 68.6, 70.0, 70.7])
    np.testing.assert_allclose(printed["vanilla, paper"].get_ydata(), [62.3, 64.4, 63.9, 64.1])
    assert printed["manifold, paper"].get_linestyle() != printed["manifold"].get_linestyle()
    for metric, place in (("auroc", AT_15), ("macro_f1", "dev"), ("macro_f1", "test/unknown_30")):
        other = drawn(table("mixup_alpha", ALPHAS, range(2), by_alpha), metric, place)
        assert "paper" not in texts(other)


def test_openness_curves_are_the_means_and_to_the_right_paired_differences() -> None:
    made = table("ablation", PARTS, range(2), by_order)
    (space,) = spaces_of(made)
    figure = against_openness(space, "macro_f1")
    left, right = figure.axes
    labels = [point.label for point in chosen_points(space)]
    assert labels == ["Mixup", "Dummy, C = 1", "Dummy, C = 5", "PROSER, C = 1", "PROSER, C = 5"]
    written = [str(container.get_label()) for container in left.containers]
    assert written[0] == "Mixup"
    assert "PROSER, C = 5 (selected, recipe's own)" in written
    assert "MSP" in written
    assert len(written) == 9
    assert len(right.containers) == 8
    np.testing.assert_allclose(values_of(left.containers[0]), [60.5, 50.5])
    # MSP lies at 60 % on split 0 and 61 % on split 1, as Mixup does
    np.testing.assert_allclose(values_of(right.containers[0]), [0.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(values_of(right.containers[4]), [4.0, 4.0])


def test_at_one_openness_each_method_has_a_row_with_its_name() -> None:
    made = table("ablation", PARTS, range(2), by_order)
    lone = {index: replace(split, settings=(15,)) for index, split in made.splits.items()}
    figure = against_openness(spaces_of(replace(made, splits=lone))[0], "macro_f1")
    left, right = figure.axes
    names = [label.get_text() for label in left.get_yticklabels()]
    assert names[0] == "Mixup"
    assert names[5:] == ["MSP", "MaxLogit", "CE control, MSP", "CE control, MaxLogit"]
    places = [container.lines[0].get_xydata()[0].tolist() for container in left.containers]
    assert [row for _, row in places] == list(range(9))
    assert places[5][0] == pytest.approx(60.5)
    paired = {container.get_label(): container.lines[0].get_xdata()[0] for container in right.containers}
    assert paired["MaxLogit"] == pytest.approx(6.0)
    assert "MSP" not in paired
    assert left.get_title() == f"openness {100 * SPLIT.openness(15):.2f} %"
    assert "sideways" not in texts(figure)


def test_parallel_coordinates_draw_every_point_and_end_lost_ones_in_a_cross() -> None:
    made = losing(trade_off(range(1)), {"beta": 10.0, "gamma": 10.0}, 0)
    made = losing(made, {"beta": 0.0, "gamma": 10.0}, 0, "stopped", "stopped after epoch 2 of 10")
    for row in made.rows:
        row["metrics"] |= {"dev/macro_f1": 0.5} if row["status"] == "stopped" else {}
    axes, *_ = parallel_coordinates(spaces_of(made)[0]).axes
    paths = [line for line in axes.lines if len(line.get_xdata()) > 2]
    assert len([line for line in paths if len(line.get_xdata()) == 5]) == 23 + 1  # the selected one has an edge
    assert len([line for line in axes.lines if line.get_marker() == "x"]) == 2
    assert {len(line.get_xdata()) for line in paths if line.get_linestyle() == ":"} == {3}
    assert [label.get_text() for label in axes.get_xticklabels()][:2] == ["beta", "gamma"]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=12) | st.lists(st.integers(-5, 40), min_size=1))
def test_a_scale_keeps_the_order_of_numbers_and_stays_within_its_axis(values: list[float]) -> None:
    scale = Scale.of(values)
    places = [scale.place(value) for value in sorted(values)]
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
    assert places == sorted(places)
    assert all(-1e-9 <= place <= 1 + 1e-9 for place, _ in scale.ticks)


def test_a_field_that_spans_decades_is_laid_out_in_them_and_zero_beside() -> None:
    scale = Scale.of([0.0, 0.01, 0.1, 1.0, 10.0])
    steps = np.diff([scale.place(value) for value in (0.01, 0.1, 1.0, 10.0)])
    np.testing.assert_allclose(steps, steps[0])
    assert scale.place(0.0) == 0.0 < scale.place(0.01)
    assert [text for _, text in scale.ticks] == ["0", "0.01", "0.1", "1", "10"]


def test_words_get_a_place_each() -> None:
    scale = Scale.of(["manifold", "vanilla", "manifold"])
    assert {text for _, text in scale.ticks} == {"manifold", "vanilla"}
    assert scale.place("manifold") != scale.place("vanilla")


def test_the_axis_of_a_metric_says_its_least_and_largest_value() -> None:
    assert Scale.measured([68.04, 93.91, 81.0]).ticks[:2] == [(0.0, "68.0"), (1.0, "93.9")]
    assert Scale.measured([36.623]).ticks == [(0.5, "36.6")]
