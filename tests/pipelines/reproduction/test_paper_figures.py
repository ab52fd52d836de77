"""What the figures of the paper show: the data in them."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.integrate import quad
from scipy.stats import beta
from small_tasks import random_images

from pipelines.reports.figures.style import save
from pipelines.reproduction.paper_figures.beta_densities import beta_densities, density
from pipelines.reproduction.paper_figures.outlier_examples import examples, outlier_examples
from pipelines.reproduction.paper_figures.planes import (
    Decisions,
    Generated,
    Grid,
    decision_boundaries,
    novel_embeddings,
)
from pipelines.reproduction.paper_figures.running_time import running_time, three_digits, unit_of
from proser_core import baselines
from proser_core.errors import ConfigError
from tune_spaces.mixup_alpha import ALPHAS


def words(figure: Figure) -> str:
    """Everything that is written in a figure."""
    return "\n".join(text.get_text() for text in figure.findobj(Text))


SETS = {
    "MNIST": random_images(7, 8, seed=0),
    "Omniglot": random_images(3, 8, seed=1),
    "Noise": random_images(25, 12, seed=2),
}


def cloud(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(seed, 1.0, size=(count, 2))


TARGETS = np.arange(30) % 3
NOVEL = {"class 4": cloud(7, 4), "class 5": cloud(9, 5)}
GRID = Grid.over([cloud(30, 0), *NOVEL.values()], steps=20)
REGIONS = np.tile(np.arange(20) // 5, (20, 1))  # 0, 1, 2 and unknown, from left to right
NAMES = ("0", "1", "2")
SHARES = {"kept": 0.95, "rejected": {"class 4": 0.5, "class 5": 0.25}}
METHODS = [
    Decisions(known=cloud(30, seed), targets=TARGETS, novel=NOVEL, method=method, regions=REGIONS, **SHARES)
    for seed, method in enumerate(("threshold", "PROSER"))
]
WAYS = [
    Generated(
        known=cloud(30, seed),
        targets=TARGETS,
        novel=NOVEL,
        mixup=mixup,
        generated=cloud(11, 8 + seed),
        in_known_space=0.1,
    )
    for seed, mixup in enumerate(("vanilla", "manifold"))
]
TITLE = "MNIST, class split 0, seed 1"
FIGURES = {
    "beta_densities": lambda: beta_densities(ALPHAS),
    "outlier_examples": lambda: outlier_examples(SETS, columns=4),
    "running_time": lambda: running_time({"MSP": 60.0, "PROSER": 90.0}, "digits"),
    "decision_boundaries": lambda: decision_boundaries(METHODS, GRID, NAMES, TITLE),
    "novel_embeddings": lambda: novel_embeddings(WAYS, GRID, NAMES, TITLE),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_saved_as_a_picture_and_as_vectors_and_equal_ones_alike(name: str, tmp_path: Path) -> None:
    for folder in ("first", "second"):
        save(FIGURES[name](), tmp_path / folder / name)
    png, svg = (tmp_path / f"first/{name}.png", tmp_path / f"first/{name}.svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text()
    assert png.read_bytes() == (tmp_path / f"second/{name}.png").read_bytes()
    assert svg.read_bytes() == (tmp_path / f"second/{name}.svg").read_bytes()


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_density_is_that_of_beta_and_has_an_area_of_one(alpha: float) -> None:
    ratios = np.linspace(0, 1, 101)[1:-1]
    np.testing.assert_allclose(density(alpha, ratios), beta.pdf(ratios, alpha, alpha), rtol=1e-12)
    area, _ = quad(lambda ratio: density(alpha, np.asarray(ratio)), 0, 1)
    assert area == pytest.approx(1.0, abs=1e-6)


def test_each_alpha_has_a_panel_with_its_density_before_those_of_the_others() -> None:
    figure = beta_densities(ALPHAS)
    assert [axes.get_title() for axes in figure.axes] == ["alpha = 0.4", "alpha = 1", "alpha = 1.5", "alpha = 2"]
    for axes, alpha in zip(figure.axes, ALPHAS, strict=True):
        (line,) = [line for line in axes.lines if line.get_label() == f"{alpha:g}"]
        np.testing.assert_allclose(line.get_ydata(), beta.pdf(line.get_xdata(), alpha, alpha))
        assert len(axes.lines) == len(ALPHAS)
        assert all(other.get_zorder() < line.get_zorder() for other in axes.lines if other is not line)


def test_examples_go_through_a_whole_set_from_its_first_to_its_last_image() -> None:
    numbered = np.arange(101, dtype=np.uint8)[:, None, None, None] * np.ones((1, 8, 8, 3), np.uint8)
    assert examples(numbered, 5)[:, 0, 0, 0].tolist() == [0, 25, 50, 75, 100]
    assert len(examples(numbered[:3], 5)) == 3


def test_every_set_has_a_row_of_its_own_images_and_the_known_one_is_first() -> None:
    figure = outlier_examples(SETS, columns=4)
    drawn = [axes.images[0].get_array() for axes in figure.axes]
    expected = [image for name in SETS for image in examples(SETS[name], 4)]
    assert len(drawn) == len(expected) == 4 + 3 + 4
    assert all(np.array_equal(got, wanted) for got, wanted in zip(drawn, expected, strict=True))
    labels = [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel()]
    assert labels == ["MNIST\n(known)", "Omniglot", "Noise"]
    tops = [axes.get_position().y1 for axes in figure.axes if axes.get_ylabel()]
    assert tops[0] - tops[1] > tops[1] - tops[2] > 0


def test_dots_stand_at_the_seconds_of_a_logarithmic_axis_which_has_no_zero_for_bars() -> None:
    seconds = {"MSP": 61.0, "GFROSR": 64.2, "PROSER": 3700.0}
    figure = running_time(seconds, "MNIST")
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert [line.get_xdata()[0] for line in axes.lines] == [value / 60 for value in seconds.values()]
    assert axes.get_xlabel() == "training time, minutes (logarithmic)"
    assert not axes.patches
    assert axes.get_xlim()[0] < 61.0 / 60
    assert axes.get_xlim()[1] > 3700.0 / 60
    assert [label.get_text() for label in axes.get_yticklabels()] == [*seconds, "OSRCI"]
    assert words(figure).count("not measured") == 1
    cells = [text.get_text() for text in axes.texts]
    assert cells[cells.index("61.7") + 1] == "60.66"
    assert cells[-1] == "x MSP"


def test_what_is_written_beside_ten_dots_can_be_read() -> None:
    """No two texts overlap, and none leaves the figure."""
    seconds = {name: 300.0 + 25 * place for place, name in enumerate(baselines.METHODS)}
    figure = running_time(seconds, "MNIST, including the pretraining; " * 5)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    numbers = figure.axes[0].get_xticklabels()  # of which those beyond the ends are not drawn
    shown_texts = [
        text for text in figure.findobj(Text) if text.get_visible() and text.get_text() and text not in numbers
    ]
    boxes = {id(text): text.get_window_extent(canvas.get_renderer()) for text in shown_texts}
    written = [text.get_text() for text in shown_texts]
    assert {*seconds, "GFROSR", "x MSP", "minutes", "8.75"} <= set(written)
    for one, other in itertools.combinations(shown_texts, 2):
        assert not boxes[id(one)].overlaps(boxes[id(other)]), (one, other)
    for text in shown_texts:
        box = boxes[id(text)]
        assert min(box.x0, box.y0) >= 0, text
        assert box.x1 <= figure.bbox.x1, text
        assert box.y1 <= figure.bbox.y1, text


@pytest.mark.parametrize("seconds", [{}, {"MSP": 0.0}, {"MSP": float("nan")}])
def test_a_time_that_is_none_is_refused(seconds: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="finite seconds above 0"):
        running_time(seconds, "MNIST")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.51, "0.510 seconds"),
        (59.94, "59.9 seconds"),
        (90, "1.50 minutes"),
        (450_000, "125 hours"),
        (4e6, "1,111 hours"),
    ],
)
def test_a_time_has_the_largest_unit_that_it_fills(seconds: float, expected: str) -> None:
    size, unit = unit_of(seconds)
    assert f"{three_digits(seconds / size)} {unit}" == expected


def dots(axes: Axes, label: str) -> np.ndarray:
    """Places of the marks with this name."""
    (found,) = [marks for marks in axes.collections if marks.get_label() == label]
    return np.asarray(found.get_offsets())


def test_a_grid_has_room_around_every_point_and_lists_its_places_row_by_row() -> None:
    grid = Grid.over([np.array([[0.0, 10.0]]), np.array([[2.0, 30.0]])], steps=5)
    np.testing.assert_allclose(grid.x, np.linspace(-0.2, 2.2, 5))
    np.testing.assert_allclose(grid.y, np.linspace(8, 32, 5))
    np.testing.assert_allclose(grid.points[:6], [*([x, 8] for x in grid.x), [-0.2, 14]])


def test_boundaries_show_every_novel_class_below_the_other_and_the_methods_side_by_side() -> None:
    figure = decision_boundaries(METHODS, GRID, NAMES, TITLE)
    assert len(figure.axes) == 4
    for number, axes in enumerate(figure.axes):
        method, name = METHODS[number % 2], [*NOVEL][number // 2]
        for target, known in enumerate(NAMES):
            np.testing.assert_array_equal(dots(axes, known), method.known[target::3])
        np.testing.assert_array_equal(dots(axes, name), NOVEL[name])
        assert axes.get_title().startswith(f"({'abcd'[number]}) {method.method}\n")
        assert axes.get_xlim() == (GRID.x[0], GRID.x[-1])
        assert axes.get_ylim() == (GRID.y[0], GRID.y[-1])
    assert "25 % of class 5 rejected, 95 % of known kept" in figure.axes[3].get_title()
    assert "taken as unknown" in words(figure)


def test_the_region_of_unknown_is_hatched_and_where_the_grid_says() -> None:
    axes = decision_boundaries(METHODS, GRID, NAMES, TITLE).axes[0]
    (hatched,) = [each for each in axes.collections if getattr(each, "hatches", [None])[0]]
    box = hatched.get_paths()[0].get_extents()
    between = (GRID.x[14] + GRID.x[15]) / 2
    assert (box.xmin, box.xmax) == (pytest.approx(between), pytest.approx(GRID.x[-1]))


def test_a_method_that_rejects_nothing_has_no_hatched_region() -> None:
    everything = np.zeros((20, 20), int)
    axes = decision_boundaries([replace(METHODS[0], regions=everything)], GRID, NAMES, TITLE).axes[0]
    assert not any(getattr(each, "hatches", [None])[0] for each in axes.collections)


def test_generated_embeddings_stand_beside_the_real_ones_on_the_same_axes() -> None:
    figure = novel_embeddings(WAYS, GRID, NAMES, TITLE)
    for axes, way in zip(figure.axes, WAYS, strict=True):
        np.testing.assert_array_equal(dots(axes, "generated"), way.generated)
        assert all(np.array_equal(dots(axes, name), places) for name, places in NOVEL.items())
        assert way.mixup in axes.get_title()
        assert axes.get_xlim() == (GRID.x[0], GRID.x[-1])
    assert "10 % of the generated" in figure.axes[0].get_title()
