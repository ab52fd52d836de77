"""The model registry: versions with aliases, each version once for each artefact."""

import contextlib
import importlib.util
import io
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec

if TYPE_CHECKING:
    from proser_core.recognition.open_set_classifier import OpenSetClassifier

ARTEFACT_TAG = "proser.artefact"
CANDIDATE, CHAMPION = "candidate", "champion"
NEEDED = ("torch", "torchvision", "numpy", "pandas", "pillow", "safetensors", "scikit-learn", "scipy", "pyarrow")


@dataclass(frozen=True)
class Registered:
    """A version of a registered model."""

    name: str
    version: str
    aliases: tuple[str, ...]


def register(
    client: MlflowClient, run_id: str, name: str, classifier_folder: Path, digest: str, tags: dict[str, str]
) -> Registered:
    """Register a classifier's folder under `name` as candidate; the very first version is champion too.

    A version that was made of the same artefact is found again and becomes the candidate.
    """
    existing = _version_of(client, name, digest)
    if existing is None:
        model_uri = _log_model(run_id, classifier_folder)
        with contextlib.redirect_stderr(io.StringIO()):  # MLflow prints what the closing table says better
            made = mlflow.register_model(model_uri, name, tags={ARTEFACT_TAG: digest, **tags})
        existing = str(made.version)
    client.set_registered_model_alias(name, CANDIDATE, existing)
    has_champion = CHAMPION in client.get_registered_model(name).aliases
    if not has_champion and len(client.search_model_versions(f"name = '{name}'")) == 1:
        client.set_registered_model_alias(name, CHAMPION, existing)
    return Registered(name, existing, tuple(sorted(client.get_model_version(name, existing).aliases)))


def _version_of(client: MlflowClient, name: str, digest: str) -> str | None:
    try:
        client.get_registered_model(name)
    except MlflowException:
        return None
    versions = client.search_model_versions(f"name = '{name}'")
    return next((found.version for found in versions if found.tags.get(ARTEFACT_TAG) == digest), None)


def _log_model(run_id: str, classifier_folder: Path) -> str:
    from proser_core.recognition.open_set_classifier import OpenSetClassifier

    classifier = OpenSetClassifier.load(classifier_folder)
    size = classifier.image_size
    with mlflow.start_run(run_id=run_id):
        info = mlflow.pyfunc.log_model(
            name="classifier",
            python_model=str(Path(__file__).with_name("pyfunc_model.py")),
            artifacts={"classifier": str(classifier_folder)},
            code_paths=[str(_package_folder("proser_core"))],
            signature=_signature(classifier),
            input_example=np.zeros((2, size, size, 3), dtype=np.uint8),
            pip_requirements=[f"{package}=={version(package)}" for package in ("mlflow", *NEEDED)],
        )
    return str(info.model_uri)


def _signature(classifier: "OpenSetClassifier") -> ModelSignature:
    from proser_core.recognition.open_set_classifier import UNKNOWN

    size = classifier.image_size
    columns: list[ColSpec | TensorSpec] = [
        ColSpec(DataType.string, "label"),
        ColSpec(DataType.boolean, "unknown"),
        ColSpec(DataType.double, "unknown_score"),
        *(ColSpec(DataType.double, f"p_{name}") for name in (*classifier.class_names, UNKNOWN)),
    ]
    return ModelSignature(inputs=Schema([TensorSpec(np.dtype(np.uint8), (-1, size, size, 3))]), outputs=Schema(columns))


def _package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
