"""OSRCI, open-set learning with counterfactual images (Neal et al. 2018).

From the codes of training images a search goes to images that the one-vs-rest classifier gives to no class; that
classifier is then trained further, with these images as the class of logit 0. The authors' search differs in what
docs/method-notes.md lists.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor, nn

from proser_core.errors import TrainingError
from proser_core.generative import autoencoding_gan, one_vs_rest
from proser_core.generative.autoencoding_gan import AutoencodingGan
from proser_core.generative.counterfactuals import are_open, search
from proser_core.generative.loop import REMEDY
from proser_core.generative.own_network import OwnNetwork, OwnTraining, Picture, Trained
from proser_core.generative.pixels import PixelBatches, picture
from proser_core.generative.unknown_class import FULL, QUICK, UnknownClassNet, UnknownClassSchedule, train_with_unknown

NAME = "OSRCI"
DISTANCE_WEIGHTS = (1.0, 0.1, 0.01)
"""Weights of the distance in the search, in the order in which they are tried; the paper has 1."""
ENOUGH = 0.5  # of the probed searches must end open, or the next weight is tried
PROBED = 256  # training images that choose the weight
AT_ONCE = 64  # searches side by side; authors' code
SHOWN = 8  # columns of the picture


@dataclass(frozen=True)
class Searched:
    """Images [N, 3, side, side] that searches ended with, and whether unknown is likeliest there, bool[N]."""

    pixels: Tensor
    open: Tensor

    @property
    def rate(self) -> float:
        """Share of searches that ended open."""
        return float(self.open.float().mean())


def train(net: UnknownClassNet, training: OwnTraining[UnknownClassSchedule]) -> Trained:
    """Search, then train further from the one-vs-rest classifier.

    Raises TrainingError where hardly a search ends open.
    """
    schedule = training.schedule
    gan, classifier = training.parts[autoencoding_gan.NAME], training.parts[one_vs_rest.NAME]
    assert isinstance(gan, AutoencodingGan)
    starts = PixelBatches(training, f"{NAME} starts").first(schedule.generated).pixels
    probed, *rest = starts.split(PROBED)
    tried = cache(lambda weight: search_from(probed, gan, classifier, weight))
    weight, rates = choose_weight(lambda weight: tried(weight).rate, least=schedule.least_share)
    parts = [tried(weight), *(search_from(part, gan, classifier, weight) for part in rest)]
    found = Searched(torch.cat([part.pixels for part in parts]), torch.cat([part.open for part in parts]))
    net.pixels.fill(training.task)
    net.classifier.load_state_dict(classifier.state_dict())
    train_with_unknown(net.classifier, found.pixels, training, NAME)
    facts = {"distance_weight": weight, "crossing_rate": found.rate, "probed_crossing_rates": rates}
    return Trained(facts, {"training images, reconstructions, counterfactuals": _pictured(starts, gan, found)})


def choose_weight(crossing_rate: Callable[[float], float], least: float) -> tuple[float, dict[str, float]]:
    """The first distance weight with which half of the searches end open, else the one with most; and all rates.

    Raises TrainingError where none lets a share of `least` end open: then there is nothing to train on.
    """
    rates: dict[float, float] = {}
    for weight in DISTANCE_WEIGHTS:
        rates[weight] = crossing_rate(weight)
        if rates[weight] >= ENOUGH:
            break
    best = max(rates, key=lambda weight: rates[weight])
    if rates[best] < least:
        raise TrainingError(
            f"{rates[best]:.1%} of the searches for counterfactual images end where no class is likeliest, and at "
            f"least {least:.0%} must; {REMEDY}"
        )
    return best, {f"{weight:g}": rate for weight, rate in rates.items()}


def search_from(pixels: Tensor, gan: AutoencodingGan, classifier: nn.Module, distance_weight: float) -> Searched:
    """Counterfactuals of images [N, 3, side, side], AT_ONCE side by side."""
    made, opened = [], []
    for chunk in pixels.split(AT_ONCE):
        with torch.no_grad():
            starts = gan.encode(chunk)
        ends = search(gan.decode, classifier, starts, distance_weight=distance_weight)
        with torch.no_grad():
            made.append(gan.decode(ends))
            opened.append(are_open(classifier(made[-1])))
    return Searched(torch.cat(made), torch.cat(opened))


@torch.no_grad()
def _pictured(starts: Tensor, gan: AutoencodingGan, found: Searched) -> Picture:
    shown = starts[:SHOWN]
    return picture(shown, gan(shown), found.pixels[:SHOWN])


OSRCI = OwnNetwork(
    name=NAME,
    schedules={"full": FULL, "quick": QUICK},
    make=UnknownClassNet,
    train=train,
    needs=(autoencoding_gan.NAME, one_vs_rest.NAME),
    probe=lambda schedule: replace(schedule, generated=8, least_share=0.0),
)
