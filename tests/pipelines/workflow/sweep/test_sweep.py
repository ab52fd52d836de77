"""`proser sweep`: spaces over class splits, shared work done once, and found again after.

The fixtures run in this order on one storage: swept, again, extended.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pipeline_runs import RunFolder, printed, quick_recipe, write_space
from sweep_runs import RATE, Done, request, rows_of, stamps, task_of

from pipelines.cluster.cluster import Cluster
from pipelines.reports.sweep_table import read_table
from pipelines.workflow.sweeping import sweep
from proser_core.errors import ConfigError
from proser_core.jobs.trials import WORKER, plan_pretraining
from proser_core.store import code_version
from proser_core.store.store import load_if_complete

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures", "empty_programs")


@pytest.fixture(scope="module")
def extended(again: object, folder: RunFolder) -> tuple[Done, dict[str, int]]:
    return printed(sweep, request(folder, spaces=("betas",), split_indices=(0, 1, 2))), stamps(folder)


class TestTheSweep:
    def test_every_split_has_the_control_the_own_point_and_equal_points_once(self, swept: tuple) -> None:
        (code, _), rows, _, _ = swept
        assert code == 0
        for split_index in (0, 1):
            mine = [row for row in rows if row["split_index"] == split_index]
            points = sorted((row["objective"], row["params"]["beta"], row["params"]["gamma"]) for row in mine)
            assert points == [
                ("cross_entropy", 1.0, 0.1),
                ("proser", 1.0, 0.1),
                ("proser", 2.0, 0.1),
                ("proser", 2.0, 1.0),
            ]

    def test_rows_know_their_spaces(self, swept: tuple) -> None:
        rows = [row for row in swept[1] if row["split_index"] == 1 and row["objective"] == "proser"]
        spaces = {(row["params"]["beta"], row["params"]["gamma"]): row["spaces"] for row in rows}
        assert spaces == {(1.0, 0.1): ["betas"], (2.0, 0.1): ["betas", "pairs"], (2.0, 1.0): ["pairs"]}

    def test_each_split_is_prepared_and_pretrained_once(self, swept: tuple, folder: RunFolder) -> None:
        assert len(list(folder.storage.glob("prepare/*"))) >= 2
        pretrained = {path.parent for path in folder.storage.glob("pretrain/*/weights.safetensors")}
        assert len([path for path in pretrained if path.name in swept[2]]) == 2
        assert len(swept[2]) == 2 + 8

    def test_tracking_has_one_parent_and_one_child_a_trial(self, swept: tuple) -> None:
        _, rows, _, runs = swept
        (parent,) = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
        children = [run for run in runs if run is not parent]
        assert parent.data.params["split_indices"] == "0, 1"
        assert {run.data.tags["mlflow.proser.trial_key"] for run in children} == {row["key"] for row in rows}
        assert len(children) == len(rows)
        assert {run.info.status for run in runs} == {"FINISHED"}
        metrics = {run.data.tags["mlflow.proser.trial_key"]: run.data.metrics for run in children}
        for row in rows:
            assert metrics[row["key"]]["dev/macro_f1"] == pytest.approx(row["metrics"]["dev/macro_f1"])

    def test_every_score_of_each_pretrained_net_and_control_is_a_control(self, swept: tuple, folder: RunFolder) -> None:
        names = ["MSP", "MaxLogit", "OpenMax", "CE control, MSP", "CE control, MaxLogit"]
        tables = [read_table(path) for path in folder.storage.glob("sweep_report/*")]
        assert tables
        for table in tables:
            expected = [(split_index, name) for split_index in table.splits for name in names]
            assert [(row["split_index"], row["name"]) for row in table.controls] == expected
            assert all(row["metrics"]["val/known_rate"] == pytest.approx(RATE, abs=0.01) for row in table.controls)

    def test_the_curves_of_each_pretraining_are_the_parents(self, swept: tuple, folder: RunFolder) -> None:
        (parent,) = (run for run in swept[3] if "mlflow.parentRunId" not in run.data.tags)
        for split_index in (0, 1):
            name = f"pretrain/split_{split_index}/loss/closed_set"
            history = folder.client.get_metric_history(parent.info.run_id, name)
            assert [metric.step for metric in history] == [0, 1]


def test_the_same_sweep_again_trains_nothing_and_doubles_nothing(swept: tuple, again: tuple) -> None:
    (code, text), trained, runs = again
    assert code == 0
    assert "every stage was already finished" in text
    assert "nothing to train" in text
    assert trained == swept[2]
    assert {run.info.run_id for run in runs} == {run.info.run_id for run in swept[3]}


@pytest.mark.slow
def test_another_split_trains_that_one_alone(again: tuple, extended: tuple) -> None:
    (code, text), trained = extended
    assert code == 0
    assert "3 to train, 6 already finished" in text
    assert {key: trained[key] for key in again[1]} == again[1]
    assert len(trained) == len(again[1]) + 1 + 3


def test_a_space_whose_file_was_edited_is_another_sweep(again: tuple, folder: RunFolder) -> None:
    options = {"spaces": ("mine.py",), "split_indices": (0,)}
    sweeps = len(folder.parents())
    for betas, more in (("1.0, 2.0", 1), ("1.0", 2), ("1.0, 2.0", 2)):
        write_space(folder.root, "mine", f'{{"beta": tune.grid_search([{betas}])}}')
        code, _ = printed(sweep, request(folder, **options))
        assert (code, len(folder.parents()) - sweeps) == (0, more)


@pytest.mark.slow
def test_after_an_edit_of_code_that_only_trains_every_point_is_trained_again(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the pretrained weights come out the same."""
    asked = request(folder, spaces=("pairs",), split_indices=(1,))
    assert printed(sweep, asked)[0] == 0
    before = {row["key"] for row in rows_of(folder)}
    monkeypatch.setitem(code_version._versions, WORKER, "edited")
    code, text = printed(sweep, asked)
    assert (code, "4 to train" in text) == (0, True)
    after = {row["key"] for row in rows_of(folder)}
    assert len(after) == 4
    assert not after & before
    assert after <= stamps(folder).keys()
    assert "every stage was already finished" in printed(sweep, asked)[1]


