"""The authors' released fine-tune step: the form that ours is measured against.

Written from a description of it in our own words, on our network, so that the comparison is of the form alone: three
passes through phi_pre and four through phi_post on half batches, the true class masked row by row, all C dummies in the
logits, same-class pairs kept, statistics read from the device.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.harness.settings import Settings
from benchmarks.variants.setups import arithmetic, placeholder_net
from proser_core.learning.step import Arithmetic
from proser_core.networks.nets import PlaceholderNet

MASKED = -1e9  # the released code's logit of a class that is taken away
ALPHA, GAMMA = 1.0, 0.01


class ReleasedTerms(NamedTuple):
    """Mean losses of the mixtures, of the true class and of the second-best, and all logits [B, K+C]."""

    mixture: Tensor
    closed_set: Tensor
    placeholder: Tensor
    logits: Tensor


def released_terms(
    net: PlaceholderNet, images: Tensor, targets: Tensor, mix_lambda: float, partners: Tensor
) -> ReleasedTerms:
    """The first half of the batch is mixed; the second feeds the other two losses."""
    half = len(images) // 2
    later_images, later_targets = images[half:], targets[half:]
    hidden = net.hidden(images[:half])
    mixed = mix_lambda * hidden + (1 - mix_lambda) * hidden[partners]
    dummies = net.dummies(net.backbone.post(net.hidden(later_images)))
    known = net.classifier(net.backbone.post(net.hidden(later_images)))
    later_logits = torch.cat((known, dummies), 1)
    mixed_logits = torch.cat((net.classifier(net.backbone.post(mixed)), net.dummies(net.backbone.post(mixed))), 1)
    unknown = torch.ones_like(later_targets) * known.shape[1]
    masked = _without_true(known, dummies, later_targets)
    return ReleasedTerms(
        F.cross_entropy(mixed_logits, unknown),
        F.cross_entropy(later_logits, later_targets),
        F.cross_entropy(masked, unknown),
        torch.cat((mixed_logits, later_logits), 0),
    )


def _without_true(known: Tensor, dummies: Tensor, targets: Tensor) -> Tensor:
    """`f_hat(x) \\ y`: one row after another, each label read by the host."""
    best = torch.max(dummies.clone(), dim=1)[0].view(-1, 1)
    augmented = torch.cat((known.clone(), best), dim=1)
    for row in range(len(augmented)):
        label = targets[row]
        augmented[row][label] = MASKED
    return augmented


@dataclass
class Progress:
    """What the released loop adds up and prints at every step."""

    loss: float = 0.0
    correct: int = 0
    total: int = 0
    line: str = ""


class ReleasedStep:
    """One step after another with SGD as torch runs it by default, and statistics read at each step."""

    def __init__(self, net: PlaceholderNet, arithmetic: Arithmetic, *, lr: float = 1e-3) -> None:
        self.net, self.arithmetic = net.train(), arithmetic
        self._optimizer = torch.optim.SGD(net.parameters(), lr, momentum=0.9, weight_decay=5e-4)
        self.progress = Progress()

    def __call__(self, images: Tensor, targets: Tensor) -> None:
        self._optimizer.zero_grad()
        mix_lambda = float(np.random.beta(ALPHA, ALPHA))  # NumPy's global state, as released
        partners = torch.randperm(len(images) // 2).to(images.device)
        with self.arithmetic.autocast():
            terms = released_terms(self.net, images, targets, mix_lambda, partners)
            loss = GAMMA * terms.mixture + 1.0 * terms.closed_set + 1.0 * terms.placeholder
        loss.backward()
        self._optimizer.step()
        self._record(terms, loss, targets)

    def _record(self, terms: ReleasedTerms, loss: Tensor, targets: Tensor) -> None:
        self.progress.loss += loss.item()
        predicted = terms.logits.max(1)[1]
        self.progress.total += len(targets)
        self.progress.correct += int(predicted.eq(targets).sum().item())
        parts = (terms.mixture.item(), terms.closed_set.item(), terms.placeholder.item())
        rate = self.progress.correct / self.progress.total
        self.progress.line = "L1 {:.3f}, L2 {:.3f}, L3 {:.3f} | Acc {:.3f}".format(*parts, rate)


def released_step(settings: Settings, bf16: bool) -> ReleasedStep:
    """The step on the same network and in the same memory layout as `our_step`."""
    return ReleasedStep(placeholder_net(settings), arithmetic(settings, bf16))
