"""A tracking server that goes away: no work waits for it, nothing is lost and nothing is logged twice."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from http_servers import server_answering
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException, RestException
from mlflow.store.artifact.http_artifact_repo import HttpArtifactRepository
from pipeline_runs import finished_row
from small_disks import with_disk_at
from tracked_runs import no_run

from pipelines.tracking import deferred
from pipelines.tracking.deferred import TIMEOUT_VARIABLE, DeferredTracking
from pipelines.tracking.registry import register
from pipelines.tracking.runs import ParentRun
from pipelines.tracking.server import is_outage, tracking_errors
from pipelines.tracking.sweep_runs import fetch_report, find_run
from pipelines.tracking.versions import find
from proser_core.errors import StorageError, TrackingError
from proser_core.store.store import write_manifest

TRIALS = ("one", "two")
EPOCHS = [{"epoch": number, "loss": 1.0 / (number + 1)} for number in range(4)]


class Lossy:
    """A client whose requests get lost on their way, or arrive and their answers get lost."""

    def __init__(self, client: MlflowClient, seed: int) -> None:
        self._client, self._random = client, random.Random(seed)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def request(*arguments: Any, **options: Any) -> Any:
            fate = self._random.choice(("fine", "fine", "fine", "lost", "answer lost"))
            if fate == "lost":
                raise ConnectionError(fate)
            answer = getattr(self._client, name)(*arguments, **options)
            if fate == "answer lost":
                raise ConnectionError(fate)
            return answer

        return request


def until_it_succeeds(log: Callable[[], None]) -> None:
    while True:
        try:
            log()
            return
        except ConnectionError:
            pass


@pytest.mark.parametrize("seed", range(6))
def test_requests_and_answers_that_get_lost_double_nothing_and_lose_nothing(parent: ParentRun, seed: int) -> None:
    client = parent.client
    parent.client = Lossy(client, seed)
    for count in (1, 3, 4):
        until_it_succeeds(lambda count=count: parent.curve("pretrain", EPOCHS[:count]))
        for key in TRIALS:
            until_it_succeeds(lambda key=key, count=count: parent.track_epochs(key, key, {"beta": 1}, EPOCHS[:count]))
    for key in TRIALS:
        until_it_succeeds(lambda key=key: parent.track_trial(finished_row(key), EPOCHS))
    runs = client.search_runs([parent.experiment_id])
    keys = Counter(run.data.tags.get("mlflow.proser.trial_key", "the sweep") for run in runs)
    assert keys == {"the sweep": 1, "one": 1, "two": 1}
    for run in runs:
        names = ("loss", "dev/f1") if "mlflow.proser.trial_key" in run.data.tags else ("pretrain/loss",)
        for name in names:
            steps = [metric.step for metric in client.get_metric_history(run.info.run_id, name)]
            assert steps == ([0] if name == "dev/f1" else [0, 1, 2, 3]), name
    assert [run.info.status for run in runs if "mlflow.proser.trial_key" in run.data.tags] == ["FINISHED", "FINISHED"]


def test_what_was_cut_off_between_the_metrics_and_the_end_of_a_trial_is_not_logged_again(parent: ParentRun) -> None:
    parent.track_epochs("one", "one", {"beta": 1}, EPOCHS)
    child = parent._children["one"]
    for name, value in finished_row("one")["metrics"].items():  # and here the driver was killed
        parent.client.log_metric(child.run_id, name, value, step=3)
    again = ParentRun.open("sweep", "key", {"seed": 0})
    again.track_trial(finished_row("one"), EPOCHS)
    assert len(again.client.get_metric_history(child.run_id, "dev/f1")) == 1
    assert again.client.get_run(child.run_id).info.status == "FINISHED"


def test_a_finished_run_stays_so_where_its_report_is_interrupted_and_the_next_command_logs_it(
    parent: ParentRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "results.md").write_text("# What was found\n")
    report = write_manifest(folder, {})
    parent.end("FINISHED")
    monkeypatch.setattr(parent.client, "log_artifact", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        parent.report(report)
    again = ParentRun.open("sweep", "key", {"seed": 0})
    assert again.status == "FINISHED"
    again.report(report)
    assert [item.path for item in parent.client.list_artifacts(parent.run_id)] == ["results.md"]


class Server:
    """Logs what it is told unless it is away."""

    def __init__(self) -> None:
        self.away, self.logged = True, []

    def told(self, what: str) -> Callable[[], None]:
        def log() -> None:
            if self.away:
                raise ConnectionError("refused")
            self.logged.append(what)

        return log


def test_no_work_waits_for_a_server_that_is_away_and_the_end_logs_all_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    server, slept, tracking = Server(), [], DeferredTracking(print)

    def come_back(seconds: float) -> None:
        slept.append(seconds)
        server.away = False

    monkeypatch.setattr(deferred.time, "sleep", come_back)
    for what in ("curve", "trial", "report"):
        tracking.track(server.told(what))
    assert slept == []
    tracking.settle()
    assert server.logged == ["curve", "trial", "report"]
    assert len(slept) == 1
    assert tracking.lost == ""


def test_a_server_that_stays_away_is_done_without_once_patience_is_over_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed: list[str] = []
    tracking = DeferredTracking(printed.append)
    monkeypatch.setenv(TIMEOUT_VARIABLE, "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:pass@host:5000")
    server = Server()
    tracking.track(server.told("trial"))
    tracking.settle()
    assert tracking.lost == "refused"
    tracking.track(server.told("report"))
    tracking.settle()
    assert server.logged == []
    assert sum("the tracking server http://host:5000 does not answer (refused)" in line for line in printed) == 1
    assert sum("metrics cannot be logged now (refused)" in line for line in printed) == 1
    server.away = False
    tracking.track(server.told("end"))
    tracking.settle()
    assert server.logged == ["trial", "report", "end"]
    assert tracking.lost == ""


def test_whoever_watches_trainings_names_each_kind_of_error_once_and_only_an_outage_is_one_of_metrics() -> None:
    printed: list[str] = []
    tracking = DeferredTracking(printed.append)
    for error in (StorageError("s3://b does not answer"), ConnectionError("refused"), KeyError("x")) * 2:
        tracking.warn(error)
    assert printed == [
        "  the trainings cannot be watched now (StorageError: s3://b does not answer); they go on",
        "  metrics cannot be logged now (refused); the work goes on, they are logged later",
        "  the trainings cannot be watched now (KeyError: 'x'); they go on",
    ]


def test_an_error_that_is_no_outage_is_not_kept_for_later() -> None:
    def refuse() -> None:
        raise ValueError("a mistake of ours")

    with pytest.raises(ValueError, match="a mistake of ours"):
        DeferredTracking(print).track(refuse)


ANSWERS: dict[str, tuple[int, str] | None] = {
    "503": (503, "upstream unavailable"),
    "503 in JSON": (503, json.dumps({"error_code": "TEMPORARILY_UNAVAILABLE", "message": "busy"})),
    "404 of a proxy": (404, "<html>no such route</html>"),
    "403": (403, json.dumps({"error_code": "PERMISSION_DENIED", "message": "not you"})),
    "no answer": None,
}


ASKED: dict[str, Callable[[MlflowClient, Path], Any]] = {
    "the version of an artefact": lambda client, place: register(client, no_run(), "proser", place, "digest", {}),
    "a version": lambda client, _: find(client, "models:/proser/1"),
    "a sweep": lambda client, _: find_run(client, "a sweep"),
    "a sweep's report": lambda client, place: fetch_report(
        client, SimpleNamespace(info=SimpleNamespace(run_id="1", run_name="a sweep")), ["sweep.json"], place
    ),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_server_that_does_not_say_is_never_taken_for_one_that_says_no(
    asked: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")

    with server_answering(ANSWERS[answer]) as address, pytest.raises(MlflowException):
        ASKED[asked](MlflowClient(address), tmp_path)


FOLDER = "/api/2.0/mlflow-artifacts/artifacts/1"
UPLOADS = {401: False, 403: False, 413: False, 408: True, 425: True, 429: True, 503: True}


@pytest.mark.parametrize("status", UPLOADS)
def test_an_upload_that_is_refused_for_good_is_no_outage_and_both_are_one_clear_error(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    what = "does not answer" if UPLOADS[status] else "refused a request"
    (tmp_path / "results.md").write_text("# What was found\n")
    with server_answering((status, "<html>no</html>")) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        uploads = HttpArtifactRepository(f"{address}{FOLDER}")
        told = pytest.raises(TrackingError, match=f"the tracking server {address} {what} ")
        with told as said, tracking_errors():
            uploads.log_artifact(str(tmp_path / "results.md"))
    assert is_outage(said.value.__cause__) == UPLOADS[status]


def test_a_server_that_is_asked_too_often_is_away() -> None:
    assert is_outage(RestException({"error_code": "RESOURCE_EXHAUSTED"}))


FULL = """
import sys
from pathlib import Path
from pipelines.tracking.deferred import DeferredTracking
from pipelines.tracking.runs import ParentRun
from pipelines.tracking.server import tracking_errors

