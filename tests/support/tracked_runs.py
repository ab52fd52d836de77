"""Runs in MLflow, opened again and looked up, and what is logged to them."""

from typing import Any

from mlflow.entities import Run

from pipelines.tracking.runs import ParentRun

EPOCHS = [{"epoch": 0.0, "loss": 1.0}]
FLAT = {
    "calibration/bias": 2.0,
    "dev/auroc": 0.9,
    "dev/macro_f1": 0.8,
    "test/unknown_3/fpr95": 0.1,
    "val/known_rate": 1,
}


def reopened() -> ParentRun:
    return ParentRun.open("sweep", "key", {"seed": 0})


def runs_of(parent: ParentRun) -> dict[str, Run]:
    return {run.info.run_id: run for run in parent.client.search_runs([parent.experiment_id])}


def child(parent: ParentRun, key: str) -> Run:
    return parent.client.get_run(parent.child_id(key))


def evaluation(key: str) -> dict[str, Any]:
    return {
        "selected": {"key": key, "name": key},
        "method": "PROSER",
        "methods": {"PROSER": {"flat": FLAT}, "CE control, MSP": {"flat": FLAT}},
    }
