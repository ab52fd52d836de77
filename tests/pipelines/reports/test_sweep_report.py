"""What is written of a finished sweep: results.md, trials.parquet, the terminal, and which point is selected."""

import io
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from rich.console import Console
from sweep_tables import (
    ALPHAS,
    COUNTS,
    GRID,
    SETTINGS,
    SPLIT,
    by_alpha,
    by_count,
    by_weights,
    drawn,
    lacking,
    losing,
    metrics,
    table,
    texts,
    trade_off,
    trial,
)
from training_jobs import tiny_recipe

from pipelines.reports import trials_parquet
from pipelines.reports.report_files import figures_of, write_report
from pipelines.reports.results_page import overview, results_page
from pipelines.reports.scores_page import choice_facts
from pipelines.reports.spaces import OWN_SPACE, spaces_of
from pipelines.reports.sweep_table import spreads
from pipelines.reports.terminal import run_tables, sweep_tables
from pipelines.workflow.best_of import best_rows
from proser_core.config import FinetuneConfig
from proser_core.config.named_finetunes import PLACEHOLDER_FIELDS
from proser_core.jobs.selection import select
from proser_core.recognition.metrics import SettingMetrics
from proser_core.recognition.result_tables import known_columns
from tune_spaces import SpaceInfo


@settings(max_examples=20)
@given(st.lists(st.floats(0.3, 0.9), min_size=16, max_size=16), st.randoms())
def test_the_best_mean_on_development_is_selected_whatever_test_images_say(values: list[float], random: Any) -> None:
    made = table("num_dummies", COUNTS, range(2), lambda point, split: values[COUNTS.index(point) + 8 * split])
    for row in made.rows:
        row["metrics"] |= {name: random.random() for name in row["metrics"] if name.startswith("test/")}
    means = [statistics.fmean([values[place], values[place + 8]]) for place in range(8)]
    assert spaces_of(made)[0].selected.mean("dev/macro_f1") == pytest.approx(max(means))


@pytest.mark.parametrize(
    ("counts", "label"), [([1, 9, 5], "C 5"), ([9, 1], "C 9")], ids=["the recipe's own point", "the first"]
)
def test_a_run_a_report_and_a_promotion_select_the_same_of_points_that_are_level(counts: list[int], label: str) -> None:
    made = table("num_dummies", [{"num_dummies": count} for count in counts], range(2), lambda point, split: 0.5)
    of_run = select([row for row in made.rows if row["split_index"] == 1], made.own)
    assert of_run == best_rows(made, made.own, 1)[0]
    selected = spaces_of(made)[0].selected
    assert selected.label == label
    assert selected.rows[1] == of_run


def test_a_point_that_lacks_a_split_is_not_selected() -> None:
    best = {"beta": 0.0, "gamma": 0.0}
    for made in (losing(trade_off(), best, 0), lacking(trade_off(), best, 0)):
        assert spaces_of(made)[0].selected.label == "beta 0.01, gamma 0"


def test_a_point_that_lacks_a_split_is_not_the_best_of_a_table() -> None:
    best = {"beta": 0.0, "gamma": 0.0}
    for made in (losing(trade_off(), best, 0), lacking(trade_off(), best, 0)):  # the harder one
        points = spaces_of(made)[0].points
        found = dict(zip([point.label for point in points], spreads(points, "dev/macro_f1"), strict=True))
        assert (found["beta 0, gamma 0"], found["beta 0.01, gamma 0"]) == ("65.0", "**64.5 ± 0.7**")


