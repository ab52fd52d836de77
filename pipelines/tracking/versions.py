"""The versions of a registered model, and which of them a URI means: what a list of models needs, without torch."""

import re
from dataclasses import dataclass

from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion

from pipelines.tracking.server import all_pages, get_or_none, quoted, shown_uri
from proser_core.config import Recipe
from proser_core.errors import ConfigError, TrackingError

URI = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/]+)|/(?P<version>[^/]+))")
MODEL_FORMS = "models:/NAME@ALIAS, models:/NAME/VERSION, or the folder of a classifier"  # what a command takes
OLD_ARTEFACT_TAG, OLD_FIGURE = "proser.artefact", "proser.figure."  # of versions that version 0.1 registered
CALIBRATED_FROM = "proser.calibrated_from"  # version that one with a new bias was made of
CHOSEN_AMONG = "proser.chosen_among"  # points that a version is the best of, on its validation images and unknowns
SHOWN = ("dev/macro_f1", "dev/auroc", "dev/closed_set_accuracy", "val/known_rate")  # tags of a version
CANDIDATE, CHAMPION = "candidate", "champion"
CLASSIFIER = "classifier"  # of a version's artefacts, the folder that OpenSetClassifier reads
MOST_DIGITS = 9  # of a number of a version: databases fail at longer ones, which looks like an outage
DEFAULT_MODEL = Recipe.model_name


@dataclass(frozen=True)
class Version:
    """A version of a registered model; `source` is the URI of the logged model, `created` in seconds since 1970."""

    name: str
    number: str
    tags: dict[str, str]
    source: str
    created: float

    @classmethod
    def of(cls, found: ModelVersion) -> "Version":
        """MLflow gives the number as text or as a number."""
        tags = {name.removeprefix(OLD_FIGURE): value for name, value in found.tags.items()}
        return cls(found.name, str(found.version), tags, str(found.source), found.creation_timestamp / 1000)


def versions_of(client: MlflowClient, name: str) -> list[Version]:
    """All versions of a model, newest first; none where there is no such model."""
    if get_or_none(lambda: client.get_registered_model(name)) is None:
        return []
    found = map(Version.of, all_pages(client.search_model_versions, f"name = {quoted(name)}"))
    return sorted(found, key=lambda version: -int(version.number))


def target_rate_of(client: MlflowClient, version: Version) -> float | None:
    """The share of known images that a recalibrated version was made to keep, as the run of its calibration says; None
    where that is gone."""
    run_id = client.get_model_version(version.name, version.number).run_id
    run = get_or_none(lambda: client.get_run(run_id)) if run_id else None
    rate = run.data.params.get("target_rate") if run else None
    return None if rate is None else float(rate)


def find(client: MlflowClient, uri: str) -> Version:
    """The version that a models:/ URI means. Raises TrackingError with what there is."""
    parts = URI.fullmatch(uri)
    if parts is None:
        raise TrackingError(f"got {uri}; need {MODEL_FORMS}")
    name = parts["name"]
    found = None
    if parts["alias"]:
        found = get_or_none(lambda: client.get_model_version_by_alias(name, parts["alias"]))
    elif len(parts["version"]) <= MOST_DIGITS:
        found = get_or_none(lambda: client.get_model_version(name, parts["version"]))
    if found is None:  # a server asks every few seconds, so that all versions are listed for the message alone
        versions = existing_versions(client, name)
        aliases = ", ".join(f"@{alias}" for alias in sorted(client.get_registered_model(name).aliases))
        numbers = ", ".join(version.number for version in versions)
        raise TrackingError(
            f"the model {name!r} has no {'alias' if parts['alias'] else 'version'} "
            f"{parts['alias'] or parts['version']!r}; it has versions {numbers} and aliases {aliases or 'none'}"
        )
    return Version.of(found)


def existing_versions(client: MlflowClient, name: str) -> list[Version]:
    """As `versions_of`; where there is none it raises TrackingError, which lists the existing models."""
    versions = versions_of(client, name)
    if not versions:
        names = ", ".join(_model_names(client)) or "none yet. `proser run` registers one"
        raise TrackingError(f"{shown_uri()} has no version of a model {name!r}; it has models: {names}")
    return versions


def model_named(client: MlflowClient, name: str) -> str:
    """The name that was given; where none was, the default one, or that of the only model there is. Raises ConfigError
    for what cannot be a name, TrackingError where there are several others."""
    if name:
        if re.search("[/@]", name):
            raise ConfigError(f"--model-name got {name!r}; need the name of a registered model, without / and @")
        return name
    names = _model_names(client)
    if not names or DEFAULT_MODEL in names:
        return DEFAULT_MODEL
    if len(names) == 1:
        return names[0]
    raise TrackingError(
        f"{shown_uri()} has {len(names)} models: {', '.join(names)}; name one with --model-name {names[0]}"
    )


def _model_names(client: MlflowClient) -> list[str]:
    return sorted(model.name for model in all_pages(client.search_registered_models))
