"""Registered models by URI: which version one means, and the classifier in it."""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import mlflow
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from pipelines.tracking.registry import CLASSIFIER, Version, versions_of
from pipelines.tracking.server import connect, get_or_none, shown_uri
from proser_core.errors import TrackingError, first_line
from proser_core.recognition.open_set_classifier import OpenSetClassifier

URI = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/]+)|/(?P<version>[^/]+))")


@dataclass(frozen=True)
class Model:
    """A classifier, what it was named by, and its version in the registry; none for a folder."""

    uri: str
    classifier: OpenSetClassifier
    version: Version | None

    @property
    def title(self) -> str:
        """For people: the name and version, or the folder."""
        return self.uri if self.version is None else f"{self.version.name} version {self.number}"

    @property
    def number(self) -> str:
        """Of its version; empty for a folder."""
        return "" if self.version is None else self.version.number


def load(uri: str) -> Model:
    """The classifier behind models:/NAME@ALIAS, models:/NAME/VERSION, or in a folder.

    Raises TrackingError for a model, alias or version that the registry does not have, CheckpointError for a
    folder that is no classifier, or one that was changed.
    """
    if not uri.startswith("models:"):
        return Model(uri, OpenSetClassifier.load(Path(uri)), None)
    client = connect()
    version = find(client, uri)
    with tempfile.TemporaryDirectory() as folder:
        try:
            place = mlflow.artifacts.download_artifacts(
                f"models:/{version.name}/{version.number}/artifacts/{CLASSIFIER}", dst_path=folder
            )
        except (MlflowException, OSError, ValueError) as error:  # the last for a place that no store reads, as http://
            client.get_model_version(version.name, version.number)  # raises where the server is away
            raise TrackingError(
                f"version {version.number} of {version.name!r} cannot be fetched ({first_line(error)}); restore its "
                "artefacts, or register it again with the same `proser run`"
            ) from error
        return Model(uri, OpenSetClassifier.load(place), version)


def find(client: MlflowClient, uri: str) -> Version:
    """The version that a models:/ URI means. Raises TrackingError with what there is."""
    parts = URI.fullmatch(uri)
    if parts is None:
        raise TrackingError(f"got {uri}; need models:/NAME@ALIAS, models:/NAME/VERSION, or the folder of a classifier")
    name = parts["name"]
    versions = existing_versions(client, name)
    if parts["alias"]:
        found = get_or_none(lambda: client.get_model_version_by_alias(name, parts["alias"]))
    else:
        found = get_or_none(lambda: client.get_model_version(name, parts["version"]))
    if found is None:
        aliases = ", ".join(f"@{alias}" for alias in sorted(client.get_registered_model(name).aliases))
        numbers = ", ".join(version.number for version in versions)
        raise TrackingError(
            f"the model {name!r} has no {'alias' if parts['alias'] else 'version'} "
            f"{parts['alias'] or parts['version']!r}; it has versions {numbers} and aliases {aliases or 'none'}"
        )
    return Version.of(found)


def existing_versions(client: MlflowClient, name: str) -> list[Version]:
    """As `versions_of`; raises TrackingError with the models that there are where there is none."""
    versions = versions_of(client, name)
    if not versions:
        names = ", ".join(sorted(model.name for model in client.search_registered_models())) or "none yet"
        raise TrackingError(
            f"{shown_uri()} has no version of a model {name!r}; it has models: {names}. `proser run` registers one"
        )
    return versions
