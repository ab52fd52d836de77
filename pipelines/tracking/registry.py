"""The model registry: versions with aliases, each version once for each artefact."""

import base64
import contextlib
import importlib.metadata
import io
import re
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import DatasetInput, LoggedModel, LoggedModelOutput, LoggedModelStatus
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec
from mlflow.types.schema import AnyType
from mlflow.utils.file_utils import local_file_uri_to_path
from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS
from PIL import Image

import proser_core
from pipelines.console import warn
from pipelines.tracking.data_sets import measured
from pipelines.tracking.origins import origin_tags
from pipelines.tracking.runs import PARENT_TAG, fitting
from pipelines.tracking.server import experiment_id
from pipelines.tracking.versions import (
    CANDIDATE,
    CHAMPION,
    CLASSIFIER,
    DEFAULT_MODEL,
    OLD_ARTEFACT_TAG,
    SHOWN,
    Version,
    versions_of,
)
from proser_core.digests import sha256_of
from proser_core.errors import ConfigError
from proser_core.networks.libraries import packages_of
from proser_core.recognition.classifier_files import MODEL_CARD
from proser_core.recognition.model_card import model_card
from proser_core.recognition.open_set_classifier import OpenSetClassifier, probability_columns
from proser_core.recognition.program import PROGRAM, export_program

LOGGED = "models:/m-"  # begins the source of a version that is a logged model
ARTEFACT_TAG = "mlflow.proser.artefact"  # of a logged model
REFUSED = re.compile(r"[/:.%\"']")
"""Characters that MLflow refuses in the name of a logged model; that of a registered one may have a dot."""
LONGEST_DESCRIPTION = 5000  # characters of a version, where the database is PostgreSQL
DESCRIPTION = f"""\
Open-set classifiers: each names the class of an image or calls it unknown. `{CHAMPION}` is the version to use,
`{CANDIDATE}` the one that was made last, or found again by the same command. A version's source run is the trial that
development data selected, or a run of its own, as for an ensemble; its source model has the metrics, with the images
that they were measured on.

Change the champion with `proser promote`: it compares two versions on the same images, refuses a candidate that is
worse, and records the decision and its grounds as a run, by which `proser rollback` finds the way back. The button
**Promote model** of these pages does none of that: it copies a version to another registered model. An alias that is
moved by hand is neither compared nor recorded.
"""
OF_MLFLOW = {"MLmodel", "code", "pyfunc_model.py", "python_env.yaml", "requirements.txt"}
"""What MLflow reads of a logged model, beside its artefacts."""
NEEDED = ("torch", "torchvision", "numpy", "pandas", "pillow", "safetensors", "scikit-learn", "scipy", "pyarrow")


@dataclass(frozen=True)
class Registered:
    """A version of a registered model, with its aliases; `champion` is the version that is, empty where none is, and
    `made_champion` whether this one became it now."""

    name: str
    version: str
    aliases: tuple[str, ...]
    champion: str
    made_champion: bool

    def in_words(self, method: str = "") -> str:
        """Its URI and aliases, the method that it is, if given, and which other version is the champion."""
        words = f"models:/{self.name}/{self.version} ({', '.join(self.aliases)}){f': {method}' if method else ''}"
        if self.champion == self.version:
            return words
        return f"{words}; the champion is version {self.champion}" if self.champion else f"{words}; none is champion"

    def next_step(self) -> str:
        """What makes it the champion, for people; empty where it is."""
        name = "" if self.name == DEFAULT_MODEL else f" --model-name {shlex.quote(self.name)}"
        return "" if self.champion == self.version else f"To make it the champion: proser promote{name}"