def test_the_parquet_file_has_a_row_for_each_trial_and_setting_and_typed_columns(tmp_path: Path) -> None:
    made = losing(trade_off(), {"beta": 0.0, "gamma": 0.0}, 1)
    trials_parquet.write_parquet(made, tmp_path / "trials.parquet")
    read = parquet.read_table(tmp_path / "trials.parquet")
    frame = read.to_pandas()
    assert len(frame) == (50 + 8) * len(SETTINGS)
    assert [str(read.schema.field(name).type) for name in ("beta", "num_dummies", "mixup", "nesterov")] == [
        "double",
        "int64",
        "string",
        "bool",
    ]
    one = frame[(frame.split_index == 1) & (frame.beta == 1) & (frame.gamma == 0.1) & (frame.num_unknown == 30)]
    assert one.macro_f1.item() == pytest.approx(by_weights({"beta": 1, "gamma": 0.1}, 1) - 0.1)
    assert one.openness.item() == pytest.approx(SPLIT.openness(30))
    assert list(one.spaces.item()) == ["trade_off"]
    lost = frame[frame.status == "failed"]
    assert len(lost) == len(SETTINGS)
    assert lost[["macro_f1", "dev_macro_f1", "bias"]].isna().all(axis=None)
    assert set(lost.reason) == {"not finite"}
    controls = frame[frame.objective == "control"]
    assert len(controls) == 8 * len(SETTINGS)
    assert controls.beta.isna().all()


def test_the_trained_control_has_no_place_among_points_in_the_parquet_file(tmp_path: Path) -> None:
    control = trial({"objective": "cross_entropy"}, 0, 0.5, "trade_off") | {"objective": "cross_entropy", "spaces": []}
    made = trade_off(range(1))
    trials_parquet.write_parquet(replace(made, rows=[*made.rows, control]), tmp_path / "trials.parquet")
    frame = parquet.read_table(tmp_path / "trials.parquet").to_pandas()
    of_control = frame[frame.objective == "cross_entropy"]
    assert of_control[[*PLACEHOLDER_FIELDS]].isna().all(axis=None)
    assert set(of_control.epochs) == {FinetuneConfig().epochs}
    means = frame[frame.num_unknown == 15].groupby(["beta", "gamma"]).macro_f1.mean()
    assert means[1.0, 0.1] == pytest.approx(by_weights({"beta": 1.0, "gamma": 0.1}, 0))


def test_without_unknown_test_classes_the_parquet_file_has_one_row_for_each_trial_and_control(tmp_path: Path) -> None:
    made = trade_off(range(1))
    trials_parquet.write_parquet(
        replace(made, splits={0: replace(SPLIT, unknown=(), settings=())}), tmp_path / "trials.parquet"
    )
    frame = parquet.read_table(tmp_path / "trials.parquet").to_pandas()
    assert len(frame) == 25 + 4
    assert frame[["num_unknown", "outliers", "openness", "auroc", "macro_f1"]].isna().all(axis=None)
    assert set(frame.num_known) == {15}
    assert frame.test_known_rate.tolist() == [0.94] * 29


def test_the_parquet_file_has_every_field_of_a_fine_tune_as_a_column(tmp_path: Path) -> None:
    trials_parquet.write_parquet(trade_off(range(1)), tmp_path / "trials.parquet")
    params = set(trial({}, 0, 0.5, "space")["params"])
    names = set(parquet.read_schema(tmp_path / "trials.parquet").names)
    assert params - names == {"C"}


@pytest.mark.slow
def test_a_report_has_every_figure_twice_and_the_same_bytes_again(tmp_path: Path) -> None:
    made = table("num_dummies", COUNTS[:3], range(2), by_count)
    for folder in ("first", "second"):
        write_report(made, tiny_recipe(), tmp_path / folder)
    first, second = (
        {path.relative_to(tmp_path / name) for path in (tmp_path / name).rglob("*.*")} for name in ("first", "second")
    )
    assert first == second
    names = {str(path) for path in first}
    tables = {f"tables/{name}" for name in ("recipe.json", "sweep_table.json", "trials.parquet")}
    figures = {f"figures/num_dummies/{name}" for name in ("macro_f1.png", "parallel_coordinates.svg")}
    assert {"results.md"} | tables | figures <= names
    assert len(names) == 4 + 2 * 7
    for path in first:
        assert (tmp_path / "first" / path).read_bytes() == (tmp_path / "second" / path).read_bytes(), path


def test_results_show_mean_deviation_the_papers_number_and_the_difference() -> None:
    text = results_page(table("mixup_alpha", ALPHAS, range(2), by_alpha))
    (line,) = [line for line in text.splitlines() if line.startswith("| alpha 0.4, mixup manifold")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1] == "2 of 2"
    assert cells[2] == "70.9 ± 0.7 / 60.9 ± 0.7"
    assert cells[-2:] == ["63.0", "-2.1"]
    assert "| **alpha 2, mixup vanilla** (selected) |" in text
    assert "paper, macro-F1 at 15 unknown | difference |" in text
    assert "63.0 (63.0)" not in text
    assert "(70.7)" in text


