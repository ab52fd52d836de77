"""`proser sweep` over random draws and, with --stop-early, over a grid, on a local Ray: trials that fall behind train
no further, and a limit of time stops all."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from pipeline_runs import RunFolder, printed, write_space
from sweep_runs import Done, request, rows_of, stamps
from training_jobs import tiny_recipe

from pipelines.tracking.versions import CHOSEN_AMONG
from pipelines.workflow.best_of import register_best
from pipelines.workflow.requests import SweepRequest
from pipelines.workflow.session import TimeUpError
from pipelines.workflow.sweeping import sweep
from proser_core.jobs.spec import SELECTION_METRIC

pytestmark = pytest.mark.slow

RATES = '{{"lr": tune.grid_search([{0}e-2, {0}e-3, {0}e-4, {0}e-5, {0}e-6])}}'
DRAWS = '{"beta": tune.uniform(0.1, 3.0), "gamma": tune.loguniform(0.01, 1.0)}'


def search(folder: RunFolder, epochs: int, **limits: Any) -> SweepRequest:
    recipe = tiny_recipe()
    recipe = replace(recipe, finetune=replace(recipe.finetune, epochs=epochs, averaging=0.9))
    return request(folder, recipe=recipe, spaces=("draws",), split_indices=(0,), **limits)


@pytest.fixture(scope="module")
def folder(run_folder: RunFolder, spaces: Path) -> RunFolder:
    write_space(spaces, "draws", DRAWS)
    return run_folder


@pytest.fixture(scope="module")
def searched(folder: RunFolder) -> tuple[Done, list[dict[str, Any]], dict[str, int]]:
    ray.shutdown()  # a limit of time starts it with its dashboard, which frees the places of stopped trials
    return printed(sweep, search(folder, 5, num_samples=6, max_hours=1.0)), rows_of(folder), stamps(folder)


def test_one_point_in_three_goes_on_and_the_others_are_stopped_with_a_reason(searched: tuple) -> None:
    """Which is not told as the end of the time."""
    (code, text), rows, _ = searched
    assert (code, "the time is up" in text) == (0, False)
    points = [row for row in rows if row["spaces"] == ["draws"]]
    stops = ["", *["stopped after epoch 1 of 5"] * 4, "stopped after epoch 2 of 5"]
    assert sorted(row["reason"] for row in points) == stops
    assert all((row["status"] == "stopped") == bool(row["reason"]) for row in points)
    assert all(0 < row["metrics"][SELECTION_METRIC] <= 1 for row in points)


def test_the_control_and_the_own_point_are_never_stopped(searched: tuple) -> None:
    others = [row["status"] for row in searched[1] if not row["spaces"]]
    assert others == ["finished", "finished"]


def test_a_search_that_has_ended_is_found_again(searched: tuple, folder: RunFolder) -> None:
    code, text = printed(sweep, search(folder, 5, num_samples=6, max_hours=1.0))
    assert code == 0
    assert "every stage was already finished" in text
    assert stamps(folder) == searched[2]


def test_its_best_trial_was_chosen_among_all_points(searched: tuple, folder: RunFolder) -> None:
    said: list[str] = []
    register_best("digits, draws", folder.storage, 0, "of_search", say=said.append)
    assert "the best of 7 points there on development data" in said[0]


def test_points_that_were_stopped_stay_so_where_an_interrupted_search_goes_on(
    searched: tuple, folder: RunFolder, spaces: Path
) -> None:
    """They are compared with those that have finished, which train no more."""
    write_space(spaces, "interrupted", RATES.format(4))
    recipe = replace(search(folder, 5).recipe, stop_early=True)
    wanted = request(folder, spaces=("interrupted",), split_indices=(0,), recipe=recipe)
    assert printed(sweep, wanted)[0] == 0
    before = {row["name"]: row["status"] for row in rows_of(folder) if row["spaces"] == ["interrupted"]}
    assert "stopped" in before.values()
    newest = max(folder.storage.glob("sweep/*/trials.json"), key=lambda path: path.stat().st_mtime_ns)
    shutil.rmtree(newest.parent)  # as if it had been interrupted before the stage's end
    trained = stamps(folder)
    assert printed(sweep, wanted)[0] == 0
    assert {row["name"]: row["status"] for row in rows_of(folder) if row["spaces"] == ["interrupted"]} == before
    assert {key: stamp for key, stamp in stamps(folder).items() if key in trained} == trained


def test_a_budget_stops_it_and_is_told(searched: tuple, folder: RunFolder) -> None:
    with pytest.raises(TimeUpError, match="no point had finished when the time was up"):
        printed(sweep, search(folder, 400, max_hours=3 / 3600))


def test_points_of_a_grid_stop_early_where_that_is_asked_for(searched: tuple, folder: RunFolder, spaces: Path) -> None:
    write_space(spaces, "grid", RATES.format(3))
    recipe = search(folder, 5).recipe
    options = {"spaces": ("grid",), "split_indices": (0,)}
    code, text = printed(sweep, request(folder, recipe=replace(recipe, stop_early=True), **options))
    assert (code, "points that fall behind are stopped" in " ".join(text.split())) == (0, True)
    points = [row for row in rows_of(folder) if row["spaces"] == ["grid"]]
    assert sorted(row["status"] for row in points) == ["finished", *["stopped"] * 4]
    code, text = printed(sweep, request(folder, recipe=recipe, **options))
    assert (code, "points that fall behind" in text) == (0, False)
    points = [row for row in rows_of(folder) if row["spaces"] == ["grid"]]
    assert [row["status"] for row in points] == ["finished"] * 5, "without the option the whole grid"


def test_a_run_chooses_among_the_points_that_were_not_stopped(folder: RunFolder, spaces: Path) -> None:
    write_space(spaces, "rates", RATES.format(2))  # which no other test has trained
    recipe = replace(search(folder, 5).recipe, space="rates", stop_early=True)
    outcome = folder.run(recipe)
    assert (outcome.code, outcome.versions) == (0, 1)
    rows = rows_of(folder)
    statuses = {row["name"]: row["status"] for row in rows}
    assert "stopped" in statuses.values()
    (chosen,) = re.findall("Selected on development data: (.*)", outcome.text)
    assert statuses[chosen] == "finished"
    assert folder.client.get_model_version(recipe.model_name, "1").tags[CHOSEN_AMONG] == "6"  # its own, and five rates
    assert folder.run(replace(recipe, stop_early=False)).code == 0
    assert {row["status"] for row in rows_of(folder)} == {"finished"}