def register(
    client: MlflowClient,
    run: AbstractContextManager[str],
    name: str,
    classifier_folder: Path,
    digest: str,
    tags: dict[str, str],
    inputs: Sequence[DatasetInput] = (),
) -> Registered:
    """Register a classifier's folder under `name` as candidate; the first version is champion too, if none is.

    `run` gives the id of the run that a new version belongs to, and is entered until that is described; `inputs` are
    the images that it was made of and measured on. A version that was made of the same artefact is found again and
    becomes the candidate; its files are uploaded again where they are lost or damaged. A registration that was
    interrupted is completed.
    """
    found = _made_of(client, digest, versions_of(client, name))
    if found is not None:
        if not _is_whole(client, found, classifier_folder):
            model_id = found.source.removeprefix("models:/")
            _upload(model_id, OpenSetClassifier.load(classifier_folder), classifier_folder)
        for tag, value in tags.items():
            if found.tags.get(tag) != value:
                client.set_model_version_tag(name, found.number, tag, value)
    existing = "" if found is None else found.number
    if not existing or not client.get_model_version(name, existing).description:
        classifier = OpenSetClassifier.load(classifier_folder)
        with run as run_id:
            existing = existing or _make_version(
                client, run_id, name, classifier, classifier_folder, digest, tags, inputs
            )
        origin = client.get_run(run_id).info.run_name  # first: of a description a list shows no more than its beginning
        card = fitting(f"{origin}\n\n{model_card(classifier)}", LONGEST_DESCRIPTION, MODEL_CARD)
        client.update_model_version(name, existing, card)  # last: whatever has it is complete, and its run has ended
    client.set_registered_model_alias(name, CANDIDATE, existing)
    model = client.get_registered_model(name)
    if not model.description:
        client.update_registered_model(name, DESCRIPTION)
    is_first = CHAMPION not in model.aliases and versions_of(client, name)[-1].number == existing
    if is_first:  # of two at once, the one that came first
        client.set_registered_model_alias(name, CHAMPION, existing)
    aliases = {alias: str(number) for alias, number in client.get_registered_model(name).aliases.items()}
    of_version = sorted(alias for alias, number in aliases.items() if number == existing)
    return Registered(name, existing, tuple(of_version), aliases.get(CHAMPION, ""), is_first)


def _made_of(client: MlflowClient, digest: str, versions: Sequence[Version]) -> Version | None:
    """The version that was made of an artefact, by the tag of its logged model."""
    if not versions:
        return None
    sources = {model.model_uri for model in _models_of(client, digest)}
    found = (each for each in versions if each.source in sources or each.tags.get(OLD_ARTEFACT_TAG) == digest)
    return next(found, None)


def _is_whole(client: MlflowClient, version: Version, folder: Path) -> bool:
    """Whether a version has what MLflow needs of it, and its program, by name, and the files of a classifier's folder:
    by name and size, on this machine by content too."""
    if not version.source.startswith(LOGGED):  # of release 0.1
        return True
    uri, inside = f"models:/{version.name}/{version.number}", f"artifacts/{CLASSIFIER}"
    names = {each.path for place in (uri, f"{uri}/artifacts") for each in mlflow.artifacts.list_artifacts(place)}
    if OF_MLFLOW - names:
        return False
    if f"artifacts/{PROGRAM}" not in names and PROGRAM in mlflow.artifacts.load_text(f"{uri}/MLmodel"):
        return False  # it was made with one
    listed = mlflow.artifacts.list_artifacts(f"{uri}/{inside}")
    sizes = {Path(each.path).name: each.file_size for each in listed}
    if sizes != {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}:
        return False
    place = client.get_model_version_download_uri(version.name, version.number)
    if not place.startswith("file:"):  # contents would have to be downloaded
        return True
    there = Path(local_file_uri_to_path(place)) / inside
    return all(sha256_of(there / name) == sha256_of(folder / name) for name in sizes)


def _models_of(client: MlflowClient, digest: str) -> list[LoggedModel]:
    """The logged models of an artefact."""
    return list(client.search_logged_models([experiment_id(client)], f"tags.`{ARTEFACT_TAG}` = '{digest}'"))


def _make_version(
    client: MlflowClient,
    run_id: str,
    name: str,
    classifier: OpenSetClassifier,
    classifier_folder: Path,
    digest: str,
    tags: dict[str, str],
    inputs: Sequence[DatasetInput],
) -> str:
    names = dict.fromkeys((name, classifier.recipe.get("name", "custom")))  # both may be `digits`
    title = REFUSED.sub("-", "-".join(names))
    model_uri = _log_model(client, run_id, title, classifier, classifier_folder, digest, inputs)
    with contextlib.redirect_stderr(io.StringIO()):  # MLflow prints what the closing table says better
        made = mlflow.register_model(model_uri, name, tags={**_figures(classifier), **tags})
    return str(made.version)


def _figures(classifier: OpenSetClassifier) -> dict[str, str]:
    """What a list of versions shows, as tags, with more digits than it shows: nothing is rounded twice."""
    found = _metrics(classifier)
    return {name: f"{found[name]:.6f}" for name in SHOWN if name in found}


