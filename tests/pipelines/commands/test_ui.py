"""`proser ui`: it prints an address that answers, and leaves no server behind."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from pipeline_runs import Proser
from waiting import started

from pipelines.commands import ui
from pipelines.ports import check_port, free_ports
from pipelines.tracking.runs import ParentRun
from proser_core.config import FinetuneConfig


def test_a_server_that_ends_by_itself_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    killed = tmp_path / "killed"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(killed))
    assert ui.main(["--port", str(free_ports(1)[0])]) == 1
    assert f"no runs yet: {tmp_path / 'mlflow.db'} is new" in capsys.readouterr().out
    assert ui.main(["--port", str(free_ports(1)[0])]) == 1
    assert "no runs yet" not in capsys.readouterr().out


def test_a_database_that_cannot_be_made_is_not_called_new(monkeypatch: pytest.MonkeyPatch, proser: Proser) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////proc/mlflow.db")
    code, shown, error = proser("ui", "--port", str(free_ports(1)[0]))
    assert (code, shown) == (2, "")
    assert "/proc/mlflow.db cannot be opened" in error


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_it_opens_the_newest_view_once_it_answers_and_ends_with_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    run = ParentRun.open("digits", "key", {})
    run.save_view("digits", [FinetuneConfig()], (1, 2))
    (port,) = free_ports(1)
    with started(
        [sys.executable, "-m", "pipelines.cli", "ui", "--port", port],
        cwd=tmp_path,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a group of its own, as of a command in a terminal
    ) as process:
        assert process.stdout is not None
        line = ""
        while not line.startswith("http"):
            line = process.stdout.readline()
            assert line, "the server ended before it answered"
            assert "INFO" not in line
            assert "not provided" not in line
            assert "Warning" not in line
        assert line.startswith(f"http://127.0.0.1:{port}/#/experiments/{run.experiment_id}/runs?workflowType=")
        assert f"viewStateShareKey=proser-{run.run_id} " in line
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as page:
            assert page.status == 200
        os.killpg(process.pid, sent)
        assert process.wait(timeout=60) == 0
        assert process.stdout.read() == ""  # the address is the last line
    check_port(port)