parent, tracking = ParentRun.open("sweep", "key", {}), DeferredTracking(print)
with open(Path(sys.argv[1], "other"), "wb", buffering=0) as other:
    try:
        while other.write(bytes(4096)): ...
    except OSError:
        pass
epochs = [{"epoch": number, "loss": 1 / (number + 1)} for number in range(2000)]
tracking.track(parent.curve, "pretrain", epochs)
tracking.settle()
try:
    with tracking_errors():
        parent.client.set_tag(parent.run_id, "long", "x" * 4000 * 100)
        parent.curve("again", epochs)
except Exception as error:
    print(error)
Path(sys.argv[1], "other").unlink()
tracking.settle()
print([tracking.lost, len(parent.client.get_metric_history(parent.run_id, "pretrain/loss"))])
"""


@pytest.mark.slow
def test_a_full_disk_under_a_database_is_not_called_a_server_and_what_waited_is_logged_once_there_is_room(
    tmp_path: Path,
) -> None:
    """Of a machine that lets the test mount a disk of 4 MB."""
    small = with_disk_at(tmp_path, "4m")
    database = tmp_path / "mlflow.db"
    environment = os.environ | {"MLFLOW_TRACKING_URI": f"sqlite:///{database}", TIMEOUT_VARIABLE: "0"}
    command = [*small, sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    away = f"the tracking database {database} cannot be used (database or disk is full); "
    later, waits, error, end = done.stdout.splitlines()
    assert later.startswith("  metrics cannot be logged now (database or disk is full); ")
    assert waits == f"  {away}waiting 0 s for it"
    assert error.startswith(f"{away}all that was trained is in the storage")
    assert end == str(["", 2000])
