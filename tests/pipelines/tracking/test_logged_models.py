"""A registered version and its logged model: metrics by data set, the trial behind it, signature, example, words."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from mlflow.entities import LoggedModel, Run
from tracked_runs import no_run
from training_jobs import tiny_recipe

from pipelines.tracking.data_sets import data_sets
from pipelines.tracking.models import load
from pipelines.tracking.registry import Registered, register
from pipelines.tracking.runs import ParentRun
from pipelines.tracking.versions import CANDIDATE, OLD_ARTEFACT_TAG, versions_of
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.store.store import Artefact

EPOCHS = [{"epoch": float(number), "loss": 1.0} for number in range(2)]
DATA_SETS = {"calibration": "validation", "val": "validation", "dev": "development unknowns", "test": "test"}


class Registry:
    """A finished run with two trials, each registered under one name."""

    def __init__(self, parent: ParentRun, classifier: OpenSetClassifier, task: Artefact, folder: Path) -> None:
        self.parent, self.client, self.made = parent, parent.client, list[Registered]()
        worse = {name: value / 2 for name, value in classifier.results.items() if name != "calibration/bias"}
        worse["calibration/bias"] = classifier.calibration.bias
        for key, made in (
            ("best", classifier),
            ("worse", replace(classifier, results=worse, validation_scores=None, proxy=None)),
        ):
            self.folder = folder / key
            made.save(self.folder)
            parent.track_trial(
                {"key": key, "name": key, "params": {"beta": 1}, "status": "finished", "metrics": made.results}, EPOCHS
            )
        parent.end("FINISHED")
        self.before = [self.run(key).info.end_time for key in ("best", "worse")]
        for key in ("best", "worse"):
            trial, inputs = nullcontext(parent.child_id(key)), data_sets(tiny_recipe(), task)
            self.made.append(register(self.client, trial, "many", folder / key, f"digest of {key}", {}, inputs))

    def run(self, key: str) -> Run:
        return self.client.get_run(self.parent.child_id(key))

    def ranked(self, **options: Any) -> list[LoggedModel]:
        order = [{"field_name": "metrics.dev/macro_f1", **options}]
        return list(self.client.search_logged_models([self.parent.experiment_id], order_by=order))


@pytest.fixture(scope="module")
def registry(
    tmp_path_factory: pytest.TempPathFactory,
    patch: pytest.MonkeyPatch,
    empty_programs: None,
    classifier: OpenSetClassifier,
    task: Artefact,
) -> Registry:
    folder = tmp_path_factory.mktemp("logged_models")
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
    return Registry(ParentRun.open("sweep", "key", {}), classifier, task, folder)


def test_models_are_ranked_by_their_final_metrics(registry: Registry) -> None:
    for ascending, keys in ((False, ["best", "worse"]), (True, ["worse", "best"])):
        found = registry.ranked(ascending=ascending)
        assert [model.source_run_id for model in found] == [registry.parent.child_id(key) for key in keys]


def test_a_logged_model_is_named_after_its_registered_name_and_recipe(registry: Registry) -> None:
    name = f"many-{tiny_recipe().name}"
    assert {model.name for model in registry.ranked()} == {name}
    assert len(registry.made) == 2
    for each in registry.made:
        source = registry.client.get_model_version("many", each.version).source
        assert load(f"models:/many/{each.version}").version.source == source


def test_each_metric_of_a_model_is_linked_to_the_images_behind_it(
    registry: Registry, classifier: OpenSetClassifier
) -> None:
    model = registry.ranked(ascending=False)[0]
    assert {metric.key: metric.value for metric in model.metrics} == classifier.results
    assert model.metrics
    for metric in model.metrics:
        assert metric.dataset_name == f"digits {DATA_SETS[metric.key.partition('/')[0]]}"
        assert metric.dataset_digest
    run = registry.run("best")
    assert {each.dataset.name for each in run.inputs.dataset_inputs} >= {
        metric.dataset_name for metric in model.metrics
    }
    assert run.data.metrics.keys() >= classifier.results.keys()
    for name in run.data.metrics.keys() - {"epoch", "loss"}:
        assert len(registry.client.get_metric_history(run.info.run_id, name)) == 1, name


def test_a_version_and_the_trial_behind_it_name_each_other_and_the_trial_stays_as_it_was(registry: Registry) -> None:
    ranked = registry.ranked(ascending=False)
    for key, registered, model in zip(("best", "worse"), registry.made, ranked, strict=True):
        version = registry.client.get_model_version("many", registered.version)
        assert (version.run_id, version.source) == (registry.parent.child_id(key), model.model_uri)
        assert [made.model_id for made in registry.run(key).outputs.model_outputs] == [model.model_id]
    parent = registry.client.get_run(registry.parent.run_id)
    assert {made.model_id for made in parent.outputs.model_outputs} == {model.model_id for model in ranked}
    assert [registry.run(key).info.end_time for key in ("best", "worse")] == registry.before
    assert registry.run("best").info.status == parent.info.status == "FINISHED"


def test_the_input_example_is_answered_as_the_signature_has_it(
    registry: Registry, classifier: OpenSetClassifier
) -> None:
    info = mlflow.models.get_model_info("models:/many/1")
    model = mlflow.pyfunc.load_model("models:/many/1")
    answer = model.predict(model.input_example)
    assert [*answer.columns] == info.signature.outputs.input_names()
    size = classifier.image_size
    grey = np.full((1, size, size, 3), 128, np.uint8)
    assert answer["label"].tolist() == model.predict({"image": grey})["label"].tolist()


def test_the_registered_model_says_what_the_button_does_not_do_and_an_own_description_stays(registry: Registry) -> None:
    assert "**Promote model**" in registry.client.get_registered_model("many").description
    registry.client.update_registered_model("many", "our own")
    register(registry.client, no_run(), "many", registry.folder, "digest of worse", {})
    assert registry.client.get_registered_model("many").description == "our own"


def test_no_version_is_made_twice_of_an_artefact_not_even_of_version_0_1(registry: Registry) -> None:
    client = registry.client
    shown = client.get_model_version("many", "1").tags.keys()
    assert shown == {"dev/macro_f1", "dev/auroc", "dev/closed_set_accuracy", "val/known_rate"}
    client.set_model_version_tag("many", "1", OLD_ARTEFACT_TAG, "an old digest")
    client.set_model_version_tag("many", "1", "proser.figure.dev/oscr", "0.5")
    for digest, version in (("digest of best", "1"), ("digest of worse", "2"), ("an old digest", "1")):
        made = register(client, no_run(), "many", registry.folder, digest, {})
        assert (made.version, CANDIDATE in made.aliases) == (version, True)
    assert versions_of(client, "many")[-1].tags["dev/oscr"] == "0.5"
