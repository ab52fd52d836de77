"""Classifiers of real digits, better and worse ones, a registry that they are put into, and decisions on it."""

import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import mlflow
import numpy as np
import torch
from mlflow import MlflowClient
from mlflow.entities import Run
from pipeline_runs import printed
from training_jobs import tiny_recipe

from pipelines.tracking import decisions
from pipelines.tracking.registry import Registered, register
from pipelines.tracking.runs import run_of_its_own
from pipelines.tracking.server import connect, experiment_id
from pipelines.workflow.promotion import promote
from pipelines.workflow.requests import PromoteRequest
from pipelines.workflow.rollback import rollback
from proser_core.data.tasks import OpenSetTask
from proser_core.digests import sha256_of
from proser_core.networks.nets import add_placeholders, make_closed_set_net
from proser_core.networks.weights import load_weights
from proser_core.recognition.classifier_files import CARD
from proser_core.recognition.logit_tables import SCORED_PARTS, TRAIN
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scored_network import score_network
from proser_core.recognition.scores import SCORES
from proser_core.store.store import Artefact


def classifier_of(
    task: Artefact, weights: Path, noise: float = 0.0, dropped: int = 0, control: str = ""
) -> OpenSetClassifier:
    """The network of `weights`, spoiled by noise on its last layer; without the last `dropped` validation images.

    With dummies and by its maximum logit; by the score `control` without them.
    """
    recipe, images = tiny_recipe(), OpenSetTask.load(task.path)
    images = replace(images, val=replace(images.val, **_without_last(images, dropped)))
    closed_set = make_closed_set_net(recipe.network, images.num_known, recipe.data.image_size, seed=0)
    load_weights(closed_set, weights)
    net = closed_set if control else add_placeholders(closed_set, 2, seed=0)
    with torch.no_grad():
        net.classifier.weight += noise * torch.randn(
            net.classifier.weight.shape, generator=torch.Generator().manual_seed(5)
        )
    parts = {name: getattr(images, name).images for name in (*SCORED_PARTS, TRAIN)}
    normalisation, device = (images.mean, images.std), torch.device("cpu")
    logits = {name: compute_logits(net, part, normalisation, device) for name, part in parts.items()}
    score = SCORES[control or "MaxLogit"].fit(logits[TRAIN], np.asarray(images.train.targets))
    scored = score_network(recipe, score, logits, images)
    return scored.classifier(net, images, recipe, controls={"MaxLogit": scored.report.flat()})


def _without_last(images: OpenSetTask, count: int) -> dict[str, np.ndarray]:
    kept = len(images.val) - count
    return {"images": np.asarray(images.val.images[:kept]), "targets": images.val.targets[:kept]}


def of_photos(classifier: OpenSetClassifier, times: int, fingerprint: str) -> OpenSetClassifier:
    """All images are photos of known classes, numbered from so many times the known images on."""
    scores = classifier.validation_scores
    assert scores is not None
    known = np.flatnonzero(scores.is_known)
    scores = scores.select(np.tile(known, 10))
    contents = np.arange(times * len(known), (times + 10) * len(known), dtype=np.uint64)
    return replace(classifier, validation_scores=replace(scores, contents=contents, fingerprint=fingerprint))


@dataclass(frozen=True)
class Registry:
    """A registered model in the database that MLFLOW_TRACKING_URI names; `folder` is for what it is made of."""

    folder: Path
    name: str

    @property
    def client(self) -> MlflowClient:
        return connect(creates=True)

    def add(self, classifier: OpenSetClassifier) -> Registered:
        """Register it as `proser run` does."""
        client = self.client
        place = self.folder / uuid.uuid4().hex
        classifier.save(place)
        run = run_of_its_own(client, "trained")
        return register(client, run, self.name, place, sha256_of(place / CARD), {"proser.recipe": "digits"})

    @property
    def champion(self) -> str:
        return str(self.client.get_registered_model(self.name).aliases.get("champion", ""))

    def decided(self) -> list[Run]:
        """The decisions on this model, oldest first."""
        query = f"tags.`{decisions.MODEL}` = '{self.name}'"
        return list(self.client.search_runs([experiment_id(self.client)], query, order_by=["start_time ASC"]))


def promoted(registry: Registry, **request) -> tuple[int, str]:
    return printed(promote, PromoteRequest(registry.name, **request))


def rolled_back(registry: Registry) -> str:
    """Who is the champion after a rollback."""
    assert printed(rollback, registry.name, "champion")[0] == 0
    return registry.champion


def stored_card(registry: Registry) -> Path:
    source = registry.client.get_model_version(registry.name, "1").source
    place = Path(mlflow.artifacts.download_artifacts(source).removeprefix("file://"))
    return place / "artifacts" / "classifier" / CARD
