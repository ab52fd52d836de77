"""`proser sweep` over random draws and, with --stop-early, over a grid, on a local Ray, which stops trials that fall
behind and whole searches."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from pipeline_runs import RunFolder, printed, tiny_recipe, write_space
from sweep_runs import Done, request, rows_of, stamps

from pipelines.cluster.cluster import Cluster
from pipelines.workflow.requests import SweepRequest
from pipelines.workflow.sweeping import sweep
from proser_core.errors import ProserError
from proser_core.jobs.spec import SELECTION_METRIC, TRIALS, read_scores

pytestmark = pytest.mark.slow

RATES = '{{"lr": tune.grid_search([{0}e-2, {0}e-3, {0}e-4, {0}e-5, {0}e-6])}}'
"""In the other order each trial would be the best until then, and none would be stopped."""
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
def ended(patch: pytest.MonkeyPatch) -> set[str]:
    """Keys of trials that ended before the time was up, of every search until now."""
    run_jobs, found = Cluster.run_jobs, set[str]()

    def noted(*arguments: Any, **more: Any) -> set[str]:
        ended = run_jobs(*arguments, **more)
        found.update(ended)
        return ended

    patch.setattr(Cluster, "run_jobs", noted)
    return found


@pytest.fixture(scope="module")
def searched(folder: RunFolder, ended: set[str]) -> tuple[Done, list[dict[str, Any]], dict[str, int]]:
    ray.shutdown()  # a search starts it with its dashboard, which frees the places of stopped trials
    return printed(sweep, search(folder, 5, num_samples=5)), rows_of(folder), stamps(folder)


def test_some_points_finish_and_others_are_stopped_with_a_reason(searched: tuple) -> None:
    (code, _), rows, _ = searched
    assert code == 0
    points = [row for row in rows if row["spaces"] == ["draws"]]
    assert len(points) == 5
    assert {row["status"] for row in points} == {"finished", "stopped"}
    stopped = [row for row in points if row["status"] == "stopped"]
    assert all(row["reason"].startswith("stopped after epoch") for row in stopped)
    assert all(0 < row["metrics"]["dev/macro_f1"] <= 1 for row in stopped)


def test_points_that_fall_behind_have_ended_before_the_time_is_up(searched: tuple, ended: set[str]) -> None:
    """A stopped trial is finished; one that ran out of time is not."""
    keys = {row["key"] for row in searched[1] if row["status"] == "stopped"}
    assert keys
    assert keys <= ended


def test_the_control_and_the_own_point_are_never_stopped(searched: tuple) -> None:
    others = [row["status"] for row in searched[1] if not row["spaces"]]
    assert others == ["finished", "finished"]


def test_the_last_score_is_that_of_the_network_that_is_kept(searched: tuple, folder: RunFolder) -> None:
    """Of averaged weights here."""
    finished = [row for row in searched[1] if row["status"] == "finished" and row["spaces"] == ["draws"]]
    assert finished
    for row in finished:
        last = read_scores(folder.storage / TRIALS / row["key"])[-1]
        assert last[SELECTION_METRIC] == pytest.approx(row["metrics"][SELECTION_METRIC])


def test_a_search_that_has_ended_is_found_again(searched: tuple, folder: RunFolder) -> None:
    code, text = printed(sweep, search(folder, 5, num_samples=5))
    assert code == 0
    assert "every stage was found finished" in text
    assert stamps(folder) == searched[2]


def test_points_that_were_stopped_stay_so_where_an_interrupted_search_goes_on(
    searched: tuple, folder: RunFolder, spaces: Path
) -> None:
    """They are compared with those that have finished, which train no more. One at a time: side by side they come in
    another order on a busy machine, and one that has fewer rivals then may go on."""
    write_space(spaces, "interrupted", RATES.format(4))
    wanted = request(folder, spaces=("interrupted",), split_indices=(0,))
    recipe = search(folder, 5).recipe
    cluster = replace(recipe.cluster, max_concurrent=1)
    wanted = replace(wanted, recipe=replace(recipe, stop_early=True, cluster=cluster))
    assert printed(sweep, wanted)[0] == 0
    before = {row["name"]: row["status"] for row in rows_of(folder) if row["spaces"] == ["interrupted"]}
    assert "stopped" in before.values()
    newest = max(folder.storage.glob("sweep/*/trials.json"), key=lambda path: path.stat().st_mtime_ns)
    shutil.rmtree(newest.parent)  # as if it had been interrupted before the stage's end
    trained = stamps(folder)
    assert printed(sweep, wanted)[0] == 0
    assert {row["name"]: row["status"] for row in rows_of(folder) if row["spaces"] == ["interrupted"]} == before
    assert {key: stamp for key, stamp in stamps(folder).items() if key in trained} == trained


def test_a_budget_stops_it_and_is_told(searched: tuple, folder: RunFolder, ended: set[str]) -> None:
    before = set(ended)
    with pytest.raises(ProserError, match="no trial with placeholders finished"):
        printed(sweep, search(folder, 400, max_hours=3 / 3600))
    assert ended == before


def test_points_of_a_grid_stop_early_where_that_is_asked_for(searched: tuple, folder: RunFolder, spaces: Path) -> None:
    write_space(spaces, "grid", RATES.format(3))
    recipe = search(folder, 5).recipe
    options = {"spaces": ("grid",), "split_indices": (0,)}
    code, text = printed(sweep, request(folder, recipe=replace(recipe, stop_early=True), **options))
    assert (code, "at most: 5 points may be stopped early" in " ".join(text.split())) == (0, True)
    points = [row for row in rows_of(folder) if row["spaces"] == ["grid"]]
    assert sorted({row["status"] for row in points}) == ["finished", "stopped"]
    assert len(points) == 5
    code, text = printed(sweep, request(folder, recipe=recipe, **options))
    assert (code, "may be stopped early" in text) == (0, False)
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
    assert folder.run(replace(recipe, stop_early=False)).code == 0
    assert {row["status"] for row in rows_of(folder)} == {"finished"}
