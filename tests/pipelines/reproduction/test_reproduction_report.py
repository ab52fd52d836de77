"""Protocols as data, what was published, and the report that sets it beside what was measured."""

import csv
import io
import math
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from rich.console import Console

from pipelines.output_files import RESULTS
from pipelines.recipes import cifar100_cpu
from pipelines.reports.page import HTML, Made
from pipelines.reproduction.drawing import MOST, figures_of
from pipelines.reproduction.own_network_outcomes import OwnNetworkOutcome, picture_figures
from pipelines.reproduction.protocols import PERMUTED, PROTOCOLS, STUDIES, Column
from pipelines.reproduction.published import UNKNOWN, quoted
from pipelines.reproduction.report import NUMBERS, RECIPES, terminal_table, write_report
from pipelines.reproduction.results import BASELINES, SplitResult, cells_of, table_column
from pipelines.reproduction.studies import OWN_SCHEDULE
from proser_core.baselines import METHODS
from proser_core.baselines.controls import OWN_RULE
from proser_core.config import Recipe, from_json, to_json
from proser_core.data.splits.class_split import draw_split, where
from proser_core.data.splits.families import FAMILIES
from proser_core.errors import ConfigError
from proser_core.store.files import read_json

CIFAR10 = PROTOCOLS["cifar10"].columns[0]
NUM_CLASSES = {"svhn": (10,), "cifar10": (10,), "cifar-plus": (10, 100), "tiny-imagenet": (200,)}
RECIPES_OF = {name: [to_json(cifar100_cpu())] for name in STUDIES}
MADE = Made("proser reproduce cifar10 --data-dir 'my data'", {"schedule": "10 epochs", "hardware": "2 cores"})


def results(method: str, *values: float, column: Column = CIFAR10, seconds: float = 60.0) -> list[SplitResult]:
    return [SplitResult(column.study, at, method, {column.metric: value}, seconds) for at, value in enumerate(values)]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_column_reads_a_metric_that_its_study_measures(name: str) -> None:
    for column in PROTOCOLS[name].columns:
        place, _, metric = column.metric.rpartition("/")
        if metric in ("auroc", "macro_f1"):
            assert place in map(where, STUDIES[column.study].data.settings)
        else:
            assert column.metric in ("test/closed_set_accuracy", "seconds")


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_its_own_class_lists_for_each_trial(name: str) -> None:
    study = STUDIES[name]
    assert study.family in ("", *study.families())
    for family in study.families():
        for split in study.splits_of(family):
            known = draw_split(study.data_of(family, split), *NUM_CLASSES[name]).known
            lists = FAMILIES[family].against["cifar10", "cifar100"] if name == "cifar-plus" else FAMILIES[family]
            assert known == (lists.known[split] if name == "cifar-plus" else lists.known[study.data.name][split])
    assert study.splits_of(PERMUTED) == study.splits
    assert study.data_of(PERMUTED, 3).split_family == ""


def test_the_released_run_is_one_class_split() -> None:
    assert STUDIES["cifar10"].splits_of("proser") == (0,)
    assert STUDIES["cifar10"].splits_of("arpl") == (0, 1, 2, 3, 4)


def test_a_family_without_lists_for_a_data_set_is_refused_with_those_that_have() -> None:
    with pytest.raises(ConfigError, match="'cac', and SVHN takes one of neal, arpl, gcm, cssr, permuted"):
        STUDIES["svhn"].check_family("cac")
    with pytest.raises(ConfigError, match="MNIST takes nothing"):
        STUDIES["mnist-outliers"].check_family("neal")


def test_a_family_that_has_one_of_two_settings_is_measured_in_that_one() -> None:
    study = STUDIES["cifar-plus"]
    (ten,), (fifty,) = PROTOCOLS["cifar+10"].columns, PROTOCOLS["cifar+50"].columns
    assert study.data_of("cvaecap", 0).unknown_settings == (50,)
    assert study.data_of("neal", 0).unknown_settings == study.data_of(PERMUTED, 0).unknown_settings == (10, 50)
    study.check_column(fifty, "cvaecap")
    with pytest.raises(
        ConfigError, match=r"cvaecap has no lists for CIFAR\+10, only for CIFAR\+50; omit that protocol, or"
    ):
        study.check_column(ten, "cvaecap")
    for family in ("neal", PERMUTED):
        study.check_column(ten, family)


