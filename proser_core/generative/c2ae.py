"""C2AE: a decoder that is told a class gives an image of it; an unknown image comes back badly under every class
(Oza and Patel 2019).

The authors' code is not to be had. Widths are those of Neal et al. 2018; pairs and epochs are decided here
(docs/method-notes.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proser_core.config import OptimizerConfig
from proser_core.data.augmentation.batches import BatchSlice
from proser_core.generative.convolutions import nine_blocks
from proser_core.generative.descent import descent
from proser_core.generative.film import ClassConditionedDecoder
from proser_core.generative.gpd import best_threshold
from proser_core.generative.loop import run_epochs
from proser_core.generative.own_network import OwnNetwork, OwnTraining, Picture, Schedule, TaskShape, Trained
from proser_core.generative.pictures import picture, shown
from proser_core.generative.pixels import Pixels, generated_side, scaled
from proser_core.generative.subsets import at_most
from proser_core.networks.classifier32 import ConvBlock, Flat
from proser_core.networks.nets import ClassLogits
from proser_core.rng import keyed_generator

HALVED = 16
"""Rows of pixels that one row of a code covers: ten blocks, four of stride 2."""


@dataclass(frozen=True, kw_only=True)
class C2aeSchedule(Schedule):
    """How the classifier, or the decoder behind it, is trained: Adam at a constant rate."""

    width: int = 128
    """Channels of the encoder from its third convolution on, and of a code. Source: Neal et al. 2018."""
    lr: float = 3e-4
    """Learning rate. Decided here."""
    per_class: int = 0
    """Training images of a class, at most; 0 takes all."""


@dataclass(frozen=True, kw_only=True)
class DecoderSchedule(C2aeSchedule):
    """The decoder's own fields."""

    right_weight: float = 0.9
    """alpha, the weight of the error under the right class; that under a wrong one has the rest. Source: ports."""
    p_unknown: float = 0.5
    """Probability of an unknown image, for the method's own threshold. Decided here."""


FULL_CLASSIFIER = C2aeSchedule(epochs=100, batch_size=64)
QUICK_CLASSIFIER = C2aeSchedule(epochs=8, batch_size=64, width=64, lr=1e-3, per_class=1000)
FULL = DecoderSchedule(epochs=150, batch_size=64)
QUICK = DecoderSchedule(epochs=15, batch_size=64, width=64, lr=1e-3, per_class=1000)


