"""What a registration leaves in the runs that it belongs to, and to the registry's aliases."""

import importlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow import MlflowClient

from pipelines.tracking.registry import Registered, register
from pipelines.tracking.runs import PARENT_TAG, TRIAL_KEY, ParentRun, run_of_its_own
from proser_core.recognition.open_set_classifier import OpenSetClassifier

pytestmark = pytest.mark.usefixtures("empty_programs")


def fail_once(patch: pytest.MonkeyPatch, owner: Any, name: str, arrives: bool) -> None:
    """The first request of a kind is lost, or arrives and its answer is lost."""
    request, seen = getattr(owner, name), []

    def failing(*arguments: Any, **options: Any) -> Any:
        seen.append(name)
        answer = request(*arguments, **options) if arrives or len(seen) > 1 else None
        if len(seen) == 1:
            raise ConnectionError(name)
        return answer

    patch.setattr(owner, name, failing)


def test_a_trial_keeps_its_own_metrics_and_its_model_has_those_of_another_score_however_often_registering_was_cut_off(
    parent: ParentRun, classifier: OpenSetClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = classifier.results
    own = {name: value + (-0.1, 0.1, 0.0)[count % 3] for count, (name, value) in enumerate(measured.items())}
    trial = {"key": "best", "name": "best", "params": {"beta": 1}, "status": "finished", "metrics": own}
    parent.track_trial(trial, [])
    client, run_id = parent.client, parent.child_id("best")
    shown = client.get_run(run_id).data.metrics
    classifier.save(tmp_path / "classifier")
    requests = (
        (client, "create_logged_model", True),
        (importlib.import_module("mlflow.pyfunc"), "log_model", False),
        (client, "log_outputs", True),
        (client, "log_batch", True),
        (mlflow, "register_model", False),
        (client, "update_model_version", False),
        (client, "set_registered_model_alias", True),
    )
    for owner, name, arrives in requests:
        fail_once(monkeypatch, owner, name, arrives)
        with pytest.raises(ConnectionError, match=name):
            register(client, nullcontext(run_id), "one", tmp_path / "classifier", "digest", {})
    register(client, nullcontext(run_id), "one", tmp_path / "classifier", "digest", {})
    assert client.get_run(run_id).data.metrics == shown
    (model,) = client.search_logged_models([parent.experiment_id])
    assert {metric.key: metric.value for metric in model.metrics} == measured
    for name, value in own.items():
        assert len(client.get_metric_history(run_id, name)) == (1 if value == measured[name] else 2)
    for each in (run_id, parent.run_id):
        assert [made.model_id for made in client.get_run(each).outputs.model_outputs] == [model.model_id]
    (version,) = client.search_model_versions("name = 'one'")
    assert version.source == model.model_uri
    assert version.description.startswith(f"{client.get_run(run_id).info.run_name}\n\n# ")


def test_a_run_of_its_own_that_was_left_running_is_finished_by_the_same_registration(
    parent: ParentRun, classifier: OpenSetClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process does not end its run either."""
    classifier.save(tmp_path / "classifier")
    client, below = parent.client, {PARENT_TAG: parent.run_id, TRIAL_KEY: "ensemble"}

    def registered() -> str:
        run = run_of_its_own(client, "ensemble of 5", below)
        made = register(client, run, "three", tmp_path / "classifier", "digest", {})
        return str(client.get_model_version("three", made.version).run_id)

    fail_once(monkeypatch, client, "set_terminated", False)
    with pytest.raises(ConnectionError):
        registered()
    run_id = registered()
    ended = client.get_run(run_id)
    assert ended.info.status == "FINISHED"
    assert client.get_model_version("three", "1").description.startswith("ensemble of 5\n\n# ")
    registered()
    assert client.get_run(run_id).to_dictionary() == ended.to_dictionary()
    children = f"tags.`{PARENT_TAG}` = '{parent.run_id}'"
    assert [run.info.run_id for run in client.search_runs([parent.experiment_id], children)] == [run_id]


class Meanwhile:
    """A client whose first request to move an alias is overtaken by another command."""

    def __init__(self, client: MlflowClient, other: Any) -> None:
        self._client, self._others = client, [other]

    def __getattr__(self, name: str) -> Any:
        if name == "set_registered_model_alias" and self._others:
            self._others.pop()()
        return getattr(self._client, name)


def test_of_two_first_versions_at_once_the_first_is_champion(
    parent: ParentRun, classifier: OpenSetClassifier, tmp_path: Path
) -> None:
    classifier.save(tmp_path / "classifier")

    def registered(client: MlflowClient, digest: str, **tags: str) -> Registered:
        return register(client, run_of_its_own(client, digest), "two", tmp_path / "classifier", digest, tags)

    def made(client: MlflowClient, digest: str) -> str:
        return registered(client, digest).version

    assert made(Meanwhile(parent.client, lambda: made(parent.client, "second")), "first") == "1"
    aliases = parent.client.get_registered_model("two").aliases
    assert {alias: int(number) for alias, number in aliases.items()} == {"candidate": 1, "champion": 1}
    parent.client.delete_registered_model_alias("two", "champion")
    third = registered(parent.client, "third")
    assert third.in_words() == "models:/two/3 (candidate); none is champion"
    assert third.in_words("PROSER, gap") == "models:/two/3 (candidate): PROSER, gap; none is champion"
    assert "champion" not in parent.client.get_registered_model("two").aliases
    parent.client.set_registered_model_alias("two", "champion", "3")
    first = registered(parent.client, "first", points="25")
    assert parent.client.get_model_version("two", "1").tags["points"] == "25", "what is known of it now"
    assert first.in_words() == "models:/two/1 (candidate); the champion is version 3"
    assert first.next_step() == "To make it the champion: proser promote --model-name two"