@pytest.mark.parametrize("family", [*FAMILIES, PERMUTED])
@pytest.mark.parametrize("name", ["svhn", "cifar10", "cifar+10", "cifar+50", "tiny-imagenet"])
def test_a_published_number_stands_beside_its_own_family_alone(name: str, family: str) -> None:
    found = quoted(PROTOCOLS[name].columns[0], family)
    assert {each.family for each in found} <= {family, UNKNOWN}
    assert [each.mean for each in found if each.method == "PROSER"] == [
        each.mean for each in found if "Zhou" in each.source
    ]
    assert any(each.method == "PROSER" for each in found)
    of_osrci = {"cifar+10": ["osrci"], "cifar+50": ["neal", "osrci"], "tiny-imagenet": [UNKNOWN]}.get(name, ["neal"])
    assert [each.family for each in found if each.method == "OSRCI"] == [
        each for each in of_osrci if each in (family, UNKNOWN)
    ]


def test_numbers_of_the_paper_are_those_that_it_prints() -> None:
    """A sample of each of its tables, typed a second time."""
    printed = {
        ("svhn", 0, "GFROSR"): 93.5,
        ("cifar+50", 0, "PROSER"): 95.3,
        ("tiny-imagenet", 0, "C2AE"): 58.1,
        ("closed-set", 2, "PROSER"): 52.1,
        ("mnist-outliers", 1, "OpenMax"): 72.0,
        ("cifar10-outliers", 3, "CROSR"): 74.9,
        ("cifar10-outliers", 0, "PROSER"): 84.9,
    }
    for (name, place, method), value in printed.items():
        column = PROTOCOLS[name].columns[place]
        found = [each.mean for each in quoted(column, STUDIES[column.study].family) if each.method == method]
        assert found == [value]


@pytest.mark.parametrize(
    ("name", "family", "method", "expected"),
    [
        ("svhn", "cssr", "RCSSR", [(97.8, "cssr")]),
        ("svhn", "neal", "RCSSR", []),
        ("cifar+10", "neal", "CSSR", [(96.3, UNKNOWN)]),  # the family has no lists there
        ("cifar10", "arpl", "ARPL+CS", [(91.0, "arpl")]),
        ("svhn", "arpl", "ARPL+CS", []),  # those who quote it disagree
        ("tiny-imagenet", "neal", "DIAS", [(73.1, "neal")]),
        ("tiny-imagenet", "neal", "DIAS, 800 epochs", [(75.6, "neal")]),
        ("cifar+10", "neal", "MSP", []),  # Neal's own is osrci
        ("cifar10", "neal", "G-OpenMax, interpolated", [(67.5, "neal")]),  # the form of Neal et al.
        ("cifar10", "neal", "G-OpenMax", []),
    ],
)
def test_later_methods_stand_beside_their_own_lists(
    name: str, family: str, method: str, expected: list[tuple[float, str]]
) -> None:
    found = quoted(PROTOCOLS[name].columns[0], family)
    assert [(each.mean, each.family) for each in found if each.method == method] == expected


def test_methods_are_in_the_order_in_which_they_were_measured_then_those_only_published() -> None:
    found = table_column(CIFAR10, [*results("MaxLogit", 0.8), *results("PROSER", 0.9)], "neal")
    assert [line.method for line in found.rows[:2]] == ["MaxLogit", "PROSER"]
    assert {"MSP", "OSRCI", "GFROSR"} <= {line.method for line in found.rows[2:]}
    assert not any(line.values for line in found.rows[2:])


def test_the_best_row_was_measured_on_every_class_split_and_by_the_rule_of_all_others() -> None:
    own_rule = SplitResult(CIFAR10.study, 0, "CROSR", {CIFAR10.metric: 0.6, f"{OWN_RULE}/{CIFAR10.metric}": 0.99}, 60.0)
    measured = [
        *results("MaxLogit", 0.9, 0.7),
        *results("MSP", 0.8, 0.7),
        *results("PROSER", 0.9),  # not on the harder split
        own_rule,
        replace(own_rule, split_index=1),
    ]
    found = table_column(CIFAR10, measured, "neal")
    assert max(found.rows, key=lambda row: row.mean if row.values else 0).method == "CROSR, own rule"
    assert [row.method for row in found.best] == ["MaxLogit"]


