"""The machine's load, logged while a run is running."""

import threading
import time

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from tracked_runs import EPOCHS
from waiting import until

from pipelines.tracking.runs import ParentRun
from pipelines.tracking.system_metrics import system_metrics


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
        until(logged)
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
        until(lambda: any(name.startswith("system/") for name in get_run(parent.client, parent.run_id).data.metrics))
    assert failed.is_set()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "off"), ("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "60s")],
)
def test_what_keeps_the_machines_load_from_being_logged_is_said_in_a_line_and_the_work_goes_on(
    parent: ParentRun, variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    with system_metrics(parent):
        pass
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("proser: the load of this machine is not logged (")
    assert variable in line
