"""What a run shows in MLflow: where it comes from, its images, what matters, what was selected; and that a finished one
stays as it is."""

import io
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from pipeline_runs import finished_row, tiny_recipe
from rich.console import Console

import pipelines
from pipelines.tracking import trial_runs
from pipelines.tracking.data_sets import data_sets
from pipelines.tracking.origins import origin_tags
from pipelines.tracking.runs import NOTE, PARENT_TAG, TRIAL_KEY, ParentRun, run_of_its_own
from pipelines.tracking.server import experiment_id
from pipelines.tracking.system_metrics import system_metrics
from pipelines.workflow.session import _say_runs, _time, mark_run_failed
from pipelines.workflow.stages.trial_rows import TrialRows
from pipelines.workflow.training import TrainedSplit
from proser_core.data.tasks import TaskSummary
from proser_core.jobs import spec
from proser_core.store.store import Artefact, Store, write_manifest

EPOCHS = [{"epoch": 0.0, "loss": 1.0}]
FLAT = {
    "calibration/bias": 2.0,
    "dev/auroc": 0.9,
    "dev/macro_f1": 0.8,
    "test/unknown_3/fpr95": 0.1,
    "val/known_rate": 1,
}
LOST = {"status": "failed", "reason": "not finite", "metrics": {}}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A command line with a key in it."""
    monkeypatch.setattr(sys, "argv", ["/a/place/bin/proser", "run", "digits", "--storage", "s3://b/c?secret_key=abc"])
    origin_tags.cache_clear()
    yield
    origin_tags.cache_clear()


@pytest.fixture
def report(tmp_path: Path) -> Artefact:
    """A report of one page, one table and one figure."""
    folder = tmp_path / "report"
    for name in ("results.md", "tables/evaluation.json", "figures/space/macro_f1.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("# What was found\n")
    return write_manifest(folder, {})


def evaluation(key: str) -> dict[str, Any]:
    return {
        "selected": {"key": key, "name": key},
        "method": "PROSER",
        "methods": {"PROSER": {"flat": FLAT}, "CE control, MSP": {"flat": FLAT}},
    }


def everything(parent: ParentRun, report: Artefact, task: Artefact) -> None:
    """All that a run logs, from its start to its end."""
    parent.start()
    parent.log_data_sets(data_sets(tiny_recipe(), task))
    parent.curve("pretrain", EPOCHS)
    parent.track_trial(finished_row("one"), EPOCHS)
    parent.track_trial({**finished_row("two"), **LOST}, EPOCHS)
    parent.results(report, evaluation("one"))
    parent.end("FINISHED")


def reopened() -> ParentRun:
    return ParentRun.open("sweep", "key", {"seed": 0})


def runs_of(parent: ParentRun) -> dict[str, Run]:
    return {run.info.run_id: run for run in parent.client.search_runs([parent.experiment_id])}


def child(parent: ParentRun, key: str) -> Run:
    return parent.client.get_run(parent.child_id(key))


def test_every_run_names_its_user_its_commit_and_its_command_without_secrets(command: None, parent: ParentRun) -> None:
    parent.track_trial(finished_row("one"), EPOCHS)
    with run_of_its_own(parent.client, "a decision"):
        pass
    runs = runs_of(parent).values()
    assert len(runs) == 3
    root = Path(pipelines.__file__).parent
    asked = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    for tags in (run.data.tags for run in runs):
        assert tags["mlflow.source.name"] == "proser run digits --storage 's3://b/c?secret_key=***'"
        assert tags["mlflow.user"]
        assert tags.get("mlflow.source.git.commit", "") == asked.stdout.strip()


def test_work_with_a_key_below_a_run_goes_on_in_the_run_in_which_it_failed(parent: ParentRun) -> None:
    tags, seen = {PARENT_TAG: parent.run_id, TRIAL_KEY: "method"}, []
    with pytest.raises(ConnectionError), run_of_its_own(parent.client, "register", tags) as run_id:
        raise ConnectionError
    seen.append((run_id, parent.client.get_run(run_id).info.status))
    with run_of_its_own(parent.client, "register", tags) as again:
        seen.append((again, parent.client.get_run(again).info.status))
    seen.append((again, parent.client.get_run(again).info.status))
    assert seen == [(run_id, status) for status in ("FAILED", "RUNNING", "FINISHED")]


def test_tags_that_only_the_code_reads_are_hidden(parent: ParentRun, report: Artefact, task: Artefact) -> None:
    everything(parent, report, task)
    shown = {run.info.run_name: run.data.tags for run in runs_of(parent).values()}
    shown = {name: {tag for tag in tags if not tag.startswith("mlflow.")} for name, tags in shown.items()}
    assert shown == {"sweep": {"proser.selected"}, "one": {"proser.selected"}, "two": set()}


def test_a_parent_has_auroc_macro_f1_and_bias_of_each_method_and_its_files_in_folders(
    parent: ParentRun, report: Artefact, task: Artefact
) -> None:
    everything(parent, report, task)
    kept = {"calibration/bias", "dev/auroc", "dev/macro_f1"}
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


def test_a_run_says_why_it_failed_until_it_goes_on(parent: ParentRun, report: Artefact, tmp_path: Path) -> None:
    def shown() -> tuple[str, str]:
        run = parent.client.get_run(parent.run_id)
        return run.info.status, run.data.tags[NOTE]

    parent.results(report, evaluation("one"))
    described = shown()
    with pytest.raises(ValueError, match="no room"), mark_run_failed(parent, Store(tmp_path / "storage")):
        raise ValueError("no room at s3://me:pass@host\nmore")
    assert shown() == ("FAILED", "no room at s3://host")
    again = reopened()
    again.start()
    assert shown() == ("RUNNING", "")
    again.results(report, evaluation("one"))
    assert shown() == described


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


def test_each_part_of_the_images_is_a_data_set_with_a_digest_of_its_content(parent: ParentRun, task: Artefact) -> None:
    for _ in range(2):
        parent.log_data_sets(data_sets(tiny_recipe(), task))
    logged = parent.client.get_run(parent.run_id).inputs.dataset_inputs
    contexts = {each.tags[0].value: each.dataset for each in logged}
    assert contexts.keys() == {"training", "validation", "development unknowns", "test"}
    assert {data.name for data in contexts.values()} == {f"digits {context}" for context in contexts}
    assert len({data.digest for data in contexts.values()}) == len(logged) == 4
    size = TaskSummary.read(task.path).image_size
    assert f"[-1, {size}, {size}, 3]" in contexts["test"].schema


def test_a_new_run_says_what_the_experiment_is_and_an_own_description_stays(parent: ParentRun) -> None:
    client = parent.client
    assert "proser.selected" in client.get_experiment(parent.experiment_id).tags[NOTE]
    client.set_experiment_tag(parent.experiment_id, NOTE, "our own")
    experiment_id(client)
    assert client.get_experiment(parent.experiment_id).tags[NOTE] == "our own"


def test_the_reason_of_a_failed_trial_is_tracked_without_secrets(
    task: Artefact, parent: ParentRun, tmp_path: Path
) -> None:
    split = TrainedSplit(tiny_recipe(), task, Artefact(tmp_path, "weights"), bf16=False)
    (failed,) = split.trials([split.recipe.finetune], Store(tmp_path / "storage"))
    failed.folder.mkdir(parents=True)
    (failed.folder / spec.FAILURE).write_text("cannot read s3://me:pass@host/b?secret_key=abc")
    row = TrialRows({split.index: split.task}, {}, (), lambda: "").row(failed)
    parent.track_trial(row, [])
    assert child(parent, failed.key).data.tags[NOTE] == "cannot read s3://host/b?secret_key=***"


def test_the_machines_load_is_logged_while_a_run_is_running_also_once_a_finished_one_goes_on(
    parent: ParentRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")

    def logged() -> set[str]:
        return {name for name in parent.client.get_run(parent.run_id).data.metrics if name.startswith("system/")}

    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "false")
        with system_metrics(parent):
            time.sleep(0.3)
    assert logged() == set()
    parent.end("FINISHED")
    with system_metrics(parent):
        parent.track_epochs("one", "one", {}, EPOCHS)
        for _ in range(100):
            if logged():
                break
            time.sleep(0.1)
    assert {"system/cpu_utilization_percentage", "system/system_memory_usage_percentage"} <= logged()


def test_the_machines_load_is_logged_again_after_a_request_that_failed(
    parent: ParentRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    get_run, failed = MlflowClient.get_run, threading.Event()

    def away_once(client: MlflowClient, run_id: str) -> Run:
        if threading.current_thread().name == "SystemMetricsMonitor" and not failed.is_set():
            failed.set()
            raise ConnectionError
        return get_run(client, run_id)

    monkeypatch.setattr(MlflowClient, "get_run", away_once)
    with system_metrics(parent):
        for _ in range(100):
            if any(name.startswith("system/") for name in get_run(parent.client, parent.run_id).data.metrics):
                break
            time.sleep(0.1)
        else:
            pytest.fail("nothing was logged after the failure")
    assert failed.is_set()


def test_the_printed_address_opens_the_view_and_has_no_password(
    parent: ParentRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    for uri in ("sqlite:///mlflow.db", "http://me:pass@host:5000"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        out = io.StringIO()
        _say_runs(SimpleNamespace(console=Console(file=out, width=80)), parent)
        assert f"viewStateShareKey=proser-{parent.run_id}" in out.getvalue()
        assert "pass" not in out.getvalue()


def test_the_time_of_the_stages_and_the_rest_is_that_of_the_command() -> None:
    assert (
        _time(75.0, {"pretrain": 40.0, "sweep": 12.0})
        == "Time: 1:15 (pretrain 0:40, sweep 0:12, MLflow and the rest 0:23)"
    )
    assert _time(52.4, {"pretrain": 40.0, "sweep": 12.0}) == "Time: 0:52 (pretrain 0:40, sweep 0:12)"
    assert _time(3.0, {}) == "Time: 0:03; every stage was already finished"
