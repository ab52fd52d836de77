"""What reaches a terminal, and a spreadsheet."""

import csv
import io
from pathlib import Path
from shutil import get_terminal_size

import numpy as np
import pytest
from rich.console import Console

from pipelines.console import TitledTable, console, say
from pipelines.inference.prediction_files import open_output
from pipelines.inference.predictions import PredictedPart
from proser_core.data.decoding import Failure
from proser_core.recognition.open_set_classifier import Predictions


def test_a_file_name_gives_the_terminal_no_orders_and_a_uri_no_password() -> None:
    lines = io.StringIO()
    say(Console(file=lines, width=200), "a\x1b[31mred\x07.jpg of http://me:S3CRET@host\nnext")
    assert lines.getvalue() == "a\\x1b[31mred\\x07.jpg of http://host\\x0anext\n"


PROSE = "  models of 3 classes call 12.5 % of 40 images unknown, --force or not, and `proser a --b` says so"


@pytest.mark.parametrize(
    ("text", "is_terminal", "lines"),
    [
        (PROSE, True, PROSE.replace("40 i", "40\n  i").replace("and `", "and\n  `")),
        (PROSE, False, PROSE),
        (f"{PROSE}: /tmp/a", True, f"{PROSE}: /tmp/a"),
        (
            "  proser review --apply a --to b and so on to the end",
            True,
            "  proser review --apply a --to b and so on to the end",
        ),
    ],
)
def test_prose_alone_is_broken_between_words_on_a_terminal(text: str, is_terminal: bool, lines: str) -> None:
    out = io.StringIO()
    say(Console(file=out, width=42, force_terminal=is_terminal, color_system=None), text)
    assert out.getvalue() == f"{lines}\n"


def test_a_title_and_a_caption_wider_than_their_table_are_lines_of_the_terminal() -> None:
    table = TitledTable("method", title="AUROC on test images of unknown classes", caption="in percent, as a mean")
    table.add_row("MSP")
    lines = io.StringIO()
    Console(file=lines, width=60).print(table)
    first, *_, last = lines.getvalue().splitlines()
    assert (first, last) == ("AUROC on test images of unknown classes", "in percent, as a mean")
    assert table.title == first


@pytest.mark.parametrize(("columns", "width"), [("90", 90), (None, 120), ("wide", 120), ("0", 120), ("\u00b2", 120)])
def test_a_pipe_is_as_wide_as_columns_says(columns: str | None, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    assert console().width == width


@pytest.mark.parametrize(("columns", "width"), [("90", 90), ("0", None), ("\u00b2", None)])
def test_a_terminal_has_its_own_width_where_columns_is_no_width(
    columns: str, width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", columns)
    console().print("row")
    assert screen.getvalue() == "row\n"
    assert console().width == (width or get_terminal_size().columns)


def test_no_cell_of_a_csv_file_is_a_formula_and_numbers_stay(tmp_path: Path) -> None:
    names = ["=cmd|'/c calc'!A0", "+a.jpg", "-b.jpg", "@c.jpg", "-1.jpg", "d=1&key=2?token=3.jpg"]
    classes = ["=SUM(A1)", "-1"]
    indices, labels = np.array([0, 1, 0, 1, 0, 1]), ["=SUM(A1)", "-1"] * 3
    found = Predictions(labels, indices, np.full(6, -0.5), np.full((6, 3), 1 / 3), indices)
    with open_output(tmp_path / "out.csv", classes) as write:
        write(PredictedPart(names, found, [Failure("=x.png", "it is none of BMP")], np.zeros(0, int), np.zeros(0)))
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["image"] for row in rows] == [*(f"'{name}" for name in names[:5]), "d=1&key=2?token=3.jpg", "'=x.png"]
    assert [row["label"] for row in rows[:2]] == ["'=SUM(A1)", "-1"]
    assert {row["unknown_score"] for row in rows[:6]} == {"-0.5"}
