"""G-OpenMax as Neal et al. 2018 compared with it: no conditional GAN, but codes between those of two training images.

Decoded images that the classifier is unsure of become the class of logit 0, as in OSRCI. The score is
of Neal's code too: logits weakened by Weibull tails of distances in logit space.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from proser_core.errors import TrainingError
from proser_core.generative import autoencoding_gan, one_vs_rest
from proser_core.generative.autoencoding_gan import AutoencodingGan
from proser_core.generative.loop import MOST_DRAWS, REMEDY
from proser_core.generative.own_network import OwnNetwork, OwnTraining, TaskShape, Trained
from proser_core.generative.pixels import PixelBatches, picture
from proser_core.generative.tail_scores import TailScores, euclidean
from proser_core.generative.unknown_class import FULL, QUICK, UnknownClassNet, UnknownClassSchedule, train_with_unknown
from proser_core.learning import tails
from proser_core.learning.tails import fit_tails
from proser_core.networks.nets import ClassLogits
from proser_core.rng import keyed_generator

NAME = "G-OpenMax, interpolated"
UNSURE = 0.5  # an image is kept whose largest softmax probability is smaller; authors' code
SURE = 0.9  # none is kept whose largest is greater
SHOWN = 12  # columns of the picture


class InterpolationNet(UnknownClassNet):
    """K known logits, and as the dummy `-log sum_k exp(l_k (1 - w_k))`."""

    def __init__(self, shape: TaskShape, schedule: UnknownClassSchedule) -> None:
        super().__init__(shape, schedule)
        self.tails = TailScores(shape.num_known, shape.num_known, euclidean)

    def forward(self, images: Tensor) -> ClassLogits:
        known, _ = super().forward(images)
        score = -(known.double() * (1 - self.tails(known))).logsumexp(dim=1, keepdim=True)
        return ClassLogits(known, score.to(known.dtype))


def train(net: InterpolationNet, training: OwnTraining[UnknownClassSchedule]) -> Trained:
    """Draw images between codes, train further from the one-vs-rest classifier, then fit the tails.

    Raises TrainingError where the classifier is sure of too many.
    """
    gan, classifier = training.parts[autoencoding_gan.NAME], training.parts[one_vs_rest.NAME]
    assert isinstance(gan, AutoencodingGan)
    made, best, rate = unsure_images(gan, classifier, training)
    net.pixels.fill(training.task)
    net.classifier.load_state_dict(classifier.state_dict())
    train_with_unknown(net.classifier, made, training, NAME)
    known = training.outputs(net, training.task.train.images)[0].astype(np.float64)
    targets = np.asarray(training.task.train.targets)
    net.tails.fill(fit_tails(known, targets, known.argmax(axis=1) == targets, tails.euclidean, method=NAME))
    facts = {
        "interpolated": len(made),
        "unsure_share_of_interpolations": rate,
        "largest_probability_kept": float(best.max()),
    }
    return Trained(facts, {"images of the further class": picture(made[:SHOWN])})


class Unsure(NamedTuple):
    """Pixels [N, 3, side, side], the largest softmax probability of each [N], and the share of all drawn images of
    which it is below 0.5."""

    pixels: Tensor
    best: Tensor
    rate: float


@torch.no_grad()
def unsure_images(gan: AutoencodingGan, classifier: nn.Module, training: OwnTraining[UnknownClassSchedule]) -> Unsure:
    """Decoded interpolations of which no class has a softmax probability of 0.5, the least sure first.

    Where 20 draws for each that is wanted do not give them, those of all drawn that the classifier is least sure of, up
    to a probability of 0.9. Raises TrainingError where too few of them are left.
    """
    wanted = training.schedule.generated
    pixels, best, below, drawn = torch.zeros(0), torch.zeros(0), 0, 0
    for made in _interpolated(gan, training):
        of_made = classifier(made).softmax(dim=1).amax(dim=1)
        pixels, best = (torch.cat(pair) if drawn else pair[1] for pair in ((pixels, made), (best, of_made)))
        least = best.argsort(stable=True)[:wanted]
        pixels, best = pixels[least], best[least]
        below, drawn = below + int((of_made < UNSURE).sum()), drawn + len(made)
        if below >= wanted or drawn >= MOST_DRAWS * wanted:
            break
    kept = best <= SURE
    needed = math.ceil(training.schedule.least_share * wanted)
    if int(kept.sum()) < needed:
        raise TrainingError(
            f"the classifier's top probability exceeds {SURE:.0%} for all but {int(kept.sum())} of {drawn} "
            f"interpolated images; {needed} are needed; {REMEDY}"
        )
    return Unsure(pixels[kept], best[kept], below / drawn)


def _interpolated(gan: AutoencodingGan, training: OwnTraining[UnknownClassSchedule]) -> Iterator[Tensor]:
    """Images between those of two random batches, without end."""
    firsts, seconds = (PixelBatches(training, f"{NAME} {which}") for which in ("first", "second"))
    epoch = 0
    while True:
        for step, (first, second) in enumerate(zip(firsts.epoch(epoch), seconds.epoch(epoch), strict=True)):
            drawn = keyed_generator(training.seed, f"{NAME} shares", epoch, step)
            shares = torch.from_numpy(drawn.random((len(first.pixels), 1, 1, 1), np.float32)).to(training.device)
            yield interpolate(gan, first.pixels, second.pixels, shares)
        epoch += 1


def interpolate(gan: AutoencodingGan, first: Tensor, second: Tensor, shares: Tensor) -> Tensor:
    """Images decoded from `share E(first) + (1 - share) E(second)`, which is not put back on the sphere."""
    return gan.decode(shares * gan.encode(first) + (1 - shares) * gan.encode(second))


G_OPENMAX_INTERPOLATION = OwnNetwork(
    name=NAME,
    schedules={"full": FULL, "quick": QUICK},
    make=InterpolationNet,
    train=train,
    needs=(autoencoding_gan.NAME, one_vs_rest.NAME),
    probe=lambda schedule: replace(schedule, generated=8),
)
