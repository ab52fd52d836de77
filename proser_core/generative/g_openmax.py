"""G-OpenMax (Ge et al. 2017): OpenMax over the known classes and one of generated images.

A conditional GAN draws images of mixtures of classes. Those that a classifier of the known classes names otherwise
than by the largest share are the further class of a K+1 classifier, to whose training images OpenMax is fitted.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proser_core.errors import TrainingError
from proser_core.generative import conditional_gan, one_vs_rest
from proser_core.generative.conditional_gan import ConditionalGan, draw_noise
from proser_core.generative.convolutions import WIDTH, Classifier32
from proser_core.generative.loop import MOST_DRAWS, REMEDY, accuracy, run_epochs, take_step
from proser_core.generative.one_vs_rest import ClassifierSchedule
from proser_core.generative.own_network import OwnNetwork, OwnTraining, TaskShape, Trained
from proser_core.generative.pixels import PixelBatches, Pixels, picture
from proser_core.generative.tail_scores import TailScores, eucos
from proser_core.learning import tails
from proser_core.learning.tails import fit_tails
from proser_core.networks.nets import ClassLogits
from proser_core.processor import ieee_convolutions
from proser_core.rng import keyed_generator

NAME = "G-OpenMax"
BETAS = (0.9, 0.999)
AT_ONCE = 64  # mixtures drawn side by side
SHOWN = 12  # columns of the picture


FULL = ClassifierSchedule(epochs=50, batch_size=128, width=WIDTH, lr=1e-3)
"""Rate and epochs of a port."""
QUICK = ClassifierSchedule(epochs=10, batch_size=64, width=WIDTH // 4, lr=1e-3, least_steps=50, most_steps=200)
"""For two cores."""


class GOpenMaxNet(nn.Module):
    """A classifier of K+1 classes, and OpenMax over all of them.

    Known are the K raw logits; the one dummy is `-log max_{k<K} P(k)`, P the softmax of the K+1 revised logits.
    """

    def __init__(self, shape: TaskShape, schedule: ClassifierSchedule) -> None:
        super().__init__()
        outputs = shape.num_known + 1
        self.pixels = Pixels(shape.image_size)
        self.classifier = Classifier32(outputs, self.pixels.side, schedule.width, schedule.dropout)
        self.tails = TailScores(outputs, outputs, eucos)

    def forward(self, images: Tensor) -> ClassLogits:
        logits = self.classifier(self.pixels(images))
        score = minus_log_best_known(revised(logits.double(), self.tails(logits)))
        return ClassLogits(logits[:, :-1], score[:, None].to(logits.dtype))


class _WithoutTails(nn.Module):
    """The same classifier with its last logit as the dummy: what the tails are fitted to."""

    def __init__(self, net: GOpenMaxNet) -> None:
        super().__init__()
        self._pixels, self._classifier = net.pixels, net.classifier

    def forward(self, images: Tensor) -> ClassLogits:
        logits = self._classifier(self._pixels(images))
        return ClassLogits(logits[:, :-1], logits[:, -1:])


def revised(logits: Tensor, w_scores: Tensor) -> Tensor:
    """`l_k (1 - a_k w_k)`, [N, K+1]: a is 1 for the largest logit, K / (K+1) for the next, and so on."""
    ranks = logits.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    return logits * (1 - (1 - ranks / logits.shape[1]) * w_scores)


def minus_log_best_known(logits: Tensor) -> Tensor:
    """`-log max_{k<K} P(k)`, [N], of logits [N, K+1]; exact where P is close to 1."""
    best = logits[:, :-1].argmax(dim=1, keepdim=True)
    against = logits - logits.gather(1, best)
    return F.softplus(against.scatter(1, best, -torch.inf).logsumexp(dim=1))


def train(net: GOpenMaxNet, training: OwnTraining[ClassifierSchedule]) -> Trained:
    """Draw one class's worth of images, train K+1 classes on them and the training images, then fit the tails.

    Raises TrainingError where too few mixtures are named otherwise.
    """
    gan, classifier = training.parts[conditional_gan.NAME], training.parts[one_vs_rest.NAME]
    assert isinstance(gan, ConditionalGan)
    wanted = -(-len(training.task.train) // gan.num_known)
    made, rate = ambiguous_images(gan, classifier, wanted, training.seed, training.device)
    net.pixels.fill(training.task)
    _train_classifier(net.classifier, made, training)
    _fit_tails(net, made, training)
    facts = {"generated": len(made), "kept_share_of_mixtures": rate}
    return Trained(facts, {"images of the further class": picture(made[:SHOWN])})


@torch.no_grad()
def ambiguous_images(
    gan: ConditionalGan, classifier: nn.Module, wanted: int, seed: int, device: torch.device
) -> tuple[Tensor, float]:
    """Pixels [wanted, 3, side, side] that the classifier names otherwise than by their largest share, and the rate at
    which they were kept. Mixtures are uniform on the simplex.

    Raises TrainingError where 20 draws for each that is wanted do not give them.
    """
    kept, found, drawn = [], 0, 0
    while found < wanted:
        if drawn >= MOST_DRAWS * wanted:
            raise TrainingError(
                f"{found} of {drawn} images that the conditional GAN drew of mixtures are named otherwise than by "
                f"their largest share, and {wanted} must be; {REMEDY}"
            )
        mixtures, noise = draw_mixtures(gan.num_known, gan.noise, seed, drawn // AT_ONCE)
        pixels = gan(noise.to(device), mixtures.to(device))
        wrong = classifier(pixels).argmax(dim=1) != mixtures.argmax(dim=1).to(device)
        kept.append(pixels[wrong])
        found, drawn = found + len(kept[-1]), drawn + AT_ONCE
    return torch.cat(kept)[:wanted], found / drawn


def draw_mixtures(num_known: int, noise: int, seed: int, turn: int) -> tuple[Tensor, Tensor]:
    """Points of the simplex float32[AT_ONCE, K], Dirichlet(1, ..., 1), and noise float32[AT_ONCE, noise]."""
    shares = keyed_generator(seed, f"{NAME} mixtures", turn).dirichlet(np.ones(num_known), AT_ONCE)
    return torch.from_numpy(shares.astype(np.float32)), draw_noise(seed, f"{NAME} noise", AT_ONCE, noise, turn)


def _train_classifier(net: nn.Module, made: Tensor, training: OwnTraining[ClassifierSchedule]) -> None:
    """Cross-entropy over K+1 classes; of the further one a batch has one image for K real ones."""
    batches = PixelBatches(training, NAME)
    optimizer = torch.optim.Adam(net.parameters(), training.schedule.lr, BETAS)
    num_known = training.task.num_known

    def steps(epoch: int) -> Iterator[Mapping[str, Tensor]]:
        for step, (pixels, targets) in enumerate(batches.epoch(epoch)):
            drawn = keyed_generator(training.seed, f"{NAME} made", epoch, step)
            rows = torch.from_numpy(drawn.integers(len(made), size=-(-len(pixels) // num_known))).to(made.device)
            logits = net(torch.cat([pixels, made[rows]]))
            labels = torch.cat([targets, torch.full_like(rows, num_known)])
            loss = F.cross_entropy(logits, labels)
            take_step(loss, optimizer)
            yield {"loss/closed_set": loss, "train/accuracy": accuracy(logits, labels)}

    run_epochs({"net": net, "optimizer": optimizer}, training, steps)


def _fit_tails(net: GOpenMaxNet, made: Tensor, training: OwnTraining[ClassifierSchedule]) -> None:
    """OpenMax's means and tails of correctly classified training images, generated ones for class K."""
    real = np.concatenate(training.outputs(_WithoutTails(net), training.task.train.images), axis=1)
    with torch.no_grad(), ieee_convolutions(made.device):  # as the real images are scored
        generated = torch.cat([net.classifier(chunk) for chunk in made.split(AT_ONCE)]).cpu().numpy()
    targets = np.concatenate([training.task.train.targets, np.full(len(made), training.task.num_known)])
    logits = np.concatenate([real, generated]).astype(np.float64)
    net.tails.fill(fit_tails(logits, targets, logits.argmax(axis=1) == targets, tails.eucos, method=NAME))


G_OPENMAX = OwnNetwork(
    name=NAME,
    schedules={"full": FULL, "quick": QUICK},
    make=GOpenMaxNet,
    train=train,
    needs=(conditional_gan.NAME, one_vs_rest.NAME),
)