def test_a_difference_is_measured_minus_published_in_points() -> None:
    line = next(
        line for line in table_column(CIFAR10, results("PROSER", 0.871, 0.891), "neal").rows if line.method == "PROSER"
    )
    row = cells_of(line)[0]
    assert (row["measured"], row["count"], row["training"]) == ("88.1 ± 1.4", "2", "1:00")
    assert (row["published"], row["family"], row["difference"]) == ("89.1 ± 1.6", UNKNOWN, "-1.0")


def test_a_difference_of_less_than_is_shown_has_no_minus() -> None:
    (line,) = (line for line in table_column(CIFAR10, results("PROSER", 0.8909), "neal").rows if line.values)
    assert cells_of(line)[0]["difference"] == "+0.0"


def test_a_split_whose_time_nobody_took_is_not_in_the_mean_time() -> None:
    measured = [*results("PROSER", 0.9), replace(results("PROSER", 0.9)[0], split_index=1, seconds=0.0)]
    assert cells_of(table_column(CIFAR10, measured, "neal").rows[0])[0]["training"] == "1:00"


@pytest.mark.parametrize(
    ("proser", "verdict"),
    [
        ((0.80, 0.84), "PROSER is 2.0 ± 0.0 points below MaxLogit, above it on 0 of 2 class splits."),
        ((0.85, 0.85), "PROSER is 1.0 ± 2.8 points above MaxLogit, above it on 1 of 2 class splits."),
        ((0.82, 0.90), "PROSER is 2.0 ± 2.8 points above MaxLogit, above it on 1 of 2 class splits."),  # and once level
        ((0.82, 0.86), "PROSER is level with MaxLogit (0.0 ± 0.0 points)."),
        ((0.80,), "PROSER is 2.0 points below MaxLogit."),
    ],
)
def test_how_placeholders_stand_to_their_controls_is_said_either_way(proser: tuple[float, ...], verdict: str) -> None:
    found = table_column(CIFAR10, [*results("MaxLogit", 0.82, 0.86), *results("PROSER", *proser)], "neal")
    assert found.verdicts[0] == verdict
    assert found.verdicts[1] == "PROSER is not compared with CE control, MaxLogit, which was not measured."


def test_placeholders_are_held_against_methods_that_exist() -> None:
    assert {*BASELINES, *(name for names in BASELINES.values() for name in names)} <= METHODS.keys()


def test_a_method_that_was_not_measured_says_so_by_empty_cells() -> None:
    line = table_column(CIFAR10, [], "neal").rows[0]
    assert math.isnan(line.mean)
    assert {cells_of(line)[0][name] for name in ("measured", "count", "training", "difference")} == {""}


def test_a_time_is_in_seconds_and_held_against_nothing(tmp_path: Path) -> None:
    column = PROTOCOLS["running-time"].columns[0]
    measured = [
        *results("MaxLogit", 0.9, column=column, seconds=300.0),
        *results("PROSER", 0.9, column=column, seconds=420.0),
    ]
    found = table_column(column, measured, "")
    assert [(line.method, line.mean) for line in found.rows] == [("MaxLogit", 300.0), ("PROSER", 420.0)]
    assert found.verdicts == []
    write_report(["running-time"], {"mnist-outliers": ""}, measured, RECIPES_OF, MADE, tmp_path)
    assert "| PROSER | 420.0 |  |  |  | 1 |" in (tmp_path / RESULTS).read_text()
    assert (tmp_path / "figures/running-time_running_time.svg").is_file()


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


def outcome(study: str, network: str, split_index: int, grey: int) -> OwnNetworkOutcome:
    """Of a network that drew one grey image."""
    pictures = {"reconstructions": np.full((1, 1, 8, 8, 3), grey, np.uint8)}
    return OwnNetworkOutcome(study, network, split_index, {"reconstruction_error": grey / 255}, pictures)


def test_pictures_are_of_the_first_class_split_and_in_the_order_of_the_networks() -> None:
    networks = ("DHRNet", "C2AE")
    outcomes = [outcome("svhn", name, split, 100 * split) for split in (0, 1) for name in networks]
    drawn = list(picture_figures(outcomes))
    assert [(study, title) for study, title, _ in drawn] == [("svhn", f"{name}: reconstructions") for name in networks]
    assert all(figure.axes[0].images[0].get_array().min() == 0 for *_, figure in drawn)


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
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert box.y0 >= 0
    assert figure.legends[0].get_texts()[-1].get_text() == "PROSER"
    assert figure.get_supxlabel().replace("\n", " ") == (
        "Means over class splits; bars: standard deviation. Curves are shifted sideways. "
        f"{MOST} of {count} methods are drawn."
    )
