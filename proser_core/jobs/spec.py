"""A training job as data: what a worker receives, and the files that it writes.

Light to import: nothing here loads torch.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from proser_core.config import CalibrationConfig, NetworkConfig, Recipe, decisive_network, from_json, to_json
from proser_core.data.tasks import TaskSummary
from proser_core.digests import digest_of
from proser_core.store.code_version import code_version
from proser_core.store.files import write_atomically
from proser_core.store.store import Artefact, artefact_folder

PREPARE, PRETRAIN, TRIALS = "prepare", "pretrain", "trials"  # folders of a storage
EMBEDDINGS = "embeddings"  # another one: what frozen backbones give for the images of a task
EMBEDDING = "proser_core.jobs.embedding"  # the module that makes them
WEIGHTS, LOGITS, EPOCHS, STATE, FAILURE = "weights.safetensors", "logits.npz", "epochs.jsonl", "state.pt", "failure.txt"
CLASS_SPLIT = "class_split.json"  # of a prepared task, for people
DEVELOPMENT_SCORES = "development.jsonl"  # of a trial in a search, scored where it paused
CHECKPOINT_SCORE = "proser_core.jobs.checkpoint_score"  # the module that scores it
SELECTION_METRIC = "dev/macro_f1"
"""The metric by which points are chosen: on validation images and development unknowns."""


@dataclass(frozen=True)
class Job:
    """One training: `kind` is pretrain, finetune or own; paths are absolute, on the shared storage.

    `weights` are the closed-set weights to begin from: of the pretraining (finetune), or a
    user's own, which then are only checked and scored (pretrain).
    """

    kind: str
    recipe: dict[str, Any]
    task: str
    folder: str
    weights: str = ""
    threads: int = 1
    bf16: bool = False
    inputs: dict[str, Any] = field(default_factory=dict)
    embeddings: str = ""
    """Folder with the embeddings that take the place of the task's images; empty where the backbone is trained."""
    pause: int = 0
    """Epochs after which it ends for now, and its network is scored on development data; 0: it trains to its end."""

    @property
    def is_paused(self) -> bool:
        """Whether it has come to its pause, and was scored there."""
        if not self.pause:
            return False
        calibration = from_json(CalibrationConfig, self.recipe["calibration"])
        return any(row["epochs"] >= self.pause for row in read_scores(Path(self.folder), calibration))

    @classmethod
    def of(
        cls,
        kind: str,
        recipe: Recipe,
        task: Artefact,
        folder: Path,
        bf16: bool,
        weights: str = "",
        inputs: dict[str, Any] | None = None,
    ) -> "Job":
        """The job of a recipe on a task, whose outcome goes to `folder`; `inputs` are its `job_inputs`."""
        threads, embeddings = recipe.cluster.cpus_per_worker, ""
        if recipe.network.is_frozen(kind):
            embeddings = str(artefact_folder(folder.parent.parent, EMBEDDINGS, embedding_inputs(recipe, task)))
        return cls(kind, to_json(recipe), str(task.path), str(folder), weights, threads, bf16, inputs or {}, embeddings)

    def to_json(self) -> dict[str, Any]:
        """Plain values, to hand to a worker."""
        return asdict(self)


def job_inputs(kind: str, recipe: Recipe, task: Artefact, weights: str, bf16: bool, code: str) -> dict[str, Any]:
    """Everything that decides the outcome of a job; it names the job's folder.

    `weights` is the content digest of the weights to begin from, or an empty string.
    """
    training, workers = recipe.training(kind)
    network = recipe.network
    if kind == "pretrain" or recipe.finetune.objective == "cross_entropy":  # which mix nothing
        network = replace(network, split=NetworkConfig.split)
    return {
        "task": task.digest,
        "weights": weights,
        "network": decisive_network(network),
        "training": to_json(training),
        "augmentation": augmentation(recipe, task),
        "seed": recipe.seed,
        "bf16": bf16,
        "gpu": recipe.cluster.uses_gpu,
        "workers": [recipe.cluster.min_workers, workers] if recipe.cluster.is_elastic(kind) else workers,
        "threads": recipe.cluster.cpus_per_worker,
        "code": code,
    }


def augmentation(recipe: Recipe, task: Artefact) -> list[Any]:
    """What decides how a training's images are augmented, and how often each is shown."""
    data = recipe.data
    if data.flip == "auto":
        data = data.decided(flip=TaskSummary.read(task.path).flip)
    return [data.flip, data.padding, data.augmentation, data.sampling]


def embedding_inputs(recipe: Recipe, task: Artefact) -> dict[str, Any]:
    """What decides the embeddings of a task's images: a frozen backbone and its weights, the images, and the code."""
    network = decisive_network(recipe.network)
    return {
        "task": task.digest,
        "network": {name: network[name] for name in ("backbone", "weights_file")},
        "normalisation": list(recipe.data.normalisation),
        "code": code_version(EMBEDDING),
    }


def write_failure(folder: Path, reason: str) -> None:
    """Record why a job failed; a full disk has no room for it. Bytes of a path that are not UTF-8 are escaped."""
    with suppress(OSError):
        write_atomically(folder / FAILURE, reason.encode(errors="backslashreplace"))


def read_failure(folder: Path) -> str:
    """Why a job failed; an empty string where no reason is recorded."""
    path = folder / FAILURE
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def read_epochs(folder: Path) -> list[dict[str, float]]:
    """Metrics of the epochs that a job has reported so far."""
    return _read_lines(folder / EPOCHS)


def read_scores(folder: Path, calibration: CalibrationConfig) -> list[dict[str, Any]]:
    """Development scores of a trial, one per pause: `epochs` trained so far, and SELECTION_METRIC. Scores of another
    calibration or of other code are left out."""
    key = score_key(calibration)
    return [row for row in read_all_scores(folder) if row.get("scored_by") == key]


def read_all_scores(folder: Path) -> list[dict[str, Any]]:
    """Development scores of a trial with the `score_key` of each, `scored_by`."""
    return _read_lines(folder / DEVELOPMENT_SCORES)


def score_key(calibration: CalibrationConfig) -> str:
    """What decides the development score of a checkpoint: the calibration, and the code."""
    return digest_of(calibration.target_rate, calibration.dummy_weight, code_version(CHECKPOINT_SCORE))


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Nothing of a file that a disk has changed, as of none: its training writes it again."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    except ValueError:
        return []
