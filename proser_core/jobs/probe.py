"""What one step costs on this machine, measured on random images before anything long begins."""

import time
import timeit
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from proser_core.config import Recipe, from_json
from proser_core.data.normalisation import Normalisation
from proser_core.data.tasks import Labelled
from proser_core.learning.fit import Metrics, State
from proser_core.learning.training import scoring_device, train_network, training_device
from proser_core.networks.heads import make_heads
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet, make_closed_set_net
from proser_core.processor import keep_freed_memory, resolve_precision
from proser_core.recognition.logits import compute_logits

STEPS, EPOCHS = 4, 3
HEAD_EPOCHS = 40
"""Epochs of heads are over in milliseconds: one interruption would be all of a few."""
EMBEDDED = 32
"""Images by which the rate of a frozen backbone is measured, on all threads of torch: somewhat slower than
`jobs/embedding.py`, which gives each core images of its own (docs/speed.md)."""
NORMALISATION: Normalisation = ((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


@dataclass(frozen=True)
class StepCost:
    """Seconds of a step of one worker; images scored per second; bytes of weights, of its own memory at most, of the
    device's memory that training took, and of the device (0 on a CPU)."""

    step_seconds: float
    scored_per_second: float
    weight_bytes: int
    memory_bytes: int
    device_bytes: int
    device_total: int


def measure_step(kind: Literal["pretrain", "finetune"], recipe_fields: dict[str, Any]) -> StepCost:
    """Train on random images for a few steps in this process, with a worker's share of the batch.

    The first epoch warms up; the fastest of the others counts.
    """
    recipe: Recipe = from_json(Recipe, recipe_fields)
    cluster = recipe.cluster
    torch.set_num_threads(cluster.cpus_per_worker)
    keep_freed_memory()
    training, workers = recipe.training(kind)
    training = replace(training, epochs=EPOCHS, batch_size=training.batch_size // workers)
    alone: dict[str, Any] = {"cluster": cluster.with_one_worker(), kind: training}
    alone["data"] = recipe.data.decided(flip=True)
    shape = (training.batch_size * STEPS, recipe.data.image_size, recipe.data.image_size, 3)
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    images = Labelled(pixels, np.arange(len(pixels)) % recipe.data.num_known)
    closed_set = make_closed_set_net(recipe.network, recipe.data.num_known, recipe.data.image_size, recipe.seed)
    net, seconds = _train(kind, closed_set, images, replace(recipe, **alone), resolve_precision(recipe))
    device = training_device(recipe)
    scoring = timeit.repeat(lambda: compute_logits(net, pixels, NORMALISATION, device), repeat=2, number=1)
    return StepCost(
        step_seconds=seconds,
        scored_per_second=len(pixels) / min(scoring),
        weight_bytes=4 * sum(parameter.numel() for parameter in net.parameters()),
        memory_bytes=_most_memory(),
        device_bytes=torch.cuda.max_memory_reserved() if cluster.uses_gpu else 0,
        device_total=torch.cuda.get_device_properties(device).total_memory if cluster.uses_gpu else 0,
    )


def measure_heads(kind: Literal["pretrain", "finetune"], recipe: Recipe) -> StepCost:
    """As `measure_step`, on a frozen backbone. Images of the pretraining are scored as fast as they are embedded: it
    comes first, and later trainings find the embeddings."""
    device = scoring_device(recipe) if kind == "pretrain" else torch.device("cpu")
    training = recipe.training(kind)[0]
    backbone = make_closed_set_net(recipe.network, recipe.data.num_known, recipe.data.image_size, recipe.seed).backbone
    pixels = np.zeros((EMBEDDED, recipe.data.image_size, recipe.data.image_size, 3), np.uint8)
    rows = np.random.default_rng(0).standard_normal((training.batch_size * STEPS, backbone.embedding_size), np.float32)
    targets = np.arange(len(rows)) % recipe.data.num_known
    one: dict[str, Any] = {
        "cluster": replace(recipe.cluster.with_one_worker(), gpus_per_worker=0.0),
        kind: replace(training, epochs=HEAD_EPOCHS),
    }
    heads = make_heads(rows, recipe.data.num_known, recipe.seed)
    net, seconds = _train(kind, heads, Labelled(rows, targets), replace(recipe, **one), bf16=False)
    seen: tuple[nn.Module, np.ndarray] = (backbone, pixels) if kind == "pretrain" else (net, rows)
    scoring = timeit.repeat(lambda: compute_logits(*seen, NORMALISATION, device), repeat=2, number=1)
    weights = 4 * sum(parameter.numel() for parameter in net.parameters())
    return StepCost(seconds, len(seen[1]) / min(scoring), weights, 0, 0, 0)


def _train(
    kind: str, closed_set: ClosedSetNet, images: Labelled, recipe: Recipe, bf16: bool
) -> tuple[ClosedSetNet | PlaceholderNet, float]:
    """The network after all epochs, and the seconds of a step of the fastest."""
    ends: list[float] = []

    def end_of_epoch(epoch: int, metrics: Metrics, state: State) -> None:
        ends.append(time.perf_counter())  # the metrics have been read, so that a GPU has finished too

    net = train_network(kind, closed_set, images, NORMALISATION, recipe, bf16=bf16, report=end_of_epoch)
    return net, float(np.diff(ends).min()) / STEPS


def _most_memory() -> int:
    """Bytes that this process has held at most, without files that processes share, such as torch's libraries; 0 where
    the system does not say, because it is not Linux."""
    status = Path("/proc/self/status")
    lines = [line.split() for line in status.read_text(encoding="utf-8").splitlines()] if status.is_file() else []
    kibibytes = {words[0]: int(words[1]) for words in lines if words[0] in ("VmHWM:", "RssFile:", "RssShmem:")}
    return 1024 * (kibibytes["VmHWM:"] - kibibytes["RssFile:"] - kibibytes["RssShmem:"]) if kibibytes else 0
