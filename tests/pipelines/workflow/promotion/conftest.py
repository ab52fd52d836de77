"""A registry of each test's own, and the models that it may hold."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from registered_models import Registry, classifier_of

from pipelines.tracking import registry as tracking_registry
from proser_core.recognition import bootstrap
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


@pytest.fixture(scope="module")
def few_resamples(patch: pytest.MonkeyPatch) -> None:
    """Intervals of fewer draws, for tests of what follows a comparison whose outcome is clear."""
    patch.setattr(bootstrap, "RESAMPLES", 100)


@pytest.fixture(scope="session")
def logged() -> dict[str, str]:
    """Models that were logged once for all tests, by the digest of their classifier."""
    return {}


@pytest.fixture
def logged_once(logged: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of equal classifiers are of one logged model, whose files no test may change."""
    log_model = tracking_registry._log_model
    parameters = inspect.signature(log_model)

    def log_once(*given: Any) -> str:
        digest = parameters.bind(*given).arguments["digest"]
        if digest not in logged:
            logged[digest] = log_model(*given)
        return logged[digest]

    monkeypatch.setattr(tracking_registry, "_log_model", log_once)


@pytest.fixture
def three(logged_once: None, registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier) -> Registry:
    """With three versions, of which the first is the champion and the last two are better."""
    for each in (bad, classifier, replace(classifier, recipe={**classifier.recipe, "seed": 7})):
        registry.add(each)
    return registry
