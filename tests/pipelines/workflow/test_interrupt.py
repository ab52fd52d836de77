"""Ctrl-C, SIGTERM and SIGHUP end a run cleanly, also in the sweep after a pretraining in the same process."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient
from pipeline_runs import Proser
from waiting import started

from pipelines.commands import import_, reproduce, run
from pipelines.tracking.server import EXPERIMENT

COMMAND = [sys.executable, "-m", "pipelines.cli", "run", "digits", "--pretrain.epochs", "1", "--finetune.epochs", "500"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 143, "terminated")],
)
def test_a_signal_in_the_sweep_stops_it_and_is_told_to_the_tracking_server(
    tmp_path: Path, sent: signal.Signals, code: int, word: str
) -> None:
    database = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with started(
        COMMAND,
        cwd=tmp_path,
        env={**os.environ, "MLFLOW_TRACKING_URI": database, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # `nohup make test-slow` ignores it
    ) as process:
        while "trained before" not in (line := process.stdout.readline()):
            assert line, "the run ended before its sweep"
        os.killpg(process.pid, sent) if sent == signal.SIGINT else process.send_signal(sent)
        told = ""
        while word not in told:
            told += (line := process.stderr.readline())
            assert line, told
        process.send_signal(signal.SIGINT)  # by someone who does not wait for Ray's end
        _, more = process.communicate(timeout=60)
    assert process.returncode == code
    assert (told + more).strip() == f"proser: {word}; the same command continues from the last finished epoch"
    client = MlflowClient(database)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert {run.info.status for run in client.search_runs([experiment.experiment_id])} == {"KILLED"}


@pytest.mark.parametrize(
    ("line", "more"),
    [
        ("run digits", "; the same command continues from the last finished epoch"),
        ("run digits --dry-run", ""),
        ("run digits --dry_run", ""),
        ("run digits --draw graph.dot", ""),
        ("run digits --draw=graph.dot", ""),
        ("reproduce cifar10 --import-from OUT", ""),
        ("import OUT", ""),
    ],
)
def test_only_a_command_that_trains_is_said_to_go_on(
    line: str, more: str, proser: Proser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (run, reproduce, import_):
        monkeypatch.setattr(module, "main", Mock(side_effect=KeyboardInterrupt))
    code, _, error = proser(*line.split())
    assert (code, error) == (130, f"\nproser: interrupted{more}\n")
