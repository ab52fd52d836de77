"""The model registry: versions with aliases, each version once for each artefact."""

import contextlib
import importlib.metadata
import io
import shutil
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import mlflow
from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec

import proser_core
from pipelines.tracking.runs import fitting
from pipelines.tracking.server import all_pages, get_or_none
from proser_core.naming import UNKNOWN
from proser_core.recognition.classifier_files import MODEL_CARD
from proser_core.recognition.model_card import model_card
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.program import PROGRAM, export_program

ARTEFACT_TAG = "proser.artefact"
CLASSIFIER = "classifier"  # of a model's artefacts, the folder that OpenSetClassifier reads
CALIBRATED_FROM = "proser.calibrated_from"  # version that one with a new bias was made of
FIGURE = "proser.figure."  # of a version, before the name of a metric
SHOWN = ("dev/macro_f1", "dev/auroc", "dev/closed_set_accuracy", "val/known_rate")
CANDIDATE, CHAMPION = "candidate", "champion"
LONGEST_DESCRIPTION = 5000  # characters of a version, where the database is PostgreSQL
NEEDED = ("torch", "torchvision", "numpy", "pandas", "pillow", "safetensors", "scikit-learn", "scipy", "pyarrow")


@dataclass(frozen=True)
class Registered:
    """A version of a registered model."""

    name: str
    version: str
    aliases: tuple[str, ...]


@dataclass(frozen=True)
class Version:
    """A version of a registered model; `created` in seconds since 1970."""

    name: str
    number: str
    tags: dict[str, str]
    created: float

    @classmethod
    def of(cls, found: ModelVersion) -> "Version":
        """MLflow gives the number as text or as a number."""
        return cls(found.name, str(found.version), found.tags, found.creation_timestamp / 1000)


def versions_of(client: MlflowClient, name: str) -> list[Version]:
    """All versions of a model, newest first; none where there is no such model."""
    if get_or_none(lambda: client.get_registered_model(name)) is None:
        return []
    found = map(Version.of, all_pages(client.search_model_versions, f"name = '{name}'"))
    return sorted(found, key=lambda version: -int(version.number))


def register(
    client: MlflowClient,
    run: AbstractContextManager[str],
    name: str,
    classifier_folder: Path,
    digest: str,
    tags: dict[str, str],
) -> Registered:
    """Register a classifier's folder under `name` as candidate; the very first version is champion too.

    `run` gives the id of the run that a new version belongs to, and is entered for one alone. A version that was made
    of the same artefact is found again and becomes the candidate.
    """
    versions = versions_of(client, name)
    existing = next((version.number for version in versions if version.tags.get(ARTEFACT_TAG) == digest), None)
    if existing is None:
        with run as run_id:
            existing = _make_version(client, run_id, name, classifier_folder, {ARTEFACT_TAG: digest, **tags})
    client.set_registered_model_alias(name, CANDIDATE, existing)
    has_champion = CHAMPION in client.get_registered_model(name).aliases
    if not has_champion and len(versions_of(client, name)) == 1:
        client.set_registered_model_alias(name, CHAMPION, existing)
    return Registered(name, existing, tuple(sorted(client.get_model_version(name, existing).aliases)))


def _make_version(client: MlflowClient, run_id: str, name: str, classifier_folder: Path, tags: dict[str, str]) -> str:
    classifier = OpenSetClassifier.load(classifier_folder)
    model_uri = _log_model(run_id, classifier, classifier_folder)
    with contextlib.redirect_stderr(io.StringIO()):  # MLflow prints what the closing table says better
        made = mlflow.register_model(model_uri, name, tags={**_figures(classifier), **tags})
    card = fitting(model_card(classifier), LONGEST_DESCRIPTION, MODEL_CARD)
    client.update_model_version(name, made.version, card)
    return str(made.version)


def _figures(classifier: OpenSetClassifier) -> dict[str, str]:
    """What a list of versions shows, as tags: at the bias that the version has, which may be newer than its results."""
    found = classifier.results
    if classifier.validation_scores is not None:
        bias = classifier.calibration.bias
        found = {f"dev/{name}": value for name, value in classifier.validation_scores.metrics(bias).items()}
        if classifier.proxy is not None:
            found |= {f"dev/{name}": value for name, value in classifier.proxy.metrics().items()}
        found["val/known_rate"] = classifier.validation_scores.known_rate(bias)
    return {f"{FIGURE}{name}": f"{found[name]:.4f}" for name in SHOWN if name in found}


def _log_model(run_id: str, classifier: OpenSetClassifier, folder: Path) -> str:
    """The classifier's folder, and a program that needs none of this code, where its score has a form for one."""
    with tempfile.TemporaryDirectory() as place, mlflow.start_run(run_id=run_id):
        artefacts = {CLASSIFIER: str(shutil.copytree(folder, Path(place) / CLASSIFIER))}  # MLflow keeps its name
        if classifier.score_function.is_exportable:
            program = Path(place) / PROGRAM
            export_program(classifier, program)
            artefacts["program"] = str(program)
        info = mlflow.pyfunc.log_model(
            name=CLASSIFIER,
            python_model=str(Path(__file__).with_name("pyfunc_model.py")),
            artifacts=artefacts,
            code_paths=[str(Path(proser_core.__file__).parent)],
            signature=_signature(classifier),
            pip_requirements=[f"{package}=={importlib.metadata.version(package)}" for package in ("mlflow", *NEEDED)],
        )
    return str(info.model_uri)


def _signature(classifier: OpenSetClassifier) -> ModelSignature:
    """Of the table that comes out. What goes in is a tensor or a table, which MLflow's schema cannot say."""
    columns: list[ColSpec | TensorSpec] = [
        ColSpec(DataType.string, "label"),
        ColSpec(DataType.boolean, "unknown"),
        ColSpec(DataType.double, "unknown_score"),
        *(ColSpec(DataType.double, f"p_{name}") for name in (*classifier.class_names, UNKNOWN)),
    ]
    return ModelSignature(outputs=Schema(columns))
