"""What a worker does for a network of a method's own: from files to files, as `jobs.worker.run_job` for the others.

Nothing here names a network: its code stands in its own key alone.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from proser_core.config import Recipe, from_json
from proser_core.data.image_sets import ImageSource
from proser_core.data.tasks import OpenSetTask, OpenStream
from proser_core.errors import ConfigError
from proser_core.generative.own_network import Outputs, OwnNetwork, OwnTraining, Schedule, TaskShape, Trained
from proser_core.jobs.spec import LOGITS, WEIGHTS, Job
from proser_core.jobs.worker import DurableReport, sealed, working_on
from proser_core.learning.fit import Metrics, Report, State
from proser_core.learning.step import Arithmetic
from proser_core.learning.training import training_device
from proser_core.networks.weights import save_weights
from proser_core.recognition.logit_tables import save_logits
from proser_core.recognition.logits import compute_logits, task_logits
from proser_core.store.files import write_json

FACTS, PICTURES = "facts.json", "pictures.npz"  # files beside weights and logits
Parts = Mapping[str, nn.Module]


def train_files(
    job: Job,
    network: OwnNetwork[Any],
    schedule: Schedule,
    load_parts: Callable[[TaskShape, torch.device], Parts],
    notify: Callable[[Metrics], None],
    open_stream: OpenStream,
) -> None:
    """Train a network in this process, then score every image; weights, logits, facts and pictures are its folder's.

    `load_parts` reads what it needs. Raises as `run_job` does, and records a ProserError's message in the folder.
    """
    with working_on(job):
        folder, recipe = Path(job.folder), from_json(Recipe, job.recipe)
        task, device = OpenSetTask.load(Path(job.task), open_stream), training_device(recipe)
        report = DurableReport(folder, notify, write=True)
        state, began = report.last_state(device), time.monotonic()
        before = report.seconds
        parts = load_parts(TaskShape(task.num_known, task.image_size), device)
        net, trained = train_own(
            network, schedule, task, recipe, bf16=job.bf16, parts=parts, report=report, resume=state
        )
        seconds = before + time.monotonic() - began  # what is before and after the epochs is part of the method
        with sealed(job, seconds, device, (WEIGHTS, FACTS, LOGITS, PICTURES)):
            if network.scores_images:
                save_logits(task_logits(net, task, device, with_training=True), folder / LOGITS)
            if trained.pictures:
                np.savez_compressed(folder / PICTURES, allow_pickle=False, **trained.pictures)
            write_json(folder / FACTS, trained.facts)
            save_weights(net, folder / WEIGHTS)


def train_own(
    network: OwnNetwork[Any],
    schedule: Schedule,
    task: OpenSetTask,
    recipe: Recipe,
    *,
    bf16: bool,
    parts: Parts,
    report: Report,
    resume: State | None = None,
) -> tuple[nn.Module, Trained]:
    """A network of a method's own after its training, and what that says of it. Raises ConfigError for a class without
    a training image, TrainingError where a loss is not finite."""
    counts = np.bincount(task.train.targets, minlength=task.num_known)
    if not counts.all():
        raise ConfigError(
            f"{network.name} needs training images of each known class, and there is none of "
            f"{task.class_names[counts.argmin()]}"
        )
    torch.backends.cudnn.deterministic = True  # others add gradients in any order, of searches for images too
    device = training_device(recipe)
    net = network.fresh(TaskShape(task.num_known, task.image_size), schedule, recipe.seed)
    net = net.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    training = OwnTraining(
        task=task,
        data=task.augmented(recipe.data),
        schedule=schedule,
        seed=recipe.seed,
        arithmetic=Arithmetic(device, bf16),
        parts=parts,
        report=report,
        outputs=_outputs(task, device),
        resume=resume,
    )
    return net, network.train(net, training)


def _outputs(task: OpenSetTask, device: torch.device) -> Outputs:
    def outputs(net: nn.Module, images: np.ndarray | ImageSource) -> tuple[np.ndarray, np.ndarray]:
        logits = compute_logits(net, images, (task.mean, task.std), device)
        return logits.known, logits.dummies

    return outputs