@pytest.mark.slow
def test_a_budget_that_ends_after_the_last_trial_leaves_nothing_to_go_on_with(
    again: tuple, folder: RunFolder, spaces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_jobs = Cluster.run_jobs

    def end_late(*arguments: Any, max_seconds: float, **more: Any) -> None:
        run_jobs(*arguments, **more)
        time.sleep(max_seconds)

    monkeypatch.setattr(Cluster, "run_jobs", end_late)
    write_space(spaces, "late", '{"beta": tune.grid_search([3.0])}')
    asked = request(folder, spaces=("late",), split_indices=(0,), max_hours=3 / 3600)
    code, text = printed(sweep, asked)
    assert (code, "the time is up" in text) == (0, False)
    assert "every stage was already finished" in printed(sweep, asked)[1]


@pytest.mark.usefixtures("again")
@pytest.mark.parametrize("block", ["pretrain", "finetune"])
def test_resume_with_another_option_begins_nothing_where_the_images_are_there(block: str, folder: RunFolder) -> None:
    recipe = quick_recipe()
    mistyped = replace(recipe, **{block: replace(getattr(recipe, block), lr=0.02)})
    with pytest.raises(ConfigError, match="found nothing of this sweep"):
        printed(sweep, request(folder, recipe=mistyped, resume=True))


@pytest.mark.usefixtures("again")
def test_resume_goes_on_with_a_pretraining_that_has_begun(folder: RunFolder) -> None:
    recipe = replace(quick_recipe(), pretrain=replace(quick_recipe().pretrain, lr=0.03))
    task = load_if_complete(task_of(folder, {"split_index": 0}))
    plan_pretraining(recipe, task, folder.storage).folder.mkdir()
    asked = request(folder, recipe=recipe, spaces=("betas",), split_indices=(0,), resume=True, dry_run=True)
    assert printed(sweep, asked)[0] == 0
