"""A registered model, and images of a user's own in folders by class."""

from pathlib import Path

import pytest
from digit_folders import write_digits
from registered_models import Registry

from proser_core.recognition.open_set_classifier import OpenSetClassifier


@pytest.fixture(scope="module")
def registry(
    classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch
) -> Registry:
    folder = tmp_path_factory.mktemp("registry")
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
    patch.setattr("pipelines.tracking.decisions.LOCKS", folder / "locks")
    registry = Registry(folder, "own")
    registry.add(classifier)
    return registry


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All digits of the test part, in folders by class."""
    return write_digits(tmp_path_factory.mktemp("labelled"), part="test", name="{row:04}.png")


@pytest.fixture(scope="module")
def known(labelled: Path, classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of the known classes alone."""
    folder = tmp_path_factory.mktemp("known")
    for name in classifier.class_names:
        (folder / name).symlink_to(labelled / name)
    return folder
