"""What a session says: why a run failed, where it is shown, and its time."""

import io
import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from mlflow import MlflowClient
from rich.console import Console
from tracked_runs import evaluation, following, reopened
from waiting import until

from pipelines.ports import free_ports
from pipelines.storage.storage import Storage
from pipelines.tracking.runs import ParentRun
from pipelines.tracking.server import NOTE, tracking_uri
from pipelines.workflow.session import _say_runs, _time, mark_run_failed
from proser_core.store.store import Artefact


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


def test_a_run_says_why_it_failed_until_it_goes_on(parent: ParentRun, report: Artefact, tmp_path: Path) -> None:
    def shown() -> tuple[str, str]:
        run = parent.client.get_run(parent.run_id)
        return run.info.status, run.data.tags[NOTE]

    parent.results(report, evaluation("one"))
    described = shown()
    with pytest.raises(ValueError, match="no room"), mark_run_failed(following(parent, Storage(tmp_path / "storage"))):
        raise ValueError("no room at s3://me:pass@host\nmore")
    assert shown() == ("FAILED", "no room at s3://host")
    again = reopened()
    again.start()
    assert shown() == ("RUNNING", "")
    again.results(report, evaluation("one"))
    assert shown() == described


def test_an_interrupted_run_says_how_long_it_waits_for_a_server_that_hangs(
    parent: ParentRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, port = list[str](), free_ports(1)[0]
    monkeypatch.setattr("pipelines.progress.SLOW_S", 0.0)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    with socket.create_server(("127.0.0.1", port)) as server:

        def hang() -> None:
            connection, _ = server.accept()
            until(lambda: said)
            connection.close()

        threading.Thread(target=hang, daemon=True).start()
        parent.client = MlflowClient(tracking_uri())
        with pytest.raises(KeyboardInterrupt), mark_run_failed(following(parent, Storage(tmp_path), said.append)):
            raise KeyboardInterrupt
    assert said == [
        f"  waiting for the tracking server http://127.0.0.1:{port} to learn that the work ends; 300 s at most"
    ]
