"""Runs in MLflow, opened again and looked up, and what is logged to them."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mlflow.entities import Run
from rich.console import Console
from training_jobs import tiny_recipe

from pipelines.cluster.cluster import Cluster
from pipelines.storage.storage import Storage
from pipelines.tracking.deferred import DeferredTracking
from pipelines.tracking.runs import ParentRun
from pipelines.workflow.session import TrainingSession

EPOCHS = [{"epoch": 0.0, "loss": 1.0}]
FLAT = {
    "calibration/bias": 2.0,
    "dev/auroc": 0.9,
    "dev/macro_f1": 0.8,
    "test/unknown_3/fpr95": 0.1,
    "test/closed_set_accuracy": 0.9,
    "test/balanced_accuracy": 0.9,
    "val/known_rate": 1,
}


def reopened() -> ParentRun:
    return ParentRun.open("sweep", "key", {"seed": 0})


def following(parent: ParentRun, store: Storage, say: Callable[[str], None] = print) -> TrainingSession:
    """The session of trainings that this run shows, on a cluster that is not joined yet."""
    cluster = Cluster(tiny_recipe().cluster, store)
    return TrainingSession(store, cluster, DeferredTracking(say), Console(file=io.StringIO()), parent)


def runs_of(parent: ParentRun) -> dict[str, Run]:
    return {run.info.run_id: run for run in parent.client.search_runs([parent.experiment_id])}


def child(parent: ParentRun, key: str) -> Run:
    return parent.client.get_run(parent.child_id(key))


@contextmanager
def no_run() -> Iterator[str]:
    """For a registration that must not make a version."""
    pytest.fail("a version is made of an artefact that the registry has or may have")
    yield


def evaluation(key: str) -> dict[str, Any]:
    return {
        "selected": {"key": key, "name": key},
        "method": "PROSER",
        "methods": {"PROSER": FLAT, "CE control, MSP": FLAT},
    }
