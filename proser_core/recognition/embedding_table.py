"""Logits with the embeddings that they are made of, for scores that look at more than logits.

Computed from finished weights, in one pass over the images: no training holds this code in its key.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from proser_core.data.image_sets import ImageSource, chunks, image_size
from proser_core.data.normalisation import Normalisation, are_pixels, evaluation_batches
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet
from proser_core.processor import ieee_convolutions, usable_device
from proser_core.recognition.logit_tables import SCORED_PARTS, TRAIN, EmbeddingTable
from proser_core.recognition.logits import check_finite, place
from proser_core.rng import keyed_generator

INDEX_SIZE = 10_000
"""Training images, at most, that scores are fitted to. A classifier keeps the embeddings of all of them where its score
is a distance to them: 5 MB of 128 numbers each."""
LEAST_OF_CLASS = 10


def check_embeds(net: nn.Module) -> None:
    """Raises ConfigError for a network that is not a linear classifier on an embedding."""
    if not isinstance(net, ClosedSetNet | PlaceholderNet):
        raise ConfigError(
            "the network has no single linear classifier on an embedding; scores of embeddings and the "
            "average with the mirrored image need a ClosedSetNet or a PlaceholderNet"
        )


def outputs(net: nn.Module, images: Tensor, *, mirror: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of the known classes [B, K] and of the dummies [B, C], and embeddings [B, d], of images [B, 3, H, W].

    With `mirror` each is the mean over the image and its mirror image, for twice the time.
    """
    assert isinstance(net, ClosedSetNet | PlaceholderNet)
    embeddings = net.backbone(images)
    if mirror:
        embeddings = (embeddings + net.backbone(images.flip(3))) / 2  # and so are the logits, which are linear
    known = net.classifier(embeddings)
    dummies = net.dummies(embeddings) if isinstance(net, PlaceholderNet) else known[:, :0]
    return known, dummies, embeddings


def compute_embedding_table(
    net: nn.Module,
    images: np.ndarray | ImageSource,
    normalisation: Normalisation,
    device: torch.device | str,
    *,
    mirror: bool = False,
    progress: Callable[[int], None] = lambda images: None,
) -> EmbeddingTable:
    """The table of uint8[N, H, W, 3] images, or of streamed ones, in fp32 and evaluation mode; `progress` gets the
    number of images of each batch.

    Raises ConfigError for a network of a method's own or a device that is not there, DataError for an array that is
    neither these nor embeddings float32[N, d].
    """
    check_embeds(net)
    assert isinstance(net, ClosedSetNet | PlaceholderNet)
    device = usable_device(device)
    place(net, device)
    parts = []
    with torch.inference_mode(), ieee_convolutions(device):
        for batch in evaluation_batches(images, normalisation, device):
            parts.append([each.float().cpu() for each in outputs(net, batch, mirror=mirror)])
            progress(min(len(batch), len(images)))  # without the black one that stands for none
    known, dummies, embeddings = (torch.cat(column).numpy()[: len(images)] for column in zip(*parts, strict=True))
    weights, biases = (each.detach().float().cpu().numpy() for each in (net.classifier.weight, net.classifier.bias))
    seen = [] if net.backbone.standardised_by is None else [each.cpu().numpy() for each in net.backbone.standardised_by]
    return EmbeddingTable(known, dummies, embeddings, weights, biases, *seen)


def index_rows(task: OpenSetTask, seed: int) -> np.ndarray:
    """Rows of the training images that scores are fitted to, in order: all, or INDEX_SIZE of them drawn by `seed`, with
    LEAST_OF_CLASS of each class or all that it has: a rare class must not be missing."""
    count = len(task.train)
    if count <= INDEX_SIZE:
        return np.arange(count)
    drawn = keyed_generator(seed, "index").permutation(count)
    by_class = np.argsort(task.train.targets[drawn], kind="stable")
    sizes = np.unique(task.train.targets, return_counts=True)[1]
    place = np.empty(count, np.int64)  # of each drawn image among those of its class
    place[by_class] = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    wanted = np.argsort(np.minimum(place, LEAST_OF_CLASS), kind="stable")
    return np.sort(drawn[wanted[:INDEX_SIZE]])


def num_embedded(task: OpenSetTask) -> int:
    """Images that `task_embeddings` goes through."""
    return sum(len(getattr(task, part)) for part in SCORED_PARTS) + min(len(task.train), INDEX_SIZE)


@dataclass(frozen=True)
class _Rows:
    """Images at `rows` int64[n], as a source: an array on disk is not copied into memory."""

    images: np.ndarray | ImageSource
    rows: np.ndarray

    @property
    def size(self) -> int:
        return image_size(self.images)

    def __len__(self) -> int:
        return len(self.rows)

    def batches(self, rows: np.ndarray, batch_size: int) -> Generator[np.ndarray, None, None]:
        at, images = self.rows[rows], self.images
        if not isinstance(images, np.ndarray):
            return images.batches(at, batch_size)
        return (images[part] for part in chunks(at, batch_size))


def task_embeddings(
    net: nn.Module,
    task: OpenSetTask,
    device: torch.device,
    *,
    seed: int = 0,
    mirror: bool = False,
    progress: Callable[[int], None] = lambda images: None,
) -> dict[str, EmbeddingTable]:
    """The tables of a task's images by part: SCORED_PARTS, and as TRAIN that of `index_rows`. Raises TrainingError
    where one is not finite, ConfigError for a network of a method's own."""
    images = {part: getattr(task, part).images for part in SCORED_PARTS}
    train, rows = task.train.images, index_rows(task, seed)
    images[TRAIN] = _Rows(train, rows) if are_pixels(train) else np.asarray(train)[rows]
    normalisation = (task.mean, task.std)
    tables = {
        part: compute_embedding_table(net, each, normalisation, device, mirror=mirror, progress=progress)
        for part, each in images.items()
    }
    check_finite(tables.values())
    return tables
