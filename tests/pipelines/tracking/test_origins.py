"""Where a run comes from, as MLflow shows it: its user, commit and command without secrets."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pipeline_runs import finished_row
from tracked_runs import EPOCHS, runs_of

import pipelines
from pipelines.tracking.origins import origin_tags
from pipelines.tracking.runs import ParentRun, run_of_its_own


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A command line with a key in it, and a name that is not UTF-8."""
    given = ["--storage", "s3://b/c?secret_key=abc", "--data", os.fsdecode(b"n\xffw")]
    monkeypatch.setattr(sys, "argv", ["/a/place/bin/proser", "run", "digits", *given])
    origin_tags.cache_clear()
    yield
    origin_tags.cache_clear()


def test_every_run_names_its_user_its_commit_and_its_command_without_secrets(command: None, parent: ParentRun) -> None:
    parent.track_trial(finished_row("one"), EPOCHS)
    with run_of_its_own(parent.client, os.fsdecode(b"a decision on n\xffw")):
        pass
    runs = runs_of(parent).values()
    assert len(runs) == 3
    root = Path(pipelines.__file__).parent
    asked = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    for tags in (run.data.tags for run in runs):
        assert tags["mlflow.source.name"] == r"proser run digits --storage 's3://b/c?secret_key=***' --data 'n\xffw'"
        assert tags["mlflow.source.type"] == "JOB", "of which the UI shows the whole name"
        assert tags["mlflow.user"]
        assert tags.get("mlflow.source.git.commit", "") == asked.stdout.strip()
