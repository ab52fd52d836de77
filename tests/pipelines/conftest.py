"""Fixtures of the workflow's tests: real digits on disk, real SQLite, temporary search spaces."""

import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from encoded_images import encode
from matplotlib.figure import Figure
from pipeline_runs import Proser, RunFolder, write_space
from ray import tune
from registered_models import classifier_of
from served_models import some_pixels
from sqlalchemy import Engine, event
from storages import BUCKET, ENVIRONMENT, Machines, s3_server
from training_jobs import tiny_recipe

import tune_spaces
from pipelines import cli
from pipelines.cluster.cluster import Cluster
from pipelines.cluster.train_worker import run_single_trial
from pipelines.tracking import databases
from pipelines.tracking.runs import ParentRun
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.jobs import probe, spec
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.store.store import Artefact, write_manifest


@pytest.fixture(scope="session", autouse=True)
def one_ray() -> Iterator[None]:
    """Ray serves all tests after the one that started it: a start takes longer than most of what is tested."""
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def last_of_ray() -> Iterator[None]:
    """Ray ends with this file: an idle one takes a fifteenth of a core from the tests of many files after it."""
    yield
    ray.shutdown()


@pytest.fixture(scope="session", autouse=True)
def one_migration() -> Iterator[None]:
    """MLflow's migrations fill the first empty database of a process, and the others are copies of it."""
    write_migrated, tables = databases._write_migrated, databases._tables

    def copied(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
        if tables(source):
            return write_migrated(source, target)
        if not tables(template):
            write_migrated(source, template)
        return template.backup(target)

    with closing(sqlite3.connect("", check_same_thread=False)) as template, pytest.MonkeyPatch.context() as patch:
        patch.setattr(databases, "_write_migrated", copied)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_power_cut() -> Iterator[None]:
    """What MLflow commits to SQLite is handed to the system, and none of hundreds of commits waits for the disk: a
    process that is killed loses nothing by it."""

    def unflushed(connection: Any, _: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", unflushed)
    yield
    event.remove(Engine, "connect", unflushed)


@pytest.fixture
def own_ray() -> Iterator[None]:
    """What a test starts of Ray is its own: workers have the environment of this moment."""
    ray.shutdown()
    yield
    ray.shutdown()


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run that asks for Ray fails."""
    ray.shutdown()
    monkeypatch.setattr(Cluster, "connect", lambda cluster: pytest.fail("Ray was asked for"))
    yield
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def trains_here(patch: pytest.MonkeyPatch) -> None:
    """Trainings run in this process, one after another, for tests of what comes before and after them."""

    def run_jobs(cluster: Cluster, jobs: list[spec.Job], workers: int, name: str, **limits: Any) -> None:
        cluster.connect()
        for job in jobs:
            run_single_trial({"job": job.to_json(), "storage": None})

    for name, count in {"STEPS": 1, "EPOCHS": 2}.items():  # each plan takes these before its trainings, to time them
        patch.setattr(probe, name, count)
    patch.setattr(tune, "report", lambda metrics: None)
    patch.setattr(Cluster, "connect", lambda cluster: {"CPU": 2.0})
    patch.setattr(Cluster, "fitting", lambda cluster, memory_bytes, workers: None)
    patch.setattr(Cluster, "run_jobs", run_jobs)
    patch.setattr(Cluster, "call_on_workers", lambda cluster, call, arguments, copies: [call(*arguments)] * copies)


@pytest.fixture
def proser(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Proser:
    """A call of `proser ARGUMENTS` in this process: its exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["proser", *arguments])
        try:
            code = cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ParentRun:
    """The run of a sweep in a database of its own."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    return ParentRun.open("sweep", "key", {"seed": 0})


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def empty_figures(patch: pytest.MonkeyPatch) -> None:
    """Figures are made of what was measured, and their files have a title alone: to draw them takes longer than to
    train."""
    empty = '<svg width="1pt" height="1pt"><title>{}</title></svg>'
    patch.setattr(
        Figure, "savefig", lambda figure, path, **_: Path(path).write_text(empty.format(figure.get_suptitle()))
    )


@pytest.fixture(scope="module")
def empty_programs(patch: pytest.MonkeyPatch) -> None:
    """Registered models have an empty file for their exported program, which takes longer than all the rest of them."""
    patch.setattr("pipelines.tracking.registry.export_program", lambda classifier, path: path.write_text(""))


@pytest.fixture(scope="module")
def spaces(tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> Path:
    """The search spaces and `one_diverges`, two points of which the second does, in a folder that may be written to."""
    folder = tmp_path_factory.mktemp("spaces")
    for path in tune_spaces.FOLDER.glob("*.py"):
        shutil.copy(path, folder)
    write_space(folder, "one_diverges", '{"gamma": tune.grid_search([0.1, 1e38])}')
    patch.setattr(tune_spaces, "FOLDER", folder)
    patch.setattr(tune_spaces, "__path__", [str(folder)])
    return folder


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch, spaces: Path) -> RunFolder:
    """An empty storage and a tracking database of its own."""
    root = tmp_path_factory.mktemp("run_folder")
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{root / 'mlflow.db'}")
    patch.chdir(root)
    return RunFolder(root)


@pytest.fixture(scope="session")
def split(task: Artefact, closed_set_weights: Path) -> TrainedSplit:
    """The class split with this network, and trainings of one epoch to come."""
    return TrainedSplit(tiny_recipe(epochs=1), task, Artefact(closed_set_weights.parent, "weights"))


@pytest.fixture(scope="session")
def classifier(task: Artefact, closed_set_weights: Path) -> OpenSetClassifier:
    """Of these weights, with placeholders that have not been trained: five digits, and unknown."""
    return classifier_of(task, closed_set_weights)


@pytest.fixture(scope="session")
def pixels() -> np.ndarray:
    """What a registered model and its servers are asked, as pixels."""
    return some_pixels()


@pytest.fixture(scope="session")
def encoded(pixels: np.ndarray) -> list[bytes]:
    """The same as image files."""
    return [encode(image) for image in pixels]


@pytest.fixture(scope="module")
def s3(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """The query that leads to a bucket, and the keys to it in the environment."""
    for name, value in ENVIRONMENT.items():
        patch.setenv(name, value)
    with s3_server() as query:
        yield query


@pytest.fixture(params=["file", "s3"])
def machines(request: pytest.FixtureRequest, tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Machines with a folder of one file system, and with a bucket, between them."""
    uris = {"file": f"file://{tmp_path}/storage", "s3": f"s3://{BUCKET}/{tmp_path.name}?{s3}"}
    return Machines(uris[request.param], tmp_path, monkeypatch)


@pytest.fixture
def on_s3(tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Machines with a bucket between them."""
    return Machines(f"s3://{BUCKET}/{tmp_path.name}?{s3}", tmp_path, monkeypatch)


@pytest.fixture
def report(tmp_path: Path) -> Artefact:
    """A report of one page, one table and one figure."""
    folder = tmp_path / "report"
    for name in ("results.md", "tables/evaluation.json", "figures/space/macro_f1.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("# What was found\n")
    return write_manifest(folder, {})
