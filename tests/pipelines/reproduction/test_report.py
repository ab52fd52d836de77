"""The report of a reproduction: its page, Markdown, CSV, figures and what the terminal shows."""

import csv
import io
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from reproductions import CIFAR10, MADE, RECIPES_OF, outcome, results
from rich.console import Console

from pipelines.output_files import RESULTS
from pipelines.recipes import cifar100_cpu
from pipelines.reports.page import HTML
from pipelines.reproduction.protocols import PROTOCOLS, STUDIES
from pipelines.reproduction.published import UNKNOWN
from pipelines.reproduction.report import NUMBERS, RECIPES, terminal_table, write_report
from pipelines.reproduction.results import SplitResult, table_column
from proser_core.config import Recipe, from_json, to_json
from proser_core.store.files import read_json


def test_pictures_facts_and_choices_of_several_studies_say_of_which_they_are(tmp_path: Path) -> None:
    columns = [column for column in PROTOCOLS["closed-set"].columns if column.study in ("svhn", "cifar10")]
    measured = [replace(each, choice=each.study) for column in columns for each in results("MSP", 0.9, column=column)]
    outcomes = [outcome("svhn", "DHRNet", 0, 0), outcome("cifar10", "DHRNet", 0, 51)]
    families = dict.fromkeys(STUDIES, "neal")
    write_report(["closed-set", "svhn"], families, measured, RECIPES_OF, MADE, tmp_path, outcomes)
    text = (tmp_path / RESULTS).read_text()
    for study, error in (("SVHN", "0"), ("CIFAR10", "0.2")):
        assert f"- {study}, DHRNet, class split 0: reconstruction error {error}" in text
        assert f"- {study}, MSP, class split 0: {study.lower()}" in text
    figures = {path.name for path in (tmp_path / "figures").glob("*reconstructions.png")}
    assert figures == {
        "closed-set_SVHN-DHRNet-reconstructions.png",
        "closed-set_CIFAR10-DHRNet-reconstructions.png",
        "svhn_DHRNet-reconstructions.png",  # which has one study
    }


def test_a_title_has_the_seeds_of_the_class_splits_that_were_measured(tmp_path: Path) -> None:
    (column,) = PROTOCOLS["cifar+10"].columns
    plain = cifar100_cpu()
    recipes = [
        to_json(replace(plain, seed=seed, data=replace(plain.data, split_index=at))) for at, seed in ((0, 1), (1, 3))
    ]
    measured = results("PROSER", 0.9, column=column)
    write_report(["cifar+10"], {"cifar-plus": "neal"}, measured, {"cifar-plus": recipes}, MADE, tmp_path)
    assert "seed 1 -->" in (tmp_path / "figures/cifar-plus-10_methods.svg").read_text()


class Page(HTMLParser):
    """Tags that are open, images, and links of a page."""

    VOID = ("meta", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_one_file_that_needs_no_network(tmp_path: Path) -> None:
    measured = [*results("MaxLogit", 0.82, 0.86), *results("<b>&", 0.5)]
    write_report(["cifar10", "closed-set"], dict.fromkeys(STUDIES, "arpl"), measured, RECIPES_OF, MADE, tmp_path)
    page = Page()
    page.feed((tmp_path / HTML).read_text())
    assert page.open == []
    assert page.sources
    assert all(source.startswith(("data:image/svg+xml;base64,", "#")) for source in page.sources)
    assert "84.0 ± 2.8" in page.text
    assert "<b>&" in page.text
    assert "trials 0 and 1 know the same six classes" in page.text
    assert MADE.command in page.text
    assert "Measured with 10 epochs." in page.text


def test_markdown_csv_and_figures_tell_the_same_over_half_a_report(tmp_path: Path) -> None:
    recipes = {"cifar10": [to_json(cifar100_cpu())]}
    (tmp_path / NUMBERS).parent.mkdir()  # of an attempt that was interrupted
    (tmp_path / NUMBERS).write_text("study,fam")
    write_report(["cifar10"], {"cifar10": "neal"}, results("PROSER", 0.871, 0.891), recipes, MADE, tmp_path)
    assert from_json(Recipe, read_json(tmp_path / RECIPES)["cifar10"][0]) == cifar100_cpu()
    assert "| PROSER | 88.1 ± 1.4 | 89.1 ± 1.6 | -1.0 | unknown | 2 | 1:00 |" in (tmp_path / RESULTS).read_text()
    rows = list(csv.DictReader((tmp_path / NUMBERS).read_text().splitlines()))
    assert {row["family"] for row in rows} == {"neal"}
    values = [0.871, 60.0, 0.891, 60.0]
    assert [(row["metric"], float(row["value"])) for row in rows] == [
        (metric, values.pop(0)) for _ in range(2) for metric in (CIFAR10.metric, "seconds")
    ]
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".png", ".svg"}


def test_the_terminal_tells_of_which_lists_a_published_number_is() -> None:
    out = Console(file=io.StringIO(), width=80)
    names = ("MSP", "CE control, tuned, MaxLogit", "PROSER")
    measured = [result for name in names for result in results(name, 0.7, 0.9)]
    out.print(terminal_table("cifar10", table_column(CIFAR10, measured, "neal")))
    title, *lines = out.file.getvalue().splitlines()
    assert title.strip() == "cifar10, CIFAR10: AUROC, %, class lists of neal"
    assert not any("…" in line for line in lines)  # nothing is cut
    cells = {line.split()[0]: line.split()[-1] for line in lines if line.strip()}
    assert (cells["MSP"], cells["PROSER"]) == ("neal", UNKNOWN)
    assert "OSRCI" not in cells


def test_the_terminal_has_no_columns_of_published_numbers_where_there_is_none() -> None:
    column = PROTOCOLS["cifar100-openness"].columns[0]
    out = Console(file=io.StringIO(), width=80)
    out.print(terminal_table("openness", table_column(column, results("PROSER", 0.6, column=column), "")))
    heads = next(line for line in out.file.getvalue().splitlines() if "method" in line)
    assert heads.split() == ["method", "measured", "splits"]


def test_openness_is_drawn_for_settings_that_differ_in_it(tmp_path: Path) -> None:
    columns = PROTOCOLS["cifar100-openness"].columns
    measured = [
        SplitResult(
            "cifar100", 0, "PROSER", {column.metric: 0.6 - 0.05 * place for place, column in enumerate(columns)}, 1.0
        )
    ]
    write_report(["cifar100-openness"], {"cifar100": ""}, measured, RECIPES_OF, MADE, tmp_path)
    assert (tmp_path / "figures/cifar100-openness_against_openness.svg").is_file()