def test_one_split_shows_no_deviation() -> None:
    made = table("mixup_alpha", ALPHAS, range(1), by_alpha)
    assert "±" not in results_page(made)
    assert all("±" not in texts(figure) for figure in figures_of(spaces_of(made)[0]).values())


def test_it_is_said_where_no_point_is_above_a_control() -> None:
    text = overview(trade_off())
    assert "No point is above MaxLogit on development macro-F1" in text
    assert "beta 0, gamma 0, differs by -2.0 ± 0.0 points" in text
    better = table("trade_off", GRID, range(2), lambda point, split: by_weights(point, split) + 0.016)
    assert "Above CE control, MaxLogit on development macro-F1: 16 of 25 points" in overview(better)


def test_a_selected_point_on_another_schedule_than_the_controls_is_told() -> None:
    points = [{"epochs": epochs, "lr": lr} for epochs in (10, 20) for lr in (0.001, 0.01)]
    by_epochs = table("one_factor", points, range(1), lambda point, split: 0.6 + point["epochs"] / 100 + point["lr"])
    said = "The selected point has epochs 20 instead of 10, lr 0.01 instead of 0.001; the controls have the recipe's"
    assert said in overview(by_epochs)
    assert "the controls have the recipe's" not in overview(trade_off())


def test_one_point_is_not_called_selected() -> None:
    alone, several = overview(table(OWN_SPACE, GRID[:1], range(1), by_weights)), overview(trade_off())
    assert ("the only point, " in alone, "elected" in alone) == (True, False)
    assert "On development macro-F1 it differs from MaxLogit by -2.0 points." in alone
    assert ("the only point, " in several, "Points are selected on" in several) == (False, True)


def test_a_failed_trial_and_a_lacking_split_are_told_with_reason() -> None:
    made = losing(trade_off(), {"beta": 0.1, "gamma": 0.1}, 1, reason="the loss is not finite in epoch 2")
    made = lacking(made, {"beta": 1.0, "gamma": 1.0}, 0)
    text = results_page(made)
    assert "49 trials, 48 finished, 1 failed" in text
    assert "on 1, split 1: the loss is not finite in epoch 2" in text
    rows = [line for line in text.splitlines() if line.startswith(("| beta 0.1, gamma 0.1 ", "| beta 1, gamma 1 "))]
    assert len(rows) == 2
    assert all("| 1 of 2 |" in line for line in rows)


def test_a_sweep_without_any_outcome_still_has_a_report(tmp_path: Path) -> None:
    made = table("num_dummies", COUNTS[:2], range(1), by_count)
    for point in COUNTS[:2]:
        made = losing(made, point, 0)
    write_report(made, tiny_recipe(), tmp_path)
    text = (tmp_path / "results.md").read_text()
    assert "no point finished" in text
    assert text.count("- failed: ") == 2


@pytest.mark.parametrize("splits", [range(1), range(5)])
def test_terminal_tables_fit_and_show_the_best_five_and_the_controls(splits: range) -> None:
    made = losing(trade_off(splits), {"beta": 10.0, "gamma": 10.0}, 0)
    out = io.StringIO()
    for drawn_table in sweep_tables(made):
        Console(file=out, width=80).print(drawn_table)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    best = sorted(GRID, key=lambda point: -by_weights(point, 0))[:5]
    assert all(f"beta {point['beta']:g}, gamma {point['gamma']:g} " in text for point in best)
    assert text.count("beta ") == 6  # and the one in the caption
    assert text.count("MaxLogit") == 2


def test_names_on_the_terminal_are_no_markup() -> None:
    named = {"a[/b]": {"num_dummies": 1}, "b": {"num_dummies": 5}}
    made = losing(table("grid[draft]", named.values(), range(1), by_count), named["a[/b]"], 0)
    out = io.StringIO()
    for each in sweep_tables(replace(made, spaces={"grid[draft]": SpaceInfo(points=named)})):
        Console(file=out, width=80).print(each)
    assert "grid[draft]: 1 of 2 points" in out.getvalue()
    assert "Failed: a[/b]." in out.getvalue()


