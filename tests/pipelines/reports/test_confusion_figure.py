"""The confusion matrix as a figure."""

import warnings
from pathlib import Path

import numpy as np

from pipelines.reports.figures.confusion import DRAWN, confusion_figure
from pipelines.reports.figures.style import save
from proser_core.recognition.class_report import ClassReport

COUNTS = ((8, 1, 0, 1), (3, 4, 1, 2), (0, 0, 0, 0), (1, 0, 0, 9))


def test_the_figure_has_a_row_for_each_class_and_names_that_are_no_formulas(tmp_path: Path) -> None:
    named = ClassReport.of_matrix((r"$\x$", "a class with a name of many words", "owl"), np.array(COUNTS))
    figure = confusion_figure(named, "PROSER", "own images")
    save(figure, tmp_path / "confusion")
    assert (tmp_path / "confusion.png").stat().st_size > 1000
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        r"$\x$",
        "a class with a name of …",
        "owl",
        "unknown",
    ]
    shares = np.ma.filled(axes.images[0].get_array().astype(float), np.nan)
    np.testing.assert_allclose(shares[[0, 1, 3]].sum(axis=1), 100)
    assert np.isnan(shares[2]).all()
    assert sorted(text.get_text() for text in axes.texts) == ["1", "1", "1", "1", "2", "3", "4", "8", "9"]


def test_names_in_letters_that_the_font_lacks_are_told_apart_without_a_warning(tmp_path: Path) -> None:
    named = ClassReport.of_matrix(("猫", "犬", "Ærø"), np.array(COUNTS))
    figure = confusion_figure(named, "PROSER", "own images")
    with warnings.catch_warnings(action="error"):
        save(figure, tmp_path / "confusion")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [r"\u732b", r"\u72ac", "Ærø", "unknown"]


def test_long_names_that_begin_alike_are_numbered() -> None:
    named = ClassReport.of_matrix(
        ("a name of many letters, red", "a name of many letters, blue", "owl"), np.array(COUNTS)
    )
    labels = [label.get_text() for label in confusion_figure(named, "PROSER", "own").axes[0].get_yticklabels()]
    assert labels == ["1 a name of many letters,…", "2 a name of many letters,…", "3 owl", "4 unknown"]


def test_where_every_class_is_known_unknown_is_a_column_alone() -> None:
    closed = ClassReport.of_matrix(("ant", "bee", "owl"), np.array([*COUNTS[:3], [0] * 4]))
    axes = confusion_figure(closed, "PROSER", "own").axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["ant", "bee", "owl", "unknown"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ant", "bee", "owl"]
    assert axes.images[0].get_array().shape == (3, 4)


def test_of_a_hundred_classes_the_axes_have_numbers() -> None:
    counts = np.eye(101, dtype=int)
    many = ClassReport.of_matrix(tuple(f"class {number}" for number in range(100)), counts)
    assert not confusion_figure(many, "PROSER", "own images").axes[0].texts


def test_of_thousands_of_classes_neighbours_are_drawn_together() -> None:
    count = 2 * DRAWN + 100
    many = ClassReport.of_matrix(tuple(map(str, range(count))), np.diag(np.arange(count + 1)))
    axes = confusion_figure(many, "PROSER", "own images").axes[0]
    assert axes.get_ylabel() == "true class, in blocks of 3"
    shares = axes.images[0].get_array()
    assert shares.shape == (-(-(count + 1) // 3),) * 2
    np.testing.assert_allclose(np.diag(shares), 100)
