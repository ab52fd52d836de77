"""Registered models by URI: the classifier in a version."""

import errno
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import mlflow
from mlflow.exceptions import MlflowException

from pipelines.tracking.server import connect, experiment_id
from pipelines.tracking.versions import CLASSIFIER, MODEL_FORMS, URI, Version, find
from proser_core.errors import CheckpointError, StorageError, TrackingError, last_line
from proser_core.recognition.classifier_files import FETCH_AGAIN
from proser_core.recognition.open_set_classifier import OpenSetClassifier

NEXT_TO_NOTHING = 1 << 20  # bytes that are free on a full disk


@dataclass(frozen=True)
class LoadedModel:
    """A classifier, what it was named by, and its version in the registry; none for a folder."""

    uri: str
    classifier: OpenSetClassifier
    version: Version | None

    @property
    def title(self) -> str:
        """Title for people: the name and version, or the folder."""
        return self.uri if self.version is None else f"{self.version.name} version {self.number}"

    @property
    def number(self) -> str:
        """Number of its version; empty for a folder."""
        return "" if self.version is None else self.version.number


def load(uri: str) -> LoadedModel:
    """The classifier behind models:/NAME@ALIAS, models:/NAME/VERSION, or in a folder.

    Raises TrackingError for a model, alias or version that the registry does not have, CheckpointError for a
    folder that is no classifier, or one that was changed, StorageError for a full disk.
    """
    if not uri.startswith("models:"):
        if not Path(uri).exists():
            found = URI.fullmatch(f"models:/{uri}")
            is_version = found and (found["alias"] or found["version"].isdecimal())
            advice = f"did you mean models:/{uri}?" if is_version else f"need {MODEL_FORMS}"
            if not is_version and uri == Path(uri).stem:
                advice += f"; did you mean models:/{uri}@champion?"
            raise CheckpointError(f"got {uri}, and there is no such folder; {advice}")
        return LoadedModel(uri, OpenSetClassifier.load(Path(uri)), None)
    client = connect()
    version = find(client, uri)
    with tempfile.TemporaryDirectory() as folder:
        try:
            place = mlflow.artifacts.download_artifacts(
                f"models:/{version.name}/{version.number}/artifacts/{CLASSIFIER}", dst_path=folder
            )
        except (MlflowException, OSError, ValueError) as error:  # the last for a place that no store reads, as http://
            if os.strerror(errno.ENOSPC) in str(error) or shutil.disk_usage(folder).free < NEXT_TO_NOTHING:
                raise StorageError(
                    f"the disk of {folder}, where version {version.number} of {version.name!r} is fetched to, is full; "
                    "free some space, or name another folder in TMPDIR"
                ) from error
            experiment_id(client)  # raises where the server is away, or the database was moved
            raise TrackingError(
                f"version {version.number} of {version.name!r} cannot be fetched ({last_line(error)}); restore its "
                "artefacts, or register it again with the same `proser run`"
            ) from error
        try:
            return LoadedModel(uri, OpenSetClassifier.load(place), version)
        except CheckpointError as error:
            location = client.get_model_version_download_uri(version.name, version.number)
            raise CheckpointError(_of_version(version, location, str(error), place)) from error


def _of_version(version: Version, location: str, reason: str, place: str) -> str:
    """Why a version is refused, without the place that it was fetched to, and where the original is."""
    reason = reason.replace(f"{place}/", "").replace(place, "its folder")
    damage = reason.removesuffix(FETCH_AGAIN)
    title = f"version {version.number} of {version.name!r}"
    if damage == reason and not damage.endswith("is missing"):
        return f"{title} cannot be read: {reason}"
    where = f"{location.removeprefix('file://')}/artifacts/{CLASSIFIER}"
    return f"{title} is damaged: {damage}; restore its artefacts ({where}), or register it again"
