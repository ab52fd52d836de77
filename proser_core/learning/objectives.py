"""What is trained, as modules that DDP can wrap: all that has a gradient runs inside `forward`.

A rank's loss is scaled so that DDP's mean over ranks is the loss of the global batch.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proser_core.config import FinetuneConfig
from proser_core.data.batches import BatchSlice
from proser_core.learning.losses import augmented_logits, closed_set_losses, placeholder_losses, unknown_losses
from proser_core.learning.mixup import MixDraw, current_world, draw_mix, mix, pair_weights
from proser_core.networks.nets import ClassLogits, ClosedSetNet, PlaceholderNet


class LossTerms(NamedTuple):
    """The loss to differentiate, and what is reported: name -> (sum over images, images) as float32[2]."""

    total: Tensor
    sums: dict[str, Tensor]


class CrossEntropyObjective(nn.Module):
    """Plain closed-set training: pretraining, and the control beside PROSER."""

    def __init__(self, net: ClosedSetNet) -> None:
        super().__init__()
        self.net = net

    def draw(self, epoch: int, step: int, batch: BatchSlice) -> None:
        """Cross-entropy needs no randomness of its own."""

    def forward(self, images: Tensor, targets: Tensor, global_targets: Tensor, draw: None) -> LossTerms:
        logits = self.net(images).float()
        losses = F.cross_entropy(logits, targets, reduction="none")
        correct = (logits.argmax(dim=1) == targets).float()
        sums = {"loss/closed_set": _sum_and_count(losses), "train/accuracy": _sum_and_count(correct)}
        return LossTerms(losses.mean(), sums)


class ProserObjective(nn.Module):
    """`l1 + gamma * l2`: l1 (eq:dummyloss) on the first half of the batch, l2 (eq:lmix) on the second.

    One pass through phi_pre and one through phi_post serve both halves. Departure from the
    paper: a pair of one class stays in the batch with weight 0, and l2 divides by the number of
    pairs that are left in the global batch (0 where none is left).
    """

    def __init__(self, net: PlaceholderNet, config: FinetuneConfig, seed: int) -> None:
        super().__init__()
        self.net = net
        self._config, self._seed = config, seed

    def draw(self, epoch: int, step: int, batch: BatchSlice) -> MixDraw:
        """Partners and ratio for the second half of the global batch."""
        half = len(batch.global_targets) // 2
        return draw_mix(self._seed, epoch, step, half, self._config.alpha, batch.images.device)

    def forward(self, images: Tensor, targets: Tensor, global_targets: Tensor, draw: MixDraw) -> LossTerms:
        rank, world_size = current_world()
        half, global_half = len(images) // 2, len(global_targets) // 2
        clean, mixed = self._both_logits(images, half, draw, rank, world_size)
        weights = pair_weights(global_targets[global_half:], draw.partners)
        mine = weights[rank * half : (rank + 1) * half]

        augmented = augmented_logits(clean)
        closed_set = closed_set_losses(augmented, targets[:half])
        placeholder = placeholder_losses(augmented, targets[:half])
        mixture = unknown_losses(augmented_logits(mixed)) * mine

        pairs = weights.sum().clamp(min=1.0) / world_size
        total = (closed_set + self._config.beta * placeholder).mean() + self._config.gamma * mixture.sum() / pairs
        known_best = augmented[:, :-1].amax(dim=1)
        sums = {
            "loss/closed_set": _sum_and_count(closed_set),
            "loss/placeholder": _sum_and_count(placeholder),
            "loss/mixture": torch.stack([mixture.sum(), mine.sum()]).detach(),
            "train/accuracy": _sum_and_count((augmented.argmax(dim=1) == targets[:half]).float()),
            "train/dummy_win_rate": _sum_and_count((augmented[:, -1] > known_best).float()),
        }
        return LossTerms(total, sums)

    def _both_logits(
        self, images: Tensor, half: int, draw: MixDraw, rank: int, world_size: int
    ) -> tuple[ClassLogits, ClassLogits]:
        """Logits of the clean first half and of the mixtures made from the second."""
        if self._config.mixup == "vanilla":
            mixed_images = mix(images[half:], draw, rank, world_size)
            hidden = self.net.hidden(torch.cat([images[:half], mixed_images]))
        else:
            hidden = self.net.hidden(images)
            hidden = torch.cat([hidden[:half], mix(hidden[half:], draw, rank, world_size)])
        if self._config.mixture_batch_norm == "separate":
            clean = self.net.logits(hidden[:half])
            with FrozenRunningStatistics(self.net):
                return clean, self.net.logits(hidden[half:])
        logits = self.net.logits(hidden)
        return (
            ClassLogits(logits.known[:half], logits.dummies[:half]),
            ClassLogits(logits.known[half:], logits.dummies[half:]),
        )


class FrozenRunningStatistics:
    """While it is open, BatchNorm normalises by the batch but its running statistics stay as they are."""

    def __init__(self, module: nn.Module) -> None:
        self._norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
        self._momenta = [m.momentum for m in self._norms]

    def __enter__(self) -> None:
        for norm in self._norms:
            norm.momentum = 0.0

    def __exit__(self, *_: object) -> None:
        for norm, momentum in zip(self._norms, self._momenta, strict=True):
            norm.momentum = momentum


def _sum_and_count(values: Tensor) -> Tensor:
    return torch.stack([values.sum(), values.new_tensor(float(len(values)))]).detach()
