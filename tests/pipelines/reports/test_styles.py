"""One style per method in every figure, which eyes of every kind can tell apart; titles say what was drawn."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from sweep_tables import COUNTS, PARTS, by_count, by_order, drawn, table, trade_off

from pipelines.reports.figures.openness import against_openness
from pipelines.reports.figures.parallel import parallel_coordinates
from pipelines.reports.figures.style import METHOD_STYLES, styles_of
from pipelines.reports.spaces import spaces_of
from pipelines.reports.sweep_table import images_title
from pipelines.reproduction.drawing import figures_of
from pipelines.reproduction.protocols import PROTOCOLS
from pipelines.reproduction.results import SplitResult, table_column
from proser_core import titles
from proser_core.baselines import METHODS
from proser_core.config import DataConfig
from proser_core.titles import CONTROL, MAX_LOGIT, MSP, OPENMAX, OWN_POINT, P_UNKNOWN, PROSER, scored

RUN = (
    PROSER,
    OWN_POINT,
    scored(PROSER, P_UNKNOWN),
    scored(PROSER, MAX_LOGIT),
    MSP,
    MAX_LOGIT,
    OPENMAX,
    scored(CONTROL, MSP),
    scored(CONTROL, MAX_LOGIT),
)
"""The nine rows of a run's table."""
REPRODUCED = tuple(name for name, method in METHODS.items() if method.by_default and not method.network)
"""The rows of a reproduction that is asked for no others."""
VISION = {  # what eyes make of linear RGB: Machado, Oliveira and Fernandes 2009, severity 1
    "usual": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])


def lab(colour: str, eyes: str) -> np.ndarray:
    """CIELAB of a colour as these eyes see it."""
    values = np.array(to_rgb(colour))
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    seen = TO_XYZ @ np.clip(np.asarray(VISION[eyes]) @ linear, 0, 1) / WHITE
    f = np.where(seen > 0.008856, np.cbrt(seen), 7.787 * seen + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eyes", VISION)
@pytest.mark.parametrize("names", [RUN, REPRODUCED], ids=["run", "reproduce"])
def test_methods_of_one_table_differ_in_colour_dash_and_marker(names: tuple[str, ...], eyes: str) -> None:
    styles = [METHOD_STYLES[name] for name in names]
    for part in ("color", "linestyle", "marker"):
        assert len({str(style[part]) for style in styles}) == len(names)
    for one, other in itertools.combinations(styles, 2):
        distance = np.linalg.norm(lab(one["color"], eyes) - lab(other["color"], eyes))
        assert distance > 15, (one["color"], other["color"])  # 2 is just seen


def test_no_two_methods_with_networks_of_their_own_look_alike() -> None:
    styles = styles_of(METHODS).values()
    assert len({(str(style["color"]), style["marker"], style.get("mfc")) for style in styles}) == len(METHODS)


def test_proser_is_drawn_on_top_and_thickest() -> None:
    others = [style for name, style in METHOD_STYLES.items() if name != PROSER]
    for part in ("zorder", "lw"):
        assert METHOD_STYLES[PROSER][part] > max(style[part] for style in others)


def test_a_method_looks_alike_in_every_figure() -> None:
    (space,) = spaces_of(table("ablation", PARTS, range(1), by_order))
    columns = PROTOCOLS["cifar100-openness"].columns
    rows = [SplitResult("cifar100", 0, MSP, {column.metric: 0.5 for column in columns}, 1.0)]
    reproduced = figures_of("cifar100-openness", [table_column(column, rows, "") for column in columns], "", {})
    found = [against_openness(space, "macro_f1").axes[0], reproduced["against_openness"].axes[0]]
    found.append(drawn(table("num_dummies", COUNTS, range(1), by_count), place="dev").axes[0])
    for axes in found:
        named = {bars.get_label(): bars.lines[0] for bars in axes.containers}
        named |= {line.get_label(): line for line in axes.lines}
        looks = named[MSP].get_color(), named[MSP].get_marker()
        assert looks == (METHOD_STYLES[MSP]["color"], METHOD_STYLES[MSP]["marker"])


def test_a_title_says_data_set_class_splits_and_seed() -> None:
    against = {"unknown": "cifar100", "unknown_settings": (10,), "split_family": "neal", "development": "none"}
    data = DataConfig(name="cifar10", num_known=4, **against)
    title = images_title(data, [0, 2], [7, 7])
    assert title == "CIFAR10 against CIFAR100, class splits 0, 2 of neal, seed 7"
    made = replace(trade_off(range(2)), images=title)
    (space,) = spaces_of(made)
    for figure in (drawn(made), against_openness(space, "auroc"), parallel_coordinates(space)):
        assert figure.get_suptitle().replace("\n", " ") == f"trade_off: {title}"


def test_a_title_is_broken_where_the_figure_ends() -> None:
    columns = PROTOCOLS["closed-set"].columns
    rows = [SplitResult(column.study, 0, MSP, {column.metric: 0.5}, 1.0) for column in columns]
    images = "; ".join(f"{column.title}, class splits 0, 1, 2, 3, 4 of neal, seed 0" for column in columns)
    (figure,) = figures_of("closed-set", [table_column(each, rows, "") for each in columns], images, {}).values()
    figure.draw_without_rendering()
    (title,) = [text for text in figure.texts if text.get_text() == figure.get_suptitle()]
    assert title.get_text().replace("\n", " ") == f"closed-set: {images}"
    assert title.get_window_extent().x1 <= figure.bbox.x1


def test_reproduced_openness_shows_the_differences_to_the_plain_network_too() -> None:
    columns = PROTOCOLS["cifar100-openness"].columns
    rows = [
        SplitResult("cifar100", split, name, {c.metric: value + 0.1 * split for c in columns}, 1.0)
        for name, value in ((MSP, 0.5), (PROSER, 0.52))
        for split in (0, 1)
    ]
    figure = figures_of("cifar100-openness", [table_column(each, rows, "") for each in columns], "", {})[
        "against_openness"
    ]
    left, right = figure.axes
    assert len(left.containers) == 2
    (difference,) = right.containers
    np.testing.assert_allclose(np.asarray(difference.lines[0].get_ydata(), float), 2.0)
    alone = [row for row in rows if row.method == PROSER]
    (only,) = figures_of("cifar100-openness", [table_column(each, alone, "") for each in columns], "", {})[
        "against_openness"
    ].axes
    assert len(only.containers) == 1


def test_the_best_value_is_that_of_its_direction_and_ties_are_all_best() -> None:
    nan = float("nan")
    assert titles.best_of("test/unknown_1/auroc", [0.9001, 0.9, 0.8, nan]) == [True, True, False, False]
    assert titles.best_of("test/unknown_1/fpr95", [0.3, 0.1]) == [False, True]
    assert titles.best_of("seconds", [4.2, 3.0]) == [False, True]
    assert titles.best_of("test/known_rate", [0.94, 0.95]) == [False, False]
    assert titles.best_of("auroc", [0.9, nan]) == [False, False]
