"""`proser ui`: it prints an address that answers, and leaves no server behind."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from ray_nodes import free_ports

from pipelines.ports import check_port
from pipelines.tracking.runs import ParentRun
from proser_core.config import FinetuneConfig


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 0)])
def test_it_opens_the_newest_view_once_it_answers_and_ends_with_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals, code: int
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    run = ParentRun.open("digits", "key", {})
    run.save_view("digits", [FinetuneConfig()], (1, 2))
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", "ui", "--port", str(port)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
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
    process.send_signal(sent)
    assert process.wait(timeout=60) == code
    assert process.stdout.read() == ""  # the address is the last line
    check_port(port)
