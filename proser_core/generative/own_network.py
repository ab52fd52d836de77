"""`OwnNetwork`: a network of a method's own, and what its training is handed and leaves.

A network that several methods share (an auto-encoder, a GAN) is one of its own, which others `need`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from proser_core.config import DataConfig
from proser_core.config.own_networks import ScheduleName
from proser_core.data.augmentation.batches import TrainingBatches
from proser_core.data.image_sets import ImageSource
from proser_core.data.normalisation import Normalisation
from proser_core.data.tasks import Labelled, OpenSetTask
from proser_core.learning.fit import Report, State
from proser_core.learning.step import Arithmetic
from proser_core.networks.weights import load_weights
from proser_core.rng import keyed_seed

Picture = np.ndarray
"""uint8[rows, columns, H, W, 3]: images side by side, such as originals above their reconstructions."""
UNIT_RANGE: Normalisation = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
"""Leaves images in 0..1."""
Outputs = Callable[[nn.Module, np.ndarray | ImageSource], tuple[np.ndarray, np.ndarray]]
"""From a network and images uint8[N, H, W, 3], not augmented, to known float32[N, K] and dummies float32[N, C], in
evaluation mode and fp32; the network stays in evaluation mode."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long a network is trained, and how wide it is; each network adds its fields, as plain values. All of them
    stand in the key of its training."""

    epochs: int
    """Epochs that are reported. Source: that of the subclass."""
    batch_size: int
    """Images in a batch, at most; as many as there are where these are fewer. Source: that of the subclass."""

    def epoch_images(self, count: int, num_known: int) -> int:
        """Images that an epoch passes over, of `count` training images of K classes."""
        return count


S = TypeVar("S", bound=Schedule)


@dataclass(frozen=True)
class TaskShape:
    """What sizes a network: K known classes, images of so many pixels in height and width."""

    num_known: int
    image_size: int


@dataclass(frozen=True)
class OwnTraining(Generic[S]):
    """What a training is handed.

    task: images, of which `train` alone may train. data: how they are augmented. seed: with a purpose, an epoch and a
    step it keys every draw. parts: the trained networks that this one needs, by name, on the device, in evaluation
    mode and without gradients. report: of `fit`, to be called after every epoch; resume: the state that was reported
    last. outputs: scores images while or after a network trains, for what is fitted to them.
    """

    task: OpenSetTask
    data: DataConfig
    schedule: S
    seed: int
    arithmetic: Arithmetic
    parts: Mapping[str, nn.Module]
    report: Report
    outputs: Outputs
    resume: State | None = None

    @property
    def device(self) -> torch.device:
        """Where it trains."""
        return self.arithmetic.device

    def batches(self, purpose: str, images: Labelled | None = None) -> TrainingBatches:
        """Augmented batches of the training images, or of others, normalised as the task's; `purpose` keys order and
        augmentation."""
        return self._batches(purpose, images, self.data, (self.task.mean, self.task.std))

    def plain_batches(self, purpose: str) -> TrainingBatches:
        """Batches of training images in 0..1 that are not augmented, for a generator."""
        return self._batches(purpose, None, replace(self.data, augmentation="none"), UNIT_RANGE)

    def _batches(
        self, purpose: str, images: Labelled | None, data: DataConfig, normalisation: Normalisation
    ) -> TrainingBatches:
        labelled = self.task.train if images is None else images
        size = min(self.schedule.batch_size, len(labelled) // 2 * 2)
        return TrainingBatches(
            labelled, data, normalisation, batch_size=size, seed=self.seed, purpose=purpose, device=self.device
        )


@dataclass(frozen=True)
class Trained:
    """What a training leaves beside its weights.

    facts: numbers and texts for people and reports, plain values by name, such as how many counterfactual images are
    open. pictures: by title.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    pictures: dict[str, Picture] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)  # compared by identity, so hashable
class OwnNetwork(Generic[S]):
    """A network of a method's own.

    name: in key, plan, progress and tables, such as "DHRNet". schedules: as published ("full"), and for two CPU cores
    ("quick"). make: the untrained network, whose `forward(images)` maps float32[B, 3, H, W], normalised as the task's,
    to `ClassLogits`; what it needs is inside, parts of other networks too, whose weights `train` copies in, so that its
    state alone restores it. What the dummies need of the training images is a buffer, fitted at the end of `train`. In
    evaluation mode no image's logits depend on the others. train: trains it in place, on the device of the training; a
    function of its own module, whose code stands in the key. needs: names of networks that are trained before. probe:
    from a schedule to one whose epochs cost the same and that does little beside them, to measure a step.
    scores_images: False for a part that no method scores; its `forward` is its own affair. refusal: why a task cannot
    be served, or an empty string.
    """

    name: str
    schedules: Mapping[ScheduleName, S]
    make: Callable[[TaskShape, S], nn.Module]
    train: Callable[[Any, OwnTraining[S]], Trained]
    needs: tuple[str, ...] = ()
    probe: Callable[[S], S] = lambda schedule: schedule
    scores_images: bool = True
    refusal: Callable[[TaskShape], str] = lambda shape: ""

    def fresh(self, shape: TaskShape, schedule: S, seed: int) -> nn.Module:
        """The untrained network, whose weights depend on `seed` alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(keyed_seed(seed, f"{self.name} weights"))
            return self.make(shape, schedule)

    def restored(self, shape: TaskShape, schedule: S, path: Path) -> nn.Module:
        """The trained network from its weights, in evaluation mode. Raises CheckpointError for weights that do not
        fit."""
        net = self.fresh(shape, schedule, seed=0)
        load_weights(net, path)
        return net.eval()
