"""The tracking server or database, its registry, and the experiment that all runs are in."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from registered_models import Registry

from pipelines.tracking.models import load
from pipelines.tracking.runs import ParentRun
from pipelines.tracking.server import NOTE, connect, experiment_id
from proser_core.errors import TrackingError
from proser_core.recognition.open_set_classifier import OpenSetClassifier


@pytest.mark.parametrize(
    ("name", "reason"),
    [(b"what?now", "in a SQLite URI"), (b"what%20now", "in a SQLite URI"), (b"what\xfcnow", "MLflow cannot read")],
)
def test_a_folder_that_no_uri_can_name_is_refused(
    name: bytes, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(
        TrackingError, match=f"would be {re.escape(str(folder))}/mlflow.db, and {reason}.*another folder"
    ):
        connect(creates=True)
    assert not list(tmp_path.rglob("*.db")), "not in the parent folder either"


def test_a_registry_elsewhere_that_cannot_be_used_is_named_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", "http://127.0.0.1:1")
    with pytest.raises(TrackingError, match=r"registry .*http://127\.0\.0\.1:1 cannot be used .*MLFLOW_REGISTRY_URI"):
        connect(creates=True)


def test_a_new_run_says_what_the_experiment_is_and_an_own_description_stays(parent: ParentRun) -> None:
    client = parent.client
    assert "proser.selected" in client.get_experiment(parent.experiment_id).tags[NOTE]
    client.set_experiment_tag(parent.experiment_id, NOTE, "our own")
    experiment_id(client)
    assert client.get_experiment(parent.experiment_id).tags[NOTE] == "our own"


@pytest.mark.usefixtures("empty_programs")
def test_a_database_that_was_moved_is_named_and_the_link_that_is_advised_leads_to_its_models(
    classifier: OpenSetClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = tmp_path / "our models", tmp_path / "elsewhere" / "our models"
    before.mkdir()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{before / 'mlflow.db'}")
    Registry(tmp_path, "one").add(classifier)
    after.parent.mkdir()
    before.rename(after)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{after / 'mlflow.db'}")
    advice = re.escape(f"{after / 'mlflow.db'} was moved: it looks for its artefacts in {before / 'mlruns/proser'}, ")
    for use in (lambda: load("models:/one/1"), lambda: Registry(tmp_path, "one").add(classifier)):
        with pytest.raises(TrackingError, match=advice) as moved:
            use()
    assert not before.exists(), "nothing is uploaded to the old place"
    assert experiment_id(connect(), needs_artefacts=False), "the runs can be looked at"
    subprocess.run(str(moved.value).split("`")[1], shell=True, check=True)
    assert load("models:/one/1").classifier.calibration == classifier.calibration
    assert Registry(tmp_path, "one").add(classifier).version == "1"


@pytest.mark.usefixtures("empty_programs")
def test_a_copied_database_says_that_its_models_are_with_the_original(
    classifier: OpenSetClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original, backup = tmp_path / "our models", tmp_path / "backup"
    original.mkdir()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{original / 'mlflow.db'}")
    Registry(tmp_path, "one").add(classifier)
    shutil.copytree(original, backup)
    load("models:/one/1")
    assert "also new ones" not in capsys.readouterr().err
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{backup / 'mlflow.db'}")
    Registry(tmp_path, "one").add(classifier)
    assert (
        f"{backup / 'mlflow.db'} has its artefacts in {original}/mlruns/proser, also new ones, and not in {backup}"
        in (capsys.readouterr().err)
    )