def test_points_of_a_search_are_listed_best_first_and_stopped_ones_with_what_they_had_reached() -> None:
    points = [{"beta": 0.1 * step, "gamma": 0.2 * step, "alpha": 1 + step / 100} for step in range(20)]
    made = table("searched", points, range(1), lambda point, split: 0.5 + point["beta"] / 10)
    made = losing(made, points[19], 0, "stopped", "stopped after epoch 2 of 10")
    made.rows[19]["metrics"] |= {"dev/macro_f1": 0.41}
    (space,) = spaces_of(made)
    assert [point.params["beta"] for point in space.points][:2] == [points[18]["beta"], points[17]["beta"]]
    assert "stopped at macro-F1 41.0" in results_page(made)
    assert "x stopped at 41.0" in texts(drawn(made, place="dev"))


def test_the_recipes_own_point_is_told_where_no_space_has_it() -> None:
    made = trade_off(range(1))
    own = {**trial({"beta": 5.0}, 0, 0.61, "none"), "name": "beta 5", "spaces": []}
    text = results_page(replace(made, rows=[*made.rows, own], own=FinetuneConfig(beta=5.0)))
    assert "| PROSER, recipe's own point | 71.0 / 61.0 |" in text


def test_drawn_values_are_not_crossed() -> None:
    points = [{"beta": 0.1 * step, "gamma": 0.2 * step} for step in range(1, 9)]
    assert "downwards" not in results_page(table("searched", points, range(1), lambda point, split: 0.5))
    assert "downwards" in results_page(trade_off())


def test_the_made_tables_have_the_metrics_of_a_report() -> None:
    names = {name.removeprefix("test/unknown_15/") for name in metrics(0.5) if name.startswith("test/unknown_15/")}
    assert names == set(SettingMetrics.__dataclass_fields__)


def test_one_number_of_unknown_classes_names_its_column() -> None:
    made = table(OWN_SPACE, GRID[:1], range(1), by_weights)
    (lone,) = run_tables(replace(made, splits={0: replace(SPLIT, settings=(15,))}))[1:]
    assert str(lone.title) == "made: macro-F1 on test images, %"
    assert [str(column.header) for column in lone.columns] == ["", "15 unknown", "accuracy", "known"]
    several = run_tables(made)[1]
    assert str(several.title) == "made: macro-F1 on test images, %, by number of unknown classes"
    assert [str(column.header) for column in several.columns][1:3] == ["15", "30"]


def test_the_page_of_a_run_without_a_space_has_the_name_of_its_recipe() -> None:
    assert results_page(table(OWN_SPACE, GRID[:1], range(1), by_weights)).startswith("# Results of recipe made\n")
    assert results_page(trade_off()).startswith("# Results of recipe made, search space trade_off\n")


def test_a_run_says_which_network_it_takes_or_which_better_one_it_passes_over() -> None:
    evaluation = {"choices": {}, "network": None, "passed_over": "The control is better.", "proxy": None}
    assert choice_facts(evaluation) == ["The control is better."]
    assert choice_facts({**evaluation, "network": "PROSER", "passed_over": ""}) == ["Network of the model: PROSER."]
    assert choice_facts({**evaluation, "passed_over": ""}) == []
    scores = {"fDBD": {"development": {}, "flat": {"test/closed_set_accuracy": 0.9}}}
    choice = {"chosen": "fDBD", "best": {}, "by_development": False, "scores": scores}
    all_known = {**evaluation, "choices": {"PROSER": choice}, "passed_over": ""}
    assert choice_facts(all_known) == ["Scores, named in advance: PROSER: fDBD."], "and no page without a column"
    scores["fDBD"]["flat"]["test/unknown_1/auroc"] = 0.8
    assert "(`tables/scores.md` has all)" in choice_facts(all_known)[0]


def test_the_balanced_accuracy_has_no_column_where_it_has_no_value_or_is_the_accuracy() -> None:
    for balanced, shown in ((["-", "-"], False), (["90.0", "80.0"], False), (["-", "79.9"], True)):
        found = known_columns(lambda metric, cells=balanced: cells if "balanced" in metric else ["90.0", "80.0"])
        assert ("balanced" in found) == shown
