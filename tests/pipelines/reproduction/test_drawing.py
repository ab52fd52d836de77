"""Figures of a report: places of networks, marks of published numbers, pictures, and curves of many methods."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from reproductions import CIFAR10, outcome, results

from pipelines.reproduction.drawing import MOST, figures_of
from pipelines.reproduction.own_network_outcomes import picture_figures
from pipelines.reproduction.protocols import PROTOCOLS
from pipelines.reproduction.published import UNKNOWN
from pipelines.reproduction.results import OWN_SCHEDULE, SplitResult, table_column


def test_rows_of_one_network_have_one_place_in_the_figure_of_times() -> None:
    column = PROTOCOLS["running-time"].columns[0]
    times = {"MSP": 300.0, "DHRNet + Softmax": 600.0, "CROSR": 600.0, "DHRNet, MaxLogit": 600.0, "PROSER": 420.0}
    measured = [each for name, seconds in times.items() for each in results(name, 0.9, column=column, seconds=seconds)]
    facts = {"schedule": "20 epochs of pretraining", OWN_SCHEDULE: "DHRNet, schedule quick"}
    (figure,) = figures_of("running-time", [table_column(column, measured, "")], "MNIST", facts).values()
    assert figure.get_suptitle().replace("\n", " ") == (
        "MNIST; 20 epochs of pretraining; times include the pretraining, but for networks of methods' own (DHRNet, "
        "schedule quick)"
    )
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels[:3] == ["MSP", "DHRNet", "PROSER"]


def test_pictures_are_of_the_first_class_split_and_in_the_order_of_the_networks() -> None:
    networks = ("DHRNet", "C2AE")
    outcomes = [outcome("svhn", name, split, 100 * split) for split in (0, 1) for name in networks]
    drawn = list(picture_figures(outcomes))
    assert [(study, title) for study, title, _ in drawn] == [("svhn", f"{name}: reconstructions") for name in networks]
    assert all(figure.axes[0].images[0].get_array().min() == 0 for *_, figure in drawn)


def test_a_published_number_is_marked_by_its_lists_and_a_measured_one_has_its_deviation() -> None:
    measured = results("MaxLogit", 0.7, 0.8, 0.9)
    found = table_column(CIFAR10, measured, "neal")
    figure = figures_of("cifar10", [found], "", {})["methods"]
    (axes,) = figure.axes
    (bars,) = axes.containers
    (bar,) = bars.lines[2]
    (ends,) = bar.get_segments()
    np.testing.assert_allclose(ends[:, 0], [70.0, 90.0])
    names = [label.get_text() for label in axes.get_yticklabels()]
    marks = {
        (line.get_xdata()[0], names[int(line.get_ydata()[0])]): line for line in axes.lines if len(line.get_xdata())
    }
    legend = dict(
        zip((text.get_text() for text in figure.legends[0].get_texts()), figure.legends[0].legend_handles, strict=True)
    )
    for row in found.rows:
        for each in row.quoted:
            mark = marks[each.mean, row.method]
            label = "published, of other class lists" if each.family == UNKNOWN else "published"
            assert mark.get_marker() == legend[label].get_marker() == ("x" if each.family == UNKNOWN else "D")
            assert to_rgba(mark.get_markerfacecolor())[3] == 0 or each.family == UNKNOWN
    assert {each.family for row in found.rows for each in row.quoted} == {"neal", UNKNOWN}


OPENNESS = (29.29, 42.26, 50.0, 55.28, 61.27)
"""Of 15 known classes against 15 to 85 unknown ones, in percent."""


@pytest.mark.parametrize("count", [41, 90])
def test_curves_of_many_methods_stay_near_their_openness_and_their_names_in_the_figure(count: int) -> None:
    columns = PROTOCOLS["cifar100-openness"].columns
    metrics = {column.metric: 0.6 for column in columns}
    names = [*(f"score {number}" for number in range(count - 1)), "PROSER"]
    measured = [SplitResult("cifar100", split, name, metrics, 1.0) for name in names for split in (0, 1)]
    tables = [table_column(column, measured, "") for column in columns]
    figure = figures_of("cifar100-openness", tables, "", {})["against_openness"]
    places = [np.asarray(line.lines[0].get_xdata(), float) for line in figure.axes[0].containers]
    assert len(places) == MOST
    for xs in places:
        np.testing.assert_allclose(xs, OPENNESS, atol=1.01)
    np.testing.assert_allclose(figure.axes[0].get_xticks(), OPENNESS, atol=0.01)
    assert figure.axes[0].get_xticklabels()[0].get_text() == "29.3 %\n15 unknown"
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert box.y0 >= 0
    assert figure.legends[0].get_texts()[-1].get_text() == "PROSER"
    assert figure.get_supxlabel().replace("\n", " ") == (
        "Means over class splits; bars: standard deviation. Points of one openness stand side by side. "
        f"{MOST} of {count} methods are drawn."
    )
