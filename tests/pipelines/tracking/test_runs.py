"""What a run and its trials show in MLflow: what matters, what was selected, and that a finished one stays as it is."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient
from pipeline_runs import finished_row
from tracked_runs import EPOCHS, child, evaluation, reopened, runs_of
from training_jobs import tiny_recipe

from pipelines.tracking import trial_runs
from pipelines.tracking.data_sets import data_sets
from pipelines.tracking.runs import PARENT_TAG, TRIAL_KEY, ParentRun, run_of_its_own
from pipelines.tracking.server import NOTE
from pipelines.tracking.sweep_runs import fetch_report, find_run
from proser_core.errors import TrackingError
from proser_core.store.store import Artefact

METHOD = {PARENT_TAG: "none", TRIAL_KEY: "method"}
LOST = {"status": "failed", "reason": "not finite", "metrics": {}}
CONTROL = {"objective": "cross_entropy"}


def everything(parent: ParentRun, report: Artefact, task: Artefact) -> None:
    """All that a run logs, from its start to its end."""
    parent.start()
    parent.log_data_sets(data_sets(tiny_recipe(), task))
    parent.curve("pretrain", EPOCHS)
    parent.track_trial(finished_row("one"), EPOCHS)
    parent.track_trial({**finished_row("two"), **LOST}, EPOCHS)
    parent.track_trial({**finished_row("control"), "params": CONTROL, **LOST}, EPOCHS)
    parent.results(report, evaluation("one"))
    parent.end("FINISHED")


def test_work_with_a_key_below_a_run_goes_on_in_the_run_in_which_it_failed(parent: ParentRun) -> None:
    tags, seen = {PARENT_TAG: parent.run_id, TRIAL_KEY: "method"}, []
    with pytest.raises(ConnectionError), run_of_its_own(parent.client, "register", tags) as run_id:
        raise ConnectionError
    seen.append((run_id, parent.client.get_run(run_id).info.status))
    with run_of_its_own(parent.client, "register", tags) as again:
        seen.append((again, parent.client.get_run(again).info.status))
    seen.append((again, parent.client.get_run(again).info.status))
    assert seen == [(run_id, status) for status in ("FAILED", "RUNNING", "FINISHED")]


@pytest.mark.parametrize("name", ["Anna's", 'Anna "A"'])
def test_a_sweep_is_found_by_a_name_with_quotes_and_one_with_both_kinds_by_its_id(name: str, parent: ParentRun) -> None:
    made = ParentRun.open(name, "its key", {"spaces": "betas"})
    assert find_run(parent.client, name).info.run_id == made.run_id
    with pytest.raises(TrackingError, match="give the name or id of a run"):
        find_run(parent.client, """Anna's "A\"""")


def test_a_sweep_without_its_table_may_be_one_of_an_earlier_version(parent: ParentRun, tmp_path: Path) -> None:
    run = parent.client.get_run(parent.run_id)
    with pytest.raises(TrackingError, match=r"this version has finished\. Repeat the same `proser sweep`, and give"):
        fetch_report(parent.client, run, ("tables/sweep_table.json",), tmp_path)