def _metrics(classifier: OpenSetClassifier) -> dict[str, float]:
    """Metrics at the bias that the version has, which may be newer than its results: then of validation images and
    development unknowns alone."""
    bias, found = classifier.calibration.bias, {"calibration/bias": classifier.calibration.bias}
    if classifier.results.get("calibration/bias") == bias:
        found |= classifier.results
    if classifier.validation_scores is not None:
        found |= {f"dev/{name}": value for name, value in classifier.validation_scores.metrics(bias).items()}
        if classifier.proxy is not None:
            found |= {f"dev/{name}": value for name, value in classifier.proxy.metrics().items()}
        found["val/known_rate"] = classifier.validation_scores.known_rate(bias)
    return found


def _log_model(
    client: MlflowClient,
    run_id: str,
    title: str,
    classifier: OpenSetClassifier,
    folder: Path,
    digest: str,
    inputs: Sequence[DatasetInput],
) -> str:
    """The URI of the classifier as a logged model, with its metrics, at its run and the parent of that, neither of
    which is marked as running. One without a version is of an earlier attempt, which is completed."""
    run = client.get_run(run_id)
    begun = (
        each
        for each in _models_of(client, digest)
        if each.source_run_id == run_id and MLFLOW_MODEL_VERSIONS not in each.tags
    )
    model = next(begun, None)
    if model is None:
        tags = {**origin_tags(), ARTEFACT_TAG: digest}
        model = client.create_logged_model(run.info.experiment_id, title, run_id, tags, run.data.params)
    if model.status != LoggedModelStatus.READY:
        _upload(model.model_id, classifier, folder)
    for each in {run_id, run.data.tags.get(PARENT_TAG, run_id)}:
        outputs = client.get_run(each).outputs
        if outputs is None or model.model_id not in {output.model_id for output in outputs.model_outputs}:
            client.log_outputs(each, [LoggedModelOutput(model.model_id, 0)])
    if inputs:
        client.log_inputs(run_id, list(inputs))
    client.log_batch(run_id, metrics=measured(_metrics(classifier), inputs, run, model.model_id))
    return str(model.model_uri)


def _upload(model_id: str, classifier: OpenSetClassifier, folder: Path) -> None:
    """The classifier's folder, and a program that needs none of this code, where its score has a form for one."""
    with tempfile.TemporaryDirectory() as place:
        artefacts = {CLASSIFIER: str(shutil.copytree(folder, Path(place) / CLASSIFIER))}  # MLflow keeps its name
        if classifier.score_function.is_exportable:
            program = Path(place) / PROGRAM
            try:
                export_program(classifier, program)
                artefacts["program"] = str(program)
            except ConfigError as error:
                warn(f"registered without a program: {error}")
        packages = ("mlflow", *NEEDED, *packages_of(classifier.network))
        mlflow.pyfunc.log_model(
            model_id=model_id,
            python_model=str(Path(__file__).with_name("pyfunc_model.py")),
            artifacts=artefacts,
            code_paths=[str(Path(proser_core.__file__).parent)],
            signature=_signature(classifier),
            input_example=_example(classifier),
            pip_requirements=[f"{package}=={importlib.metadata.version(package)}" for package in packages],
        )


def _signature(classifier: OpenSetClassifier) -> ModelSignature:
    """The columns of the tables that go in, of which one is enough, and that come out."""
    images: list[ColSpec | TensorSpec] = [
        ColSpec(AnyType(), "image", required=False),
        ColSpec(DataType.string, "path", required=False),
    ]
    labels: list[ColSpec | TensorSpec] = [
        ColSpec(DataType.string, "label"),
        ColSpec(DataType.boolean, "unknown"),
        ColSpec(DataType.double, "unknown_score"),
        *(ColSpec(DataType.double, name) for name in probability_columns(classifier.class_names)),
    ]
    return ModelSignature(inputs=Schema(images), outputs=Schema(labels))


def _example(classifier: OpenSetClassifier) -> pd.DataFrame:
    """A grey image of the right size: those of the user stay where they are."""
    size = classifier.image_size
    content = io.BytesIO()
    Image.fromarray(np.full((size, size, 3), 128, np.uint8)).save(content, "PNG")
    return pd.DataFrame({"image": [base64.b64encode(content.getvalue()).decode()]})
