"""Rows of a report: their order, the best, differences, times, verdicts and cells that are empty."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from reproductions import CIFAR10, MADE, RECIPES_OF, results

from pipelines.output_files import RESULTS
from pipelines.reproduction.protocols import PROTOCOLS
from pipelines.reproduction.published import UNKNOWN
from pipelines.reproduction.report import write_report
from pipelines.reproduction.results import BASELINES, SplitResult, cells_of, table_column
from proser_core.baselines import METHODS
from proser_core.baselines.controls import OWN_RULE


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
