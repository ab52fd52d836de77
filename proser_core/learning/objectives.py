"""What is trained, as modules that DDP can wrap: all that has a gradient runs inside `forward`.

A rank's loss is scaled so that DDP's mean over ranks is the loss of the global batch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from proser_core.config import FinetuneConfig
from proser_core.data.augmentation.batches import rank_order
from proser_core.learning.losses import (
    all_logits,
    augmented_logits,
    closed_set_losses,
    placeholder_losses,
    unknown_losses,
)
from proser_core.learning.mixup import MixDraw, draw_mix, mix, pair_weights
from proser_core.learning.ranks import current_world
from proser_core.networks.nets import ClassLogits, ClosedSetNet, PlaceholderNet


class LossTerms(NamedTuple):
    """The loss to differentiate, and what is reported: name -> (sum over images, images) as float32[2]."""

    total: Tensor
    sums: dict[str, Tensor]


class CrossEntropyObjective(nn.Module):
    """Plain closed-set training: pretraining, and the control beside PROSER."""

    def __init__(self, net: ClosedSetNet, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.net = net
        self._label_smoothing = label_smoothing

    def draws(self, epoch: int, steps: int, batch_size: int, device: torch.device) -> None:
        """Cross-entropy needs no randomness of its own."""

    def forward(self, images: Tensor, targets: Tensor, global_targets: Tensor, draw: None) -> LossTerms:
        """The loss terms of this rank's images float32[b, 3, H, W] and targets int64[b] in 0..K-1; the other arguments
        are unused."""
        logits = self.net(images).float()
        losses = F.cross_entropy(logits, targets, reduction="none", label_smoothing=self._label_smoothing)
        correct = (logits.argmax(dim=1) == targets).float()
        sums = {"loss/closed_set": _sum_and_count(losses), "train/accuracy": _sum_and_count(correct)}
        return LossTerms(losses.mean(), sums)


class ProserObjective(nn.Module):
    """`l1 + gamma * l2`: l1 (eq. 5) on the first half of the batch, l2 (eq. 7) on the second.

    With `batch_use` all, every image feeds both; gamma = 0 then leaves the mixtures out. One pass
    through phi_pre and one through phi_post serve both losses. Departure from the paper: a pair
    of one class stays in the batch with weight 0, and l2 divides by the number of pairs that are
    left in the global batch (0 where none is left). With `loss_form` released, closed-set and
    mixture loss see every dummy, the first of them is the mixtures' class, and no pair is left out.
    """

    def __init__(self, net: PlaceholderNet, config: FinetuneConfig, seed: int) -> None:
        super().__init__()
        self.net = net
        self._config, self._seed = config, seed
        self._released = config.loss_form == "released"
        self._rank_order: Tensor | None = None  # of a whole batch that several ranks share

    def draws(self, epoch: int, steps: int, batch_size: int, device: torch.device) -> MixDraw:
        """Partners int64[steps, H] and ratios float32[steps] for the H images of each global batch that are mixed.

        Partners are positions among the mixed images in the order in which the ranks hold them.
        """
        count, world_size = batch_size - self._first_mixed(batch_size), current_world()[1]
        draws = [draw_mix(self._seed, epoch, step, count, self._config.alpha) for step in range(steps)]
        drawn = MixDraw(*(torch.stack(values) for values in zip(*draws, strict=True)))
        if count == batch_size and world_size > 1:
            order = rank_order(batch_size, world_size)
            drawn = drawn._replace(partners=torch.argsort(order)[drawn.partners[:, order]])
            self._rank_order = order.to(device)
        return MixDraw(*(values.to(device) for values in drawn))

    def forward(self, images: Tensor, targets: Tensor, global_targets: Tensor, draw: MixDraw) -> LossTerms:
        """The loss terms of this rank's images float32[b, 3, H, W] and targets int64[b] in 0..K-1; `global_targets`
        int64[B] are those of the whole batch, and `draw` mixes its images."""
        world = current_world()
        clean, mixed = self._both_logits(images, draw, world)
        targets = targets[: len(clean.known)]
        augmented = augmented_logits(clean)
        closed_set = closed_set_losses(all_logits(clean) if self._released else augmented, targets)
        placeholder = placeholder_losses(augmented, targets)
        total = (closed_set + self._config.beta * placeholder).mean()
        known_best = augmented[:, :-1].amax(dim=1)
        sums = {
            "loss/closed_set": _sum_and_count(closed_set),
            "loss/placeholder": _sum_and_count(placeholder),
            "train/accuracy": _sum_and_count((augmented.argmax(dim=1) == targets).float()),
            "train/dummy_win_rate": _sum_and_count((augmented[:, -1] > known_best).float()),
        }
        if mixed is not None:
            weights = self._pair_weights(global_targets, draw)
            count = len(mixed.known)
            mine = weights[world[0] * count : (world[0] + 1) * count]
            seen = all_logits(mixed) if self._released else augmented_logits(mixed)
            mixture = unknown_losses(seen, mixed.known.shape[1]) * mine
            pairs = weights.sum().clamp(min=1.0) / world[1]
            total = total + self._config.gamma * mixture.sum() / pairs
            sums["loss/mixture"] = torch.stack([mixture.sum(), mine.sum()]).detach()
        return LossTerms(total, sums)

    def _first_mixed(self, batch_size: int) -> int:
        """Position in a batch from which on images are mixed."""
        return 0 if self._config.batch_use == "all" else batch_size // 2

    def _pair_weights(self, global_targets: Tensor, draw: MixDraw) -> Tensor:
        """Weights of all mixtures, in the order in which the ranks hold them."""
        mixed = global_targets[self._first_mixed(len(global_targets)) :]
        if self._released:
            return torch.ones_like(mixed, dtype=torch.float32)
        return pair_weights(mixed if self._rank_order is None else mixed[self._rank_order], draw.partners)

    def _both_logits(
        self, images: Tensor, draw: MixDraw, world: tuple[int, int]
    ) -> tuple[ClassLogits, ClassLogits | None]:
        """Logits of the clean images and of the mixtures; no mixtures where nothing asks for them."""
        first = self._first_mixed(len(images))
        if first == 0 and self._config.gamma == 0:
            return self.net(images), None
        num_clean = first or len(images)
        at_images = self._config.mixup == "vanilla"
        mixable, rest = (images, self.net) if at_images else (self.net.hidden(images), self.net.logits)
        clean, mixed = mixable[:num_clean], mix(mixable[first:], draw, *world)
        if self._config.mixture_batch_norm == "separate":
            of_clean = rest(clean)
            with frozen_running_statistics(self.net):
                return of_clean, rest(mixed)
        logits = rest(torch.cat([clean, mixed]))
        return (
            ClassLogits(logits.known[:num_clean], logits.dummies[:num_clean]),
            ClassLogits(logits.known[num_clean:], logits.dummies[num_clean:]),
        )


@contextmanager
def frozen_running_statistics(module: nn.Module) -> Iterator[None]:
    """While it is open, BatchNorm normalises by the batch but its running statistics stay as they are."""
    momenta = {norm: norm.momentum for norm in module.modules() if isinstance(norm, _BatchNorm)}
    try:
        for norm in momenta:
            norm.momentum = 0.0
        yield
    finally:
        for norm, momentum in momenta.items():
            norm.momentum = momentum


def _sum_and_count(values: Tensor) -> Tensor:
    return torch.stack([values.sum(), values.new_full((), len(values))]).detach()
