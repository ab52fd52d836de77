"""A registry of each test's own, and the models that it may hold."""

from dataclasses import replace
from pathlib import Path

import pytest
from registered_models import Registry, classifier_of

from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.store.store import Artefact


@pytest.fixture(scope="module")
def bad(task: Artefact, closed_set_weights: Path) -> OpenSetClassifier:
    return classifier_of(task, closed_set_weights, noise=1.0)


@pytest.fixture(scope="module")
def of_other_images(task: Artefact, closed_set_weights: Path) -> OpenSetClassifier:
    return classifier_of(task, closed_set_weights, dropped=3)


@pytest.fixture(scope="session")
def database_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one database for all files here: MLflow takes seconds to make one."""
    return tmp_path_factory.mktemp("registry")


@pytest.fixture(scope="module", autouse=True)
def database(database_folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database_folder / 'mlflow.db'}")
    patch.setattr("pipelines.tracking.decisions.LOCKS", database_folder / "locks")


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path, tmp_path.name)


@pytest.fixture
def three(registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier) -> Registry:
    """With three versions, of which the first is the champion and the last two are better."""
    for each in (bad, classifier, replace(classifier, recipe={**classifier.recipe, "seed": 7})):
        registry.add(each)
    return registry