@pytest.mark.parametrize(
    ("request_name", "begin"),
    [
        ("create_run", lambda parent: ParentRun.open("another", "its key", {"seed": 0})),
        ("log_batch", lambda parent: ParentRun.open("another", "its key", {"seed": 0})),
        ("create_run", lambda parent: parent.track_epochs("one", "one", {}, EPOCHS)),
        ("update_run", lambda parent: run_of_its_own(parent.client, "again", METHOD).__enter__()),
    ],
)
def test_a_run_that_is_interrupted_as_it_begins_does_not_stay_running(
    request_name: str, begin: Callable[[ParentRun], None], parent: ParentRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the server's answer to its creation is lost."""
    answered = getattr(MlflowClient, request_name)
    with run_of_its_own(parent.client, "finished", METHOD):
        pass

    def interrupt(*arguments: Any, **options: Any) -> None:
        answered(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(MlflowClient, request_name, interrupt)
    with pytest.raises(KeyboardInterrupt):
        begin(parent)
    monkeypatch.setattr(MlflowClient, request_name, answered)
    parent.end("KILLED")
    assert "RUNNING" not in {run.info.status for run in runs_of(parent).values()}


def test_tags_that_only_the_code_reads_are_hidden(parent: ParentRun, report: Artefact, task: Artefact) -> None:
    everything(parent, report, task)
    shown = {run.info.run_name: run.data.tags for run in runs_of(parent).values()}
    shown = {name: {tag for tag in tags if not tag.startswith("mlflow.")} for name, tags in shown.items()}
    assert shown == {"sweep": {"proser.selected"}, "one": {"proser.selected"}, "two": set(), "control": set()}


def test_a_parent_has_the_columns_of_its_table_and_the_bias_of_each_method_and_its_files_in_folders(
    parent: ParentRun, report: Artefact, task: Artefact
) -> None:
    everything(parent, report, task)
    kept = {"calibration/bias", "dev/auroc", "dev/macro_f1", "val/known_rate"}
    kept |= {"test/closed_set_accuracy", "test/balanced_accuracy"}
    metrics = parent.client.get_run(parent.run_id).data.metrics.keys()
    assert metrics == kept | {f"controls/ce_control_msp/{name}" for name in kept} | {"pretrain/epoch", "pretrain/loss"}
    assert {item.path for item in parent.client.list_artifacts(parent.run_id)} == {"figures", "results.md", "tables"}


def test_the_selected_trial_has_a_tag_which_goes_where_another_one_is_selected(parent: ParentRun) -> None:
    for key in ("one", "two"):
        parent.track_trial(finished_row(key), EPOCHS)
    for selected, other in (("one", "two"), ("two", "one")):
        parent.select([selected])
        assert child(parent, selected).data.tags["proser.selected"] == "yes"
        assert "proser.selected" not in child(parent, other).data.tags


def test_a_finished_run_that_is_repeated_stays_as_it_is(parent: ParentRun, report: Artefact, task: Artefact) -> None:
    everything(parent, report, task)
    parent.client.create_run(parent.experiment_id, tags={PARENT_TAG: parent.run_id})  # a user's own, below ours
    before = {run_id: run.to_dictionary() for run_id, run in runs_of(parent).items()}
    time.sleep(0.01)
    everything(reopened(), report, task)
    assert {run_id: run.to_dictionary() for run_id, run in runs_of(parent).items()} == before
    reopened().end("FAILED")
    assert parent.client.get_run(parent.run_id).info.status == "FINISHED"


def test_a_finished_run_with_something_new_goes_on(parent: ParentRun, report: Artefact, task: Artefact) -> None:
    everything(parent, report, task)
    again = reopened()
    again.start()
    again.track_trial(finished_row("two"), EPOCHS)
    assert parent.client.get_run(parent.run_id).info.status == "RUNNING"
    again.end("FINISHED")
    assert child(again, "two").info.status == parent.client.get_run(parent.run_id).info.status == "FINISHED"


def test_trials_that_go_on_are_running_and_so_is_their_sweep_until_all_are_interrupted(parent: ParentRun) -> None:
    def shown() -> dict[str, tuple[str, str]]:
        runs = {run.info.run_name: run for run in runs_of(parent).values()}
        return {name: (run.info.status, run.data.tags.get(NOTE, "")) for name, run in runs.items()}

    for key in ("killed", "stopped", "failed"):
        parent.track_epochs(key, key, {}, EPOCHS)
    parent.end("KILLED")
    for key in ("stopped", "failed"):
        parent.track_trial({**finished_row(key), "status": key, "reason": "why", "metrics": {}}, EPOCHS)
    parent.end("FINISHED")
    before = {
        "sweep": ("FINISHED", ""),
        "killed": ("KILLED", ""),
        "stopped": ("KILLED", "why"),
        "failed": ("FAILED", "why"),
    }
    again = reopened()
    for epochs, expected in (
        (EPOCHS, before),
        ([*EPOCHS, {"epoch": 1.0, "loss": 1.0}], dict.fromkeys(before, ("RUNNING", ""))),
    ):
        again.start()
        for key in ("killed", "stopped", "failed"):
            again.track_epochs(key, key, {}, epochs)
        assert shown() == expected
    again.end("KILLED")
    assert shown() == dict.fromkeys(before, ("KILLED", ""))


def test_a_run_that_another_command_has_ended_finishes_once(parent: ParentRun) -> None:
    parent.start()
    other = reopened()
    reopened().end("KILLED")
    parent.end("FINISHED")
    other.end("KILLED")
    assert parent.client.get_run(parent.run_id).info.status == "FINISHED"


@pytest.mark.parametrize("is_reopened", [True, False])
def test_a_trial_that_was_stopped_and_went_on_shows_its_final_metrics(parent: ParentRun, is_reopened: bool) -> None:
    scores = {"stopped": (0.7, 0.5), "finished": (0.65, 0.6)}
    for status, (one, other) in scores.items():
        metrics = {"dev/macro_f1": one, "dev/auroc": other}
        parent.track_trial({**finished_row("one"), "status": status, "reason": "", "metrics": metrics}, EPOCHS)
        parent = reopened() if is_reopened else parent
    shown = child(parent, "one").data.metrics
    assert (shown["dev/macro_f1"], shown["dev/auroc"]) == scores["finished"]


def test_what_is_logged_again_by_a_machine_whose_clock_is_behind_is_shown(
    parent: ParentRun, report: Artefact, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = {**finished_row("one"), "status": "stopped", "reason": "", "metrics": {"dev/auroc": 0.7}}
    parent.track_trial(logged, EPOCHS)
    parent.report(report, {"dev/auroc": 0.7})
    monkeypatch.setattr(trial_runs.time, "time", lambda: 1.0)
    again = reopened()
    again.track_trial({**finished_row("one"), "metrics": {"dev/auroc": 0.6}}, EPOCHS)
    again.report(replace(report, digest="another"), {"dev/auroc": 0.6})
    assert [run.data.metrics["dev/auroc"] for run in runs_of(parent).values()] == [0.6, 0.6]


def test_a_learning_rate_is_shown_without_the_noise_of_single_precision(parent: ParentRun) -> None:
    rates = [{"epoch": 0.0, "train/lr": float(np.float32(0.001))}]
    parent.curve("pretrain", rates)
    parent.track_epochs("one", "one", {}, rates)
    assert parent.client.get_run(parent.run_id).data.metrics["pretrain/train/lr"] == 0.001
    assert child(parent, "one").data.metrics["train/lr"] == 0.001