class CodeClassifier(nn.Module):
    """The closed-set part: normalised images [B, 3, S, S] to codes [B, width, s, s], and to logits [B, K] of them."""

    def __init__(self, shape: TaskShape, width: int) -> None:
        super().__init__()
        self.side = generated_side(shape.image_size)
        self.encoder = nn.Sequential(nine_blocks(width), ConvBlock(width, width, stride=2))
        self.classifier = nn.Sequential(Flat(), nn.Linear(width * (self.side // HALVED) ** 2, shape.num_known))

    def codes(self, images: Tensor) -> Tensor:
        """What the decoder is given."""
        return self.encoder(scaled(images, self.side))

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.codes(images))


class C2aeNet(nn.Module):
    """Images [B, 3, S, S] to logits and, as dummies, the mean absolute error under each known class, [B, K].

    The closed-set part is never trained here.
    """

    def __init__(self, shape: TaskShape, width: int) -> None:
        super().__init__()
        self.num_known = shape.num_known
        self.pixels = Pixels(shape.image_size)
        self.closed_set = CodeClassifier(shape, width).requires_grad_(False)
        side = self.pixels.side // HALVED
        self.decoder = ClassConditionedDecoder(
            shape.num_known, (width, side, side), (4 * width, 4 * width, 2 * width, width)
        )

    def train(self, mode: bool = True) -> "C2aeNet":
        """As of any module, but the closed-set part stays in evaluation mode."""
        super().train(mode)
        self.closed_set.eval()
        return self

    def forward(self, images: Tensor) -> ClassLogits:
        codes, pixels = self.closed_set.codes(images), self.pixels(images)
        errors = [absolute_errors(pixels, self.decoded(codes, k)) for k in range(self.num_known)]
        return ClassLogits(self.closed_set.classifier(codes), torch.stack(errors, dim=1))

    def decoded(self, codes: Tensor, known_class: int) -> Tensor:
        """Images [B, 3, s, s] in [0, 1]: all codes under one class."""
        return self.decoder(codes, torch.full((len(codes),), known_class, device=codes.device))


def absolute_errors(pixels: Tensor, decoded: Tensor) -> Tensor:
    """Mean absolute difference of each image, float32[B]."""
    return (pixels - decoded.float()).abs().mean(dim=(1, 2, 3))


def partners_of_other_classes(targets: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """For every image one of another class, int64[B], and weights float32[B]: 0 where the batch has no other class.

    `order` is a permutation of the batch, read as a cycle: the partner is the first of another class that follows.
    """
    count = len(targets)
    places = torch.arange(count, device=targets.device)
    following = order[(places[:, None] + places) % count]  # [B, B]: from each place of the cycle, all images in turn
    differs = targets[following] != targets[order][:, None]
    found = following[places, differs.int().argmax(dim=1)]
    partners, weights = torch.empty_like(order), torch.empty(count, device=targets.device)
    partners[order], weights[order] = found, differs.any(dim=1).float()
    return partners, weights


def decoder_losses(net: C2aeNet, batch: BatchSlice, order: Tensor, right_weight: float) -> dict[str, Tensor]:
    """`alpha * mean |x - G(z, y)| + (1 - alpha) * mean |x' - G(z, y')|`: z is the code of x, and x' of class y' another
    image of the batch, which the decoder has to give where it is told y' (Oza and Patel 2019, eq. 4 and 5)."""
    with torch.no_grad():
        codes, pixels = net.closed_set.codes(batch.images), net.pixels(batch.images)
    partners, weights = partners_of_other_classes(batch.targets, order)
    labels = torch.cat([batch.targets, batch.targets[partners]])
    decoded = net.decoder(torch.cat([codes, codes]), labels)
    right, wrong = absolute_errors(torch.cat([pixels, pixels[partners]]), decoded).chunk(2)
    by_right, by_wrong = right.mean(), (wrong * weights).sum() / weights.sum().clamp(min=1)
    loss = right_weight * by_right + (1 - right_weight) * by_wrong
    return {"loss/total": loss, "loss/right_class": by_right, "loss/wrong_class": by_wrong}


def train_classifier(net: CodeClassifier, training: OwnTraining[C2aeSchedule]) -> Trained:
    """Cross-entropy on the recipe's augmented images."""
    schedule = training.schedule

    def loss_of(batch: BatchSlice, epoch: int, step: int) -> Mapping[str, Tensor]:
        logits = net(batch.images).float()
        right = (logits.argmax(dim=1) == batch.targets).float().mean()
        loss = F.cross_entropy(logits, batch.targets)
        return {"loss/total": loss, "loss/closed_set": loss, "train/accuracy": right}

    optimizer = torch.optim.Adam(net.parameters(), lr=schedule.lr)
    batches = training.batches("c2ae classifier", at_most(training.task.train, schedule.per_class))
    steps = descent(loss_of, batches, optimizer, _constant_rate(schedule), training.arithmetic)
    run_epochs({"net": net, "optimizer": optimizer}, training, steps)
    return Trained()


def train_c2ae(net: C2aeNet, training: OwnTraining[DecoderSchedule]) -> Trained:
    """The decoder on images as they are, neither cropped nor mirrored; then the method's own threshold."""
    schedule, task = training.schedule, training.task
    net.closed_set.load_state_dict(training.parts[CLASSIFIER.name].state_dict())
    net.pixels.fill(task)

    def loss_of(batch: BatchSlice, epoch: int, step: int) -> Mapping[str, Tensor]:
        order = keyed_generator(training.seed, "c2ae pairs", epoch, step).permutation(len(batch.targets))
        return decoder_losses(net, batch, torch.from_numpy(order).to(training.device), schedule.right_weight)

    optimizer = torch.optim.Adam(net.decoder.parameters(), lr=schedule.lr)
    images = at_most(task.train, schedule.per_class)
    unaugmented = replace(training, data=replace(training.data, padding=0, flip=False))
    batches = unaugmented.batches("c2ae", images)
    steps = descent(loss_of, batches, optimizer, _constant_rate(schedule), training.arithmetic)
    run_epochs({"net": net, "optimizer": optimizer}, training, steps)
    _, errors = training.outputs(net, images.images)
    return Trained(_facts(errors, np.asarray(images.targets), schedule.p_unknown), _pictures(net, training))


def right_and_wrong(errors: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors float[N] of images under their own class, and under the next one: of float[N, K] and int64[N]."""
    rows = np.arange(len(targets))
    return errors[rows, targets], errors[rows, (targets + 1) % errors.shape[1]]


def _facts(errors: np.ndarray, targets: np.ndarray, p_unknown: float) -> dict[str, float]:
    right, wrong = right_and_wrong(errors, targets)
    return {
        "threshold": best_threshold(right, wrong, p_unknown),
        "error_under_right_class": float(right.mean()),
        "error_under_wrong_class": float(wrong.mean()),
    }


@torch.no_grad()
def _pictures(net: C2aeNet, training: OwnTraining[DecoderSchedule]) -> dict[str, Picture]:
    """Validation images as they are, and decoded under their own and the next class."""
    images, targets = shown(training.task, training.task.val, training.device)
    net.eval()
    codes = net.closed_set.codes(images)
    both = [net.decoder(codes, label) for label in (targets, (targets + 1) % net.num_known)]
    return {"validation images, decoded under their own class and under the next": picture(net.pixels(images), *both)}


def _constant_rate(schedule: C2aeSchedule) -> OptimizerConfig:
    return OptimizerConfig(epochs=schedule.epochs, lr=schedule.lr, schedule="constant")


def _refusal(shape: TaskShape) -> str:
    side = generated_side(shape.image_size)
    if side % HALVED:
        return f"C2AE halves an image four times; {shape.image_size} pixels are not enough: set data.image_size to 32"
    return ""


CLASSIFIER = OwnNetwork(
    name="c2ae-classifier",
    source="Oza and Patel 2019",
    schedules={"full": FULL_CLASSIFIER, "quick": QUICK_CLASSIFIER},
    make=lambda shape, schedule: CodeClassifier(shape, schedule.width),
    train=train_classifier,
    scores_images=False,
    refusal=_refusal,
)
C2AE = OwnNetwork(
    name="c2ae",
    source="Oza and Patel 2019",
    schedules={"full": FULL, "quick": QUICK},
    make=lambda shape, schedule: C2aeNet(shape, schedule.width),
    train=train_c2ae,
    needs=(CLASSIFIER.name,),
    refusal=_refusal,
)
